// closing.js: the meaning of close codes, and the close code for a rejected HTTP request.

/** Local codes, never sent: this client closed the connection. */
export const SILENT = 'silent';
export const NO_REPLY = 'no reply';
export const UNREACHABLE = 'unreachable';
export const OTHER_USER = 'other user';

export const TOKEN_EXPIRED = 4100;
export const NO_PONG = 4102; // no data of this client reaches the relay

/** Classes of close codes, as closeClass() returns them: do not reconnect; reconnect without delay. */
export const STOP = 40;
export const NOW = 42;

/** 40 for 4001. The client backs off after all other close codes, including standard codes (1006, 1001 ...). */
export const closeClass = (code) => (code / 100) | 0;

/**
 * The close code and reason for a rejected request. If the response is from a proxy or another server, the code is the
 * HTTP status, so the client backs off.
 */
export async function rejectionOf(response) {
  const { code, detail } = await response.json().catch(() => ({}));
  return { code: { 101: 4001, 103: 4003, 109: TOKEN_EXPIRED }[code] ?? response.status, reason: detail };
}

// closing.js: the meaning of close codes, and the close code for a rejected HTTP request.

/** Local codes, never sent: this client closed the connection. */
export const SILENT = 'silent';
export const NO_ANSWER = 'no answer';
export const UNREACHABLE = 'unreachable';
export const OTHER_USER = 'other user';

export const TOKEN_EXPIRED = 4100;

/** Classes of codes: a retry cannot help; reconnect immediately. */
export const STOP = 40;
export const NOW = 42;

/** All other classes back off, including standard codes (1006, 1001 ...). */
export const closeClass = (code) => (code / 100) | 0;

/**
 * The close code and reason for a rejected request. For a response that is not the relay's, for example
 * a proxy's, the code is the HTTP status, which backs off.
 */
export async function refusalOf(response) {
  const { code, detail } = await response.json().catch(() => ({}));
  return { code: { 101: 4001, 103: 4003, 109: TOKEN_EXPIRED }[code] ?? response.status, reason: detail };
}

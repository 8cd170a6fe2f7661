// closing.js: what a close code asks of us, and which one a refused request would have had.

/** Not codes of the wire: this page itself gave the connection up. */
export const SILENT = 'silent';
export const NO_ANSWER = 'no answer';
export const UNREACHABLE = 'unreachable';
export const OTHER_USER = 'other user';

export const TOKEN_EXPIRED = 4100;

/** Classes of codes: trying again cannot help; the relay asks us to come back at once. */
export const STOP = 40;
export const NOW = 42;

/** Any other class backs off, also that of a code that is not ours (1006, 1001 ...). */
export const closeClass = (code) => (code / 100) | 0;

/**
 * What a refused request has in place of a close code and reason. Of a refusal that is not the relay's
 * own, say a proxy's, the status itself: it may pass.
 */
export async function refusalOf(response) {
  const { code, detail } = await response.json().catch(() => ({}));
  return { code: { 101: 4001, 103: 4003, 109: TOKEN_EXPIRED }[code] ?? response.status, reason: detail };
}

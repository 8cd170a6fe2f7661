// closing.js: what a WebSocket close code asks of us.

/** Not codes of the wire: this page itself gave the connection up. */
export const SILENT = 'silent';
export const NO_ANSWER = 'no answer';
export const UNREACHABLE = 'unreachable';

export const TOKEN_EXPIRED = 4100;

/**
 * 'stop': trying again cannot help; 'backoff': try again, later and later; 'now': the relay asks
 * us to come back at once (it restarts or moves). What is not ours (1006, 1001 ...) backs off.
 */
export function closeClass(code) {
  if (code >= 4000 && code <= 4099) return 'stop';
  if (code >= 4200 && code <= 4299) return 'now';
  return 'backoff';
}

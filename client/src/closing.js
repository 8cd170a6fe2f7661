// closing.js: what a WebSocket close code asks of us.

/** Not codes of the wire: this page itself gave the connection up. */
export const SILENT = 'silent';
export const NO_ANSWER = 'no answer';
export const UNREACHABLE = 'unreachable';

/**
 * 'stop': trying again cannot help; 'backoff': try again, later and later; 'now': the relay asks
 * us to come back at once (it restarts or moves). What is not ours (1006, 1001 ...) backs off.
 */
export function closeClass(code) {
  if (code >= 4000 && code <= 4099) return 'stop';
  if (code >= 4200 && code <= 4299) return 'now';
  return 'backoff';
}

const MEANING = new Map([
  [4000, 'protocol error'],
  [4001, 'token invalid'],
  [4002, 'no connect frame in time'],
  [4003, 'banned'],
  [4004, 'replaced by a newer connection'],
  [4100, 'token expired'],
  [4101, 'too slow'],
  [4102, 'no pong'],
  [4103, 'relay overloaded'],
  [4200, 'position in doubt'],
  [4201, 'relay restarts'],
  [SILENT, 'the relay went silent'],
  [NO_ANSWER, 'the relay did not answer'],
  [UNREACHABLE, 'nobody answers at all'],
]);

export function closeMeaning(code, reason) {
  return MEANING.get(code) ?? (reason || 'connection lost');
}

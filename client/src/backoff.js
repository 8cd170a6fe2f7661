// backoff.js: delay before the next attempt.

/**
 * Full jitter: a random delay between 0 and a ceiling that doubles with each failure, so that thousands of pages do not
 * reconnect in the same second after the loss of a relay.
 */
export function createBackoff({ base = 500, cap = 30_000, random = Math.random } = {}) {
  let failures = 0;

  /** Returns the next delay in milliseconds. Each call doubles the ceiling. */
  function nextWait() {
    // No overflow: 2 ** 1024 is Infinity, and min() returns the cap.
    const ceiling = Math.min(cap, base * 2 ** failures);
    failures += 1;
    return Math.round(random() * ceiling);
  }

  function reset() {
    failures = 0;
  }

  return { nextWait, reset };
}

// backoff.js: how long to wait before the next try.

/**
 * Full jitter: anything between nothing and a ceiling that doubles with each failure, so that
 * thousands of pages that lost the same relay do not come back in the same second.
 */
export function createBackoff({ base = 500, cap = 30_000, random = Math.random } = {}) {
  let failures = 0;

  /** Milliseconds to wait now; the next answer comes from a wider range. */
  function nextWait() {
    // 2 ** 1024 is Infinity, which min() turns into the cap: no overflow to guard.
    const ceiling = Math.min(cap, base * 2 ** failures);
    failures += 1;
    return Math.round(random() * ceiling);
  }

  function reset() {
    failures = 0;
  }

  return { nextWait, reset };
}

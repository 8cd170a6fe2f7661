// backoff.js: how long to wait before the next try.

/**
 * Full jitter: anything between nothing and a ceiling that doubles with each failure, so that
 * thousands of pages that lost the same relay do not come back in the same second.
 */
export class Backoff {
  constructor({ base = 500, cap = 30_000, random = Math.random } = {}) {
    this.base = base;
    this.cap = cap;
    this.random = random;
    this.failures = 0;
  }

  /** Milliseconds to wait now; the next answer comes from a wider range. */
  next() {
    // 2 ** 1024 is Infinity, which min() turns into the cap: no overflow to guard.
    const ceiling = Math.min(this.cap, this.base * 2 ** this.failures);
    this.failures += 1;
    return Math.round(this.random() * ceiling);
  }

  reset() {
    this.failures = 0;
  }
}

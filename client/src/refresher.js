// refresher.js: brings a fresh token to the relay before the old one expires.

const LEAD_MS = 30_000;
// A page's clock may be wrong by hours: then `exp` looks past, and only this keeps us from asking
// without end. The relay's own `expiring` frame covers the clock that is late.
const MIN_INTERVAL_MS = 10_000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Milliseconds to wait; `exp` in seconds since 1970. Short-lived tokens get 4/5 of their time. */
export function refreshDelay(exp, now) {
  const left = exp * 1000 - now;
  return Math.max(MIN_INTERVAL_MS, left - Math.min(LEAD_MS, left / 5));
}

export class Refresher {
  /** `refresh()` asks for a token and sends it; `can` is false when the token is a fixed string. */
  constructor({ can, refresh, now = Date.now }) {
    this.can = can;
    this.refresh = refresh;
    this.now = now;
    this.timer = null;
  }

  /** `exp` in seconds since 1970, as `connected` and `refreshed` give it. */
  schedule(exp) {
    this.stop();
    if (!this.can || typeof exp !== 'number') return;
    const wait = refreshDelay(exp, this.now());
    this.timer = setTimeout(() => {
      if (wait > MAX_TIMER_MS) this.schedule(exp);
      else this.refresh();
    }, Math.min(wait, MAX_TIMER_MS));
  }

  /** The relay says that the token is about to expire. */
  hurry() {
    if (!this.can) return;
    this.stop();
    this.refresh();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }
}

// refresher.js: says when a fresh token is due, before the old one expires.

const LEAD_MS = 30_000;
// A page's clock may be wrong by hours: then `exp` looks past, and only this keeps us from asking
// without end. The relay's own `expiring` frame covers the clock that is late.
const MIN_INTERVAL_MS = 10_000;
const MAX_TIMER_MS = 2e9; // a timer reaches little more

/**
 * Milliseconds to wait; `exp` in seconds since 1970. Short-lived tokens get 4/5 of their time. What
 * a timer cannot reach is asked for early, some weeks from now.
 */
export function refreshDelay(exp, now) {
  const left = exp * 1000 - now;
  return Math.min(MAX_TIMER_MS, Math.max(MIN_INTERVAL_MS, left - Math.min(LEAD_MS, left / 5)));
}

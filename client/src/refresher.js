// refresher.js: schedules the renewal of a token before it expires.

const LEAD_MS = 30_000;
// The clock of a page may be wrong by hours. If it is fast, `exp` looks past, and this interval prevents
// a renewal loop. If it is slow, the relay's `expiring` frame triggers the renewal.
const MIN_INTERVAL_MS = 10_000;
const MAX_TIMER_MS = 2e9; // setTimeout() is limited to 2 ** 31 ms

/**
 * Delay in milliseconds; `exp` in seconds since 1970. A short-lived token is renewed after 4/5 of its
 * lifetime. A token that expires beyond the reach of a timer is renewed early.
 */
export function refreshDelay(exp, now) {
  const left = exp * 1000 - now;
  return Math.min(MAX_TIMER_MS, Math.max(MIN_INTERVAL_MS, left - Math.min(LEAD_MS, left / 5)));
}

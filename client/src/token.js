// token.js: reads the user from a token, and schedules its renewal before it expires.

const LEAD_MS = 30_000;
// A device's clock may be wrong by hours. If the clock is fast, each token appears expired, and this interval prevents
// a renewal loop. If the clock is slow, the relay's `expiring` frame triggers the renewal.
const MIN_INTERVAL_MS = 10_000;
const MAX_TIMER_MS = 2e9; // setTimeout() is limited to 2 ** 31 ms

/**
 * Returns the `sub` of a JWT; undefined if the token is not a JWT. The relay verifies tokens; this function only
 * distinguishes users.
 */
export function subjectOf(token) {
  try {
    const body = atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'));
    return JSON.parse(decodeURIComponent(escape(body))).sub; // escape() makes the bytes of UTF-8 %XX
  } catch {} // not a JWT: the user is unknown until `connected`
}

/**
 * Returns the delay in milliseconds; `exp` is in seconds since 1970. A short-lived token is renewed after 4/5 of its
 * lifetime. If that exceeds the range of a timer, the token is renewed early.
 */
export function refreshDelay(exp, now) {
  const left = exp * 1000 - now;
  return Math.min(MAX_TIMER_MS, Math.max(MIN_INTERVAL_MS, left - Math.min(LEAD_MS, left / 5)));
}

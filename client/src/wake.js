// wake.js: reports that the network or the page is available again, or that the user leaves.

export const isVisible = () => !document.hidden;

/**
 * Calls `wake(true)` when the browser is online again, `wake(false)` when the page becomes visible, and `rest()` when
 * the user leaves the page, until `life` is aborted.
 */
export function onWake(life, wake, rest) {
  if (!globalThis.document) return;
  addEventListener('online', () => wake(true), life);
  addEventListener('visibilitychange', () => isVisible() && wake(false), life);
  addEventListener('pagehide', rest, life);
}

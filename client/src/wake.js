// wake.js: hears that the network or the person is back, or leaves.

export const isSeen = () => !document.hidden;

/**
 * `wake(isChanged)` is called when the browser is online again (true), or when the page is looked
 * at again, until `life` is aborted. `rest()`: when it is left.
 */
export function onWake(life, wake, rest) {
  if (!globalThis.document) return;
  addEventListener('online', () => wake(true), life);
  addEventListener('visibilitychange', () => isSeen() && wake(false), life);
  addEventListener('pagehide', rest, life);
}

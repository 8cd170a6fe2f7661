// wake.js: hears that the network or the person is back.

export const isSeen = () => !document.hidden;

/**
 * `wake(isChanged)` is called when the browser is online again (true), or when the page is looked
 * at again, until `life` is aborted.
 */
export function onWake(life, wake) {
  if (!globalThis.document) return;
  addEventListener('online', () => wake(true), life);
  addEventListener('visibilitychange', () => isSeen() && wake(), life);
}

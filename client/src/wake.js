// wake.js: hears that the network or the person is back.

/**
 * `wake(isChanged)` is called when the browser is online again (true), or when the page is looked
 * at again (false). Returns the function that stops listening.
 */
export function onWake(wake) {
  const page = globalThis.document;
  if (!page) return () => {};
  const online = () => wake(true);
  const visible = () => {
    if (page.visibilityState === 'visible') wake(false);
  };
  globalThis.addEventListener('online', online);
  page.addEventListener('visibilitychange', visible);
  return () => {
    globalThis.removeEventListener('online', online);
    page.removeEventListener('visibilitychange', visible);
  };
}

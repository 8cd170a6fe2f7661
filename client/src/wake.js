// wake.js: hears that the network or the person is back.

/**
 * `wake(isChanged)` is called when the browser is online again (true), or when the page is looked
 * at again (false). Returns the function that stops listening.
 */
export function onWake(wake) {
  const online = () => wake(true);
  const visible = () => {
    if (document.visibilityState === 'visible') wake(false);
  };

  function listen(method) {
    if (!globalThis.document) return;
    globalThis[method]('online', online);
    document[method]('visibilitychange', visible);
  }

  listen('addEventListener');
  return () => listen('removeEventListener');
}

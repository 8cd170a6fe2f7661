// cursor.js: the cursor from which to resume, in memory and across page loads.

/**
 * received() is the cursor for a reconnect of this page, whose handlers keep running. handled() is the
 * cursor to store: everything up to it has been handled. So a page that is reloaded while a handler
 * runs receives that notification again. `kept`: the stored text, see stored.js; optional.
 */
export function createCursor(pos, kept) {
  let received = pos ?? kept?.() ?? undefined;
  let handled = received;
  const open = []; // in stream order: { pos }, the cursor up to which all is handled once this one is

  /** A notification arrived. Call the returned function when its handlers are done. */
  function arrive(at) {
    received = at;
    const entry = { pos: at };
    open.push(entry);
    return () => {
      const i = open.indexOf(entry);
      open.splice(i, 1);
      if (i) {
        open[i - 1].pos = entry.pos;
      } else {
        handled = entry.pos;
        kept?.(handled);
      }
    };
  }

  /** The relay sent a new start cursor: nothing before it will be delivered. */
  const restart = (at) => arrive(at)();

  return { received: () => received, handled: () => handled, arrive, restart };
}

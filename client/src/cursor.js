// cursor.js: the cursor (how far this client has read) from which to resume, in memory and across page loads.

/**
 * There are two cursors. received() is for a reconnect of this page: its handlers keep running, so
 * nothing has to be sent again. handled() is stored for the next page: everything up to it has been
 * handled, so a notification whose handler is interrupted by a reload is sent again. `kept`: the stored
 * text, see stored.js; optional.
 */
export function createCursor(pos, kept) {
  let received = pos ?? kept?.() ?? undefined;
  let handled = received;
  // Notifications in handling, in stream order. `pos`: the cursor up to which everything is handled when
  // this one and all before it are.
  const open = [];

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

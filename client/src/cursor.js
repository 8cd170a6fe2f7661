// cursor.js: the cursor (how far this client has read) from which to resume, in memory and across page loads.

/**
 * There are two cursors. received() is for a reconnect of this page, whose handlers continue to run, so no notification
 * must be sent again. handled() is stored for the next page: all notifications up to it have been handled, so those
 * whose handlers were interrupted by a reload are sent again. `kept`: the stored cursor, see stored.js; optional.
 */
export function createCursor(pos, kept) {
  let received = pos ?? kept?.() ?? undefined;
  let handled = received;
  // Notifications that are being handled, in stream order. `pos`: the value of handled() after this notification and
  // all earlier ones have been handled.
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

// cursor.js: the cursor (how far this client has read) from which to resume, in memory and across page loads.

/**
 * There are two cursors. received() is for a reconnect of this page, whose handlers continue to run, so no notification
 * must be sent again. handled() is stored for the next page: all notifications up to it have been handled, so a
 * notification whose handler was interrupted by a reload is sent again. `kept`: the stored cursor, see createStored();
 * optional.
 */
export function createCursor(pos, kept) {
  let received = pos ?? kept?.() ?? undefined;
  let handled = received;
  // Notifications that are being handled, in stream order. `pos`: the value of handled() after this and all earlier
  // notifications have been handled.
  const open = [];

  /** Call it when a notification arrives. Call the returned function when the handlers have finished. */
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

  /** Call it when the relay sends a new start cursor. No notification before that cursor will be delivered. */
  const restart = (at) => arrive(at)();

  return { received: () => received, handled: () => handled, arrive, restart };
}

/**
 * Returns a function: kept(text) stores a string, kept() returns it. `storage`:
 * 'localStorage' or 'sessionStorage'. If the browser blocks storage, nothing is stored.
 */
export const createStored = (storage, key) => (text) => {
  try {
    const area = globalThis[storage];
    return text ? area.setItem(key, text) : area.getItem(key);
  } catch {}
};

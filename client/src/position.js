// position.js: the place in the stream from which to resume, in memory and across page loads.

/**
 * received() serves a reconnect of this page, whose running handlers live on. settled() is what
 * may be stored: everything up to it has been handled, so a page that is reloaded in the middle
 * of a handler gets that message again. `kept`: what outlives the page, if anything does.
 */
export function createPosition(pos, kept) {
  let received = pos ?? kept?.() ?? undefined;
  let settled = received;
  const open = []; // in stream order: { pos }, the place before which all is done once this one is

  /** A message arrived; call the returned function once its handlers are through. */
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
        settled = entry.pos;
        kept?.(settled);
      }
    };
  }

  /** The relay named a new place to start from: nothing before it will come. */
  const restart = (at) => arrive(at)();

  return { received: () => received, settled: () => settled, arrive, restart };
}

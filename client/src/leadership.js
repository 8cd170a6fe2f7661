// leadership.js: elects one tab as leader: the holder of a Web Lock.

/**
 * The browser grants the lock to the next tab when its holder closes, crashes or calls leave(). Another tab can steal
 * the lock from a holder that does not respond. `elected()` is called when this tab acquires the lock, `deposed()` when
 * another tab steals it.
 */
export function createLeadership(name, elected, deposed) {
  let turn; // an AbortController: aborting cancels the lock request, or releases the lock

  /** Requests the lock. `steal`: acquires it even if another tab holds it. */
  async function enter(steal) {
    leave();
    turn = new AbortController();
    const { signal } = turn;
    let isHeld;
    try {
      await navigator.locks.request(
        name, steal ? { steal } : { signal }, () => new Promise((release) => {
          isHeld = !signal.aborted;
          signal.onabort = release;
          if (isHeld) elected();
          else release();
        }),
      );
    } catch {
      // If the lock was held, another tab stole it. Otherwise locks fail in this page, so each tab leads, with a
      // separate connection.
      if (!signal.aborted) (isHeld ? deposed : elected)();
    }
  }

  /** Releases the lock or cancels the request. */
  const leave = () => turn?.abort();

  return { enter, leave };
}

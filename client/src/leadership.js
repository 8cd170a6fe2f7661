// leadership.js: makes one tab of many the leader: the one that holds a Web Lock.

/**
 * The browser gives the lock to the next tab when its holder closes, crashes or leaves. One that
 * holds it but does not answer any more can be robbed of it. `elected()` and `deposed()` are
 * called as often as it happens.
 */
export function createLeadership(name, elected, deposed) {
  let turn; // an AbortController: ends the place in the line, or the lead

  /** `steal`: takes the lock from its holder. */
  async function enter(steal) {
    leave();
    turn = new AbortController();
    const { signal } = turn;
    let isHeld = false;
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
      // Not held: no locks in this page: everybody for himself.
      if (!signal.aborted) (isHeld ? deposed : elected)();
    }
  }

  /** Lets go of the lock, or of the place in the line. */
  const leave = () => turn?.abort();

  return { enter, leave };
}

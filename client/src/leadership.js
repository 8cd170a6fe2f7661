// leadership.js: makes one tab of many the leader: the one that holds a Web Lock.

/**
 * The browser gives the lock to the next tab when its holder closes, crashes or leaves. One that
 * holds it but does not answer any more can be robbed of it. `elected()` and `deposed()` are
 * called as often as it happens.
 */
export function createLeadership(name, elected, deposed) {
  let turn; // an AbortController: ends the place in the line, or the lead

  async function request(how) {
    const ours = new AbortController();
    const { signal } = ours;
    turn = ours;
    let isHeld = false;
    try {
      await navigator.locks.request(name, how ?? { signal }, () => new Promise((release) => {
        if (signal.aborted) {
          release();
          return;
        }
        isHeld = true;
        signal.onabort = release;
        elected();
      }));
    } catch {
      if (signal.aborted) return;
      if (isHeld) deposed();
      else elected(); // no locks in this page: everybody for himself
    }
  }

  /** Lets go of the lock, or of the place in the line. */
  const leave = () => turn?.abort();

  /** Takes the lock from its holder. */
  function seize() {
    leave();
    request({ steal: true });
  }

  return { join: () => request(), seize, leave };
}

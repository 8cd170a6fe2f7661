// leadership.js: makes one tab of many the leader: the one that holds a Web Lock.

/**
 * The browser gives the lock to the next tab when its holder closes, crashes or leaves. One that
 * holds it but does not answer any more can be robbed of it.
 */
export class Leadership {
  #name;
  #elected;
  #deposed;
  #leave = () => {};

  /** `elected()` and `deposed()` are called as often as it happens. */
  constructor(name, elected, deposed) {
    this.#name = name;
    this.#elected = elected;
    this.#deposed = deposed;
  }

  /** Waits in the line for the lock. */
  join() {
    const left = new AbortController();
    this.#request({ signal: left.signal }, left);
  }

  /** Takes the lock from its holder. */
  seize() {
    this.#leave();
    this.#request({ steal: true }, new AbortController());
  }

  /** Lets go of the lock, or of the place in the line. */
  leave() {
    this.#leave();
  }

  async #request(how, left) {
    let held = false;
    this.#leave = () => left.abort();
    try {
      await navigator.locks.request(this.#name, how, () => new Promise((release) => {
        if (left.signal.aborted) {
          release();
          return;
        }
        held = true;
        left.signal.addEventListener('abort', release);
        this.#elected();
      }));
    } catch (error) {
      if (left.signal.aborted) return;
      if (held) this.#deposed();
      else this.#elected(); // no locks in this page: everybody for himself
    }
  }
}

// position.js: the place in the stream from which to resume, in memory and across page loads.

/**
 * `received` serves a reconnect of this page, whose running handlers live on. `settled` is what
 * may be stored: everything up to it has been handled, so a page that is reloaded in the middle
 * of a handler gets that message again.
 */
export class Position {
  received;
  settled;
  #kept;
  #open = []; // { pos, done } in stream order; neighbours that are done are merged

  /** `kept`: what outlives the page, if anything does. */
  constructor(pos, kept) {
    this.#kept = kept;
    this.received = pos ?? kept?.load() ?? null;
    this.settled = this.received;
  }

  /** How many places are held open by handlers that still run. */
  get openCount() {
    return this.#open.length;
  }

  /** A message arrived; call the returned function once its handlers are through. */
  arrive(pos) {
    this.received = pos;
    const entry = { pos, done: false };
    this.#open.push(entry);
    return () => {
      entry.done = true;
      this.#settle();
    };
  }

  /** The relay named a new place to start from: nothing before it will come. */
  restart(pos) {
    this.arrive(pos)();
  }

  #settle() {
    const before = this.settled;
    while (this.#open[0]?.done) this.settled = this.#open.shift().pos;
    this.#open = this.#open.filter((e, i) => !(e.done && this.#open[i + 1]?.done));
    if (this.settled !== before) this.#kept?.save(this.settled);
  }
}

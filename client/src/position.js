// position.js: the place in the stream from which to resume, in memory and across page loads.

/**
 * `received` serves a reconnect of this page, whose running handlers live on. `settled` is what
 * may be stored: everything up to it has been handled, so a page that is reloaded in the middle
 * of a handler gets that message again.
 */
export class Position {
  /** `store` is a Storage, `key` its entry; without both nothing outlives the page. */
  constructor({ pos = null, store = null, key = null } = {}) {
    this.store = key ? store : null;
    this.key = key;
    this.received = pos ?? this.#load();
    this.settled = this.received;
    this.open = []; // { pos, done } in stream order; neighbours that are done are merged
  }

  /** A message arrived; call the returned function once its handlers are through. */
  arrive(pos) {
    this.received = pos;
    const entry = { pos, done: false };
    this.open.push(entry);
    return () => {
      entry.done = true;
      this.#settle();
    };
  }

  /** The relay named a new place to start from: nothing before it will come. */
  restart(pos) {
    this.received = pos;
    this.open.push({ pos, done: true });
    this.#settle();
  }

  #settle() {
    const before = this.settled;
    while (this.open.length > 0 && this.open[0].done) this.settled = this.open.shift().pos;
    this.open = this.open.filter((e, i) => !(e.done && this.open[i + 1]?.done));
    if (this.settled !== before) this.#save();
  }

  #load() {
    try {
      return this.store?.getItem(this.key) ?? null;
    } catch {
      return null; // storage may be forbidden in this page: then resume works until it is left
    }
  }

  #save() {
    try {
      this.store?.setItem(this.key, this.settled);
    } catch {
      this.store = null;
    }
  }
}

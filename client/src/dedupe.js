// dedupe.js: remembers which notifications were already shown here, and which the user has acked.

const MAX_KEPT = 256;

/**
 * A retry carries the id of the first showing, and a resume may repeat the last few messages; an
 * application must see neither. Bounded: the oldest ids are forgotten first.
 */
export class Dedupe {
  #limit;
  #states = new Map(); // id -> 'shown' | 'acked', oldest first
  #kept;

  constructor(limit = 4096) {
    this.#limit = limit;
  }

  /** An ack may be lost with its page: the next one, which knows them from `kept`, acks again. */
  keep(kept) {
    this.#kept = kept;
    for (const id of this.#loaded()) this.#put(id, 'acked');
  }

  /** True the first time. A repeat moves its id to the young end: it may be repeated again. */
  first(id) {
    const state = this.#states.get(id);
    this.#put(id, state ?? 'shown');
    return state === undefined;
  }

  acked(ids) {
    for (const id of ids) {
      if (this.#states.has(id)) this.#states.set(id, 'acked');
    }
    this.#kept?.save([...new Set([...this.#loaded(), ...ids])].slice(-MAX_KEPT).join(' '));
  }

  isAcked(id) {
    return this.#states.get(id) === 'acked';
  }

  /** After a handler failed, the retry has to reach it. */
  forget(id) {
    this.#states.delete(id);
  }

  #put(id, state) {
    this.#states.delete(id);
    this.#states.set(id, state);
    if (this.#states.size > this.#limit) this.#states.delete(this.#states.keys().next().value);
  }

  #loaded() {
    return this.#kept?.load()?.split(' ') ?? [];
  }
}

// dedupe.js: remembers which notifications this page has already shown.

/**
 * A retry carries the id of the first showing, and a resume may repeat the last few messages; an
 * application must see neither. Bounded: the oldest ids are forgotten first.
 */
export class Dedupe {
  constructor(limit = 4096) {
    this.limit = limit;
    this.states = new Map(); // id -> 'shown' | 'acked', oldest first
  }

  /** True the first time. A repeat moves its id to the young end: it may be repeated again. */
  first(id) {
    const state = this.states.get(id);
    this.states.delete(id);
    this.states.set(id, state ?? 'shown');
    if (this.states.size > this.limit) this.states.delete(this.states.keys().next().value);
    return state === undefined;
  }

  acked(id) {
    if (this.states.has(id)) this.states.set(id, 'acked');
  }

  isAcked(id) {
    return this.states.get(id) === 'acked';
  }

  /** After a handler failed, the retry has to reach it. */
  forget(id) {
    this.states.delete(id);
  }
}

// dedupe.js: remembers which notifications were already shown here, and which the user has acked.

const MAX_KEPT = 256;

/**
 * A retry carries the id of the first showing, and a resume may repeat the last few messages; an
 * application must see neither. Bounded: the oldest ids are forgotten first.
 */
export function createDedupe(limit = 4096) {
  const acks = new Map(); // id -> what seen() says, oldest first
  let kept;

  /** An ack may be lost with its page: the next one, which knows them from `store`, acks again. */
  function keep(store) {
    kept = store;
    loaded().forEach((id) => put(id, true));
  }

  /**
   * What was known before: nothing (undefined), that nobody handled it (null), whether it was
   * acked. A repeat moves its id to the young end: it may be repeated again.
   */
  function seen(id) {
    const before = acks.get(id);
    put(id, before ?? false);
    return before;
  }

  function markAcked(ids) {
    ids.forEach((id) => acks.has(id) && acks.set(id, true));
    kept?.([...new Set([...loaded(), ...ids])].slice(-MAX_KEPT).join(' '));
  }

  const isAcked = (id) => acks.get(id);

  /** Nobody was there to handle it. */
  const markUnheard = (id) => acks.set(id, null);

  /** After a handler failed, the retry has to reach it. */
  const forget = (id) => acks.delete(id);

  function put(id, isDone) {
    acks.delete(id);
    acks.set(id, isDone);
    if (acks.size > limit) acks.delete(acks.keys().next().value);
  }

  function loaded() {
    return kept?.()?.split(' ') ?? [];
  }

  return { keep, seen, markAcked, isAcked, markUnheard, forget };
}

// dedupe.js: keeps the ids of delivered notifications, and whether the user has acknowledged them.

const MAX_KEPT = 256;

/**
 * A retry has the id of the first delivery, and a resume may repeat the last notifications. Handlers must not receive
 * these duplicates. At most `limit` ids are kept; the oldest are evicted.
 */
export function createDedupe(limit = 4096) {
  const acks = new Map(); // id -> the result of remember(), oldest first
  let kept;

  /** An ack may be lost when its page closes. The next page reads the ids from `store` and acks duplicates again. */
  function keep(store) {
    kept = store;
    loaded().forEach((id) => put(id, true));
  }

  /**
   * Adds the id and returns its previous state: undefined (new), null (not handled), false (not acknowledged) or
   * true. The id of a duplicate becomes the newest id, because the notification may be repeated again.
   */
  function remember(id) {
    const before = acks.get(id);
    put(id, before ?? false);
    return before;
  }

  function markAcked(ids) {
    ids.forEach((id) => acks.has(id) && acks.set(id, true));
    kept?.([...new Set([...loaded(), ...ids])].slice(-MAX_KEPT).join(' '));
  }

  const isAcked = (id) => acks.get(id);

  /** The notification was not handled, so the retry must be delivered. */
  const markUnhandled = (id) => acks.set(id, null);

  /** A handler failed, so the retry must be delivered as a new notification. */
  const forget = (id) => acks.delete(id);

  function put(id, isDone) {
    acks.delete(id);
    acks.set(id, isDone);
    if (acks.size > limit) acks.delete(acks.keys().next().value);
  }

  function loaded() {
    return kept?.()?.split(' ') ?? [];
  }

  return { keep, remember, markAcked, isAcked, markUnhandled, forget };
}

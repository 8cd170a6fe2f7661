// ring.js: the recent changes of a list, to be applied again to rows whose snapshot does not contain them.

import { contains } from './snapshot.js';

const MAX_CHANGES = 1024;
const MAX_EVICTED = 4096;

/** A change is an object with a transaction id `x`. */
export function createRing(limit = MAX_CHANGES) {
  let changes = []; // oldest first
  let evicted = []; // transaction ids of evicted changes, oldest first
  let forgotten = 0n; // the greatest id that was dropped from `evicted`

  function add(change) {
    changes.push(change);
    if (changes.length > limit) evict(changes.shift().x);
  }

  function evict(x) {
    if (evicted.at(-1) === x) return;
    evicted.push(x);
    if (evicted.length <= MAX_EVICTED) return;
    const oldest = BigInt(evicted.shift());
    if (oldest > forgotten) forgotten = oldest;
  }

  const isMissing = (snapshot) => ({ x }) => !contains(snapshot, x);

  /**
   * Returns the changes that the snapshot does not contain, in order. Undefined if one of these changes may have been
   * evicted. This check compares the ids of evicted transactions instead of xmin, because one long transaction can
   * delay xmin for hours.
   */
  function missingFrom(snapshot) {
    const isComplete = forgotten < snapshot.xmax && evicted.every((x) => contains(snapshot, x));
    return isComplete ? changes.filter(isMissing(snapshot)) : undefined;
  }

  /** Drops all changes in the accepted snapshot; older snapshots are rejected. */
  function dropContained(snapshot) {
    changes = changes.filter(isMissing(snapshot));
    evicted = evicted.filter((x) => !contains(snapshot, x));
  }

  return { add, missingFrom, dropContained, all: () => changes };
}

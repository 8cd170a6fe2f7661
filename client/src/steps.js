// steps.js: holds the changes of a transaction until its end, so that a list shows them together. Part of rows.js.

const MAX_HELD = 10_000;

/** As a key: all rows, or unknown rows. */
export const ANY = 'any';

/**
 * A change is an object with a transaction id `x`; `isHeld` is set while it is held. `keysOf(change)`: the keys of its
 * rows, or ANY.
 */
export function createSteps(keysOf) {
  const open = new Map(); // transaction -> { changes, isEnded }, in the order of their first change
  let count = 0;

  /** Holds the change until end(). Returns false, and does nothing, if too many changes are held. */
  function hold(change) {
    if (count >= MAX_HELD) return false;
    const { x } = change;
    if (!open.has(x)) open.set(x, { changes: [], isEnded: false });
    open.get(x).changes.push(change);
    change.isHeld = true;
    count += 1;
    return true;
  }

  /** All changes of transaction `x` have arrived. Returns the changes to show, which are not held any more. */
  function end(x) {
    if (!open.has(x)) return [];
    open.get(x).isEnded = true;
    return release();
  }

  /**
   * The end of a transaction is delayed if the in-flight window is full. Later transactions are shown before it, unless
   * they have changed the same rows: these rows contain a part of the delayed transaction.
   */
  function release() {
    const delayed = new Set(); // keys of the rows of delayed transactions
    const released = [];
    for (const [x, { changes, isEnded }] of open) {
      const keys = isEnded && !delayed.size ? [] : changes.flatMap(keysOf);
      const isFree = !delayed.size || !(delayed.has(ANY) || keys.some((key) => key === ANY || delayed.has(key)));
      if (isEnded && isFree) {
        remove(x);
        released.push(changes);
      } else {
        keys.forEach((key) => delayed.add(key));
      }
    }
    return released.flat();
  }

  /** Removes the transactions that newer rows contain. Returns the changes to show, as end(). */
  function dropContained(isContained) {
    [...open.keys()].filter(isContained).forEach(remove);
    return release();
  }

  function remove(x) {
    const { changes } = open.get(x);
    changes.forEach((change) => { change.isHeld = false; });
    count -= changes.length;
    open.delete(x);
  }

  return { hold, end, dropContained, all: () => [...open.values()].flatMap(({ changes }) => changes) };
}

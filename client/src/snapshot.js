// snapshot.js: which transactions a PostgreSQL snapshot contains.
//
// Order of commits is not order of visibility: a transaction may commit first and become visible last. So
// snapshots and changes are compared by transaction id, never by time or WAL position. Ids have 64 bits.

/** Parses `xmin:xmax:xip,xip,..`, as clairon.snapshot() returns it; undefined for any other value. */
export function parseSnapshot(text) {
  const [, xmin, xmax, running] = /^(\d+):(\d+):([\d,]*)$/.exec(text) ?? [];
  return xmin && { xmin: BigInt(xmin), xmax: BigInt(xmax), running: running.split(',').filter(Boolean) };
}

/** Whether a statement with this snapshot sees the changes of transaction `x`. */
export function contains({ xmin, xmax, running }, x) {
  const id = BigInt(x);
  return id < xmin || (id < xmax && !running.includes(x));
}

/**
 * True if `other` contains a transaction that `snapshot` lacks. Snapshots of one server are ordered; across
 * primary and replica each may be older than the other.
 */
export function isOlder(snapshot, other) {
  const { xmax, running } = snapshot;
  const notInOther = other.running.filter((x) => BigInt(x) >= xmax).length;
  return running.some((x) => contains(other, x)) || BigInt(notInOther) < other.xmax - xmax;
}

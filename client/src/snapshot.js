// snapshot.js: determines whether a PostgreSQL snapshot contains a transaction.
//
// Transactions may become visible in a different order than they commit. So snapshots and changes are compared by
// transaction id, never by time or WAL position. Ids have 64 bits.

/** Parses `xmin:xmax:xip,xip,..`, as clairon.snapshot() returns it; undefined for any other value. */
export function parseSnapshot(text) {
  const [, xmin, xmax, running] = /^(\d+):(\d+):([\d,]*)$/.exec(text) ?? [];
  return xmin && { xmin: BigInt(xmin), xmax: BigInt(xmax), running: running.split(',').filter(Boolean) };
}

/** True if the changes of transaction `x` are visible to this snapshot. */
export function contains({ xmin, xmax, running }, x) {
  const id = BigInt(x);
  return id < xmin || (id < xmax && !running.includes(x));
}

/**
 * True if `other` contains a transaction that `snapshot` does not contain. Snapshots of one server are ordered. Of two
 * snapshots from a primary and a replica, each may lack transactions of the other.
 */
export function isOlder(snapshot, other) {
  const { xmax, running } = snapshot;
  const notInOther = other.running.filter((x) => BigInt(x) >= xmax).length;
  return running.some((x) => contains(other, x)) || BigInt(notInOther) < other.xmax - xmax;
}

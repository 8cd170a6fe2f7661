// timed_rows.js: keeps the rows of a list in sync with a table, by commit times. Imported if there are no snapshots, see
// rows.js.

import { createBackoff } from './backoff.js';
import { NOT_APPLIED, failure } from './errors.js';
import { oncePerTask } from './once.js';
import { keyOf } from './row_key.js';

const KEPT = 4096; // maximum size of `changes`
const RECENT_MS = 60_000;
const CONFIRM_MS = 1_000;

const timeText = (ms) => new Date(ms).toISOString();

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** True if `row` has the values of `image`. A deleted row has no image. */
const hasValues = (row, image) => (row && image
  ? Object.keys(image).every((column) => same(row[column], image[column]))
  : !row === !image);

/**
 * Changes may arrive in a different order than they commit. A notification that needs an ack may be late or repeated,
 * and never arrives if another session has acknowledged it. So a change is applied only if its commit is newer than all
 * changes that the rows may contain: the newest change of that row, and every commit up to `floor`. In all other cases
 * load() runs. Without load(), each column keeps its newest value, and a deleted row stays deleted.
 *
 * Changes that arrive during load() wait for its result, because they may be newer.
 *
 * `error`: the error to show when load() is missing. `columns`: the key. `demand(isRight, text)` throws. `clock()`: the relay's time in milliseconds.
 * `report(error)`: reports an error of load(). `show({ rows, loading, error })`: publishes a new array of rows.
 */
export function createTimedRows({
  client, columns, load, error, demand, clock, lastChange, report, show,
}) {
  const byKey = new Map();
  // key -> newest change of that row, oldest first: { at, after, times: { column: commit time } }
  const changes = new Map();
  const backoff = createBackoff();
  const publish = oncePerTask(() => show({ rows: [...byKey.values()], loading: !isLoaded, error: lastError }));
  let floor = ''; // the rows may contain all commits up to this time
  let newest = ''; // newest known commit time
  let unseen = []; // list of [key, change]: changes that the result of load() may not contain yet
  let loading; // a promise, during a load
  let mustLoad = true;
  let isLoaded = !load;
  let lastError = error;
  let endError; // the client is closed, so the rows do not change any more
  let timer;

  const offs = [client.on('gap', restart), client.on('state', onState)];
  onState(lastChange());

  function onState({
    state, resumed, code, reason,
  }) {
    if (state === 'open' && (mustLoad || !resumed)) restart();
    if (state !== 'closed') return;
    isLoaded = true;
    if (code) endError = failure(reason, { code });
    lastError = endError ?? lastError;
    publish();
  }

  /** Earlier changes may be lost, so load() runs. Its result is newer than all changes up to this time. */
  function restart() {
    observe(timeText(clock()));
    reload();
  }

  /** Loads all rows; a call during a load causes another load. */
  async function reload() {
    mustLoad = true;
    if (load) loading ??= loadAll();
    return loading;
  }

  async function loadAll() {
    await clearTimeout(timer); // defers the load, so that `loading` is set even if load() throws synchronously
    try {
      let result = [];
      while (mustLoad && load) {
        mustLoad = false;
        floor = newest;
        unseen.push(...changes);
        changes.clear();
        result = await load();
      }
      demand(Array.isArray(result), 'load() must return an array');
      demand(result.every((row) => keyOf(row, columns) !== undefined), `no column ${columns} in a row of load()`);
      replace(result);
      confirm();
      lastError = endError;
      isLoaded = true;
      backoff.reset();
    } catch (cause) {
      lastError = endError ?? cause;
      report(cause);
      if (client.state !== 'closed') timer = setTimeout(reload, backoff.nextWait());
    }
    loading = undefined;
    publish();
  }

  function replace(all) {
    byKey.clear();
    all.forEach((row) => byKey.set(keyOf(row, columns), row));
  }

  /**
   * load() may return rows from before a recent change: with synchronous replication, a commit may become visible long
   * after its notification, and load() may query a replica. In that case, the rows are loaded again.
   */
  function confirm() {
    const recent = timeText(clock() - RECENT_MS);
    if (unseen.some(([id, { at, after }]) => at > recent && !hasValues(byKey.get(id), after))) {
      timer = setTimeout(reload, CONFIRM_MS);
    }
    unseen = [];
  }

  function observe(at) {
    if (at > newest) newest = at;
  }

  /** Resolves when `rows` contains the change; to NOT_APPLIED if it is not a change of a row. */
  async function handleChange({ metadata, payload, routing }) {
    const { operation, timestamp: at } = metadata;
    const { before, after, changed, unchanged, truncated } = payload;
    const { attempts } = routing.retry;
    if (operation === 'notify') return NOT_APPLIED;
    observe(at);
    await loading;
    if (operation === 'truncate') {
      if (!load) truncate(at);
      await reload(); // the TRUNCATE may affect only a partition
      return undefined;
    }
    const is = keyOf(after, columns);
    const was = keyOf(before, columns) ?? is;
    demand(load || was !== undefined, `no column ${columns} in a change`);
    const held = byKey.get(was);
    // Changes of one transaction share a commit time. This change is the next change of the row if its `before` matches
    // the current row.
    const isNext = changed && held && hasValues(held, before);
    const isNewer = (id) => {
      const known = changes.get(id)?.at;
      return id === undefined || !(known > at || (known === at && !isNext));
    };
    if (load && !(was !== undefined && !attempts && !(at <= floor) && isNewer(was) && isNewer(is))) {
      if (was !== undefined) unseen.push([is ?? was, { at, after }]);
      await reload();
      return undefined;
    }
    const isLate = attempts && !isNext;
    if (was !== is) put(was, null, at, isLate);
    if (is !== undefined) {
      const image = Object.entries(after).filter(([column]) => !truncated?.includes(column));
      put(is, { ...(was !== is && held) }, at, isLate, image);
    }
    publish();
    if (truncated || (unchanged && !held)) reload();
    return undefined;
  }

  /**
   * Applies a change to one row. Without an `image` (its columns and values) the row is deleted. Columns that the image
   * omits keep their value: unchanged large values, and columns that only load() returns. `isLate`: among changes with
   * the same time, this change is older.
   */
  function put(id, base, at, isLate, image) {
    const known = changes.get(id) ?? { at: floor, times: {} };
    const isOlder = (time) => at < time || (isLate && at === time);
    const isOld = isOlder(known.at);
    if (isOld && !(image && byKey.has(id))) return;
    changes.delete(id);
    if (image) {
      const row = { ...base, ...byKey.get(id) };
      const times = { ...known.times };
      for (const [column, value] of image) {
        if (isOlder(times[column])) continue;
        row[column] = value;
        times[column] = at;
      }
      byKey.set(id, row);
      changes.set(id, { at: isOld ? known.at : at, after: row, times });
    } else {
      byKey.delete(id);
      changes.set(id, { at, times: {} });
    }
    if (changes.size > KEPT) {
      const [[oldest, { at: its }]] = changes;
      changes.delete(oldest);
      if (its > floor) floor = its;
    }
  }

  function truncate(at) {
    for (const [id, change] of changes) if (change.at <= at) changes.delete(id);
    for (const id of byKey.keys()) if (!changes.has(id)) byKey.delete(id);
    if (at > floor) floor = at;
    publish();
  }

  if (!load) publish();

  function close() {
    offs.forEach((off) => off());
    clearTimeout(timer);
    load = undefined;
  }

  return { handleChange, reload, close };
}

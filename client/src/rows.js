// rows.js: keeps the rows of a list equal to a table. Loaded with the first list, see live.js.

import { createBackoff } from './backoff.js';

const KEPT = 4096; // rows whose newest change is remembered
const RECENT_MS = 60_000;
const CONFIRM_MS = 1_000;

const timeText = (ms) => new Date(ms).toISOString();

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Whether `row` has the values of `image`; no image is that of a deleted row. */
const shows = (row, image) => (row && image
  ? Object.keys(image).every((column) => same(row[column], image[column]))
  : !row === !image);

/**
 * Order: the order of arrival proves nothing. A notification that needs an acknowledgement may be
 * delivered late, again, or without a newer one that another session acknowledged. So a change is
 * applied only if its commit is newer than all that the rows may contain: the newest change of that
 * row, and every commit up to `floor`. Of everything else load() decides. Without load(), each column
 * keeps its newest value, and a deleted row stays deleted.
 *
 * Changes that arrive while load() runs wait for its answer: they may be newer.
 *
 * `columns`: the key. `demand(isRight, text)` throws. `clock()`: milliseconds, as of the relay.
 * `report(error)`: of a load. `show({ rows, loading, error })`: `rows` is a new array each time.
 */
export function createRows({ client, columns, load, demand, clock, report, show }) {
  const byKey = new Map();
  // key -> the newest change of that row, the oldest first: { at, after, times: { column: its commit } }
  const changes = new Map();
  const backoff = createBackoff();
  let floor = ''; // the rows may contain all commits up to this time
  let newest = ''; // time of the newest commit known
  let unseen = []; // [key, change] that the answer of load() may not show yet
  let loading; // a promise, during a load
  let mustLoad = true;
  let isLoaded = !load;
  let failure;
  let isTelling = false;
  let timer;

  const offs = [
    client.on('gap', restart),
    client.on('state', ({ state, resumed }) => {
      if (state === 'open' && (mustLoad || !resumed)) restart();
    }),
  ];
  if (client.state === 'open') restart();

  /** Changes of before now may be lost: those that arrive late are older than what load() brings. */
  function restart() {
    hear(timeText(clock()));
    reload();
  }

  /** Asks load() for all rows; again, when it is called during a load. */
  async function reload() {
    mustLoad = true;
    if (load) loading ??= loadAll();
    return loading;
  }

  async function loadAll() {
    await clearTimeout(timer); // `loading` is set before a load() that throws at once ends it
    try {
      let answer = [];
      while (mustLoad && load) {
        mustLoad = false;
        floor = newest;
        unseen.push(...changes);
        changes.clear();
        answer = await load();
      }
      demand(Array.isArray(answer), 'load() must return an array');
      demand(answer.every((row) => keyOf(row) !== undefined), `no column ${columns} in a row of load()`);
      replace(answer);
      confirm();
      failure = undefined;
      isLoaded = true;
      backoff.reset();
    } catch (error) {
      failure = error;
      report(error);
      if (client.state !== 'closed') timer = setTimeout(reload, backoff.nextWait());
    }
    loading = undefined;
    tell();
  }

  function replace(all) {
    byKey.clear();
    all.forEach((row) => byKey.set(keyOf(row), row));
  }

  /**
   * A commit is sent before it is visible to others (long before, with synchronous replication), and
   * load() may ask a replica: if a recent change is not in its answer, it is asked once more.
   */
  function confirm() {
    const recent = timeText(clock() - RECENT_MS);
    if (unseen.some(([id, { at, after }]) => at > recent && !shows(byKey.get(id), after))) {
      timer = setTimeout(reload, CONFIRM_MS);
    }
    unseen = [];
  }

  function hear(at) {
    if (at > newest) newest = at;
  }

  /** The message counts as handled when it is in `rows`. */
  async function arrived({ metadata, payload, routing }) {
    const { operation, timestamp: at } = metadata;
    const { before, after, changed, unchanged, truncated } = payload;
    const { attempts } = routing.retry;
    if (operation === 'notify') return; // of no row
    hear(at);
    await loading;
    if (operation === 'truncate') {
      if (!load) truncate(at);
      await reload(); // it may have been one partition's
      return;
    }
    const is = keyOf(after);
    const was = keyOf(before) ?? is;
    demand(load || was !== undefined, `no column ${columns} in a change`);
    const held = byKey.get(was);
    // Changes of one transaction have the same time: this one is next if it changes what is held.
    const isNext = changed && held && shows(held, before);
    const isNewer = (id) => {
      const known = changes.get(id)?.at;
      return id === undefined || !(known > at || (known === at && !isNext));
    };
    if (load && !(was !== undefined && !attempts && !(at <= floor) && isNewer(was) && isNewer(is))) {
      if (was !== undefined) unseen.push([is ?? was, { at, after }]);
      await reload();
      return;
    }
    const isLate = attempts && !isNext;
    if (was !== is) put(was, null, at, isLate);
    if (is !== undefined) {
      const image = Object.entries(after).filter(([column]) => !truncated?.includes(column));
      put(is, { ...(was !== is && held) }, at, isLate, image);
    }
    tell();
    if (truncated || (unchanged && !held)) reload();
  }

  /**
   * What a change says of one row: deleted, without an `image`, else its columns; what the image
   * leaves out stays: untouched large values, and what only load() brings. `isLate`: of two changes of
   * one transaction this is the older one.
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
    tell();
  }

  function keyOf(row) {
    const values = columns.map((column) => row?.[column]);
    return values.includes(undefined) ? undefined : values.join('\0'); // no text of PostgreSQL's holds that
  }

  /** Once for all changes of a tick. */
  function tell() {
    if (isTelling) return;
    isTelling = true;
    queueMicrotask(() => {
      isTelling = false;
      show({ rows: [...byKey.values()], loading: !isLoaded, error: failure });
    });
  }

  function close() {
    offs.forEach((off) => off());
    clearTimeout(timer);
    load = undefined;
  }

  return { arrived, reload, close };
}

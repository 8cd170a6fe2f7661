// rows.js: keeps the rows of a list, or their number, in sync with a table. Imported with the first list, see live.js.

import { BUSY, NOT_ADDRESSED, NOT_APPLIED, UNKNOWN_FRAME, failure } from './errors.js';
import { createInvalid, mistakeIn } from './list_options.js';
import { STALE, createLoads } from './loads.js';
import { oncePerTask } from './once.js';
import { LOST, createRequests } from './requests.js';
import { createRing } from './ring.js';
import { keyOf } from './row_key.js';
import { contains, isOlder, parseSnapshot } from './snapshot.js';
import { createSteps } from './steps.js';
import { createTable } from './table.js';

export { seen } from './seen.js';

const CONDITIONS_MS = 1_000; // minimum time between two loads of a list with conditions, for changes

/**
 * Returns createRows() for a list with the options `how`, after the import of what these options need, or createInvalid().
 * A count has no `rows`.
 */
export async function rowsFor(how, { rows }) {
  const mistake = mistakeIn(how, !rows);
  if (mistake) {
    const name = rows ? 'live' : 'count';
    return (list) => createInvalid(list, new TypeError(`${name}('${list.source}'): ${mistake}`));
  }
  if (!rows) {
    const { createCount } = await import('./count.js');
    return (list) => createRows(list, createCount);
  }
  if (!how.where && !how.order && !how.limit) return createRows;
  const { createView } = await import('./conditions.js');
  return (list) => createRows(list, () => createTable(undefined, false, createView(list)));
}

/**
 * `list`: see createLiveRows(). `tableOf(list)`: a table with conditions; optional. Without snapshots, rows and changes can only be compared by time. In that case
 * timed_rows.js is used instead, with the first result of load() and the changes since the start of the list.
 */
function createRows({ key, ...how }, tableOf) {
  const list = { ...how, columns: key && [key].flat() };
  const { load } = list;
  let switching; // a promise, never rejected
  let rows = createSnapshotRows(list, useTimes, tableOf);

  async function useTimes(first, error) {
    const imported = import('./timed_rows.js');
    let loaded;
    switching = imported.then(async ({ createTimedRows }) => {
      const changes = rows.close();
      let given = first;
      const loadNext = () => {
        const result = given ?? load();
        given = undefined;
        return result;
      };
      rows = createTimedRows({ ...list, load: load && loadNext, error });
      loaded = first && rows.reload(); // even without a connection
      await undefined; // the load has started, so the changes may be newer
      changes.forEach(({ n }) => rows.handleChange(n).catch(list.report));
    }, () => {});
    await imported;
    await switching;
    await loaded;
  }

  return {
    handleChange: async (n, frame) => {
      try {
        if (switching) await switching;
        return await rows.handleChange(n, frame);
      } catch (error) {
        list.report(error, n);
        return NOT_APPLIED;
      }
    },
    reload: (growth) => (Array.isArray(growth) ? rows.loadMore?.(...growth) ?? false : rows.reload()),
    close: () => rows.close(),
  };
}

/**
 * The rows equal one snapshot plus whole transactions in commit order, and never revert to an older version.
 * Changes in the snapshot are skipped; all other changes are held until the end of their transaction, and then applied.
 * A newer snapshot replaces the rows, and applied changes that it does not contain are applied again.
 *
 * After a gap, a `reload`, or an incomplete or late change (`attempts` > 0), the rows do not change until newer rows
 * are loaded. While the client polls, this applies to every change.
 *
 * `useTimes(first, error)`: replaces this object, because snapshots are not available.
 */
function createSnapshotRows(list, useTimes, tableOf) {
  const {
    client, source, rule, columns, load, demand, listen, lists, lastChange, report, show, where, order, limit,
  } = list;
  const requests = createRequests(list);
  const pageRequests = createRequests(list);
  const table = tableOf?.(list) ?? createTable(columns, !!load);
  const showLater = oncePerTask(showRows);
  const steps = createSteps(({ n }) => table.keysOf(n));
  let ring = createRing(); // changes of whole transactions
  let snapshot; // snapshot of the rows; undefined before the first load
  let accepted; // the snapshot of the last load, without the pages that were added later
  let displayed; // snapshot of the last rows that were shown
  let current = { ...table.none, loading: true };
  let isPaused = true; // a change may be missing
  let hasEnds = false; // older relays do not send the ends of transactions
  let hasBarriers = false;
  let waiters = []; // of settle()
  let size = limit; // number of rows to request
  let whole = limit; // number of rows of the last load
  let growing = []; // calls of loadMore(): { size, resolve, reject }
  let page; // the request of loadPage(), and later its response
  let isClosed = false;

  /** Polls receive no `reload`, so the rows may have changed without notifications at any time. */
  const isPolling = () => client.transport === 'poll';

  const all = () => [...ring.all(), ...steps.all()];

  const loads = createLoads({
    client, isFirst: () => current.loading, isPolling, load: load ? loadOwn : loadFromRelay, accept, onError,
    interval: tableOf ? CONDITIONS_MS : 0,
  });
  const offs = [requests.off, pageRequests.off, listen(onFrame), client.on('state', onState)];
  const entry = { contains: (x) => !!snapshot && contains(snapshot, x), settle, reload: loads.reload, hasFailed };
  lists.add(entry);
  if (client.state === 'open') {
    observeEnds(lastChange());
    loads.start();
  } else onState(lastChange());

  // ---- events of the connection

  function observeEnds({ features }) {
    hasEnds = !!features?.includes('ends');
    hasBarriers = !!features?.includes('barrier');
  }

  function onState(change) {
    const { state, code, reason } = change;
    requests.cancel(); // the reply is lost
    pageRequests.cancel();
    if (state === 'closed') publish({ loading: false, ...(code && { error: failure(reason, { code }) }) });
    if (state !== 'open') return;
    observeEnds(change);
    table.startSession();
    loads.invalidate(); // the relay sends `reload` only to connections that have requested the rows
  }

  function onFrame(frame) {
    if (frame.t === 'end') {
      applyWhole(steps.end(frame.x));
      joinPage();
      release();
    }
    if (frame.t === 'gap' && frame.why === 'epoch') forget();
    if (frame.t === 'gap' || frame.t === 'topics' || isReload(frame)) {
      isPaused = true; // changes were lost, or the set of visible rows has changed
      loads.invalidate();
    }
  }

  /** The rows may have changed without notifications. */
  const mustWait = () => loads.mayMissReload() || isPolling();

  const isReload = (frame) => frame.t === 'reload' && frame.source === source && frame.rule === (rule ?? 'default');

  /** After a restore, or a failover that lost transactions, PostgreSQL assigns their ids again. */
  function forget() {
    snapshot = accepted = displayed = undefined;
    ring = createRing();
    steps.dropContained(() => true);
  }

  // ---- loads

  async function loadFromRelay() {
    const requested = size;
    const count = 'value' in table.none || undefined;
    try {
      const response = await requests.send({
        rule, where: where ?? undefined, order: order ?? undefined, limit: requested ?? undefined, count,
      });
      return { ...response, requested };
    } catch (error) {
      if (error.code === NOT_ADDRESSED && (where || order)) {
        error.message = error.message.replace(/(?=:)|$/, ', or a column outside its filter_columns');
      }
      if (tableOf || !columns || ![NOT_ADDRESSED, UNKNOWN_FRAME].includes(error.code)) throw error;
      return useTimes(undefined, error);
    }
  }

  async function loadOwn() {
    const response = await load();
    if (loads.isOutdated() || isClosed) return undefined;
    if (Array.isArray(response)) return useTimes(response);
    const { rows, snapshot: text } = response ?? {};
    demand(Array.isArray(rows) && parseSnapshot(text), 'load() must return { rows, snapshot } or an array');
    demand(rows.every((row) => keyOf(row, columns) !== undefined), `no column ${columns} in a row of load()`);
    if (!await isNewEnough(text)) throw STALE;
    return response;
  }

  /**
   * True if the snapshot contains the transactions of all notifications of this connection, including notifications
   * from before the page loaded.
   */
  async function isNewEnough(text) {
    try {
      const { ok, snapshot: known } = await requests.send({ rule, snapshot: text });
      return ok ?? !isOlder(parseSnapshot(text), parseSnapshot(known)); // over HTTP the check uses the rows' snapshot
    } catch (error) {
      if (error.code === NOT_ADDRESSED) return true; // response over HTTP, and the rule is not live
      throw error;
    }
  }

  /** Throws STALE if the response is older than the rows, or than a change that has arrived. See createLoads(). */
  function accept(response) {
    const next = parseSnapshot(response.snapshot);
    if (snapshot && isOlder(next, snapshot)) throw STALE;
    const missing = ring.missingFrom(next)?.filter(isOurs);
    if (!missing || missing.some(({ isLate, isApplied }) => isLate || (isApplied && isPolling()))) throw STALE;
    const isNewer = !snapshot || isOlder(snapshot, next);
    const isBefore = missing.every(({ isApplied }) => !isApplied); // these rows are not older than the displayed rows
    dropPage();
    table.replace(response, response.requested);
    snapshot = accepted = next;
    ring.dropContained(next);
    steps.dropContained((x) => contains(next, x)).forEach(ring.add);
    isPaused = !isPolling() && !(ring.all().filter(isOurs).every(follow) && !table.isShort());
    if (isPaused && !(tableOf && isBefore)) throw STALE;
    let lacksChanges = isPolling() && all().some(isOurs);
    if (isPaused) { // in a steady stream, each response may lack changes that cannot be applied
      table.replace(response, response.requested);
      ring.all().forEach((change) => { change.isApplied = false; });
      publish({ ...table.displayed(), loading: false });
      lacksChanges = true;
    }
    displayed = next;
    publish({ error: undefined });
    endGrowth(response.requested);
    whole = response.requested;
    queueMicrotask(continueGrowth); // if no other load follows
    return { isNewer, lacksChanges };
  }

  // ---- loadMore()

  function loadMore(count = limit) {
    if (!size || (!current.loading && !current.more)) return false;
    size += count;
    const grown = new Promise((resolve, reject) => { growing.push({ size, count, resolve, reject }); });
    continueGrowth();
    return grown;
  }

  /** Rows that are being loaded may suffice, or are followed by a page: see accept(). */
  function continueGrowth() {
    if (!growing.length || page) return;
    if (loads.mayMissReload()) loads.start();
    else loadPage();
  }

  /**
   * Requests the rows behind those of the list, in a newer snapshot, and then a barrier, behind which all transactions of
   * this snapshot have arrived. So the list equals this snapshot too, once it has applied them: see joinPage(). If this
   * cannot be ensured, all rows are requested, in one snapshot.
   */
  async function loadPage() {
    const isFollowing = hasEnds && hasBarriers && !isPaused && client.transport === 'ws';
    const next = isFollowing ? table.nextOf(size) : undefined;
    if (!next) {
      loads.reload();
    } else if (next.limit > 0) {
      page = { ...next, size };
      await requestPage(page);
    } else {
      table.grow(size);
      publish({});
      endGrowth(size);
    }
  }

  async function requestPage(its) {
    try {
      const { after, limit: count } = its;
      its.response = await pageRequests.send({
        rule, where: where ?? undefined, order: order ?? undefined, limit: count, after,
      });
      await pageRequests.send({ t: 'barrier', source: undefined });
      its.isComplete = true;
      joinPage();
    } catch (error) {
      if (page === its && dropPage() && error !== LOST) loads.reload(); // which has the same error, or succeeds
    }
  }

  function dropPage() {
    const its = page;
    page = undefined;
    if (its) pageRequests.cancel();
    return !!its;
  }

  /** Adds the rows of the page when all transactions of its snapshot have been applied. */
  function joinPage() {
    if (!page?.isComplete) return;
    const { response, size: requested } = page;
    const next = parseSnapshot(response.snapshot);
    const isFollowing = !isPaused && !loads.mayMissReload();
    if (isFollowing && steps.all().some(({ x }) => contains(next, x))) return; // their end follows
    const missing = isFollowing && !isOlder(next, snapshot) ? ring.missingFrom(next)?.filter(isOurs) : undefined;
    const isJoined = missing && table.extend(page, response, requested, missing);
    dropPage();
    if (!isJoined) {
      if (!loads.mayMissReload()) loads.reload();
      return;
    }
    snapshot = displayed = next;
    ring.dropContained(next);
    publish({ ...table.displayed(), error: undefined });
    endGrowth(requested);
    continueGrowth();
  }

  function endGrowth(requested, error) {
    const ended = growing.filter((one) => error || isClosed || one.size <= requested);
    growing = growing.filter((one) => !ended.includes(one));
    if (error) ended.forEach(({ count }) => { size -= count; });
    queueMicrotask(() => ended.forEach(({ resolve, reject }) => (error ? reject(error) : resolve(!!current.more))));
    return ended.length;
  }

  /** Pages may have made the list longer than one response may be. Returns false if they have not. */
  function shrink() {
    const wasLonger = size > whole;
    size = wasLonger ? whole : size;
    return wasLonger;
  }

  /**
   * `isRejected`: newer rows will not be loaded, or only because of a change. Such an error, and that of a busy relay, is
   * reported once until rows are loaded.
   */
  function onError(error, isRejected) {
    if (error.code !== current.error?.code || !(isRejected || error.code === BUSY)) report(error);
    isPaused ||= isRejected;
    publish({ error, ...(isRejected && { loading: false }), ...(error.code === NOT_ADDRESSED && table.none) });
    if (isRejected && (endGrowth(size, error) || shrink())) loads.reload(); // the relay limits the number of rows
  }

  // ---- changes

  /**
   * Resolves when the change has been applied, or when a pending load, which may not contain it, has ended. To
   * NOT_APPLIED if the list never shows it.
   */
  async function handleChange(n, { x, rule: its }) {
    const { metadata: { operation, id }, payload, routing: { retry: { attempts } } } = n;
    if (operation === 'notify') return NOT_APPLIED;
    const hasEnded = ring.all().some((known) => known.x === x);
    // Older relays send no `x`.
    const change = { n, x: x ?? '0', rule: its, isLate: !x || attempts > 0 || !!(load && payload.truncated) };
    // Without a snapshot, the rows of all rules may be used, see useTimes().
    const isForeign = () => snapshot && !isOurs(change);
    if (isForeign()) return NOT_APPLIED;
    if (snapshot && x && contains(snapshot, x)) {
      // A page contains it, and the other rows may lack it: it arrived behind the barrier.
      if (!attempts && !contains(accepted, x)) onLateChange();
      return undefined;
    }
    if ((attempts || hasEnded) && all().some((known) => known.n.metadata.id === id)) return undefined;
    change.isLate ||= hasEnds && hasEnded;
    isPaused ||= mustWait();
    if (isPaused && isOurs(change)) loads.note(operation);
    const hasEnd = hasEnds && !change.isLate;
    if (!hasEnd || !steps.hold(change)) {
      change.isLate ||= hasEnd; // too many changes are held
      applyWhole([change]);
    }
    if (isPaused) await loads.pending();
    return isForeign() ? NOT_APPLIED : undefined;
  }

  function onLateChange() {
    isPaused = true;
    loads.invalidate();
  }

  /** Other rules of the table may address other rows to this user. */
  const isOurs = (change) => (rule || !load ? change.rule === (rule ?? 'default') : true);

  /** Shows these changes, of whole transactions, or loads newer rows if one of them cannot be applied. */
  function applyWhole(changes) {
    if (!changes.length) return;
    changes.forEach(ring.add);
    isPaused ||= mustWait();
    if (isPaused) return;
    if (changes.filter(isOurs).every(follow) && !table.isShort()) {
      showLater();
    } else {
      isPaused = true;
      loads.reloadSoon();
    }
  }

  /** Applies the change. Returns false if newer rows must be loaded instead. */
  function follow(change) {
    change.isLate ||= !table.apply(change.n, change.x);
    change.isApplied = !change.isLate;
    return change.isApplied;
  }

  function publish(fields) {
    current = { ...current, ...fields };
    showLater();
  }

  function showRows() {
    if (!isPaused) current = { ...current, ...table.displayed(), loading: false };
    if (!isClosed) show(current);
    release();
  }

  /**
   * Resolves when the changes up to now are shown, except those that the current task has applied. If newer rows must be
   * loaded now, these must be shown too.
   */
  async function settle() {
    const waiter = { changes: all().filter(isOurs), wasPaused: isPaused, former: displayed };
    if (isBehind(waiter)) await new Promise((resolve) => { waiters.push({ ...waiter, resolve }); });
  }

  function release() {
    const ready = waiters.filter((waiter) => !isBehind(waiter));
    waiters = waiters.filter((waiter) => !ready.includes(waiter));
    ready.forEach(({ resolve }) => resolve());
  }

  /** While the relay is busy, newer rows will still be loaded. */
  function hasFailed() {
    return !!current.error && current.error.code !== BUSY;
  }

  /** The displayed rows lack what a waiter of settle() needs, and will contain it soon. */
  const isBehind = ({ changes, wasPaused, former }) => !isClosed && (changes.some(({ isHeld }) => isHeld)
    || (loads.mayMissReload() && !hasFailed()
      && ((wasPaused && former === displayed) || ((isPaused || isPolling()) && changes.some(isMissing)))));

  const isMissing = ({ x }) => !displayed || !contains(displayed, x);

  /** Closes the list. Returns the changes that its rows may not contain. */
  function close() {
    isClosed = true;
    lists.delete(entry);
    offs.forEach((off) => off());
    loads.close();
    requests.cancel();
    dropPage();
    release();
    endGrowth();
    return all();
  }

  return { handleChange, reload: loads.reload, loadMore, close };
}

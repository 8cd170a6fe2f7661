// loads.js: decides when a list loads its rows: at the start, when changes may be missing, and after failures. Part of
// rows.js.

import { createBackoff } from './backoff.js';
import { BUSY, NOT_ADDRESSED, TOO_MANY_ROWS, UNKNOWN_FRAME } from './errors.js';
import { LOST } from './requests.js';

/**
 * The reason of a failed load: the loaded rows are older than the rows of the list, or than a change that has arrived.
 */
export const STALE = 'stale';

const SPREAD_MS = 1_000; // maximum random delay, so that the clients of a relay do not load simultaneously

const QUICK_REPLY_MS = 3_000; // a relay that replies later that it is busy has waited for the database

const REJECTIONS = [NOT_ADDRESSED, TOO_MANY_ROWS, UNKNOWN_FRAME];

const random = (ms) => Math.random() * ms;

/**
 * `isFirst()`: no rows have been loaded yet. `isPolling()`: each change requires a load.
 * `load()` resolves to a response, or rejects with an error, LOST or STALE.
 * `accept(response)` throws STALE, or shows the rows and returns { isNewer, lacksChanges }: newer than the previous
 * rows; changes have arrived that the rows do not contain.
 * `onError(error, isRejected)`: the load failed. `isRejected`: there is no further attempt until a reason occurs.
 * `interval`: minimum time between two loads that the application did not call, in milliseconds.
 */
export function createLoads({
  client, isFirst, isPolling, load, accept, onError, interval,
}) {
  const backoff = createBackoff();
  let mustLoad = true;
  let isRequested = false; // a request is pending
  let isWanted = false; // the application called reload() during the request
  let arrived = new Set(); // operations of the changes during the request
  let rejection; // code of the last error, until rows are accepted
  let wasBusy = false; // a load failed because the relay was busy, and no rows have been accepted since
  let loading; // a promise, during a load
  let timer;
  let startedAt = -Infinity; // time of the last load
  let isClosed = false;

  // ---- reasons to load

  /** Changes may be missing. The response of a pending request is discarded. */
  function invalidate() {
    mustLoad = true;
    if (isFirst()) start();
    else schedule(random(SPREAD_MS));
  }

  /** Called by the application. A call during a load causes another load, but the response of the first is accepted. */
  function reload() {
    if (isRequested) isWanted = true;
    else mustLoad = true;
    return loading ?? start();
  }

  /** A change has arrived that cannot be applied. */
  function reloadSoon() {
    mustLoad = true;
    if (interval) schedule(0);
    else start();
  }

  /** A change has arrived that is not applied to the rows. */
  function note(operation) {
    if (isRequested) arrived.add(operation);
    else if (!mustLoad && needsLoad(operation)) invalidate();
  }

  /** After a rejection, the change means that the user is addressed again, or has fewer rows. */
  const needsLoad = (operation) => (rejection === TOO_MANY_ROWS
    ? operation === 'delete'
    : rejection === NOT_ADDRESSED || isPolling());

  // ---- loads

  function schedule(ms) {
    clearTimeout(timer);
    const rest = startedAt + interval - performance.now();
    if (client.state !== 'closed' && !isClosed) timer = setTimeout(start, Math.max(ms, rest));
  }

  function start() {
    if (mustLoad && !isClosed) loading ??= loadAll();
    return loading;
  }

  async function loadAll() {
    await clearTimeout(timer); // defers the load, so that `loading` is set even if load() throws synchronously
    try {
      while (mustLoad && !isClosed) await loadOnce();
    } catch (error) {
      onFailure(error);
    }
    loading = undefined;
  }

  async function loadOnce() {
    mustLoad = false; // may be set again during the load
    isWanted = false;
    arrived = new Set();
    isRequested = true;
    startedAt = performance.now();
    const response = await load();
    isRequested = false;
    if (mustLoad || isClosed) return; // a gap or `reload` arrived during the load: the response may be stale
    const { isNewer, lacksChanges } = accept(response);
    rejection = undefined;
    wasBusy = false;
    if (isNewer || !lacksChanges) backoff.reset(); // not if a replica lags
    mustLoad = isWanted || lacksChanges;
    if (lacksChanges && !isWanted) throw STALE; // limits the rate of loads in a steady stream
  }

  function onFailure(error) {
    const isOutdated = mustLoad || isWanted;
    isRequested = false;
    mustLoad = true;
    if (error === LOST) {
      if (client.state === 'open') schedule(isFirst() ? 0 : random(SPREAD_MS)); // otherwise the next connection loads
    } else if (error === STALE) {
      schedule(backoff.nextWait());
    } else if (error.code === BUSY) {
      const isMoment = !wasBusy && performance.now() - startedAt < QUICK_REPLY_MS;
      if (!isMoment) onError(error, false);
      wasBusy = true;
      schedule(error.after + random(error.after));
    } else {
      onRejection(error, isOutdated);
    }
  }

  function onRejection(error, isOutdated) {
    rejection = error.code;
    const isRejected = REJECTIONS.includes(rejection);
    mustLoad = !isRejected || isOutdated || [...arrived].some(needsLoad);
    onError(error, isRejected);
    if (mustLoad) schedule(backoff.nextWait());
  }

  /**
   * Until the response, the rows may have changed without notifications: the relay does not send a `reload` for changes
   * during a disconnect, and defers any other `reload` while it reads the rows.
   */
  const mayMissReload = () => mustLoad || isRequested;

  function close() {
    isClosed = true;
    clearTimeout(timer);
  }

  return {
    start, invalidate, reload, reloadSoon, note, mayMissReload, isOutdated: () => mustLoad, pending: () => loading, close,
  };
}

// live.js: live() and count(): rows, or their number, kept in sync with a table.

import { createBackoff } from './backoff.js';
import { demandFor } from './demand.js';
import { NOT_APPLIED } from './errors.js';

/**
 * rows.js maintains the rows. The module is imported with the first list; changes wait for the import. If the import
 * fails, it is repeated with growing delays, and a last time when the client closes. Changes in between are dropped,
 * since the list then loads its rows.
 *
 * `access`: `client`; `transmit(frame)`; `listen(listener)` for relay frames; `clock()` in relay milliseconds;
 * `report(error, notification)` for errors; `lists`, the client's set of lists; `lastChange()`, the last state event.
 * `list`: the object to return; without `rows` it is a count, with `value`. `how.key`: the column or columns that identify
 * a row.
 */
export function createLiveRows(
  access,
  source,
  how = {},
  list = { rows: [], more: false, loadMore: (count) => list.reload([count]) },
) {
  const { client, report } = access;
  const { key, load } = how;
  const demand = demandFor(`live('${source}')`);
  demand(key ? key.length && (!load || load.call) : !load, 'key must be a column or columns, load a function');
  const listeners = new Set();
  Object.assign(list, { loading: true, subscribe, reload, close });
  const backoff = createBackoff();
  let isClosed;
  let rowStore;
  let timer;
  let attempt; // a promise, never rejected; undefined after a failure
  const offs = [
    // See handleChange() in rows.js. Does not delay later notifications.
    client.on(`source:${source}`, async (n, frame) => {
      if (!rowStore) await attempt;
      return rowStore?.handleChange(n, frame) ?? NOT_APPLIED;
    }),
    client.on('state', () => client.state === 'closed' && importOnce()),
  ];
  importOnce();

  function importOnce() {
    return attempt ??= importRows();
  }

  async function importRows() {
    clearTimeout(timer);
    try {
      const createRows = await (await import('./rows.js')).rowsFor(how, list);
      if (isClosed) return;
      rowStore = createRows({
        ...how, ...access, source, demand, show,
      });
    } catch (error) {
      attempt = undefined;
      if (isClosed) return;
      if (client.state !== 'closed') timer = setTimeout(importOnce, backoff.nextWait());
      show({ loading: client.state !== 'closed', error });
      report(error);
    }
  }

  function show(next) {
    Object.assign(list, next);
    listeners.forEach(inform);
  }

  function inform(listener) {
    try {
      listener(list.rows ?? list.value);
    } catch (error) {
      report(error);
    }
  }

  /** `listener(rows)`, or `listener(value)`, is called immediately and after each change. Returns a function that removes it. */
  function subscribe(listener) {
    listeners.add(listener);
    inform(listener);
    return () => listeners.delete(listener);
  }

  /** `growth`: undefined, or the argument of loadMore() in an array. */
  async function reload(growth) {
    await importOnce();
    return rowStore?.reload(growth);
  }

  function close() {
    isClosed = true;
    clearTimeout(timer);
    offs.forEach((off) => off());
    rowStore?.close();
    listeners.clear();
  }

  return list;
}

// live.js: live(): an array of rows kept in sync with a table.

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
 * `key`: the column or columns that identify a row.
 */
export function createLiveRows(access, source, { rule, key, load } = {}) {
  const { client, report } = access;
  const demand = demandFor(`live('${source}')`);
  demand(key?.length || !(key || load), 'key must be a column or an array of columns');
  demand(!load || load.call, 'load must be a function');
  const listeners = new Set();
  const list = { rows: [], loading: true, subscribe, reload, close };
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
      const { createRows } = await import('./rows.js');
      if (isClosed) return;
      rowStore = createRows({
        ...access, source, rule, columns: key && [key].flat(), load, demand, show,
      });
    } catch (error) {
      attempt = undefined;
      if (isClosed) return;
      const loading = client.state !== 'closed';
      if (loading) timer = setTimeout(importOnce, backoff.nextWait());
      show({ loading, error });
      report(error);
    }
  }

  function show(next) {
    Object.assign(list, next);
    listeners.forEach(call);
  }

  function call(listener) {
    try {
      listener(list.rows);
    } catch (error) {
      report(error);
    }
  }

  /** `listener(rows)` is called immediately and after each change. Returns a function that removes it. */
  function subscribe(listener) {
    listeners.add(listener);
    call(listener);
    return () => listeners.delete(listener);
  }

  function close() {
    isClosed = true;
    clearTimeout(timer);
    offs.forEach((off) => off());
    rowStore?.close();
    listeners.clear();
  }

  async function reload() {
    await importOnce();
    return rowStore?.reload();
  }

  return list;
}

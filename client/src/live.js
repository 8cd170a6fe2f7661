// live.js: live(): an array of rows kept in sync with a table.

import { demandFor } from './demand.js';

/**
 * rows.js maintains the rows. The module is imported with the first list; changes wait for the import.
 *
 * `access`: `client`; `transmit(frame)`; `listen(listener)` for relay frames; `clock()` in relay milliseconds;
 * `report(error)` for load and listener errors; `lists`, the client's set of lists.
 * `key`: the column or columns that identify a row.
 */
export function createLiveRows(access, source, { rule, key, load } = {}) {
  const { client, report } = access;
  const demand = demandFor(`live('${source}')`);
  demand(key?.length || !(key || load), 'key must be a column or an array of columns');
  demand(!load || load.call, 'load must be a function');
  const listeners = new Set();
  let current = { rows: [], loading: true };
  let isClosed = false;
  let rowStore;
  const imported = import('./rows.js').then(({ createRows }) => {
    if (isClosed) return;
    rowStore = createRows({
      ...access, source, rule, columns: key && [key].flat(), load, demand, show,
    });
  });
  imported.catch((error) => {
    show({ ...current, error });
    report(error);
  });
  // See handleChange() in rows.js. Does not delay later notifications.
  const off = client.on(`source:${source}`, async (n, frame) => {
    if (!rowStore) await imported;
    return rowStore?.handleChange(n, frame);
  });

  function show(next) {
    current = next;
    listeners.forEach(call);
  }

  function call(listener) {
    try {
      listener(current.rows);
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
    off();
    rowStore?.close();
    listeners.clear();
  }

  return {
    get rows() { return current.rows; },
    get loading() { return current.loading; },
    get error() { return current.error; },
    subscribe,
    reload: async () => {
      await imported;
      return rowStore?.reload();
    },
    close,
  };
}

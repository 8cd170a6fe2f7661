// live.js: live(): an array of rows that follows a table.

/**
 * rows.js maintains the rows. It is imported with the first list; notifications wait for it.
 *
 * `key`: the column or columns that identify a row. `clock()`: the relay's time in milliseconds.
 * `report(error)`: reports an error of a load or a listener.
 */
export function createLiveRows(client, source, { key, load } = {}, clock, report) {
  const demand = (isRight, text) => {
    if (!isRight) throw new TypeError(`live('${source}'): ${text}`);
  };
  demand(key?.length, 'key: a column or an array of columns');
  demand(!load || load.call, 'load: a function');
  const columns = [key].flat();
  const listeners = new Set();
  let shown = { rows: [], loading: !!load };
  let isClosed = false;
  const rowStore = import('./rows.js').then(({ createRows }) => (isClosed ? undefined : createRows({
    client, columns, load, demand, clock, report, show,
  })));
  rowStore.catch((error) => {
    show({ ...shown, error });
    report(error);
  });
  // The notification is handled when `rows` contains it.
  const off = client.on(`source:${source}`, async (n) => (await rowStore)?.handleChange(n));

  function show(next) {
    shown = next;
    listeners.forEach(call);
  }

  function call(listener) {
    try {
      listener(shown.rows);
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
    rowStore.then((its) => its?.close(), () => {}); // reported above
    listeners.clear();
  }

  return {
    get rows() { return shown.rows; },
    get loading() { return shown.loading; },
    get error() { return shown.error; },
    subscribe,
    reload: async () => (await rowStore)?.reload(),
    close,
  };
}

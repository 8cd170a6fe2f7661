// live.js: an array of rows that follows a table: what an application holds of it.

/**
 * What keeps the rows is loaded with the first list, see rows.js; messages wait for it.
 *
 * `key`: the column, or the columns, that identify a row. `clock()`: milliseconds, as of the relay.
 * `report(error)`: of a load or a listener.
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
  const keeper = import('./rows.js').then(({ createRows }) => (isClosed ? undefined : createRows({
    client, columns, load, demand, clock, report, show,
  })));
  keeper.catch((error) => {
    show({ ...shown, error });
    report(error);
  });
  // The message counts as handled when it is in `rows`.
  const off = client.on(`source:${source}`, async (n) => (await keeper)?.arrived(n));

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

  /** `listener(rows)` is called at once and after each change; returns the function that removes it. */
  function subscribe(listener) {
    listeners.add(listener);
    call(listener);
    return () => listeners.delete(listener);
  }

  function close() {
    isClosed = true;
    off();
    keeper.then((its) => its?.close(), () => {}); // reported above
    listeners.clear();
  }

  return {
    get rows() { return shown.rows; },
    get loading() { return shown.loading; },
    get error() { return shown.error; },
    subscribe,
    reload: async () => (await keeper)?.reload(),
    close,
  };
}

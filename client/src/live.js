// live.js: an array of rows that follows a table.

import { createBackoff } from './backoff.js';

/**
 * `rows` is a new array after each change, so that it can be compared by identity. Changes that
 * come while load() is under way wait for its answer: they may be newer than what it holds.
 *
 * `key`: the column, or the columns, that tell rows apart. `report(error)`: of a load or a listener.
 */
export function createLiveRows(client, source, { key, load }, report) {
  if (!key) throw new TypeError('live(): no key');
  const columns = [key].flat();
  const byKey = new Map();
  const listeners = new Set();
  const backoff = createBackoff();
  let rows = [];
  let loading; // a promise, during a load
  let mustLoad = true;
  let isTelling = false;
  let timer;

  const offs = [
    client.on(`source:${source}`, arrived),
    client.on('gap', reload),
    client.on('state', ({ state, resumed }) => {
      if (state === 'open' && (mustLoad || !resumed)) reload();
    }),
  ];
  if (client.state === 'open') reload();

  /** Asks load() for all rows; again, when it is called during a load. */
  async function reload() {
    mustLoad = true;
    if (load) loading ??= loadAll();
    return loading;
  }

  async function loadAll() {
    await clearTimeout(timer); // `loading` is set before a load() that throws at once ends it
    try {
      let answer;
      while (mustLoad && load) {
        mustLoad = false;
        answer = await load();
      }
      replace(answer ?? []);
      backoff.reset();
    } catch (error) {
      report(error);
      if (client.state !== 'closed') timer = setTimeout(reload, backoff.nextWait());
    }
    loading = undefined;
  }

  function replace(all) {
    byKey.clear();
    all.forEach((row) => byKey.set(keyOf(row), row));
    tell();
  }

  /** The message counts as handled when it is in `rows`. */
  async function arrived(n) {
    await loading;
    if (load && n.routing.retry.attempts) await reload(); // it comes behind newer ones, not to undo them
    else apply(n);
  }

  function apply({ metadata: { operation }, payload: { before, after, unchanged, truncated } }) {
    if (operation === 'notify') return; // of no row
    if (operation === 'truncate') {
      if (!load) replace([]);
      reload(); // it may have been one partition's
      return;
    }
    const is = keyOf(after);
    const was = keyOf(before) ?? is;
    const held = byKey.get(was);
    if (was !== is) byKey.delete(was);
    // What the message leaves out stays: untouched large values, and what only load() brings.
    if (is !== undefined) byKey.set(is, { ...held, ...after });
    tell();
    if (was === undefined || truncated || (unchanged && !held)) reload();
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
      rows = [...byKey.values()];
      for (const listener of listeners) {
        try {
          listener(rows);
        } catch (error) {
          report(error);
        }
      }
    });
  }

  /** `listener(rows)` is called after each change; returns the function that takes it away. */
  function subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  function close() {
    offs.forEach((off) => off());
    clearTimeout(timer);
    load = undefined;
    listeners.clear();
  }

  return { get rows() { return rows; }, subscribe, reload, close };
}

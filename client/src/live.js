// live.js: an array of rows that follows a table.

import { createBackoff } from './backoff.js';

/**
 * `rows` is a new array after each change, so that it can be compared by identity. Changes that
 * come while load() is under way wait for its answer: they may be newer than what it holds.
 *
 * `key`: the column, or the columns, that tell rows apart. `report(error)`: a load that failed.
 */
export function createLiveRows(client, source, { key, load }, report) {
  if (!key) throw new TypeError('live(): no key');
  const columns = [key].flat();
  const byKey = new Map();
  const listeners = new Set();
  const backoff = createBackoff();
  let rows = [];
  let waiting; // during a load: what is to be done after it
  let mustLoad = false;
  let isTelling = false;
  let timer;

  const offs = [
    client.on(`source:${source}`, arrived),
    client.on('gap', reload),
    client.on('state', ({ state, resumed }) => {
      if (state === 'open' && !resumed) reload();
    }),
  ];
  if (client.state === 'open') reload();

  /** Asks load() for all rows; again, when it is called during a load. */
  async function reload() {
    if (!load) return;
    mustLoad = true;
    if (waiting) return;
    clearTimeout(timer);
    waiting = [];
    try {
      let answer;
      do {
        mustLoad = false;
        answer = await load();
      } while (mustLoad && load);
      replace(answer ?? []);
      backoff.reset();
    } catch (error) {
      report(error);
      if (client.state !== 'closed') timer = setTimeout(reload, backoff.nextWait());
    }
    const came = waiting;
    waiting = undefined;
    for (const act of came) act();
  }

  function replace(all) {
    byKey.clear();
    for (const row of all) byKey.set(keyOf(row), row);
    tell();
  }

  /** The message counts as handled when it is in `rows`. */
  function arrived(n) {
    return waiting ? new Promise((done) => { waiting.push(() => done(apply(n))); }) : apply(n);
  }

  function apply({ metadata: { operation }, payload: { before, after, unchanged = [] } }) {
    if (operation === 'notify') return; // of no row
    if (operation === 'truncate') {
      replace([]);
      return;
    }
    const is = keyOf(after);
    const was = keyOf(before) ?? is;
    const held = byKey.get(was);
    if (was !== is) byKey.delete(was);
    if (is !== undefined) byKey.set(is, whole(after, held, unchanged));
    tell();
    if (was === undefined || (unchanged.length > 0 && !held)) reload();
  }

  function keyOf(row) {
    const values = columns.map((column) => row?.[column]);
    return values.includes(undefined) ? undefined : values.join('\n');
  }

  /** Once for all changes of a tick. */
  function tell() {
    if (isTelling) return;
    isTelling = true;
    queueMicrotask(() => {
      isTelling = false;
      rows = [...byKey.values()];
      for (const listener of listeners) listener(rows);
    });
  }

  /** `listener(rows)` is called after each change; returns the function that takes it away. */
  function subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  function close() {
    for (const off of offs) off();
    clearTimeout(timer);
    load = undefined;
    listeners.clear();
  }

  return { get rows() { return rows; }, subscribe, reload, close };
}

/** Large values that a change did not touch are not in `after`: they are those of the row held. */
function whole(after, held, unchanged) {
  const row = { ...after };
  for (const column of unchanged) row[column] = held?.[column];
  return row;
}

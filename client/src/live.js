// live.js: an array of rows that follows a table.

import { Backoff } from './backoff.js';

/**
 * `rows` is a new array after each change, so that it can be compared by identity. Changes that
 * come while load() is under way wait for its answer: they may be newer than what it holds.
 */
export class LiveRows {
  rows = [];
  #columns;
  #load;
  #report;
  #byKey = new Map();
  #listeners = new Set();
  #waiting = null; // during a load: [{ n, done }]
  #mustLoad = false;
  #isTelling = false;
  #backoff = new Backoff();
  #retry;
  #offs;

  /** `options`: key (a column, or several), load() -> rows. `report(error)`: a load that failed. */
  constructor(client, source, { key, load }, report) {
    if (!key) throw new TypeError('live(): key names the column, or the columns, that tell rows apart');
    this.#columns = [key].flat();
    this.#load = load;
    this.#report = report;
    this.#offs = [
      client.on(`source:${source}`, (n) => this.#arrived(n)),
      client.on('gap', () => this.reload()),
      client.on('state', ({ state, resumed }) => {
        if (state === 'open' && !resumed) this.reload();
      }),
    ];
    if (client.state === 'open') this.reload();
  }

  /** `listener(rows)` is called after each change; returns the function that takes it away. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Asks load() for all rows; again, when it is called during a load. */
  async reload() {
    if (!this.#load) return;
    this.#mustLoad = true;
    if (this.#waiting) return;
    clearTimeout(this.#retry);
    this.#waiting = [];
    try {
      this.#replace(await this.#loaded());
      this.#backoff.reset();
    } catch (error) {
      this.#report(error);
      if (this.#load) this.#retry = setTimeout(() => this.reload(), this.#backoff.next());
    }
    const waiting = this.#waiting;
    this.#waiting = null;
    for (const { n, done } of waiting) done(this.#apply(n));
  }

  close() {
    for (const off of this.#offs) off();
    clearTimeout(this.#retry);
    this.#load = undefined;
    this.#listeners.clear();
  }

  async #loaded() {
    let rows;
    while (this.#mustLoad && this.#load) {
      this.#mustLoad = false;
      rows = await this.#load();
    }
    return rows ?? [];
  }

  #replace(rows) {
    this.#byKey.clear();
    for (const row of rows) this.#byKey.set(this.#keyOf(row), row);
    this.#tell();
  }

  /** The message counts as handled when it is in `rows`. */
  #arrived(n) {
    if (!this.#waiting) return this.#apply(n);
    return new Promise((done) => {
      this.#waiting.push({ n, done });
    });
  }

  #apply({ metadata: { operation }, payload: { before, after, unchanged = [] } }) {
    if (operation === 'truncate') {
      this.#replace([]);
      return;
    }
    if (operation === 'notify') return; // of no row
    const was = this.#keyOf(before) ?? this.#keyOf(after);
    const held = this.#byKey.get(was);
    const is = this.#keyOf(after);
    if (was !== is) this.#byKey.delete(was);
    if (is !== undefined) this.#byKey.set(is, { ...after, ...pick(held, unchanged) });
    this.#tell();
    const isWhole = held || unchanged.length === 0;
    if (was === undefined || !isWhole) this.reload();
  }

  #keyOf(row) {
    if (!this.#columns.every((column) => row?.[column] !== undefined)) return undefined;
    return this.#columns.map((column) => row[column]).join('\n');
  }

  /** Once for all changes of a tick. */
  #tell() {
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      this.rows = [...this.#byKey.values()];
      for (const listener of this.#listeners) listener(this.rows);
    });
  }
}

/** Large values that a change did not touch are not in it. */
function pick(row, columns) {
  return Object.fromEntries(columns.filter((c) => row && c in row).map((c) => [c, row[c]]));
}

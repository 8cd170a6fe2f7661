// table.js: the rows of a list, by key.

import { keyOf } from './row_key.js';
import { ANY } from './steps.js';

const MAX_TIMES = 4096;

/** `columns`: the key; optional until replace(). `keepsOmitted`: rows may have columns that changes lack. */
export function createTable(columns, keepsOmitted) {
  const byKey = new Map();
  const times = new Map(); // key -> commit time of the newest applied change, oldest first
  let floor = ''; // the newest commit time that was dropped from `times`
  let transaction; // transaction of the last applied change

  function replace(rows, key = columns) {
    columns = key;
    byKey.clear();
    times.clear();
    floor = '';
    startSession();
    rows.forEach((row) => byKey.set(keyOf(row, columns), row));
  }

  /**
   * An earlier session may have applied newer changes that this session has not received. So after a reconnect, further
   * changes of the same transaction are checked like any other change.
   */
  function startSession() {
    transaction = undefined;
  }

  /**
   * Applies a change of transaction `x`. Returns false, and changes nothing, if the change is incomplete, or older than
   * the newest change of its row, as after a redrive from the error log.
   */
  function apply({ metadata: { operation, timestamp }, payload }, x) {
    const { before, after, unchanged } = payload;
    if (operation === 'truncate') return truncate(timestamp, x);
    const is = keyOf(after, columns);
    const was = keyOf(before, columns) ?? is;
    const held = byKey.get(was);
    if (was === undefined || (is !== undefined && unchanged && !held)) return false;
    if (isOld(was, timestamp, x) || isOld(is, timestamp, x)) return false;
    transaction = x;
    note(was, timestamp);
    if (was !== is) byKey.delete(was);
    if (is === undefined) return true;
    note(is, timestamp);
    // Omitted columns keep their value if they are large and unchanged, or if only load() returns them. All other
    // omitted columns were renamed or dropped.
    const isKept = ([column]) => keepsOmitted || column in after || unchanged?.includes(column);
    byKey.set(is, { ...Object.fromEntries(Object.entries(held ?? {}).filter(isKept)), ...after });
    return true;
  }

  /** The keys of the rows that the change removes, changes or adds. */
  function keysOf({ metadata: { operation }, payload: { before, after } }) {
    const [was, is] = [keyOf(before, columns), keyOf(after, columns)];
    return operation === 'truncate' || !(was ?? is) ? [ANY] : [was, is].filter(Boolean);
  }

  function truncate(at, x) {
    byKey.clear();
    times.clear();
    floor = at > floor ? at : floor;
    transaction = x;
    return true;
  }

  /** Changes of one transaction have the same time, and arrive in order. */
  function isOld(id, at, x) {
    if (id === undefined) return false;
    const newest = times.get(id) ?? floor;
    return at < newest || (at === newest && x !== transaction);
  }

  function note(id, at) {
    times.delete(id);
    times.set(id, at);
    if (times.size <= MAX_TIMES) return;
    const [[oldest, its]] = times;
    times.delete(oldest);
    if (its > floor) floor = its;
  }

  return { replace, startSession, apply, keysOf, rows: () => [...byKey.values()] };
}

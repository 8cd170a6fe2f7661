// table.js: the rows of a list, by key.

import { keyOf } from './row_key.js';
import { ANY } from './steps.js';

const MAX_TIMES = 4096;

/**
 * `columns`: the key; optional until replace(). `keepsOmitted`: rows may have columns that changes lack. `view`: the
 * conditions of the list, if it has any, see conditions.js.
 */
export function createTable(columns, keepsOmitted, view) {
  const byKey = new Map();
  const times = new Map(); // key -> commit time of the newest applied change, oldest first
  let floor = ''; // the newest commit time that was dropped from `times`
  let transaction; // transaction of the last applied change
  let removed = new Map(); // key -> row that this transaction has removed

  /** Accepts a response, with at most `limit` rows. */
  function replace(response, limit) {
    const { rows } = response;
    columns = response.key ?? columns;
    view?.start(response, limit);
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
    if (x !== transaction) removed = new Map();
    // If one group of the user loses the row and another one keeps it, an `update` follows its `delete`.
    const held = byKey.get(was) ?? (operation === 'update' ? removed.get(was) : undefined);
    if (was === undefined || (is !== undefined && unchanged && !held && !view)) return false;
    if (isOld(was, timestamp, x) || isOld(is, timestamp, x)) return false;
    // Omitted columns keep their value if they are large and unchanged, or if only load() returns them. All other
    // omitted columns were renamed or dropped.
    const isKept = ([column]) => keepsOmitted || column in after || unchanged?.includes(column);
    const row = is !== undefined && { ...Object.fromEntries(Object.entries(held ?? {}).filter(isKept)), ...after };
    const isListed = row && view ? view.admits(row, held, operation, payload) : true;
    if (isListed === undefined || (isListed && row && unchanged && !held)) return false;
    transaction = x;
    note(was, timestamp);
    if (was !== is && byKey.delete(was)) removed.set(was, held);
    if (!row) return true;
    removed.delete(is); // an outdated version
    note(is, timestamp);
    if (isListed) byKey.set(is, row);
    else byKey.delete(is);
    return true;
  }

  /** The keys of the rows that the change removes, changes or adds. */
  function keysOf({ metadata: { operation }, payload: { before, after } }) {
    const [was, is] = [keyOf(before, columns), keyOf(after, columns)];
    return operation === 'truncate' || !(was ?? is) ? [ANY] : [was, is].filter(Boolean);
  }

  /**
   * Adds the rows of the response to `request`, see nextOf(), which lack the `changes`. Up to `size` rows are shown. Returns
   * false, and changes nothing, if newer rows must be loaded instead.
   */
  function extend(request, response, size, changes) {
    const next = createTable(columns, keepsOmitted, view.nextView());
    const { after } = view.nextOf(byKey, size) ?? {};
    if (JSON.stringify(after) !== JSON.stringify(request.after)) return false; // the bound has moved
    next.replace(response);
    if (!changes.every(({ n, x }) => next.apply(n, x))) return false;
    const rows = next.all();
    const total = byKey.size + rows.size;
    const isCut = response.rest && response.rows.length < request.limit; // by its bytes
    if ([...rows.keys()].some((id) => byKey.has(id)) || (response.rest && !isCut && total < size)) return false;
    view.extend(isCut ? total : size, response.rest ? response.rows.at(-1) : null);
    rows.forEach((row, id) => byKey.set(id, row));
    return true;
  }

  function truncate(at, x) {
    byKey.clear();
    view?.clear();
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

  return {
    replace,
    startSession,
    apply,
    keysOf,
    isShort: () => !!view?.isShort(byKey),
    nextOf: (size) => view?.nextOf(byKey, size),
    grow: (size) => view.extend(size),
    extend,
    all: () => byKey,
    displayed: () => (view ? { rows: view.rowsOf(byKey), more: view.hasMore(byKey) } : { rows: [...byKey.values()] }),
    none: { rows: [], more: false },
  };
}

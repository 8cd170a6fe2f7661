// conditions.js: lists with `where`, `order` and `limit`. Imported with the first such list, see rows.js.

const TEXT_OF_INTEGER = /^-?\d+$/;

/** Integers beyond 2^53 are strings. Other strings that the client may compare are ordered by code units. */
function compareValues(a, b) {
  const hasText = typeof a === 'string' || typeof b === 'string';
  const [x, y] = hasText && [a, b].every((value) => TEXT_OF_INTEGER.test(value)) ? [BigInt(a), BigInt(b)] : [a, b];
  return x < y ? -1 : Number(x > y);
}

const isRange = (condition) => condition && typeof condition === 'object' && !Array.isArray(condition);

function meets(value, condition) {
  if (!isRange(condition)) return [condition].flat().includes(value);
  const { from, to } = condition;
  if (value === null) return false;
  return (from === undefined || compareValues(value, from) >= 0) && (to === undefined || compareValues(value, to) < 0);
}

/**
 * Returns a function that tests a row: undefined if a column is unknown, or one that PostgreSQL compares in another way
 * than this module. `comparable`: the other columns.
 */
export const matcherOf = (where, comparable = []) => (row) => {
  const results = Object.entries(where ?? {}).map(([column, condition]) => (
    comparable.includes(column) && row[column] !== undefined ? meets(row[column], condition) : undefined));
  return results.includes(false) ? false : results.includes(undefined) ? undefined : true;
};

/** Returns the columns of the order, [name, isDescending]: `order`, and the missing columns of the key. */
const sortingOf = (order, key) => [
  ...order.map((name) => (name.startsWith('-') ? [name.slice(1), true] : [name, false])),
  ...key.filter((name) => !order.includes(name) && !order.includes(`-${name}`)).map((name) => [name, false]),
];

/** Compares rows as PostgreSQL does: null is greater than all other values. */
const comparerOf = (sorting) => (a, b) => {
  for (const [column, isDescending] of sorting) {
    const [x, y] = [a[column], b[column]];
    const result = x === null || y === null ? Number(x === null) - Number(y === null) : compareValues(x, y);
    if (result) return isDescending ? -result : result;
  }
  return 0;
};

export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** A row of a change without the values that are null because they could not be sent. */
export const knownPart = (row, { truncated = [], undecodable = [] }) => Object.fromEntries(
  Object.entries(row ?? {}).filter(([column]) => ![...truncated, ...undecodable].includes(column)),
);

/**
 * The rows that match `where`, from the first one up to `bound`, the last row of the response. All these rows are known.
 * The list shows the first `limit` of them. Without a bound, there are no other rows that match. `lower`: a row in front
 * of the first one; optional.
 */
export function createView({ where, order, limit }, lower) {
  const isOrdered = order?.length > 0 || !!limit;
  let matches;
  let sorting; // the columns of the order
  let compare; // undefined if this module cannot compare one of them
  let watched; // columns that decide whether and where a row is shown
  let bound;
  let size; // number of rows to show

  /** Call it with each response. `requested`: its limit. */
  function start({ rows, key, judge: comparable, rest }, requested = Infinity) {
    sorting = isOrdered ? sortingOf(order ?? [], key) : [];
    matches = matcherOf(where, comparable);
    compare = sorting.every(([column]) => comparable?.includes(column)) ? comparerOf(sorting) : undefined;
    watched = [...Object.keys(where ?? {}), ...sorting.map(([column]) => column)];
    bound = rest ? rows.at(-1) : undefined;
    size = rest ? rows.length : requested; // a response may be limited by its bytes
  }

  /**
   * True if the row is one of the known rows, false if it is not, undefined if newer rows must be loaded. `held`: its
   * former version, if that is a known row.
   */
  function admits(row, held, operation, payload) {
    const now = knownPart(row, payload);
    const former = held ?? (operation === 'update' && payload.before);
    if (former && watched.every((column) => now[column] !== undefined && same(now[column], former[column]))) return !!held;
    const isMatch = matches(now);
    if (!isMatch) return isMatch;
    if (!compare || watched.some((column) => now[column] === undefined)) return undefined;
    return (!bound || compare(now, bound) <= 0) && (!lower || compare(now, lower) > 0);
  }

  /** A row that is not known follows: a shown row has left. */
  const isShort = (known) => !!bound && known.size < size;

  /** Returns the rows to show of `known`, a Map, in order. Removes rows that are not shown if they are too many. */
  function rowsOf(known) {
    if (isOrdered && compare) {
      const entries = [...known].sort(([, a], [, b]) => compare(a, b));
      if (known.size > 2 * size) {
        entries.splice(size).forEach(([id]) => known.delete(id));
        bound = entries.at(-1)[1];
      }
      return entries.slice(0, size).map(([, row]) => row);
    }
    return [...known.values()];
  }

  const hasMore = (known) => !!bound || known.size > size;

  /**
   * What to request so that `wanted` rows are known: { after, limit }. The limit is not positive if they are known.
   * Undefined if the rows lack a column of the order.
   */
  function nextOf(known, wanted) {
    if (!bound) return { limit: 0 };
    const after = sorting.map(([column]) => bound[column]);
    return after.includes(undefined) ? undefined : { after, limit: wanted - known.size };
  }

  /** The view of the rows behind the bound. */
  const nextView = () => createView({ where, order, limit }, bound);

  /** Shows up to `count` rows. `last`: the last known row, if further rows match. */
  function extend(count, last = bound) {
    size = count;
    bound = last || undefined;
  }

  /** After a TRUNCATE there are no other rows. */
  function clear() {
    bound = undefined;
  }

  return {
    start, admits, isShort, rowsOf, hasMore, nextOf, nextView, extend, clear,
  };
}

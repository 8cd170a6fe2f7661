// row_key.js: identifies a row by the values of its key columns.

/**
 * A number equals its string form, since load() may return a bigint as string. Arrays, jsonb and composite values are
 * objects.
 */
const textOf = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));

/** Returns the key as a string; undefined if a column is missing, and without a row or `columns`. */
export function keyOf(row, columns) {
  const values = columns?.map((column) => row?.[column]) ?? [undefined];
  return values.includes(undefined) ? undefined : JSON.stringify(values.map(textOf));
}

// row_key.js: identifies a row by the values of its key columns.

/** A number and its text are equal: load() may return a bigint as text. Arrays, jsonb and composite values are objects. */
const textOf = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));

/** The key as a text. Undefined if a column is missing, and without a row or `columns`. */
export function keyOf(row, columns) {
  const values = columns?.map((column) => row?.[column]) ?? [undefined];
  return values.includes(undefined) ? undefined : JSON.stringify(values.map(textOf));
}

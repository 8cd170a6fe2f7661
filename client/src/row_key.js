// row_key.js: identifies a row by the values of its key columns.

/** The key as a text. Undefined if a column is missing, and without a row or `columns`. */
export function keyOf(row, columns) {
  const values = columns?.map((column) => row?.[column]) ?? [undefined];
  return values.includes(undefined) ? undefined : values.join('\0'); // text of PostgreSQL contains no NUL
}

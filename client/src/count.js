// count.js: the number of rows that match. Imported with the first count(), see rows.js.

import { knownPart, matcherOf, same } from './conditions.js';
import { ANY } from './steps.js';

/** Returns an object with the interface of a table, see table.js. The rows are unknown, so it adds up the changes. */
export function createCount({ where }) {
  let matches;
  let value;
  let transaction; // transaction of the last change
  let images; // of its changes, as text

  function replace({ count, judge: comparable }) {
    matches = matcherOf(where, comparable);
    value = count;
    startSession();
  }

  function startSession() {
    transaction = undefined;
  }

  /** Applies a change of transaction `x`. Returns false if a newer number must be loaded instead. */
  function apply({ metadata: { operation }, payload }, x) {
    if (transaction !== x) images = new Set();
    transaction = x;
    if (operation === 'truncate') {
      value = 0;
      return true;
    }
    const [before, after] = [payload.before, payload.after].map((row) => row && knownPart(row, payload));
    if (isRepeated(operation, 'before', before) || isRepeated(operation, 'after', after)) return false;
    const isSame = (column) => before?.[column] !== undefined && same(before[column], after?.[column]);
    if (operation === 'update' && Object.keys(where ?? {}).every(isSame)) return true;
    const was = operation !== 'create' && matches(before ?? {});
    const is = operation !== 'delete' && matches(after ?? {});
    if (was === undefined || is === undefined) return false;
    value += is - was;
    return true;
  }

  /**
   * If one group of the user loses a row and another one keeps it, the user receives a `delete` and an `update`; if
   * another one gains it, an `update` and a `create`. These would count twice.
   */
  function isRepeated(operation, name, image) {
    if (!image) return false;
    const text = `${name} ${JSON.stringify(image)}`;
    const others = operation === 'update' ? [`${name === 'before' ? 'delete' : 'create'} ${text}`] : [`update ${text}`];
    images.add(`${operation} ${text}`);
    return others.some((other) => images.has(other));
  }

  return {
    replace,
    startSession,
    apply,
    keysOf: () => [ANY],
    isShort: () => false,
    displayed: () => ({ value }),
    none: { value: 0 },
  };
}

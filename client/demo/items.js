// items.js: one item of an HTML list for each row of a live list.

/**
 * Returns a function that shows rows of `live` as items of `parent`. It draws new and changed rows, and highlights them
 * after the first load. `keyOf(row)` identifies a row. `draw(item, row, before)` fills the item of a row; `before` is
 * the previous row of the item, or undefined.
 */
export function createItems(live, parent, keyOf, draw) {
  const drawn = new Map(); // key -> { item, row }
  let isLoaded = false;

  function removeOthers(rows) {
    const keys = new Set(rows.map(keyOf));
    for (const [key, { item }] of drawn) {
      if (keys.has(key)) continue;
      item.remove();
      drawn.delete(key);
    }
  }

  function show(row) {
    const key = keyOf(row);
    const { item = newItem(key), row: before } = drawn.get(key) ?? {};
    if (before && JSON.stringify(before) === JSON.stringify(row)) return;
    draw(item, row, before);
    drawn.set(key, { item, row });
    if (isLoaded) flash(item);
  }

  function newItem(key) {
    const item = document.createElement('li');
    item.dataset.row = key;
    parent.append(item);
    return item;
  }

  return (rows) => {
    removeOthers(rows);
    [...rows].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)).forEach(show);
    isLoaded = !live.loading;
  };
}

/** Creates an element that contains a text. */
export function text(tag, content, className = '') {
  const element = document.createElement(tag);
  element.textContent = content;
  if (className) element.className = className;
  return element;
}

/** Restarts the highlight, even during the previous one. */
function flash(element) {
  element.classList.remove('flash');
  void element.offsetWidth;
  element.classList.add('flash');
}

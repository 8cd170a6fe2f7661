// stored.js: a string in the browser's storage, if the browser allows it.

/**
 * Returns a function: kept(text) stores a string, kept() returns it. `storage`:
 * 'localStorage' or 'sessionStorage'. If the browser blocks storage, nothing is stored.
 */
export const createStored = (storage, key) => (text) => {
  try {
    const area = globalThis[storage];
    return text ? area.setItem(key, text) : area.getItem(key);
  } catch {}
};

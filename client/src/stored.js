// stored.js: a text in the browser's storage, if the browser allows it.

/**
 * Returns a function: kept(text) stores the text, kept() returns the stored one. `storage`:
 * 'localStorage' or 'sessionStorage'. If the browser blocks storage, nothing is stored.
 */
export const createStored = (storage, key) => (text) => {
  try {
    const area = globalThis[storage];
    return text ? area.setItem(key, text) : area.getItem(key);
  } catch {}
};

// kept.js: a text that outlives the page, where the browser allows it.

/**
 * Returns a function: kept(text) keeps it, kept() gives what was kept, if anything was. `storage`:
 * 'localStorage' or 'sessionStorage'. A browser that forbids it throws; then nothing is kept.
 */
export const createKept = (storage, key) => (text) => {
  try {
    const place = globalThis[storage];
    return text ? place.setItem(key, text) : place.getItem(key);
  } catch {}
};

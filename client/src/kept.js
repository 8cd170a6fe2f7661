// kept.js: a text that outlives the page, where the browser allows it.

/** `storage`: 'localStorage' or 'sessionStorage'. A browser that forbids it throws; then nothing is kept. */
export function createKept(storage, key) {
  function load() {
    try {
      return globalThis[storage].getItem(key);
    } catch {
      return null;
    }
  }

  function save(text) {
    try {
      globalThis[storage].setItem(key, text);
    } catch {
      // see above
    }
  }

  return { load, save };
}

// kept.js: a text that outlives the page, where the browser allows it.

/** `storage`: 'localStorage' or 'sessionStorage'. A browser that forbids it throws; then nothing is kept. */
export class Kept {
  #storage;
  #key;

  constructor(storage, key) {
    this.#storage = storage;
    this.#key = key;
  }

  load() {
    try {
      return globalThis[this.#storage].getItem(this.#key);
    } catch {
      return null;
    }
  }

  save(text) {
    try {
      globalThis[this.#storage].setItem(this.#key, text);
    } catch {
      // see above
    }
  }
}

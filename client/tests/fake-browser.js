// fake-browser.js: as much of a browser as several tabs need, in one process.

/** Web Locks: one holder a name, the next in line after it; a thief may take it. */
class FakeLocks {
  #holders = new Map(); // name -> reject of the holder's request
  #lines = new Map();

  request(name, { signal, steal }, callback) {
    return new Promise((resolve, reject) => {
      const turn = { callback, resolve, reject };
      signal?.addEventListener('abort', () => {
        const line = this.#lines.get(name) ?? [];
        if (!line.includes(turn)) return;
        line.splice(line.indexOf(turn), 1);
        reject(new DOMException('left', 'AbortError'));
      });
      if (steal) {
        this.#holders.get(name)?.reject(new DOMException('stolen', 'AbortError'));
        this.#grant(name, turn);
        return;
      }
      this.#lines.set(name, [...(this.#lines.get(name) ?? []), turn]);
      this.#next(name);
    });
  }

  #next(name) {
    const line = this.#lines.get(name);
    if (!this.#holders.has(name) && line?.length > 0) this.#grant(name, line.shift());
  }

  #grant(name, turn) {
    this.#holders.set(name, turn);
    queueMicrotask(async () => {
      turn.resolve(await turn.callback());
      if (this.#holders.get(name) !== turn) return;
      this.#holders.delete(name);
      this.#next(name);
    });
  }
}

function fakeStorage() {
  const items = new Map();
  return {
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => items.set(key, value),
  };
}

/** Puts a new browser around this process; `browser.tell(event)` tells its pages one. */
export function fakeBrowser() {
  const page = new EventTarget();
  const document = Object.assign(new EventTarget(), { hidden: false });
  const parts = {
    document,
    navigator: { locks: new FakeLocks() },
    localStorage: fakeStorage(),
    addEventListener: page.addEventListener.bind(page),
    removeEventListener: page.removeEventListener.bind(page),
  };
  for (const [name, value] of Object.entries(parts)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  return {
    document,
    tell: (name) => {
      page.dispatchEvent(new Event(name));
      document.dispatchEvent(new Event(name));
    },
  };
}

/** A token of this user's, signed by nobody. */
export function tokenOf(sub) {
  return `e30.${Buffer.from(JSON.stringify({ sub })).toString('base64url')}.x`;
}

/**
 * Timers that a test moves by hand: `kind` is setTimeout or setInterval, the other one stays. What
 * node:test has for this loses timers on Node 18.
 */
export function handTimers(t, kind) {
  const waiting = new Map(); // id -> { at, every, act }
  let now = 0;
  let last = 0;
  t.mock.method(globalThis, kind, (act, ms = 0, ...given) => {
    const every = kind === 'setInterval' ? ms : undefined;
    waiting.set(last += 1, { at: now + ms, every, act: () => act(...given) });
    return last;
  });
  t.mock.method(globalThis, kind.replace('set', 'clear'), (id) => { waiting.delete(id); });

  function fire(id, { every, act }) {
    if (every) waiting.get(id).at += every;
    else waiting.delete(id);
    act();
  }

  /** Lets `ms` pass, and what is due in them happen in its order. */
  return function tick(ms) {
    const end = now + ms;
    for (;;) {
      const [due] = [...waiting].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at);
      if (!due) break;
      now = due[1].at;
      fire(...due);
    }
    now = end;
  };
}

// fake-browser.js: the parts of a browser that several tabs need, in one process.

/** Web Locks: one holder per name and a queue; a request with `steal` takes the lock. */
class FakeLocks {
  #holders = new Map(); // name -> reject of the holder's request
  #lines = new Map();

  request(name, ...options) {
    const callback = options.pop();
    const { signal, steal } = options[0] ?? {};
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

/** Installs a new fake browser in this process; `browser.dispatch(event)` dispatches an event to its pages. */
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
    dispatch: (name) => {
      page.dispatchEvent(new Event(name));
      document.dispatchEvent(new Event(name));
    },
  };
}

/** An unsigned token of this user. */
export function tokenOf(sub) {
  return `e30.${Buffer.from(JSON.stringify({ sub })).toString('base64url')}.x`;
}

/**
 * Fake timers and performance.now(), which the test advances: `kind` is setTimeout or setInterval, the other one is
 * unchanged. The fake timers of node:test lose timers on Node 18.
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
  t.mock.method(performance, 'now', () => now);

  function fire(id, { every, act }) {
    if (every) waiting.get(id).at += every;
    else waiting.delete(id);
    act();
  }

  /** Advances the clock by `ms` and runs the due timers in order. */
  function tick(ms) {
    const end = now + ms;
    for (;;) {
      const [due] = [...waiting].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at);
      if (!due) break;
      now = Math.max(now, due[1].at);
      fire(...due);
    }
    now = end;
  }

  /** Advances the clock while the event loop is blocked: due timers run with the next tick. */
  tick.block = (ms) => { now += ms; };
  return tick;
}

// router.js: finds the handlers a notification is for.

/** Names that are events of the connection and not of a notification. */
export const EVENTS = new Set(['message', 'repeat', 'gap', 'state', 'acked', 'error']);

const KINDS = ['topic', 'source', 'type'];

/** Whether `value` is `wanted`, or begins with it where that ends in a star. */
export function matchesName(wanted, value) {
  return wanted.endsWith('*') ? Boolean(value?.startsWith(wanted.slice(0, -1))) : value === wanted;
}

/** What one name given to on() stands for: a function that says whether a notification matches. */
export function matcher(name) {
  if (typeof name !== 'string' || name === '') {
    throw new TypeError("on(): the name is a topic, a source, a type, '*' or an event");
  }
  if (name === '*') return () => true;
  const kind = KINDS.find((k) => name.startsWith(`${k}:`));
  const wanted = kind ? name.slice(kind.length + 1) : name;
  const kinds = kind ? [kind] : KINDS;
  return (n) => kinds.some((k) => matchesName(wanted, n.metadata[k]));
}

export class Router {
  constructor() {
    this.handlers = []; // { matches, handler }
    this.listeners = new Map(); // event -> Set of functions
  }

  /** Returns the function that takes the handler away again. */
  on(name, handler) {
    if (typeof handler !== 'function') throw new TypeError('on(): the handler is a function');
    if (EVENTS.has(name)) {
      if (!this.listeners.has(name)) this.listeners.set(name, new Set());
      this.listeners.get(name).add(handler);
      return () => this.listeners.get(name).delete(handler);
    }
    const entry = { matches: matcher(name), handler };
    this.handlers.push(entry);
    return () => {
      this.handlers = this.handlers.filter((e) => e !== entry);
    };
  }

  handlersFor(n) {
    return this.handlers.filter((e) => e.matches(n)).map((e) => e.handler);
  }

  /** A listener that throws must not stop the connection: its error goes to the console's log. */
  emit(event, detail) {
    for (const listener of [...(this.listeners.get(event) ?? [])]) {
      try {
        listener(detail);
      } catch (error) {
        console.error(`clairon: a listener of "${event}" failed`, error);
      }
    }
  }

  hears(event) {
    return (this.listeners.get(event)?.size ?? 0) > 0;
  }
}

// router.js: finds the handlers a notification is for.

/** Names that are events of the connection and not of a notification. */
const EVENTS = ['message', 'repeat', 'gap', 'state', 'acked', 'error'];

const KINDS = 'topic source type'.split(' ');

/** Whether `value` is `wanted`, or begins with it where that ends in a star. */
export function matchesName(wanted, value) {
  return wanted.endsWith('*') ? !!value?.startsWith(wanted.slice(0, -1)) : value === wanted;
}

/** What one name given to on() stands for: a function that says whether a notification matches. */
export function matcher(name) {
  const kind = KINDS.find((k) => name.startsWith(`${k}:`));
  const wanted = kind ? name.slice(kind.length + 1) : name;
  const kinds = kind ? [kind] : KINDS;
  return ({ metadata }) => kinds.some((k) => matchesName(wanted, metadata?.[k]));
}

export function createRouter() {
  const entries = new Set(); // { hears, handler }

  /** Returns the function that takes the handler away again. */
  function on(name, handler) {
    if (!name || typeof handler !== 'function') throw new TypeError('on(): a name and a function');
    const hears = EVENTS.includes(name) ? (what) => what === name : matcher(name);
    const entry = { hears, handler };
    entries.add(entry);
    return () => entries.delete(entry);
  }

  /** Of a notification, or of the name of an event. */
  const handlersFor = (what) => [...entries].filter((e) => e.hears(what)).map((e) => e.handler);

  /**
   * Returns how many listen. A listener that throws must not stop the connection: its error
   * goes to the console's log.
   */
  function emit(event, detail) {
    const listeners = handlersFor(event);
    for (const listener of listeners) {
      try {
        listener(detail);
      } catch (error) {
        console.error('clairon:', error);
      }
    }
    return listeners.length;
  }

  return { on, handlersFor, emit };
}

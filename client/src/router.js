// router.js: finds the handlers a notification is for.

/** Names that are events of the connection and not of a notification. */
const EVENTS = ['message', 'repeat', 'gap', 'state', 'acked', 'error'];

const KINDS = ['topic', 'source', 'type'];

/** Whether `value` is `wanted`, or begins with it where that ends in a star. */
export function matchesName(wanted, value) {
  return wanted.endsWith('*') ? Boolean(value?.startsWith(wanted.slice(0, -1))) : value === wanted;
}

/** What one name given to on() stands for: a function that says whether a notification matches. */
export function matcher(name) {
  if (!name) throw new TypeError('on(): the name is missing');
  if (name === '*') return () => true;
  const kind = KINDS.find((k) => name.startsWith(`${k}:`));
  const wanted = kind ? name.slice(kind.length + 1) : name;
  const kinds = kind ? [kind] : KINDS;
  return (n) => kinds.some((k) => matchesName(wanted, n.metadata[k]));
}

export function createRouter() {
  let entries = []; // { event or matches, handler }

  /** Returns the function that takes the handler away again. */
  function on(name, handler) {
    if (typeof handler !== 'function') throw new TypeError('on(): the handler is a function');
    const entry = EVENTS.includes(name) ? { event: name, handler } : { matches: matcher(name), handler };
    entries.push(entry);
    return () => {
      entries = entries.filter((e) => e !== entry);
    };
  }

  const handlersFor = (n) => entries.filter((e) => e.matches?.(n)).map((e) => e.handler);

  /**
   * False when nobody listens. A listener that throws must not stop the connection: its error
   * goes to the console's log.
   */
  function emit(event, detail) {
    const listeners = entries.filter((e) => e.event === event);
    for (const { handler } of listeners) {
      try {
        handler(detail);
      } catch (error) {
        console.error(`clairon: a listener of "${event}" failed`, error);
      }
    }
    return listeners.length > 0;
  }

  return { on, handlersFor, emit };
}

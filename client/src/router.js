// router.js: finds the handlers of a notification or event.

import { demandFor } from './demand.js';

const demand = demandFor('on()');

/** The internal event of each frame. */
export const FRAME = Symbol();

/** Names of events; all other names match notifications. */
const EVENTS = ['message', 'repeat', 'gap', 'state', 'acked', 'error', FRAME];

const KINDS = 'topic source type'.split(' ');

/** True if `value` equals `wanted`, or if `wanted` ends with `*` and `value` starts with the part before it. */
export function matchesName(wanted, value) {
  return wanted.endsWith('*') ? !!value?.startsWith(wanted.slice(0, -1)) : value === wanted;
}

/** Returns the predicate on notifications for a name passed to on(). */
export function matcher(name) {
  const kind = KINDS.find((k) => name.startsWith(`${k}:`));
  const wanted = kind ? name.slice(kind.length + 1) : name;
  const kinds = kind ? [kind] : KINDS;
  return ({ metadata }) => kinds.some((k) => matchesName(wanted, metadata?.[k]));
}

export function createRouter() {
  const entries = new Set(); // { accepts, handler }

  /** Returns a function that removes the handler. */
  function on(name, handler) {
    demand(name && handler?.call, 'needs a name and a function');
    const accepts = EVENTS.includes(name) ? (what) => what === name : matcher(name);
    const entry = { accepts, handler };
    entries.add(entry);
    return () => entries.delete(entry);
  }

  /** `what`: a notification, or the name of an event. */
  const handlersFor = (what) => [...entries].filter((e) => e.accepts(what)).map((e) => e.handler);

  /**
   * Returns the number of listeners. A listener that throws must not stop the connection, so the error is logged to the
   * console.
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

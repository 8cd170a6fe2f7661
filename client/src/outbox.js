// outbox.js: collects acks and nacks and sends them together.

// 500 UUIDs are 20 kB, well under the relay's smallest sensible max_frame_bytes.
const IDS_PER_FRAME = 500;

/**
 * One frame a tick instead of one a message. While there is no connection the ids wait; an ack
 * lost with its socket needs no care here: the relay shows the message again, the page
 * recognises it and acks once more. `send(frame)` returns false when there is no open connection.
 */
export function createOutbox(send) {
  const delays = new Map(); // id -> of its nack, undefined: an ack; the last word counts
  let planned;

  function put(id, delay) {
    delays.set(id, delay);
    planned ??= setTimeout(flush);
  }

  function flush() {
    planned = undefined;
    for (const delay of new Set(delays.values())) {
      const ids = [...delays.keys()].filter((id) => delays.get(id) === delay);
      while (ids.length) {
        const part = ids.splice(0, IDS_PER_FRAME);
        if (!send({ t: delay >= 0 ? 'nack' : 'ack', ids: part, delay })) return;
        for (const id of part) delays.delete(id);
      }
    }
  }

  return {
    sendAck: (id) => put(id),
    // The relay takes whole milliseconds, from 0 on.
    sendNack: (id, delay) => put(id, delay > 0 ? Math.round(delay) : 0),
    flush,
  };
}

// send_queue.js: batches acks and nacks.

// 500 UUIDs take 20 kB, less than any sensible max_frame_bytes of a relay.
const IDS_PER_FRAME = 500;

/**
 * Sends the ids of one task together: one frame per delay and 500 ids. Without a connection the ids are queued. An ack
 * that is lost with its socket is not repeated: the relay retries the notification, and the page drops the duplicate
 * and sends the ack again. `send(frame)` returns false if no connection is open.
 */
export function createSendQueue(send) {
  const delays = new Map(); // id -> delay of its nack, undefined for an ack; the last call wins
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
    // The relay accepts non-negative integers.
    sendNack: (id, delay) => put(id, delay > 0 ? Math.round(delay) : 0),
    flush,
  };
}

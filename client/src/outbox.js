// outbox.js: collects acks and nacks and sends them together.

// 500 UUIDs are 20 kB, well under the relay's smallest sensible max_frame_bytes.
const IDS_PER_FRAME = 500;

/**
 * One frame a tick instead of one a message. While there is no connection the ids wait; an ack
 * lost with its socket needs no care here: the relay shows the message again, the page
 * recognises it and acks once more. `send(frame)` returns false when there is no open connection.
 */
export function createOutbox(send) {
  const verdicts = new Map(); // id -> the frame it belongs in, without ids; the last word counts
  let planned;

  function put(id, verdict) {
    verdicts.set(id, JSON.stringify(verdict));
    planned ??= setTimeout(flush);
  }

  function flush() {
    planned = undefined;
    for (const verdict of new Set(verdicts.values())) {
      const ids = [...verdicts.keys()].filter((id) => verdicts.get(id) === verdict);
      while (ids.length) {
        const part = ids.splice(0, IDS_PER_FRAME);
        if (!send({ ...JSON.parse(verdict), ids: part })) return;
        for (const id of part) verdicts.delete(id);
      }
    }
  }

  return {
    sendAck: (id) => put(id, { t: 'ack' }),
    sendNack: (id, delay) => put(id, { t: 'nack', delay }),
    flush,
  };
}

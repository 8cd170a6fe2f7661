// outbox.js: collects acks and nacks and sends them together.

// 500 UUIDs are 20 kB, well under the relay's smallest sensible max_frame_bytes.
const IDS_PER_FRAME = 500;

/**
 * One frame a tick instead of one a message. While there is no connection the ids wait; an ack
 * lost with its socket needs no care here: the relay shows the message again, the page
 * recognises it and acks once more.
 */
export class Outbox {
  /** `send(frame)` returns false when there is no open connection. */
  constructor(send, defer = (f) => setTimeout(f, 0)) {
    this.send = send;
    this.defer = defer;
    this.verdicts = new Map(); // id -> null (ack) or { delay } (nack); the last word counts
    this.scheduled = false;
  }

  ack(id) {
    this.#put(id, null);
  }

  nack(id, delay) {
    this.#put(id, { delay });
  }

  #put(id, verdict) {
    this.verdicts.set(id, verdict);
    if (this.scheduled) return;
    this.scheduled = true;
    this.defer(() => {
      this.scheduled = false;
      this.flush();
    });
  }

  flush() {
    const groups = new Map(); // one frame holds one kind of verdict, nacks one delay
    for (const [id, verdict] of this.verdicts) {
      const key = verdict ? `nack ${verdict.delay}` : 'ack';
      if (!groups.has(key)) groups.set(key, { verdict, ids: [] });
      groups.get(key).ids.push(id);
    }
    for (const { verdict, ids } of groups.values()) {
      for (let i = 0; i < ids.length; i += IDS_PER_FRAME) {
        const part = ids.slice(i, i + IDS_PER_FRAME);
        if (!this.send(frameOf(verdict, part))) return;
        for (const id of part) this.verdicts.delete(id);
      }
    }
  }
}

function frameOf(verdict, ids) {
  if (!verdict) return { t: 'ack', ids };
  return verdict.delay === undefined
    ? { t: 'nack', ids }
    : { t: 'nack', ids, delay: verdict.delay };
}

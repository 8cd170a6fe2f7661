// fake-relay.js: a WebSocket class; the test is the other end.

import assert from 'node:assert/strict';
import { subjectOf } from '../src/token.js';

/**
 * Pass `relay.WebSocket` to connect(); `await relay.socket()` is the next socket that it opens. `onRows(frame, socket)`
 * responds to the requests of live lists, onBarrier() to barriers.
 */
export function fakeRelay({ onRows, onBarrier } = {}) {
  const opened = [];
  const waiting = [];
  let last;

  class FakeSocket {
    constructor(url, protocol) {
      Object.assign(this, { url, protocol, sent: [], closedWith: undefined });
      last = this;
      const waiter = waiting.shift();
      if (waiter) waiter(this);
      else opened.push(this);
    }

    send(line) {
      const frame = JSON.parse(line);
      this.sent.push(frame);
      if (frame.t === 'rows') onRows?.(frame, this);
      if (frame.t === 'barrier') onBarrier?.(frame, this);
    }

    close(code) {
      this.closedWith = code;
    }

    // Actions of the relay.
    accept(connected = {}) {
      this.onopen?.();
      const user = subjectOf(this.frames('connect').at(-1)?.token) ?? 'u1';
      this.sends({ t: 'connected', r: 1, user, conn: 'c1', pos: '0', resumed: false, ping: 25, ...connected });
    }

    sends(...frames) {
      this.onmessage?.({ data: frames.map((f) => JSON.stringify(f)).join('\n') });
    }

    closes(code = 1006) {
      this.onclose?.({ code, reason: '' });
    }

    frames(t) {
      return this.sent.filter((f) => f.t === t);
    }
  }

  return {
    WebSocket: FakeSocket,
    socket: () => within('a new socket', new Promise((resolve) => {
      if (opened.length > 0) resolve(opened.shift());
      else waiting.push(resolve);
    })),
    /** The socket that was opened last. */
    get last() { return last; },
    get pendingSockets() {
      return opened.length;
    },
  };
}

export function notification(id, { ack = false, source = 'assignments', type = 'REALTIME' } = {}) {
  return {
    metadata: { id, source, topic: `demo.${source}`, type, operation: 'update', priority: 'NORMAL' },
    payload: { before: null, after: {} },
    routing: { audience: { type: 'USER', targets: ['u1'] }, retry: { ack_required: ack, attempts: 0 } },
  };
}

export function msg(pos, n) {
  return { t: 'msg', pos, n };
}

export async function within(what, promise, ms = 60_000) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new assert.AssertionError({ message: `no ${what} in ${ms} ms` })), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Waits until `predicate()` is truthy and returns its value. */
export async function until(what, predicate, ms = 60_000) {
  const deadline = Date.now() + ms;
  for (;;) {
    const value = predicate();
    if (value) return value;
    if (Date.now() > deadline) assert.fail(`${what}: not within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

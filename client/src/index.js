// index.js: connect(), the client that an application holds.

import { Backoff } from './backoff.js';
import { Connection } from './connection.js';
import { Dedupe } from './dedupe.js';
import { Outbox } from './outbox.js';
import { Position } from './position.js';
import { Router } from './router.js';

const OPTIONS = new Set([
  'url', 'token', 'pos', 'window', 'topics', 'ack', 'storage', 'dedupe', 'backoff', 'transports',
  'WebSocket', 'fetch', 'now',
]);
const TRANSPORTS = ['ws', 'sse', 'poll'];

class Client {
  constructor(options) {
    const { token, window, backoff, now = Date.now } = options;
    this.manual = options.ack === 'manual';
    this.router = new Router();
    this.dedupe = new Dedupe(options.dedupe);
    this.position = new Position({ pos: options.pos, ...storageOf(options.storage) });
    this.topics = options.topics ? new Set(options.topics) : null;
    const settings = {
      url: socketUrl(options.url),
      token,
      window,
      backoff: new Backoff(backoff),
      WebSocket: options.WebSocket ?? globalThis.WebSocket,
      fetch: options.fetch ?? globalThis.fetch?.bind(globalThis),
      now,
    };
    settings.transports = (options.transports ?? TRANSPORTS)
      .filter((name) => (name === 'ws' ? settings.WebSocket : settings.fetch));
    if (settings.transports.length === 0) throw new TypeError('connect(): no WebSocket here, pass one in');
    this.connection = new Connection(settings, {
      position: () => this.position.received,
      topics: () => this.topics && [...this.topics],
      onFrame: (frame) => this.#frame(frame),
      onState: (change) => this.router.emit('state', change),
      onError: (error) => this.#error(error),
    });
    this.outbox = new Outbox((frame) => this.connection.send(frame));
  }

  get state() {
    return this.connection.state;
  }

  /** How it is connected, or tried last: 'ws', 'sse' or 'poll'. */
  get transport() {
    return this.connection.transport;
  }

  /** The place to resume from: everything up to it has been handled. */
  get pos() {
    return this.position.settled;
  }

  on(name, handler) {
    return this.router.on(name, handler);
  }

  ack(ids) {
    for (const id of [ids].flat()) {
      this.dedupe.acked(id);
      this.outbox.ack(id);
    }
  }

  nack(ids, { delay } = {}) {
    for (const id of [ids].flat()) {
      this.dedupe.forget(id);
      this.outbox.nack(id, delay);
    }
  }

  /** From now on only these topics, and those subscribed before, are shown. */
  subscribe(topics) {
    const asked = [topics].flat();
    const sawAll = this.topics === null;
    this.topics = new Set([...(this.topics ?? []), ...asked]);
    this.connection.request({ t: 'subscribe', topics: asked });
    if (sawAll) this.connection.request({ t: 'unsubscribe', topics: ['*'] });
  }

  /** After the last one everything is shown again. */
  unsubscribe(topics) {
    const asked = [topics].flat().filter((topic) => this.topics?.delete(topic));
    if (asked.length === 0) return;
    if (this.topics.size === 0) {
      this.topics = null;
      this.connection.request({ t: 'subscribe', topics: ['*'] });
    }
    this.connection.request({ t: 'unsubscribe', topics: asked });
  }

  close() {
    this.outbox.flush();
    this.connection.close();
  }

  #frame(frame) {
    switch (frame.t) {
      case 'msg':
        this.#message(frame);
        break;
      case 'connected':
        // A resumed connection goes on from our own place; only a new start takes the relay's.
        if (!frame.resumed && frame.pos) this.position.restart(frame.pos);
        setTimeout(() => this.outbox.flush(), 0);
        break;
      case 'acked':
        for (const id of frame.ids) this.dedupe.acked(id);
        this.router.emit('acked', { ids: frame.ids });
        break;
      case 'gap':
        if (frame.to) this.position.restart(frame.to);
        this.router.emit('gap', { from: frame.from, to: frame.to, why: frame.why });
        break;
    }
  }

  #message({ pos, n }) {
    const settled = this.position.arrive(pos);
    const { id } = n.metadata;
    if (!this.dedupe.first(id)) {
      if (this.dedupe.isAcked(id)) this.outbox.ack(id); // our ack was lost on its way
      this.router.emit('repeat', n);
      settled();
      return;
    }
    this.router.emit('message', n);
    const results = this.router.handlersFor(n).map((handler) => call(handler, n));
    this.#conclude(n, results).finally(settled);
  }

  /** Everybody who wanted the message has it: ack. One of them failed: show it again later. */
  async #conclude(n, results) {
    const outcomes = await Promise.allSettled(results);
    const failed = outcomes.filter((o) => o.status === 'rejected').map((o) => o.reason);
    for (const error of failed) this.#error(error, n);
    if (!n.routing?.retry?.ack_required || this.manual) return;
    const { id } = n.metadata;
    if (failed.length > 0) {
      this.nack(id, { delay: failed[0]?.retryAfter });
    } else if (results.length > 0) {
      this.ack(id);
    } else {
      this.#error(new Error(`no handler for ${n.metadata.source}: ${id} stays unacknowledged`), n);
    }
  }

  #error(error, notification) {
    if (this.router.hears('error')) this.router.emit('error', { error, notification });
    else console.error('clairon:', error);
  }
}

/** A handler that throws at once counts like one whose promise is rejected. */
function call(handler, n) {
  try {
    return Promise.resolve(handler(n));
  } catch (error) {
    return Promise.reject(error);
  }
}

function socketUrl(url) {
  const resolved = new URL(url ?? '/v1/ws', globalThis.location?.href);
  resolved.protocol = resolved.protocol.replace(/^http/, 'ws');
  if (resolved.pathname === '/') resolved.pathname = '/v1/ws';
  return resolved.href;
}

function storageOf(key) {
  if (key === undefined) return {};
  try {
    return { key, store: globalThis.sessionStorage ?? null };
  } catch {
    return {}; // touching it throws where the browser forbids storage
  }
}

function check(options) {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.has(name)) {
      throw new TypeError(`connect(): unknown option "${name}"; there are ${[...OPTIONS].join(', ')}`);
    }
  }
  if (typeof options.token !== 'string' && typeof options.token !== 'function') {
    throw new TypeError('connect(): token is a string, or a function that returns one');
  }
  for (const name of options.transports ?? []) {
    if (!TRANSPORTS.includes(name)) throw new TypeError("connect(): transports are 'ws', 'sse', 'poll'");
  }
  if (!['auto', 'manual', undefined].includes(options.ack)) {
    throw new TypeError("connect(): ack is 'auto' or 'manual'");
  }
}

/** Opens a connection that keeps itself alive until close(); see index.d.ts for the options. */
export function connect(options) {
  check(options);
  const client = new Client(options);
  // The caller registers its handlers before the first event can come.
  queueMicrotask(() => {
    if (client.state === 'idle') client.connection.open();
  });
  return client;
}

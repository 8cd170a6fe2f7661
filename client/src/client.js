// client.js: what an application holds: its handlers, what they have seen, and one connection.

import { Connection } from './connection.js';
import { Dedupe } from './dedupe.js';
import { Kept } from './kept.js';
import { LiveRows } from './live.js';
import { settingsOf } from './options.js';
import { Outbox } from './outbox.js';
import { Position } from './position.js';
import { Router, matchesName } from './router.js';
import { Tabs, canShare } from './tabs.js';
import { subjectOf } from './token.js';
import { onWake } from './wake.js';

export class Client {
  #settings;
  #isManual;
  #mayShare;
  #router = new Router();
  #dedupe;
  #position;
  #topics;
  #link; // a Connection, or Tabs
  #outbox;
  #stopListening;
  #retry;

  constructor(options) {
    this.#settings = settingsOf(options);
    this.#isManual = options.ack === 'manual';
    this.#mayShare = options.tabs ?? true;
    this.#dedupe = new Dedupe(options.dedupe);
    this.#position = new Position(options.pos, options.storage && new Kept('sessionStorage', options.storage));
    this.#topics = options.topics ? new Set(options.topics) : null;
    this.#link = new Connection(this.#settings, this.#owner());
    this.#outbox = new Outbox((frame) => this.#link.send(frame));
    this.#stopListening = onWake((isChanged) => this.#link.wake(isChanged));
  }

  get state() {
    return this.#link.state;
  }

  /** How it is connected, or tried last: 'ws', 'sse' or 'poll'. */
  get transport() {
    return this.#link.transport;
  }

  /** The place to resume from: everything up to it has been handled. */
  get pos() {
    return this.#position.settled;
  }

  on(name, handler) {
    return this.#router.on(name, handler);
  }

  /** An array of rows that follows the table; see index.d.ts. */
  live(source, options) {
    return new LiveRows(this, source, options, (error) => this.#error(error));
  }

  ack(ids) {
    const all = [ids].flat();
    this.#dedupe.acked(all);
    for (const id of all) this.#outbox.ack(id);
  }

  nack(ids, { delay } = {}) {
    for (const id of [ids].flat()) {
      this.#dedupe.forget(id);
      this.#outbox.nack(id, delay);
    }
  }

  /** From now on only these topics, and those subscribed before, are shown. */
  subscribe(topics) {
    this.#topics = new Set([...(this.#topics ?? []), ...[topics].flat()]);
    this.#link.retopic();
  }

  /** After the last one everything is shown again. */
  unsubscribe(topics) {
    for (const topic of [topics].flat()) this.#topics?.delete(topic);
    if (this.#topics?.size === 0) this.#topics = null;
    this.#link.retopic();
  }

  close() {
    clearTimeout(this.#retry);
    this.#stopListening();
    this.#outbox.flush();
    this.#link.close();
  }

  /** In a browser the token says whose tabs these are; elsewhere nothing is shared or kept. */
  async open() {
    if (!globalThis.document) {
      this.#link.open();
      return;
    }
    let token;
    try {
      token = await bring(this.#settings.token);
    } catch (cause) {
      this.#error(new Error('could not get a token', { cause }));
      this.#retry = setTimeout(() => this.open(), this.#settings.backoff.next());
      return;
    }
    if (this.state === 'closed') return;
    const user = subjectOf(token);
    const name = `clairon ${this.#settings.url} ${user}`;
    if (user) this.#dedupe.keep(new Kept('localStorage', name));
    if (user && this.#mayShare && canShare()) this.#link = new Tabs(name, this.#settings, this.#owner());
    this.#link.open(token);
  }

  #owner() {
    return {
      position: () => this.#position.received,
      topics: () => this.#topics && [...this.#topics],
      isAcked: (id) => this.#dedupe.isAcked(id),
      onFrame: (frame) => this.#frame(frame),
      onState: (change) => this.#stateChanged(change),
      onError: (error) => this.#error(error),
    };
  }

  #stateChanged(change) {
    if (change.state === 'open') setTimeout(() => this.#outbox.flush(), 0);
    this.#router.emit('state', change);
  }

  #frame({ t, ...frame }) {
    switch (t) {
      case 'msg':
        this.#message(frame);
        break;
      case 'connected':
        // A resumed connection goes on from our own place; only a new start takes the relay's.
        if (!frame.resumed && frame.pos) this.#position.restart(frame.pos);
        break;
      case 'acked':
        this.#dedupe.acked(frame.ids);
        this.#router.emit('acked', { ids: frame.ids });
        break;
      case 'gap':
        if (frame.to) this.#position.restart(frame.to);
        this.#router.emit('gap', { from: frame.from, to: frame.to, why: frame.why });
        break;
    }
  }

  #message({ pos, n }) {
    const settled = this.#position.arrive(pos);
    if (!this.#wants(n)) {
      settled();
      return;
    }
    const { id } = n.metadata;
    if (!this.#dedupe.first(id)) {
      if (this.#dedupe.isAcked(id)) this.#outbox.ack(id); // our ack was lost on its way
      this.#router.emit('repeat', n);
      settled();
      return;
    }
    this.#router.emit('message', n);
    const results = this.#router.handlersFor(n).map((handler) => call(handler, n));
    this.#conclude(n, results).finally(settled);
  }

  /** Other tabs may have asked for more. */
  #wants({ metadata }) {
    return !this.#topics || [...this.#topics].some((topic) => matchesName(topic, metadata.topic));
  }

  /** Everybody who wanted the message has it: ack. One of them failed: show it again later. */
  async #conclude(n, results) {
    const outcomes = await Promise.allSettled(results);
    const failed = outcomes.filter((o) => o.status === 'rejected').map((o) => o.reason);
    for (const error of failed) this.#error(error, n);
    if (!n.routing?.retry?.ack_required || this.#isManual) return;
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
    if (this.#router.hears('error')) this.#router.emit('error', { error, notification });
    else console.error('clairon:', error);
  }
}

async function bring(token) {
  return typeof token === 'function' ? token() : token;
}

/** A handler that throws at once counts like one whose promise is rejected. */
async function call(handler, n) {
  return handler(n);
}

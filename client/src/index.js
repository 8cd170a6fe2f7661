// index.js: connect(): the handlers of an application, duplicate detection, and one connection.

import { NO_REPLY } from './closing.js';
import { settingsOf, topicsOf } from './options.js';
import { createConnection } from './connection.js';
import { createDedupe } from './dedupe.js';
import { NOT_APPLIED } from './errors.js';
import { createLiveRows } from './live.js';
import { createCursor, createStored } from './cursor.js';
import { FRAME, createRouter, matchesName } from './router.js';
import { createTabs } from './tabs.js';
import { createSendQueue } from './send_queue.js';
import { subjectOf } from './token.js';
import { onWake } from './wake.js';

/** Opens a connection that reconnects until close(); see index.d.ts for the options. */
export function connect(options) {
  const settings = settingsOf(options);
  const router = createRouter();
  const dedupe = createDedupe(options.dedupe); // notifications that need an ack, which may be retried days later
  const others = createDedupe(options.dedupe);
  const unhandled = new Set(); // reported sources
  const cursor = createCursor(
    options.pos,
    options.storage && createStored('sessionStorage', options.storage),
  );
  const life = new AbortController();
  let { topics } = settings; // undefined: all topics
  let change = { state: 'idle' }; // last reported state
  let user; // undefined until a token or the relay contains it
  let name; // common to the tabs of the user
  let failures = 0; // consecutive failed attempts before the first connection
  let ahead = 0; // clock offset of the relay in milliseconds

  const owner = {
    cursor: cursor.received,
    wanted: () => topics,
    isAcked: dedupe.isAcked,
    isUser: (one) => one === undefined || (user ??= one) === one,
    onToken,
    onFrame,
    onState,
    onError,
  };
  const own = createConnection(settings, owner);
  let link = own; // or the shared connection of the tabs, with the same interface
  const transmit = (frame) => link.transmit(frame);
  const sendQueue = createSendQueue(transmit);
  onWake(life, (isChanged) => link.wake(isChanged), sendQueue.flush);

  /** In a browser, tabs of the token's subject share a connection. Otherwise nothing is shared or stored. */
  function onToken(token) {
    const subject = subjectOf(token);
    if (name || !globalThis.document || !subject) return;
    name = `clairon ${settings.url} ${subject}`;
    dedupe.keep(createStored('localStorage', name));
    if (options.tabs === false || !navigator.locks) return; // browsers with locks have BroadcastChannel
    const tabs = createTabs(name, settings, owner, () => {
      link = own;
      own.open();
    });
    try {
      tabs.open(token);
      own.suspend();
      link = tabs;
    } catch {} // a browser that blocks storage may block channels
  }

  function close() {
    life.abort();
    sendQueue.flush();
    link.close();
  }

  function ack(ids) {
    const all = [ids].flat();
    dedupe.markAcked(all);
    all.forEach(sendQueue.sendAck);
  }

  function nack(ids, { delay } = {}) {
    [ids].flat().forEach((id) => {
      dedupe.forget(id);
      sendQueue.sendNack(id, delay);
    });
  }

  /** Restricts delivery to these topics and all topics subscribed before. */
  function subscribe(names) {
    topics = topicsOf([topics ?? [], names]);
    link.retopic();
    onFrame({ t: 'topics' }); // lists have missed changes of the new topics
  }

  /** After the last topic is removed, all notifications are delivered again. */
  function unsubscribe(names) {
    const left = topics?.filter((topic) => ![names].flat().includes(topic));
    topics = left?.[0] && left;
    link.retopic();
  }

  function onState(next) {
    change = next;
    if (change.state === 'open') {
      failures = NaN; // URL and origin are valid, so no warning is necessary
      sendQueue.flush();
    }
    // Without a close code, the cause is a missing token, which is reported as an error.
    if (change.state === 'waiting' && change.code && (failures += change.code === NO_REPLY ? 3 : 1) > 2) {
      failures = NaN;
      import('./streams.js').then(({ warn }) => warn(settings.url, next.reason), () => {}); // offline: no warning
    }
    router.emit('state', change);
  }

  function onFrame(frame) {
    const { t, ...detail } = frame;
    if (t === 'msg') onMessage(frame);
    // A resumed connection continues from this client's cursor, other connections from the relay's cursor. The `pos`
    // of an `end` is behind all notifications of its transaction.
    const start = t === 'gap' ? frame.to : (t === 'end' || (t === 'connected' && !frame.resumed)) && frame.pos;
    if (start) cursor.restart(start);
    if (frame.now) ahead = frame.now - settings.now();
    if (t === 'acked') dedupe.markAcked(frame.ids);
    if (t === 'acked' || t === 'gap') router.emit(t, detail);
    router.emit(FRAME, frame);
  }

  function onMessage(frame) {
    const { pos, n } = frame;
    // An incomplete notification throws here, before any state has changed.
    const { metadata: { id, topic }, routing: { retry: { ack_required: needsAck } } } = n;
    const done = cursor.arrive(pos);
    // The connection is shared: another tab may have subscribed to this topic.
    if (topics && !topics.some((wanted) => matchesName(wanted, topic))) {
      done();
      return;
    }
    const before = (needsAck ? dedupe : others).remember(id);
    router.emit(before === undefined ? 'message' : 'repeat', n);
    if (before == null) {
      handle(frame, needsAck).finally(done);
    } else {
      if (before) sendQueue.sendAck(id); // the ack was lost
      done();
    }
  }

  /** Acks when all handlers have resolved; nacks when a handler has failed. A list never fails, see live.js. */
  async function handle(frame, needsAck) {
    const { n } = frame;
    const handlers = router.handlersFor(n);
    const failed = [];
    const results = await Promise.all(handlers.map(async (handler) => {
      try {
        return await handler(n, frame);
      } catch (error) {
        failed.push(error);
        onError(error, n);
      }
    }));
    if (!needsAck || options.ack === 'manual') return;
    const { id, source } = n.metadata;
    if (failed.length) nack(id, { delay: failed[0]?.retryAfter });
    else if (results.some((result) => result !== NOT_APPLIED)) ack(id);
    else { // it may be handled when the retry arrives
      dedupe.markUnhandled(id);
      if (!unhandled.has(source)) onError(new Error(`${source}: not handled`), n);
      unhandled.add(source);
    }
  }

  function onError(error, notification) {
    if (!router.emit('error', { error, notification })) console.error('clairon:', error);
  }

  const client = {
    get state() { return change.state; },
    get transport() { return change.transport; },
    get pos() { return cursor.handled() ?? null; },
    on: router.on,
    live: (source, how) => createLiveRows(access, source, how),
    count: (source, how) => createLiveRows(access, source, how, { value: 0 }),
    seen: async (xid, how) => (await import('./rows.js')).seen(access, xid, how),
    ack,
    nack,
    subscribe,
    unsubscribe,
    close,
    settings, // for webpush.js
  };
  const access = {
    client,
    transmit,
    listen: (listener) => router.on(FRAME, listener),
    clock: () => settings.now() + ahead,
    report: onError,
    lists: new Set(),
    lastChange: () => change,
  };
  // The connection opens after the caller has registered handlers.
  queueMicrotask(() => {
    if (change.state === 'idle') link.open();
  });
  return client;
}

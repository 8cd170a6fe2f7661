// index.js: connect(): an application's handlers, what they have seen, and one connection for them.

import { createConnection } from './connection.js';
import { createDedupe } from './dedupe.js';
import { createKept } from './kept.js';
import { createLiveRows } from './live.js';
import { settingsOf } from './options.js';
import { createOutbox } from './outbox.js';
import { createPosition } from './position.js';
import { createRouter, matchesName } from './router.js';
import { createTabs } from './tabs.js';
import { subjectOf } from './token.js';
import { onWake } from './wake.js';

/** Opens a connection that keeps itself alive until close(); see index.d.ts for the options. */
export function connect(options) {
  const settings = settingsOf(options);
  const router = createRouter();
  const dedupe = createDedupe(options.dedupe); // of what must be acked: it may wait for days
  const others = createDedupe(options.dedupe);
  const position = createPosition(
    options.pos,
    options.storage && createKept('sessionStorage', options.storage),
  );
  const life = new AbortController();
  let { topics } = settings; // undefined: all
  let change = { state: 'idle' }; // the last that was told
  let user; // whose client this is, once a token or the relay names it
  let name; // of the user's tabs
  let failures = 0; // attempts that failed in a row, before the first that did not
  let ahead = 0; // milliseconds that the relay's clock is ahead of ours

  const owner = {
    position: position.received,
    wanted: () => topics,
    isAcked: dedupe.isAcked,
    isUser: (one) => one === undefined || (user ??= one) === one,
    onToken,
    onFrame,
    onState,
    onError,
  };
  const own = createConnection(settings, owner);
  let link = own; // or tabs, which are used alike
  const outbox = createOutbox((frame) => link.transmit(frame));
  onWake(life, (isChanged) => link.wake(isChanged), outbox.flush);

  /** In a browser the token says whose tabs these are; elsewhere nothing is shared or kept. */
  function onToken(token) {
    const subject = subjectOf(token);
    if (name || !globalThis.document || !subject) return;
    name = `clairon ${settings.url} ${subject}`;
    dedupe.keep(createKept('localStorage', name));
    if (options.tabs === false || !navigator.locks) return; // who has these has BroadcastChannel
    const tabs = createTabs(name, settings, owner);
    try {
      tabs.open(token);
      own.suspend();
      link = tabs;
    } catch {} // a browser that forbids storage may forbid channels
  }

  function close() {
    life.abort();
    outbox.flush();
    link.close();
  }

  function ack(ids) {
    const all = [ids].flat();
    dedupe.markAcked(all);
    all.forEach(outbox.sendAck);
  }

  function nack(ids, { delay } = {}) {
    [ids].flat().forEach((id) => {
      dedupe.forget(id);
      outbox.sendNack(id, delay);
    });
  }

  /** From now on only these topics, and those subscribed before, are shown. */
  function subscribe(names) {
    topics = [...new Set([topics ?? [], names].flat())];
    link.retopic();
  }

  /** After the last one everything is shown again. */
  function unsubscribe(names) {
    const left = topics?.filter((topic) => ![names].flat().includes(topic));
    topics = left?.[0] && left;
    link.retopic();
  }

  function onState(next) {
    change = next;
    if (change.state === 'open') {
      failures = NaN; // never 3 again: this address and origin work
      outbox.flush();
    }
    // The close code says why; without one there was no token, which is an error of its own.
    if (change.state === 'waiting' && change.code && (failures += 1) === 3) warn();
    router.emit('state', change);
  }

  /** A browser hides from a page why it is refused. */
  function warn() {
    const { origin } = globalThis.location ?? {};
    console.warn(`clairon: cannot connect to ${settings.url}: ${change.reason}. Is it the address of a relay`
      + `${origin ? `, and does gate.origins of the relay list ${origin}` : ''}?`);
  }

  function onFrame({ t, ...frame }) {
    if (t === 'msg') onMessage(frame);
    // A resumed connection goes on from our own place; only a new start takes the relay's.
    const start = t === 'gap' ? frame.to : t === 'connected' && !frame.resumed && frame.pos;
    if (start) position.restart(start);
    if (frame.now) ahead = frame.now - settings.now();
    if (t === 'acked') dedupe.markAcked(frame.ids);
    if (t === 'acked' || t === 'gap') router.emit(t, frame);
  }

  function onMessage({ pos, n }) {
    // One that lacks a part of these throws before anything is changed.
    const { metadata: { id, topic }, routing: { retry: { ack_required: isOwed } } } = n;
    const settled = position.arrive(pos);
    // Other tabs may have asked for more than this one.
    if (topics && !topics.some((wanted) => matchesName(wanted, topic))) {
      settled();
      return;
    }
    const before = (isOwed ? dedupe : others).seen(id);
    router.emit(before === undefined ? 'message' : 'repeat', n);
    if (before == null) {
      handle(n, isOwed).finally(settled);
    } else {
      if (before) outbox.sendAck(id); // our ack was lost on its way
      settled();
    }
  }

  /** Everybody who wanted the message has it: ack. One of them failed: show it again later. */
  async function handle(n, isOwed) {
    const handlers = router.handlersFor(n);
    const failed = [];
    await Promise.all(handlers.map(async (handler) => {
      try {
        await handler(n);
      } catch (error) {
        failed.push(error);
        onError(error, n);
      }
    }));
    if (!isOwed || options.ack === 'manual') return;
    const { id, source } = n.metadata;
    if (failed.length) nack(id, { delay: failed[0]?.retryAfter });
    else if (handlers.length) ack(id);
    else { // there may be one when it comes again
      dedupe.markUnheard(id);
      onError(new Error(`no handler for ${source}`), n);
    }
  }

  function onError(error, notification) {
    if (!router.emit('error', { error, notification })) console.error('clairon:', error);
  }

  const client = {
    get state() { return change.state; },
    get transport() { return change.transport; },
    get pos() { return position.settled() ?? null; },
    on: router.on,
    live: (source, how) => createLiveRows(client, source, how, () => settings.now() + ahead, onError),
    ack,
    nack,
    subscribe,
    unsubscribe,
    close,
  };
  // The caller registers its handlers before the first event can come.
  queueMicrotask(() => {
    if (change.state === 'idle') link.open();
  });
  return client;
}

// client.js: what an application holds: its handlers, what they have seen, and one connection.

import { NO_TOKEN, createConnection } from './connection.js';
import { createDedupe } from './dedupe.js';
import { createKept } from './kept.js';
import { createLiveRows } from './live.js';
import { settingsOf } from './options.js';
import { createOutbox } from './outbox.js';
import { createPosition } from './position.js';
import { createRouter, matchesName } from './router.js';
import { subjectOf } from './token.js';
import { onWake } from './wake.js';

/** Only where they can share. What cannot be loaded leaves each tab to itself. */
async function loadTabs() {
  if (!globalThis.navigator?.locks || !globalThis.BroadcastChannel) return null;
  return import('./tabs.js').catch(() => null);
}

export function createClient(options) {
  const settings = settingsOf(options);
  const router = createRouter();
  const dedupe = createDedupe(options.dedupe);
  const position = createPosition(
    options.pos,
    options.storage && createKept('sessionStorage', options.storage),
  );
  let topics = options.topics ?? null; // null: all
  let retryTimer;

  const connect = (whose) => createConnection(settings, whose);
  const owner = {
    position: position.received,
    topics: () => topics,
    isAcked: dedupe.isAcked,
    onFrame,
    onState,
    onError,
  };
  let link = connect(owner); // or tabs, which are used alike
  const outbox = createOutbox((frame) => link.send(frame));
  const stopListening = onWake((isChanged) => {
    if (retryTimer) open();
    else link.wake(isChanged);
  });

  /** In a browser the token says whose tabs these are; elsewhere nothing is shared or kept. */
  async function open() {
    if (!globalThis.document) {
      link.open();
      return;
    }
    clearTimeout(retryTimer);
    retryTimer = undefined;
    const loading = options.tabs !== false && loadTabs();
    let token;
    try {
      token = await (typeof options.token === 'function' ? options.token() : options.token);
    } catch (cause) {
      onError(new Error(NO_TOKEN, { cause }));
      const retryIn = settings.backoff.next();
      retryTimer = setTimeout(open, retryIn);
      router.emit('state', { state: 'waiting', reason: NO_TOKEN, retryIn });
      return;
    }
    const tabs = await loading;
    if (link.state() === 'closed') return;
    const user = subjectOf(token);
    if (user !== undefined) {
      const name = `clairon ${settings.url} ${user}`;
      dedupe.keep(createKept('localStorage', name));
      if (tabs) link = tabs.createTabs(name, connect, owner);
    }
    link.open(token);
  }

  function close() {
    clearTimeout(retryTimer);
    retryTimer = undefined;
    stopListening();
    outbox.flush();
    link.close();
  }

  function ack(ids) {
    const all = [ids].flat();
    dedupe.acked(all);
    all.forEach(outbox.ack);
  }

  function nack(ids, { delay } = {}) {
    for (const id of [ids].flat()) {
      dedupe.forget(id);
      outbox.nack(id, delay);
    }
  }

  /** From now on only these topics, and those subscribed before, are shown. */
  function subscribe(names) {
    topics = [...new Set([topics ?? [], names].flat())];
    link.retopic();
  }

  /** After the last one everything is shown again. */
  function unsubscribe(names) {
    const left = topics?.filter((topic) => ![names].flat().includes(topic));
    topics = left?.length ? left : null;
    link.retopic();
  }

  function onState(change) {
    if (change.state === 'open') setTimeout(outbox.flush, 0);
    router.emit('state', change);
  }

  function onFrame({ t, ...frame }) {
    switch (t) {
      case 'msg':
        onMessage(frame);
        break;
      case 'connected':
        // A resumed connection goes on from our own place; only a new start takes the relay's.
        if (!frame.resumed && frame.pos) position.restart(frame.pos);
        break;
      case 'acked':
        dedupe.acked(frame.ids);
        router.emit(t, frame);
        break;
      case 'gap':
        if (frame.to) position.restart(frame.to);
        router.emit(t, frame);
        break;
    }
  }

  function onMessage({ pos, n }) {
    const settled = position.arrive(pos);
    const { id, topic } = n.metadata;
    // Other tabs may have asked for more than this one.
    const isWanted = !topics || topics.some((name) => matchesName(name, topic));
    if (isWanted && dedupe.first(id)) {
      router.emit('message', n);
      handle(n).finally(settled);
      return;
    }
    if (isWanted) {
      if (dedupe.isAcked(id)) outbox.ack(id); // our ack was lost on its way
      router.emit('repeat', n);
    }
    settled();
  }

  /** Everybody who wanted the message has it: ack. One of them failed: show it again later. */
  async function handle(n) {
    // A handler that throws at once counts like one whose promise is rejected.
    const results = router.handlersFor(n).map(async (handler) => handler(n));
    const outcomes = await Promise.allSettled(results);
    const failed = outcomes.filter(({ status }) => status === 'rejected').map(({ reason }) => reason);
    for (const error of failed) onError(error, n);
    if (!n.routing?.retry?.ack_required || options.ack === 'manual') return;
    const { id, source } = n.metadata;
    if (failed.length > 0) nack(id, { delay: failed[0]?.retryAfter });
    else if (results.length > 0) ack(id);
    else onError(new Error(`no handler for ${source}: ${id} stays unacknowledged`), n);
  }

  function onError(error, notification) {
    if (!router.emit('error', { error, notification })) console.error('clairon:', error);
  }

  const client = {
    get state() { return retryTimer ? 'waiting' : link.state(); },
    get transport() { return link.transport(); },
    get pos() { return position.settled(); },
    on: router.on,
    live: (source, how) => createLiveRows(client, source, how, onError),
    ack,
    nack,
    subscribe,
    unsubscribe,
    close,
  };
  return { client, open };
}

// tabs.test.js: several tabs of one user share a connection without loss or duplicates.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { fakeBrowser, handTimers, tokenOf } from './fake-browser.js';
import { fakeRelay, msg, notification, until } from './fake-relay.js';

let users = 0;

/** The tabs of one user in a separate fake browser; open() opens one. */
function start(t) {
  const browser = fakeBrowser();
  const relay = fakeRelay();
  users += 1;
  const token = tokenOf(`user ${users}`); // BroadcastChannels are shared by the process
  const open = (options = {}) => {
    const client = connect({ url: 'ws://relay.test', token, WebSocket: relay.WebSocket, backoff: { base: 2, cap: 2 }, ...options });
    const tab = { client, seen: [], acked: [], gaps: [], states: [], errors: [], repeats: [] };
    client.on('message', (n) => tab.seen.push(n.metadata.id));
    client.on('repeat', (n) => tab.repeats.push(n.metadata.id));
    client.on('acked', ({ ids }) => tab.acked.push(...ids));
    client.on('gap', (gap) => tab.gaps.push(gap));
    client.on('state', (change) => tab.states.push(change));
    client.on('error', ({ error }) => tab.errors.push(error.message));
    t.after(() => client.close());
    return tab;
  };
  return { browser, relay, open };
}

const isOpen = (tab) => until('a tab is open', () => tab.client.state === 'open');

async function twoTabs(t, options) {
  const world = start(t);
  const first = world.open(options);
  const socket = await world.relay.socket();
  socket.accept({ pos: '0' });
  const second = world.open(options);
  await isOpen(second);
  return { ...world, first, second, socket };
}

test('two tabs have one connection, and both receive each notification', async (t) => {
  const { relay, first, second, socket } = await twoTabs(t);
  socket.sends(msg('1', notification('a')), msg('2', notification('b')));
  await until('the second tab has both notifications', () => second.seen.length === 2);
  assert.deepEqual(first.seen, ['a', 'b']);
  assert.deepEqual(second.seen, ['a', 'b']);
  assert.equal(second.client.pos, '2');
  assert.equal(second.client.transport, 'ws');
  assert.equal(relay.pendingSockets, 0);
  assert.equal(second.states.at(-1).user, `user ${users}`);
});

test('close() in a listener of `closed` does not repeat the event', async (t) => {
  const { relay, open } = start(t);
  const tab = open();
  (await relay.socket()).accept({ pos: '0' });
  await isOpen(tab);
  tab.client.on('state', ({ state }) => state === 'closed' && tab.client.close());
  tab.client.close();
  tab.client.close();
  assert.equal(tab.states.filter(({ state }) => state === 'closed').length, 1);
});

test('several tabs make one connection attempt when the network returns', async (t) => {
  const { browser, relay, socket, second } = await twoTabs(t, { backoff: { base: 1e6, cap: 1e6, random: () => 1 } });
  socket.closes();
  await until('both wait', () => second.client.state === 'waiting');
  const messages = [];
  const channel = new BroadcastChannel(`clairon ws://relay.test/v1/ws user ${users}`);
  t.after(() => channel.close());
  channel.onmessage = ({ data }) => messages.push(data.t);
  browser.dispatch('online');
  const next = await relay.socket();
  await until('the other tab has also sent wake', () => messages.includes('wake'));
  channel.postMessage({ t: 'ping' });
  await until('the leader has processed all earlier messages', () => messages.includes('pong'));
  assert.equal(next.closedWith, undefined);
  next.accept();
  await isOpen(second);
});

test('without the option, or for another user, a tab has a separate connection', async (t) => {
  const { relay, open } = await twoTabs(t);
  open({ tabs: false });
  await relay.socket();
  open({ token: tokenOf(`other ${users}`) });
  await relay.socket();
  open({ token: 'not a JWT' });
  await relay.socket();
});

test('a notification that both tabs handle is acked once, and each tab receives an event', async (t) => {
  const { first, second, socket } = await twoTabs(t);
  for (const tab of [first, second]) tab.client.on('*', () => {});
  socket.sends(msg('1', notification('a', { ack: true })), msg('2', notification('b', { ack: true })));
  await until('the other tab receives the event', () => second.acked.length >= 2);
  socket.sends(msg('3', notification('c')));
  await until('all messages have been processed', () => second.seen.length === 3);
  assert.deepEqual(socket.frames('ack').flatMap((f) => f.ids), ['a', 'b']);
});

test('an ack of a tab that has no connection reaches the relay, and the other tab', async (t) => {
  const { first, second, socket } = await twoTabs(t, { ack: 'manual' });
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('the message', () => second.seen.length === 1);
  second.client.ack('a');
  await until('the ack', () => socket.frames('ack').length === 1);
  assert.deepEqual(first.acked, ['a']);
  assert.deepEqual(second.acked, []);
});

test('after a nack of one tab only that tab receives the retry', async (t) => {
  const { first, second, socket } = await twoTabs(t);
  let calls = 0;
  second.client.on('*', () => {
    calls += 1;
    if (calls === 1) throw new Error('not now');
  });
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('the nack', () => socket.frames('nack').length === 1);
  socket.sends(msg('2', notification('a', { ack: true })));
  await until('the ack', () => socket.frames('ack').length === 1);
  assert.deepEqual(first.seen, ['a']);
  assert.deepEqual(second.seen, ['a', 'a']);
  assert.deepEqual(first.repeats, ['a']);
});

test('when the leader closes, the next tab resumes from its cursor', async (t) => {
  const { relay, first, second, socket } = await twoTabs(t);
  socket.sends(msg('1', notification('a')));
  await until('the message', () => second.seen.length === 1);
  first.client.close();
  assert.equal(first.client.state, 'closed');
  assert.equal(socket.closedWith, 1000);
  const next = await relay.socket();
  next.accept({ resumed: true, pos: '9' });
  assert.equal(next.sent[0].pos, '1');
  next.sends(msg('1', notification('a')), msg('2', notification('b')));
  assert.deepEqual(second.seen, ['a', 'b']);
  assert.deepEqual(second.states.at(-1), { state: 'open', transport: 'ws', user: `user ${users}`, conn: 'c1', resumed: true, features: undefined });
});

test('a third tab loses no notification when the leader changes', async (t) => {
  const { relay, open, first, second, socket } = await twoTabs(t);
  const third = open();
  await isOpen(third);
  socket.sends(msg('1', notification('a')));
  await until('the message', () => third.seen.length === 1);
  first.client.close();
  const next = await relay.socket();
  next.accept({ resumed: true });
  next.sends(msg('2', notification('b')));
  await until('the third tab has the notification', () => third.seen.length === 2);
  assert.deepEqual([second, third].map((tab) => tab.seen), [['a', 'b'], ['a', 'b']]);
  assert.deepEqual([second, third].flatMap((tab) => tab.gaps), []);
});

for (const [leaving, coming] of [['freeze', 'resume'], ['pagehide', 'pageshow']]) {
  test(`a page that receives ${leaving} stops leading, and follows after ${coming}`, async (t) => {
    const { browser, relay, first, second, socket } = await twoTabs(t);
    socket.sends(msg('1', notification('a')));
    await until('the message', () => second.seen.length === 1);
    browser.dispatch(leaving); // both pages, because they share the fake document
    assert.equal(socket.closedWith, 1000);
    browser.dispatch(coming);
    const next = await relay.socket();
    next.accept({ resumed: true });
    next.sends(msg('2', notification('b')));
    await until('both tabs have the notification', () => first.seen.length === 2 && second.seen.length === 2);
    assert.equal(relay.pendingSockets, 0);
  });
}

test('an ack made while the page is suspended is sent when it resumes', async (t) => {
  const { browser, relay, open } = start(t);
  const { client } = open({ ack: 'manual' });
  (await relay.socket()).accept();
  browser.dispatch('freeze');
  client.ack('a');
  await new Promise((resolve) => { setTimeout(resolve); }); // acks are sent in a later tick
  browser.dispatch('resume');
  const next = await relay.socket();
  next.accept({ resumed: true });
  await until('the ack', () => next.frames('ack').length === 1);
});

test('acks are sent before the user leaves the page of the leader', async (t) => {
  const { browser, relay, open } = start(t);
  const { client } = open({ ack: 'manual' });
  const socket = await relay.socket();
  socket.accept();
  client.ack('a');
  browser.dispatch('pagehide');
  assert.deepEqual(socket.frames('ack'), [{ t: 'ack', ids: ['a'] }]);
});

for (const end of ['close()', 'an invalid token']) {
  test(`after ${end} a resumed page stays closed`, async (t) => {
    const { browser, relay, open } = start(t);
    const tab = open();
    const socket = await relay.socket();
    socket.accept();
    if (end === 'close()') tab.client.close();
    else socket.closes(4001);
    assert.equal(tab.client.state, 'closed');
    const events = tab.states.length;
    for (const event of ['pagehide', 'pageshow', 'freeze', 'resume']) browser.dispatch(event);
    await new Promise(setImmediate);
    assert.equal(relay.pendingSockets, 0);
    assert.equal(tab.states.length, events);
  });
}

test('another tab replaces a leader that does not respond', async (t) => {
  const tick = handTimers(t, 'setInterval');
  const { relay, first, second, socket } = await twoTabs(t);
  socket.sends(msg('1', notification('a')));
  await until('the message', () => second.seen.length === 1);
  const pings = [];
  // The leader hangs: no message reaches it.
  const postMessage = BroadcastChannel.prototype.postMessage;
  t.mock.method(BroadcastChannel.prototype, 'postMessage', function post(message) {
    if (message.t === 'ping') pings.push(message);
    else postMessage.call(this, message);
  });
  for (let i = 0; i < 8; i += 1) tick(5000);
  assert.equal(pings.length, 3);
  const next = await relay.socket();
  assert.equal(next.closedWith, undefined);
  next.accept({ resumed: true });
  assert.equal(next.sent[0].pos, '1');
  await until('the old leader closed its connection', () => socket.closedWith === 1000);
  next.sends(msg('2', notification('b')));
  await until('the old leader follows', () => first.seen.length === 2);
  assert.deepEqual(second.seen, ['a', 'b']);
});

test('a leader that responds remains the leader', async (t) => {
  const tick = handTimers(t, 'setInterval');
  const { relay, second, socket } = await twoTabs(t);
  for (let i = 0; i < 8; i += 1) {
    tick(5000);
    socket.sends(msg(String(i), notification(`m${i}`)));
    await until('a reply of the leader', () => second.seen.length === i + 1);
  }
  assert.equal(relay.pendingSockets, 0);
  assert.equal(socket.closedWith, undefined);
});

test('a visible tab wakes a hidden leader whose timers are late', async (t) => {
  const { setTimeout } = globalThis;
  t.mock.method(globalThis, 'setTimeout', (act, ms, ...given) => (ms === 77 ? 0 : setTimeout(act, ms, ...given)));
  const backoff = { base: 77, cap: 77, random: () => 1 };
  const { relay, second, socket } = await twoTabs(t, { backoff });
  socket.closes();
  await until('the other tab also waits', () => second.client.state === 'waiting');
  (await relay.socket()).accept({ resumed: true });
  await isOpen(second);
});

test('a new tab receives the unacknowledged notifications', async (t) => {
  const { open, second, socket } = await twoTabs(t, { ack: 'manual' });
  socket.sends(msg('1', notification('a', { ack: true })), msg('2', notification('b', { ack: true })), msg('3', notification('c')));
  await until('the messages', () => second.seen.length === 3);
  second.client.ack('a');
  await until('the ack', () => socket.frames('ack').length === 1);
  const third = open({ ack: 'manual' });
  await isOpen(third);
  assert.deepEqual(third.seen, ['b']);
  assert.equal(third.client.pos, '3');
  assert.equal(third.states.at(-1).resumed, false);
});

test('a new tab does not receive notifications that another client acked while it was disconnected', async (t) => {
  const { relay, open, second, socket } = await twoTabs(t, { ack: 'manual' });
  socket.sends(msg('1', notification('a', { ack: true })), msg('2', notification('b', { ack: true })));
  await until('the messages', () => second.seen.length === 2);
  socket.closes();
  const next = await relay.socket();
  next.accept({ resumed: true });
  next.sends(msg('2', notification('b', { ack: true }))); // the relay delivers pending notifications again
  await until('the repeat', () => second.repeats.length === 1);
  const third = open({ ack: 'manual' });
  await isOpen(third);
  assert.deepEqual(third.seen, ['b']);
});

test('the number of unacknowledged notifications kept for new tabs is limited', async (t) => {
  const { open, second, socket } = await twoTabs(t, { ack: 'manual' });
  const frames = Array.from({ length: 1001 }, (_, i) => msg(String(i + 1), notification(`n${i}`, { ack: true })));
  socket.sends(...frames);
  await until('the messages', () => second.seen.length === 1001);
  const third = open({ ack: 'manual' });
  await isOpen(third);
  assert.equal(third.seen.length, 1000);
  assert.equal(third.seen[0], 'n1');
});

test('a tab that returns with a known cursor receives its missed notifications; with an unknown cursor, a gap', async (t) => {
  const { open, second, socket } = await twoTabs(t);
  socket.sends(msg('1', notification('a')), msg('2', notification('b')), msg('3', notification('c')));
  await until('the messages', () => second.seen.length === 3);
  const back = open({ pos: '1' });
  await isOpen(back);
  assert.deepEqual(back.seen, ['b', 'c']);
  assert.equal(back.states.at(-1).resumed, true);
  const lost = open({ pos: 'long ago' });
  await isOpen(lost);
  assert.deepEqual(lost.gaps, [{ from: 'long ago', to: '3', why: 'shed' }]);
  assert.equal(lost.states.at(-1).resumed, false);
});

test('a tab that returns receives a gap for notifications dropped by the relay', async (t) => {
  const { open, second, socket } = await twoTabs(t);
  socket.sends(msg('1', notification('a')), { t: 'gap', from: '1', to: '5', why: 'shed' }, msg('6', notification('b')));
  await until('the messages', () => second.seen.length === 2);
  const back = open({ pos: '1' });
  await isOpen(back);
  assert.deepEqual(back.gaps, [{ from: '1', to: '6', why: 'shed' }]);
  assert.equal(back.states.at(-1).resumed, false);
  const next = open({ pos: '5' });
  await isOpen(next);
  assert.deepEqual([next.seen, next.gaps], [['b'], []]);
});

test('the topics of a suspended tab are unsubscribed: it receives a gap, although its cursor is known', async (t) => {
  const { open, socket } = await twoTabs(t, { topics: ['demo.a'] });
  socket.sends(msg('1', notification('a', { source: 'a' })));
  const back = open({ topics: ['demo.b'], pos: '1' });
  await isOpen(back);
  assert.deepEqual(back.gaps, [{ from: '1', to: '1', why: 'shed' }]);
  socket.sends(msg('2', notification('b', { source: 'b' })));
  await until('the message', () => back.seen.length === 1);
  const same = open({ topics: ['demo.b'], pos: '2' });
  await isOpen(same);
  assert.deepEqual(same.gaps, []);
});

test('a new leader that receives the topics of a third tab too late causes a gap only for that tab', async (t) => {
  const { relay, open, first, second, socket } = await twoTabs(t, { topics: ['demo.a'] });
  const third = open({ topics: ['demo.b'] });
  await until('the topics', () => socket.frames('subscribe').length === 1);
  await isOpen(third);
  socket.sends(msg('1', notification('a', { source: 'a' })));
  await until('the message', () => third.client.pos === '1');
  const post = BroadcastChannel.prototype.postMessage;
  let late;
  const posting = t.mock.method(BroadcastChannel.prototype, 'postMessage', function slow(message) {
    if (message.t === 'hello' && message.topics.includes('demo.b')) late = () => post.call(this, message);
    else post.call(this, message);
  });
  first.client.close();
  const next = await relay.socket();
  next.accept({ resumed: true });
  assert.deepEqual(next.sent[0].topics, ['demo.a']);
  await until('the late notification', () => late);
  posting.mock.restore();
  late();
  await until('the gap', () => third.gaps.length === 1);
  assert.deepEqual([second.gaps, next.frames('subscribe').map((f) => f.topics)], [[], [['demo.b']]]);
});

test('a new tab that receives a notification before the reply of the leader receives no gap', async (t) => {
  const { open, socket } = await twoTabs(t);
  const post = BroadcastChannel.prototype.postMessage;
  let count = 0;
  t.mock.method(BroadcastChannel.prototype, 'postMessage', function first(message) {
    if (message.t === 'hello' && message.pos === undefined && (count += 1) === 1) socket.sends(msg('1', notification('a')));
    post.call(this, message);
  });
  const third = open();
  await isOpen(third);
  socket.sends(msg('2', notification('b')));
  await until('the next message', () => third.seen.includes('b'));
  assert.deepEqual(third.seen, ['a', 'b']);
  assert.deepEqual(third.gaps, []);
});

test('a tab with an unknown cursor receives a gap, even after an earlier notification', async (t) => {
  const { open, socket } = await twoTabs(t);
  const post = BroadcastChannel.prototype.postMessage;
  let count = 0;
  t.mock.method(BroadcastChannel.prototype, 'postMessage', function first(message) {
    if (message.pos === 'long ago' && (count += 1) === 1) socket.sends(msg('1', notification('a')));
    post.call(this, message);
  });
  const third = open({ pos: 'long ago' });
  await isOpen(third);
  await until('the gap', () => third.gaps.length > 0);
  assert.deepEqual(third.gaps[0], { from: 'long ago', to: '1', why: 'shed' });
});

test('the connection subscribes to the topics of all tabs, and each tab receives only its topics', async (t) => {
  const { open, first, second, socket } = await twoTabs(t, { topics: ['demo.a*'] });
  const third = open({ topics: ['demo.b'] });
  await until('the topics', () => socket.frames('subscribe').length === 1);
  assert.deepEqual(socket.frames('subscribe')[0].topics, ['demo.b']);
  await isOpen(third);
  socket.sends(msg('1', notification('m', { source: 'assignments' })), msg('2', notification('n', { source: 'b' })));
  await until('each tab has its notification', () => third.seen.length === 1 && second.seen.length === 1);
  assert.deepEqual([first.seen, second.seen, third.seen], [['m'], ['m'], ['n']]);
  third.client.close();
  await until('the topic of the closed tab is unsubscribed', () => socket.frames('unsubscribe').length === 1);
  assert.deepEqual(socket.frames('unsubscribe')[0].topics, ['demo.b']);
});

test('tabs with more topics than a connection may have use a further connection', async (t) => {
  const topics = (from, to) => Array.from({ length: to - from }, (_, i) => `demo.${from + i}`);
  const { open, relay, first, second, socket } = await twoTabs(t, { topics: topics(0, 150) });
  const third = open({ topics: topics(50, 200) });
  await until('the topics', () => socket.frames('subscribe').length === 1);
  await isOpen(third);
  third.client.subscribe(topics(200, 257));
  const alone = await relay.socket();
  assert.deepEqual([alone.sent, third.client.state], [[], 'connecting']);
  alone.accept({ conn: 'c2', resumed: true });
  const [{ topics: wanted, pos }] = alone.frames('connect');
  assert.deepEqual([wanted, pos], [topics(50, 257), '0']);
  await until('the topics of that tab are unsubscribed', () => socket.frames('unsubscribe').length === 1);
  assert.deepEqual([socket.frames('unsubscribe')[0].topics, socket.frames('subscribe').length], [topics(150, 200), 1]);
  socket.sends(msg('8', notification('m', { source: 1 })));
  alone.sends(msg('9', notification('n', { source: 256 })));
  await until('each tab has its notification', () => second.seen.length === 1 && third.seen.length === 1);
  assert.deepEqual([first.seen, second.seen, third.seen], [['m'], ['m'], ['n']]);
  assert.deepEqual([third.client.state, third.gaps, first.errors, third.errors], ['open', [], [], []]);
  third.client.close();
  assert.deepEqual([alone.closedWith, socket.closedWith], [1000, undefined]);
});

test('tabs whose topics are too long for a connection at its first connect have two connections', async (t) => {
  const { open, relay } = start(t);
  const long = (letter) => Array.from({ length: 20 }, (_, i) => letter.repeat(250) + i);
  const tabs = [open({ topics: long('a') }), open({ topics: long('b') })];
  const sockets = [];
  for (const at of [0, 1]) {
    sockets[at] = await relay.socket();
    sockets[at].accept();
  }
  await Promise.all(tabs.map(isOpen));
  assert.deepEqual(sockets.map(({ sent, closedWith }) => [sent[0].topics.length, closedWith]), [[20, undefined], [20, undefined]]);
  assert.deepEqual(tabs.map(({ errors }) => errors), [[], []]);
});

test('the topics of a tab that crashes are unsubscribed', async (t) => {
  const { open, socket } = await twoTabs(t, { topics: ['demo.a'] });
  const third = open({ topics: ['demo.b'] });
  await until('the topics', () => socket.frames('subscribe').length === 1);
  await isOpen(third);
  const { postMessage } = BroadcastChannel.prototype;
  BroadcastChannel.prototype.postMessage = () => {}; // a crash releases the locks of the tab, without a message
  third.client.close();
  BroadcastChannel.prototype.postMessage = postMessage;
  await until('the topic is unsubscribed', () => socket.frames('unsubscribe').length === 1);
  assert.deepEqual(socket.frames('unsubscribe')[0].topics, ['demo.b']);
});

test('a leader with an invalid token is replaced by a tab with a valid token', async (t) => {
  const { relay, first, second, socket } = await twoTabs(t);
  socket.closes(4100);
  await until('the first tab is closed', () => first.client.state === 'closed');
  (await relay.socket()).accept({ resumed: true });
  await isOpen(second);
});

test('a later page does not receive an acked notification, and acks it again', async (t) => {
  const { relay, open, first, second, socket } = await twoTabs(t);
  first.client.on('*', () => {});
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('the ack', () => socket.frames('ack').length === 1);
  first.client.close();
  second.client.close();
  const later = open();
  const next = await relay.socket();
  next.accept();
  next.sends(msg('1', notification('a', { ack: true }))); // the ack was lost with its page
  await until('the second ack', () => next.frames('ack').length === 1);
  assert.deepEqual(later.seen, []);
});

test('a tab that becomes leader later fetches a new token', async (t) => {
  const tick = handTimers(t, 'setInterval');
  const { relay, open } = start(t);
  const first = open();
  (await relay.socket()).accept();
  let calls = 0;
  const second = open({ token: () => { calls += 1; return tokenOf(`user ${users}`); } });
  await isOpen(second);
  tick(5000);
  assert.equal(calls, 1);
  first.client.close();
  (await relay.socket()).accept({ resumed: true });
  assert.equal(calls, 2);
});

test('without channels each tab has a separate connection', async (t) => {
  const { browser, relay, open } = start(t);
  t.mock.method(globalThis, 'BroadcastChannel', function forbidden() { throw new DOMException('no', 'SecurityError'); });
  const tab = open();
  const socket = await relay.socket();
  browser.dispatch('pageshow');
  socket.accept();
  await isOpen(tab);
  assert.equal(relay.pendingSockets, 0);
});

test('without locks each tab has a separate connection', async (t) => {
  const { relay, open } = start(t);
  navigator.locks.request = async () => { throw new DOMException('no', 'SecurityError'); };
  const tab = open();
  (await relay.socket()).accept();
  await isOpen(tab);
});

test('a failed token fetch at the start is repeated', async (t) => {
  const { relay, open } = start(t);
  let calls = 0;
  const tab = open({
    token: async () => {
      calls += 1;
      if (calls === 1) throw new Error('login server is unavailable');
      return tokenOf('u');
    },
  });
  (await relay.socket()).accept();
  await isOpen(tab);
  assert.deepEqual(tab.states.map(({ state }) => state), ['connecting', 'waiting', 'connecting', 'open']);
  assert.deepEqual(tab.errors, ['no token: login server is unavailable']);
  assert.equal(calls, 2); // the token that identified the user also opened the connection
});

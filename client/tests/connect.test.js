// connect.test.js: behaviour of the client on a WebSocket, against a fake relay.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay, msg, notification, until } from './fake-relay.js';

/** A client on a fake relay, closed after the test; `log` has all its events. */
function start(t, options = {}) {
  const relay = fakeRelay();
  const client = connect({
    url: 'http://relay.test:8090',
    token: 'T',
    WebSocket: relay.WebSocket,
    backoff: { base: 4, cap: 4 },
    ...options,
  });
  const log = [];
  for (const event of ['message', 'repeat', 'gap', 'state', 'acked', 'error']) {
    client.on(event, (detail) => log.push({ event, detail }));
  }
  const events = (event) => log.filter((e) => e.event === event).map((e) => e.detail);
  t.after(() => client.close());
  return { relay, client, events };
}

/** Waits until pending promises have resolved; works with fake timers. */
const turn = () => new Promise(setImmediate);

test('the first frame is connect, with token, in-flight window and cursor', async (t) => {
  const { relay, events } = start(t, { token: async () => 'fresh', pos: '5-0', window: 8 });
  const socket = await relay.socket();
  assert.equal(socket.url, 'ws://relay.test:8090/v1/ws');
  assert.equal(socket.protocol, 'clairon.v1.json');
  socket.accept({ resumed: true, features: ['ends'] });
  assert.deepEqual(socket.sent, [{ t: 'connect', r: 1, token: 'fresh', pos: '5-0', win: 8, ends: true }]);
  assert.deepEqual(events('state').at(-1), { state: 'open', transport: 'ws', user: 'u1', conn: 'c1', resumed: true, features: ['ends'] });
});

test('an ack is sent when every handler has resolved', async (t) => {
  const { relay, client } = start(t);
  let finish;
  client.on('assignments', () => new Promise((resolve) => { finish = resolve; }));
  client.on('*', () => 'at once');
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })), msg('2', notification('b')));
  await until('the first handler', () => finish);
  socket.sends(msg('3', notification('c', { ack: true, source: 'other' })));
  await until('an ack', () => socket.frames('ack').length > 0);
  assert.deepEqual(socket.frames('ack'), [{ t: 'ack', ids: ['c'] }]); // b needs none
});

test('the client nacks the notification of a failing handler, which then receives the retry', async (t) => {
  const { relay, client, events } = start(t);
  let calls = 0;
  client.on('assignments', () => {
    calls += 1;
    if (calls === 1) throw Object.assign(new Error('not now'), { retryAfter: 30_000 });
  });
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('a nack', () => socket.frames('nack').length > 0);
  assert.deepEqual(socket.frames('nack'), [{ t: 'nack', ids: ['a'], delay: 30_000 }]);
  assert.equal(events('error')[0].error.message, 'not now');
  socket.sends(msg('2', notification('a', { ack: true })));
  await until('an ack', () => socket.frames('ack').length > 0);
  assert.equal(calls, 2);
});

test('the client nacks the notification of a handler that rejects without an error', async (t) => {
  const { relay, client } = start(t);
  client.on('assignments', () => Promise.reject());
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('a nack', () => socket.frames('nack').length > 0);
  assert.deepEqual(socket.frames('ack'), []);
});

test('a notification without a handler is not acknowledged and is reported as an error', async (t) => {
  const { relay, events } = start(t);
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('an error', () => events('error').length > 0);
  assert.equal(events('error')[0].error.message, 'assignments: not handled');
  socket.sends(msg('2', notification('b', { ack: true })), msg('3', notification('c', { ack: true, source: 'other' })));
  await until('an error of the other table', () => events('error').length > 1);
  assert.deepEqual(events('error').map(({ notification: { metadata } }) => metadata.id), ['a', 'c']); // one for each table
  assert.deepEqual(socket.frames('ack'), []);
});

test('a notification without a handler does not replace an id in the list of delivered notifications', async (t) => {
  const { relay, events } = start(t, { dedupe: 1 });
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('an error', () => events('error').length > 0);
  socket.sends(msg('2', notification('a', { ack: true })));
  assert.deepEqual([events('message').length, events('repeat').length], [1, 1]);
});

test('in manual mode only ack() sends acks', async (t) => {
  const { relay, client } = start(t, { ack: 'manual' });
  client.on('*', () => {});
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })), msg('2', notification('b', { ack: true })));
  client.ack(['b']);
  await until('an ack', () => socket.frames('ack').length > 0);
  assert.deepEqual(socket.frames('ack'), [{ t: 'ack', ids: ['b'] }]);
});

test('a duplicate does not reach handlers; a duplicate of an acked notification is acked again', async (t) => {
  const { relay, client, events } = start(t);
  let calls = 0;
  client.on('*', () => { calls += 1; });
  const first = await relay.socket();
  first.accept();
  first.sends(msg('1', notification('a', { ack: true })));
  await until('an ack', () => first.frames('ack').length === 1);
  first.closes();
  const second = await relay.socket();
  second.accept({ resumed: true });
  assert.equal(second.sent[0].pos, '1');
  second.sends(msg('1', notification('a', { ack: true })));
  await until('the second ack', () => second.frames('ack').length === 1);
  assert.equal(calls, 1);
  assert.equal(events('message').length, 1);
  assert.equal(events('repeat').length, 1);
});

test('a pending notification is recognised as a duplicate after any number of other notifications', async (t) => {
  const { relay, client, events } = start(t, { ack: 'manual', dedupe: 2 });
  const handled = [];
  client.on('*', (n) => handled.push(n.metadata.id));
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })), msg('2', notification('b')), msg('3', notification('c')), msg('4', notification('d')));
  socket.sends(msg('5', notification('a', { ack: true })));
  assert.deepEqual(events('repeat').map((n) => n.metadata.id), ['a']);
  assert.deepEqual(handled, ['a', 'b', 'c', 'd']);
});

test('an ack during a disconnect is sent on the next connection', async (t) => {
  const { relay, client } = start(t, { ack: 'manual' });
  const first = await relay.socket();
  first.accept();
  first.sends(msg('1', notification('a', { ack: true })));
  first.closes();
  client.ack('a');
  const second = await relay.socket();
  assert.deepEqual(second.frames('ack'), []);
  second.accept({ resumed: true });
  await until('the ack', () => second.frames('ack').length === 1);
});

test('the client replies to each ping with a pong', async (t) => {
  const { relay } = start(t);
  const socket = await relay.socket();
  socket.accept();
  socket.sends({ t: 'ping' }, { t: 'ping' });
  assert.equal(socket.frames('pong').length, 2);
});

test('a connection without frames for two ping intervals is lost', async (t) => {
  const { relay, events } = start(t);
  const socket = await relay.socket();
  socket.accept({ ping: 0.01 });
  await relay.socket();
  assert.equal(socket.closedWith, 4102);
  assert.equal(events('state').find((s) => s.state === 'waiting').code, 'silent');
});

test('a close code 40xx closes the client without a reconnect', async (t) => {
  for (const code of [4000, 4001, 4003, 4004]) {
    const { relay, client, events } = start(t);
    const socket = await relay.socket();
    socket.accept();
    socket.sends({ t: 'bye', code });
    socket.closes(code);
    assert.equal(client.state, 'closed');
    assert.equal(events('error').at(-1).error.code, code);
    assert.equal(relay.pendingSockets, 0);
  }
});

test('close code 4100 calls the token function again, or closes a client with a fixed token', async (t) => {
  let calls = 0;
  const fresh = start(t, { token: () => `token ${++calls}` });
  (await fresh.relay.socket()).closes(4100);
  const second = await fresh.relay.socket();
  second.accept();
  assert.equal(second.sent[0].token, 'token 2');

  const fixed = start(t);
  (await fixed.relay.socket()).closes(4100);
  assert.equal(fixed.client.state, 'closed');
});

test('after a close code 42xx the client reconnects immediately, or after the delay of the bye', async (t) => {
  let clock = 0;
  const { relay, events } = start(t, { now: () => clock, backoff: { base: 60_000, cap: 60_000, random: () => 1 } });
  const first = await relay.socket();
  first.accept();
  clock = 60_000;
  first.closes(4201);
  assert.equal(events('state').at(-1).retryIn, 0);
  const second = await relay.socket();
  second.accept();
  second.sends({ t: 'bye', code: 4201, in: 7 });
  second.closes(1006); // the process died before its close frame
  assert.equal(events('state').at(-1).retryIn, 7);
  const third = await relay.socket();
  third.accept();
  third.closes(4200); // closed twice within seconds: back off
  assert.equal(events('state').at(-1).retryIn, 60_000);
});

test('a rejected token is reported once, with the reason of the relay', async (t) => {
  for (const [code, close] of [[101, 4001], [109, 4100]]) {
    for (const closed of [close, 1006]) {
      const { relay, client, events } = start(t);
      const socket = await relay.socket();
      socket.onopen();
      socket.sends({ t: 'err', r: 1, code, msg: 'token: no "sub"', retry: false }, { t: 'bye', code: close, msg: 'token: no "sub"' });
      socket.closes(closed);
      assert.equal(client.state, 'closed');
      assert.deepEqual(events('error').map(({ error }) => [error.code, error.message]), [[close, 'token: no "sub"']]);
    }
  }
});

test('an expired token from the token function is reported once for each attempt', async (t) => {
  const { relay, client, events } = start(t, { token: () => 'stale' });
  const reject = (socket) => {
    socket.sends({ t: 'err', r: 1, code: 109, msg: 'token expired', retry: false }, { t: 'bye', code: 4100, msg: 'token expired' });
    socket.closes(4100);
  };
  for (let i = 0; i < 2; i += 1) {
    const socket = await relay.socket();
    socket.onopen();
    reject(socket);
  }
  assert.equal(client.state, 'waiting');
  assert.deepEqual(events('error').map(({ error }) => [error.code, error.message]), Array(2).fill([109, 'token expired']));
});

test('a failing token function is called again', async (t) => {
  let calls = 0;
  const { relay, events } = start(t, {
    token: async () => {
      calls += 1;
      if (calls < 3) throw new Error('login server is unavailable');
      return 'T';
    },
  });
  (await relay.socket()).accept();
  assert.equal(calls, 3);
  assert.equal(events('error').length, 2);
});

test('a token function that never settles is called again', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  let calls = 0;
  const { relay, events } = start(t, { token: () => (++calls < 2 ? new Promise(() => {}) : 'T') });
  await turn();
  tick(29_999);
  await turn();
  assert.deepEqual([events('state').map(({ state }) => state), events('error')], [['connecting'], []]);
  tick(1);
  await turn();
  const { state, reason, retryIn } = events('state').at(-1);
  assert.deepEqual([state, reason, retryIn <= 4], ['waiting', 'no token: no reply', true]);
  assert.deepEqual(events('error').map(({ error }) => error.message), ['no token: no reply']);
  tick(4);
  (await relay.socket()).accept();
  assert.deepEqual([calls, events('state').at(-1).state, events('state').at(-1).transport], [2, 'open', 'ws']);
  tick(20_000); // a timeout of a token that was returned in time has no effect
  await turn();
  assert.equal(events('error').length, 1);
});

test('an expiring frame refreshes the token on the same connection', async (t) => {
  let calls = 0;
  const { relay } = start(t, { token: () => `token ${++calls}` });
  const socket = await relay.socket();
  socket.accept();
  socket.sends({ t: 'expiring', in: 60 });
  await until('a refresh', () => socket.frames('refresh').length > 0);
  assert.deepEqual(socket.frames('refresh'), [{ t: 'refresh', r: 2, token: 'token 2' }]);
});

test('a token is renewed before it expires, even without an expiring frame', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  let calls = 0;
  const { relay } = start(t, { now: () => 0, token: () => `token ${++calls}` });
  const socket = await relay.socket();
  socket.accept({ ping: 1e6, exp: 3600 });
  tick(3_569_000);
  await turn();
  assert.deepEqual(socket.frames('refresh'), []);
  tick(2_000);
  await turn();
  assert.deepEqual(socket.frames('refresh'), [{ t: 'refresh', r: 2, token: 'token 2' }]);
  socket.sends({ t: 'refreshed', r: 2, exp: 7200 });
  tick(7_171_000);
  await turn();
  assert.equal(socket.frames('refresh').length, 2);
});

test('a token that arrives after its connection closed is not sent on the next connection', async (t) => {
  let bring = [];
  const { relay } = start(t, { token: () => new Promise((resolve) => { bring.push(resolve); }) });
  await until('the token function is called', () => bring.length === 1);
  bring[0]('T');
  const socket = await relay.socket();
  socket.accept();
  socket.sends({ t: 'expiring', in: 60 });
  socket.closes();
  await until('the token function is called again', () => bring.length === 3);
  bring[2]('T2');
  const next = await relay.socket();
  next.accept();
  bring[1]('late');
  await turn();
  assert.deepEqual(next.sent.map((frame) => frame.t), ['connect']);
});

test('a connection without `connected` fails after the timeout', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  const { relay, events } = start(t, { backoff: { random: () => 1 } }); // no reconnect in this tick
  const socket = await relay.socket();
  socket.onopen();
  tick(9_999);
  assert.equal(events('state').at(-1).state, 'connecting');
  tick(1);
  assert.equal(events('state').at(-1).code, 'no reply');
});

test('the delay grows with each failure, and resets after a stable connection', async (t) => {
  let clock = 0;
  const { relay, events } = start(t, { now: () => clock, transports: ['ws'], backoff: { base: 4, cap: 1e6, random: () => 1 } });
  const waits = () => events('state').filter((s) => s.state === 'waiting').map((s) => s.retryIn);
  for (const life of [0, 4_999, 5_000, 0]) {
    const socket = await relay.socket();
    socket.accept();
    clock += life;
    socket.closes();
  }
  assert.deepEqual(waits(), [4, 8, 4, 8]);
});

test('close() sends all earlier acks', async (t) => {
  const { relay, client } = start(t);
  const socket = await relay.socket();
  socket.accept();
  client.ack('a');
  client.close();
  assert.deepEqual(socket.frames('ack'), [{ t: 'ack', ids: ['a'] }]);
});

test('gap, acked and err frames cause events; an invalid JSON line is ignored', async (t) => {
  const { relay, client, events } = start(t);
  const socket = await relay.socket();
  socket.accept();
  socket.sends({ t: 'gap', from: '1', to: '7', why: 'trimmed' }, { t: 'acked', ids: ['a'] });
  socket.onmessage({ data: 'not json\n{"t":"err","code":111,"msg":"rate limit reached","retry":true,"after":5}\n' });
  assert.deepEqual(events('gap'), [{ from: '1', to: '7', why: 'trimmed' }]);
  assert.deepEqual(events('acked'), [{ ids: ['a'] }]);
  assert.deepEqual(events('error').map((e) => e.error.name), ['SyntaxError', 'Error']);
  assert.equal(events('error')[1].error.message, 'rate limit reached');
  assert.equal(client.pos, '7');
  assert.equal(client.state, 'open');
});

test('close() in a handler drops the remaining frames, and prevents a reconnect', async (t) => {
  const { relay, client, events } = start(t);
  client.on('assignments', () => client.close());
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a')), msg('2', notification('b')));
  assert.equal(events('message').length, 1);
  assert.equal(socket.closedWith, 1000);
  assert.equal(events('state').at(-1).state, 'closed');
  assert.equal(relay.pendingSockets, 0);
});

test('topics that change during `connect` are subscribed after `connected`', async (t) => {
  const { relay, client } = start(t, { topics: ['a'] });
  const socket = await relay.socket();
  socket.onopen();
  client.subscribe('b');
  client.unsubscribe('a');
  socket.sends({ t: 'connected', r: 1, resumed: false });
  assert.deepEqual(socket.sent.map(({ t: kind, topics }) => [kind, topics]), [
    ['connect', ['a']], ['subscribe', ['b']], ['unsubscribe', ['a']],
  ]);
});

test('an incomplete notification is reported, and later notifications are delivered', async (t) => {
  const kept = [];
  globalThis.sessionStorage = { getItem: () => null, setItem: (_, pos) => kept.push(pos) };
  t.after(() => { delete globalThis.sessionStorage; });
  const { relay, client, events } = start(t, { storage: 'k' });
  client.on('*', () => {});
  const socket = await relay.socket();
  socket.accept();
  const { routing, ...headless } = notification('a');
  socket.sends(msg('1', headless), msg('2', {}), { t: 'msg', pos: '3' }, msg('4', notification('b')));
  await until('the cursor after the incomplete notifications', () => kept.at(-1) === '4');
  assert.deepEqual(events('error').map(({ error }) => error.name), ['TypeError', 'TypeError', 'TypeError']);
});

test('a handler receives the notification of a frame with a transaction and a rule', async (t) => {
  const { relay, client, events } = start(t);
  const handled = [];
  client.on('*', (n) => { handled.push(n); });
  const socket = await relay.socket();
  socket.accept();
  socket.sends({ ...msg('1', notification('a')), x: '12884901895', rule: 'default' }, msg('2', notification('b')));
  await until('both', () => handled.length === 2);
  assert.deepEqual(handled, [notification('a'), notification('b')]);
  assert.equal(events('error').length, 0);
});

test('a binary frame is reported, and the connection stays open', async (t) => {
  const { relay, events } = start(t);
  const socket = await relay.socket();
  socket.accept();
  socket.onmessage({ data: new ArrayBuffer(3) });
  assert.equal(events('error').length, 1);
});

test('a retry reaches a handler that was added after the first delivery', async (t) => {
  const { relay, client, events } = start(t);
  const socket = await relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })));
  await until('an error', () => events('error').length > 0);
  client.on('assignments', () => {});
  socket.sends(msg('2', notification('a', { ack: true })));
  await until('the ack', () => socket.frames('ack').length === 1);
});

test('an undefined option has its default value', async (t) => {
  const none = Object.fromEntries(['pos', 'window', 'topics', 'ack', 'storage', 'dedupe', 'transports', 'tabs', 'fetch', 'now']
    .map((name) => [name, undefined]));
  const { relay, client } = start(t, none);
  (await relay.socket()).accept();
  assert.equal(client.state, 'open');
});

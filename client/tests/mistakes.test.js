// mistakes.test.js: errors name the invalid option, token or address.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers, tokenOf } from './fake-browser.js';
import { fakeRelay, msg, notification, until } from './fake-relay.js';

const ADDRESS = 'ws://relay.test';

function start(t, options) {
  const relay = fakeRelay();
  const client = connect({ url: ADDRESS, token: 'T', WebSocket: relay.WebSocket, backoff: { base: 1, cap: 1 }, ...options });
  const errors = [];
  const states = [];
  client.on('error', ({ error }) => errors.push(error));
  client.on('state', (change) => states.push(change));
  t.after(() => client.close());
  return { relay, client, errors, states };
}

const INVALID_OPTIONS = [
  [undefined, /token must be a string or a function/],
  [{ token: 'T', tokne: 1 }, /unknown option tokne, valid: url, token/],
  [{ url: ADDRESS }, /token must be a string or a function/],
  [{ url: ADDRESS, token: '' }, /token must be a string or a function/],
  [{ url: ADDRESS, token: { token: 'T' } }, /token must be a string or a function/],
  [{ url: ADDRESS, token: 'T', ack: 'later' }, /ack must be one of auto, manual/],
  [{ url: ADDRESS, token: 'T', transports: ['carrier pigeon'] }, /transports must be one of ws, sse, poll/],
  [{ url: ADDRESS, token: 'T', transports: [] }, /transports must be one of ws, sse, poll/],
  [{ url: ADDRESS, token: 'T', window: -1 }, /window must be a positive integer/],
  [{ url: ADDRESS, token: 'T', window: '8' }, /window must be a positive integer/],
  [{ url: ADDRESS, token: 'T', dedupe: 0 }, /dedupe must be a positive integer/],
  ...[[7], [], ['a*b'], [''], ['a'.repeat(256)], Array.from({ length: 257 }, (_, i) => `t${i}`)]
    .map((topics) => [{ url: ADDRESS, token: 'T', topics }, /invalid topics/]),
  [{ url: 'localhost:8080', token: 'T' }, /url localhost:8080 must start with \/, ws\(s\):\/\/ or http\(s\):\/\//],
  [{ url: 'relay.example.org', token: 'T' }, /url relay\.example\.org must start with/],
  [{ url: 'ftp://relay.test', token: 'T' }, /url ftp:\/\/relay\.test must start with/],
  [{ url: '127.0.0.1:8080', token: 'T' }, /url 127\.0\.0\.1:8080 must start with \/, ws\(s\):\/\/ or http\(s\):\/\//],
  [{ url: '/v1/ws', token: 'T' }, /url \/v1\/ws must start with/], // no page
];

for (const [options, message] of INVALID_OPTIONS) {
  test(`connect(${JSON.stringify(options)}) is rejected by name`, () => {
    assert.throws(() => connect(options).close(), (error) => error instanceof TypeError && message.test(error.message));
  });
}

test('in a page, the address of a relay needs a scheme, and a path starts with a slash', async (t) => {
  globalThis.location = new URL('https://app.test/list');
  t.after(() => { delete globalThis.location; });
  for (const url of ['127.0.0.1:8080', 'relay.example.org', 'v1/ws', '']) {
    assert.throws(() => connect({ url, token: 'T' }), /must start with \/, ws/, url);
  }
  for (const url of ['/v1/ws', undefined]) {
    const { relay } = start(t, { url });
    assert.equal((await relay.socket()).url, 'wss://app.test/v1/ws');
  }
});

test('the option topics accepts one string, even if other topics are delivered', async (t) => {
  const { relay, client, errors } = start(t, { topics: 'demo.a*' });
  const seen = [];
  client.on('message', (n) => seen.push(n.metadata.id));
  const socket = await relay.socket();
  socket.accept();
  assert.deepEqual(socket.sent[0].topics, ['demo.a*']);
  socket.sends(msg('1', notification('a', { source: 'assignments' })), msg('2', notification('b', { source: 'other' })));
  client.subscribe('demo.other');
  assert.deepEqual(socket.frames('subscribe')[0].topics, ['demo.other']);
  assert.deepEqual([seen, errors], [['a'], []]);
});

// Otherwise the relay would reject the next `connect`, and each later one.
test('subscribe() rejects invalid topics, and keeps the others', async (t) => {
  const { relay, client, errors } = start(t, { topics: 'demo.a*' });
  const socket = await relay.socket();
  socket.accept();
  const many = Array.from({ length: 256 }, (_, i) => `t${i}`);
  const long = Array.from({ length: 40 }, (_, i) => `${i}`.padEnd(255, 'x'));
  for (const topics of [undefined, null, '', 7, 'a*b', '**', ['demo.b', ''], 'a'.repeat(256), many, long]) {
    assert.throws(() => client.subscribe(topics), /^TypeError: connect\(\): invalid topics/, `${topics}`.slice(0, 20));
  }
  client.subscribe('*');
  client.subscribe([]);
  client.subscribe(many.slice(2));
  socket.closes(1006);
  const next = await relay.socket();
  next.accept();
  assert.deepEqual(next.sent[0].topics, ['demo.a*', '*', ...many.slice(2)]);
  assert.deepEqual(errors, []);
});

test('subscribe() without topics is rejected if there are none', async (t) => {
  const { client } = start(t);
  assert.throws(() => client.subscribe([]), /invalid topics/);
});

for (const [value, name] of [[undefined, 'undefined'], [null, 'object'], ['', 'an empty string'], [{ token: 'T' }, 'object']]) {
  test(`a token function that returns ${JSON.stringify(value)} is an error, and is called again`, async (t) => {
    const tokens = [value, 'T'];
    const { relay, errors, states } = start(t, { token: async () => tokens.shift() });
    const socket = await relay.socket();
    socket.accept();
    assert.equal(socket.sent[0].token, 'T');
    const text = `no token: token() returned ${name}`;
    assert.deepEqual(errors.map(({ message }) => message), [text]);
    assert.equal(states.find(({ state }) => state === 'waiting').reason, text);
  });
}

test('the error of a token function is in the message and is the cause', async (t) => {
  const cause = new Error('login server is unavailable');
  const { relay, errors } = start(t, {
    token: () => {
      if (!errors.length) throw cause;
      return tokenOf('u');
    },
  });
  (await relay.socket()).accept();
  assert.deepEqual([errors[0].message, errors[0].cause], ['no token: login server is unavailable', cause]);
});

for (const [origin, hint] of [['https://app.test', ', and does gate.origins of the relay list https://app.test'], [undefined, '']]) {
  test(`three failures cause one warning with the likely causes (origin ${origin})`, async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    if (origin) globalThis.location = new URL(origin);
    t.after(() => { delete globalThis.location; });
    const { relay } = start(t, { transports: ['ws'] });
    for (let i = 0; i < 2; i += 1) (await relay.socket()).closes();
    const third = await relay.socket();
    assert.equal(warn.mock.callCount(), 0);
    third.closes();
    for (let i = 0; i < 3; i += 1) (await relay.socket()).closes();
    await until('the warning', () => warn.mock.callCount());
    assert.deepEqual(warn.mock.calls.map(({ arguments: [text] }) => text), [
      `clairon: cannot connect to ws://relay.test/v1/ws: connection lost (1006). Is it the address of a relay${hint}?`,
    ]);
  });
}

test('an address that accepts a connection and does not reply causes a warning after the first attempt', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  const warn = t.mock.method(console, 'warn', () => {});
  const { relay } = start(t, { transports: ['ws'] });
  (await relay.socket()).onopen();
  tick(10_000);
  while (!warn.mock.callCount()) await new Promise(setImmediate);
  tick(1);
  await relay.socket();
  assert.deepEqual(warn.mock.calls.map(({ arguments: [text] }) => text), [
    'clairon: cannot connect to ws://relay.test/v1/ws: connection lost (no reply). Is it the address of a relay?',
  ]);
});

test('a warning with the reason of the relay does not ask for other causes', async (t) => {
  const warn = t.mock.method(console, 'warn', () => {});
  const { relay } = start(t, { transports: ['ws'], token: async () => 'expired' });
  for (let i = 0; i < 3; i += 1) {
    const socket = await relay.socket();
    socket.onopen();
    socket.sends({ t: 'bye', code: 4100, msg: 'token expired' });
    socket.closes(4100);
  }
  await until('the warning', () => warn.mock.callCount());
  assert.equal(warn.mock.calls[0].arguments[0], 'clairon: cannot connect to ws://relay.test/v1/ws: token expired');
});

test('a client that has been connected, or has no token, does not warn', async (t) => {
  const warn = t.mock.method(console, 'warn', () => {});
  const { relay } = start(t, { transports: ['ws'] });
  const socket = await relay.socket();
  socket.accept();
  socket.closes();
  for (let i = 0; i < 5; i += 1) (await relay.socket()).closes();
  const { errors } = start(t, { token: () => undefined });
  await until('errors', () => errors.length > 4);
  assert.equal(warn.mock.callCount(), 0);
});

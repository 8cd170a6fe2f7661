// transports.test.js: topics, SSE and polling, against a fake relay.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay, msg, notification, until, within } from './fake-relay.js';

const POS = 'Clairon-Pos';

/** A fake fetch(): `await next()` is the next request, with respond(). */
function fakeFetch() {
  const requests = [];
  const waiting = [];
  const fetch = (url, options) => new Promise((resolve, reject) => {
    const { pathname, searchParams } = new URL(url);
    const request = {
      path: pathname,
      query: Object.fromEntries(searchParams),
      ...options,
      respond: (status, body, headers) => resolve(new Response(body, { status, headers })),
      fail: () => reject(new TypeError('fetch failed')),
      stream() {
        let controller;
        const body = new ReadableStream({ start: (c) => { controller = c; } });
        this.respond(200, body);
        return {
          sends: (line, id) => controller.enqueue(new TextEncoder().encode(
            `data: ${JSON.stringify(line)}\n${id ? `id: ${id}\n` : ''}\n`)),
          raw: (text) => controller.enqueue(new TextEncoder().encode(text)),
          closes: () => controller.close(),
          breaks: (error) => controller.error(error),
        };
      },
    };
    options.signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
    const waiter = waiting.shift();
    if (waiter) waiter(request);
    else requests.push(request);
  });
  const next = () => within('a request', new Promise((resolve) => {
    if (requests.length > 0) resolve(requests.shift());
    else waiting.push(resolve);
  }));
  return { fetch, next, requests };
}

function start(t, options = {}) {
  const relay = fakeRelay();
  const http = fakeFetch();
  const client = connect({
    url: 'https://relay.test/v1/ws',
    token: 'T',
    WebSocket: relay.WebSocket,
    fetch: http.fetch,
    backoff: { base: 2, cap: 2 },
    ...options,
  });
  const seen = [];
  const events = { error: [], gap: [], state: [] };
  client.on('message', (n) => seen.push(n.metadata.id));
  for (const event of Object.keys(events)) client.on(event, (detail) => events[event].push(detail));
  t.after(() => client.close());
  return { relay, http, client, seen, events };
}

const connected = (fields) => ({ t: 'connected', user: 'u1', conn: 'c', resumed: false, ping: 25, ...fields });

test('topics are sent in connect, and can change on an open connection', async (t) => {
  const { relay, client } = start(t, { topics: ['a'] });
  const socket = await relay.socket();
  socket.accept();
  assert.deepEqual(socket.sent[0].topics, ['a']);
  client.subscribe(['b', 'c*']);
  client.unsubscribe('a');
  client.unsubscribe('never');
  assert.deepEqual(socket.sent.slice(1).map(({ t: kind, topics }) => [kind, topics]), [
    ['subscribe', ['b', 'c*']], ['unsubscribe', ['a']],
  ]);
  socket.closes();
  const again = await relay.socket();
  again.accept();
  assert.deepEqual(again.sent[0].topics, ['b', 'c*']);
  client.unsubscribe(['b', 'c*']);
  client.subscribe('d');
  assert.deepEqual(again.sent.slice(1).map(({ t: kind, topics }) => [kind, topics]), [
    ['subscribe', ['*']], ['unsubscribe', ['b', 'c*']], ['subscribe', ['d']], ['unsubscribe', ['*']],
  ]);
  assert.equal(new Set(again.sent.map((f) => f.r)).size, again.sent.length);
});

test('after two failed WebSockets the client uses SSE, with the same notifications and acks', async (t) => {
  const { relay, http, client, seen } = start(t, { pos: '5', topics: ['demo.*'] });
  client.on('*', () => {});
  (await relay.socket()).closes();
  (await relay.socket()).closes();
  const request = await http.next();
  assert.equal(request.path, '/v1/sse');
  assert.equal(request.headers.Authorization, 'Bearer T');
  assert.deepEqual(request.query, { pos: '5', topics: 'demo.*', ends: '1' });
  const stream = request.stream();
  stream.sends(connected({ pos: '5', resumed: true }), '5');
  stream.raw('retry: 2000\n\n: a comment\n\nda');
  stream.raw(`ta: ${JSON.stringify(msg('6', notification('a', { ack: true })))}\nid: 6\n`);
  stream.raw('\n');
  const ack = await http.next();
  assert.equal(ack.path, '/v1/ack');
  assert.equal(ack.method, 'POST');
  assert.equal(ack.keepalive, true); // it is sent even if the user leaves the page
  assert.deepEqual(JSON.parse(ack.body), { ids: ['a'] });
  ack.respond(204);
  assert.deepEqual(seen, ['a']);
  assert.equal(client.transport, 'sse');
  assert.equal(client.state, 'open');
  client.subscribe('y');
  const again = await http.next();
  assert.deepEqual(again.query, { pos: '6', topics: 'demo.*,y', ends: '1' });
  again.stream().sends(connected({ pos: '6', resumed: true }), '6');
  await until('the client is open', () => client.state === 'open');
  client.unsubscribe('demo.*');
  assert.deepEqual((await http.next()).query, { pos: '6', topics: 'y', ends: '1' });
});

test('from SSE the client returns to the WebSocket and resumes', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  const { relay, http, client, seen } = start(t);
  client.on('*', () => {});
  for (let i = 0; i < 2; i += 1) {
    (await relay.socket()).closes();
    tick(2);
  }
  const stream = (await http.next()).stream();
  stream.sends(connected({ pos: '5' }), '5');
  stream.sends(msg('6', notification('a')), '6');
  while (seen.length === 0) await new Promise(setImmediate);
  assert.equal(client.transport, 'sse');
  tick(15_000);
  const socket = await relay.socket();
  socket.accept({ resumed: true });
  assert.equal(socket.sent[0].pos, '6');
  assert.equal(client.transport, 'ws');
  socket.sends(msg('7', notification('b')));
  stream.sends(msg('8', notification('c')), '8'); // on the abandoned stream
  await new Promise(setImmediate);
  assert.deepEqual(seen, ['a', 'b']);
});

test('a nack is sent over HTTP; a 4xx response has no effect', async (t) => {
  const { http, client, events } = start(t, { transports: ['sse'] });
  const stream = (await http.next()).stream();
  stream.sends(connected({ pos: '1' }), '1');
  await until('the client is open', () => client.state === 'open');
  client.nack('a', { delay: 500 });
  const nack = await http.next();
  assert.equal(nack.path, '/v1/nack');
  assert.deepEqual(JSON.parse(nack.body), { ids: ['a'], delay: 500 });
  nack.respond(404, '{}');
  client.ack('b');
  (await http.next()).fail();
  stream.sends(msg('2', notification('c')), '2');
  await until('a message', () => client.pos === '2');
  assert.deepEqual(events.error, []);
});

test('a failed ack is repeated while the connection is open', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  const { http, client } = start(t, { transports: ['sse'] });
  (await http.next()).stream().sends(connected({ pos: '1' }), '1');
  while (client.state !== 'open') await new Promise(setImmediate);
  client.ack('a');
  tick(0);
  (await http.next()).fail();
  await new Promise(setImmediate);
  tick(5000);
  (await http.next()).respond(503, '{}');
  await new Promise(setImmediate);
  tick(5000);
  const third = await http.next();
  assert.deepEqual(JSON.parse(third.body), { ids: ['a'] });
  third.respond(204);
  await new Promise(setImmediate);
  tick(60_000);
  assert.deepEqual(http.requests.filter(({ method }) => method === 'POST'), []);
});

test('a captive portal that responds to each request is not treated as a relay', async (t) => {
  const { http, events } = start(t, { transports: ['poll'], backoff: { base: 1e6, cap: 1e6, random: () => 1 } });
  (await http.next()).respond(200, '<!doctype html>\n<title>log in</title>\n');
  await until('it waits', () => events.state.some(({ state }) => state === 'waiting'));
  assert.equal(events.state.some(({ state }) => state === 'open'), false);
  assert.deepEqual(events.error, []);
});

for (const status of [401, 403]) {
  test(`a ${status} from a proxy is retried`, async (t) => {
    const { http, client } = start(t, { transports: ['sse'] });
    (await http.next()).respond(status, '<h1>no</h1>');
    (await http.next()).respond(status, '{"title":"no"}');
    (await http.next()).stream().sends(connected({ pos: '1' }), '1');
    await until('the client is open', () => client.state === 'open');
  });
}

test('a permanent error of the relay closes the client, with its reason', async (t) => {
  for (const [status, code, events] of [[401, 101, 4001], [403, 103, 4003]]) {
    for (const transport of ['sse', 'poll']) {
      const world = start(t, { transports: [transport] });
      (await world.http.next()).respond(status, JSON.stringify({ code, detail: 'token: no "sub"' }));
      await until('closed', () => world.client.state === 'closed');
      assert.equal(world.events.state.at(-1).code, events);
      assert.equal(world.events.state.at(-1).reason, 'token: no "sub"');
      assert.deepEqual(world.events.error.map(({ error }) => error.message), ['token: no "sub"']);
    }
  }
});

test('a client whose access is revoked stops, and reports it once', async (t) => {
  const reason = 'access revoked: sign in again';
  const lost = { sse: (stream) => stream.closes(), poll: (poll) => poll.respond(403, JSON.stringify({ code: 103, detail: reason })) };
  for (const transport of ['sse', 'poll']) {
    const { http, client, events } = start(t, { transports: [transport] });
    let request = await http.next();
    if (transport === 'sse') {
      request = request.stream();
      request.sends(connected({ pos: '1' }), '1');
      request.sends({ t: 'bye', code: 4003, msg: reason });
    } else {
      request.respond(204, null, { [POS]: '1' });
      request = await http.next();
    }
    lost[transport](request);
    await until('closed', () => client.state === 'closed');
    assert.deepEqual([events.state.at(-1).code, events.state.at(-1).reason], [4003, reason]);
    assert.deepEqual(events.error.map(({ error }) => [error.code, error.message]), [[4003, reason]]);
  }
});

test('a ping over HTTP restarts the connection at the same cursor', async (t) => {
  globalThis.document = Object.assign(new EventTarget(), { hidden: false });
  const page = new EventTarget();
  globalThis.addEventListener = page.addEventListener.bind(page);
  globalThis.removeEventListener = page.removeEventListener.bind(page);
  t.after(() => delete globalThis.document);
  const { http, client } = start(t, { transports: ['poll'] });
  (await http.next()).respond(204, null, { [POS]: '3' });
  await http.next();
  page.dispatchEvent(new Event('online'));
  const probe = await http.next();
  assert.deepEqual(probe.query, { wait: '0', pos: '3', ends: '1' });
  client.close();
});

test('after a bye on SSE the stream resumes', async (t) => {
  const { http, client, seen, events } = start(t, { transports: ['sse'] });
  const first = (await http.next()).stream();
  first.sends(connected({ pos: '1' }), '1');
  first.sends(msg('2', notification('a')), '2');
  await until('the message', () => seen.length === 1);
  first.sends({ t: 'bye', code: 4201, in: 3 });
  first.closes();
  const second = await http.next();
  assert.equal(events.state.find((s) => s.state === 'waiting').retryIn, 3);
  assert.equal(second.query.pos, '2');
  second.respond(401, '{"code":101}');
  await until('closed', () => client.state === 'closed');
  assert.equal(events.state.at(-1).code, 4001);
});

test('a fresh token restarts the stream at the same cursor', async (t) => {
  let calls = 0;
  const { http } = start(t, { transports: ['sse'], token: () => `token ${++calls}` });
  const first = (await http.next()).stream();
  first.sends(connected({ pos: '7' }), '7');
  first.sends({ t: 'expiring', in: 60 });
  const second = await http.next();
  assert.equal(second.headers.Authorization, 'Bearer token 2');
  assert.equal(second.query.pos, '7');
});

test('if SSE is rejected too, the client polls repeatedly', async (t) => {
  const { relay, http, client, seen } = start(t);
  (await relay.socket()).closes();
  (await relay.socket()).closes();
  (await http.next()).respond(503, '{}');
  (await http.next()).respond(503, '{}');
  const first = await http.next();
  assert.equal(first.path, '/v1/poll');
  assert.deepEqual(first.query, { wait: '0', ends: '1' });
  first.respond(204, null, { [POS]: '3' });
  const second = await http.next();
  assert.deepEqual(second.query, { wait: '25', pos: '3', ends: '1' });
  assert.equal(client.state, 'open');
  assert.equal(client.transport, 'poll');
  assert.equal(client.pos, '3');
  second.respond(200, `${JSON.stringify(msg('4', notification('a')))}\n${JSON.stringify(msg('5', notification('b')))}\n`, { [POS]: '9' });
  const third = await http.next();
  assert.deepEqual(third.query, { wait: '25', pos: '9', ends: '1' });
  assert.deepEqual(seen, ['a', 'b']);
  third.respond(401, '{"code":109}');
  await until('closed', () => client.state === 'closed'); // a fixed token cannot be renewed
});

for (const transport of ['sse', 'poll']) {
  test(`${transport}: an expired token from the token function is reported once for each attempt`, async (t) => {
    const { http, client, events } = start(t, { transports: [transport], token: () => 'stale' });
    for (let i = 0; i < 2; i += 1) (await http.next()).respond(401, '{"code":109,"detail":"token expired"}');
    await http.next();
    assert.equal(client.state, 'connecting');
    assert.deepEqual(events.error.map(({ error }) => [error.code, error.message]), Array(2).fill([109, 'token expired']));
  });

  test(`${transport}: a rejected token is reported once`, async (t) => {
    for (const [code, close] of [[101, 4001], [103, 4003], [109, 4100]]) {
      const { http, client, events } = start(t, { transports: [transport] });
      (await http.next()).respond(401, JSON.stringify({ code, detail: 'no' }));
      await until('closed', () => client.state === 'closed');
      assert.deepEqual(events.error.map(({ error }) => [error.code, error.message]), [[close, 'no']]);
    }
  });
}

test('a poll that returns a gap has not resumed', async (t) => {
  const { http, events } = start(t, { transports: ['poll'], pos: 'old' });
  const first = await http.next();
  assert.equal(first.query.pos, 'old');
  first.respond(200, '{"t":"gap","from":"1","to":"2","why":"epoch"}\n', { [POS]: '2' });
  await until('the gap', () => events.gap.length > 0);
  assert.equal(events.state.find((s) => s.state === 'open').resumed, false);
});

test('the error of a stream is reported as the reason of the disconnect', async (t) => {
  const { http, events } = start(t, { transports: ['sse'] });
  const stream = (await http.next()).stream();
  stream.sends(connected({ pos: '1' }), '1');
  stream.breaks(new TypeError('it broke'));
  await http.next();
  const { code, reason } = events.state.find((s) => s.state === 'waiting');
  assert.deepEqual({ code, reason }, { code: 1006, reason: 'it broke' });
});

test('without any response the client tries each transport once', async (t) => {
  const { relay, http, client } = start(t);
  (await relay.socket()).closes();
  (await relay.socket()).closes();
  for (const path of ['/v1/sse', '/v1/poll']) {
    const request = await http.next();
    assert.equal(request.path, path);
    request.fail();
  }
  const socket = await relay.socket();
  socket.accept();
  assert.equal(client.transport, 'ws');
});

test('if the WebSocket constructor throws, the reason is reported and the next transport is tried', async (t) => {
  class Forbidden {
    constructor() { throw new DOMException('not from a page loaded over HTTPS', 'SecurityError'); }
  }
  const { http, events } = start(t, { WebSocket: Forbidden });
  const request = await http.next();
  assert.equal(request.path, '/v1/sse');
  const { code, reason } = events.state.find(({ state }) => state === 'waiting');
  assert.deepEqual([code, reason], ['unreachable', 'not from a page loaded over HTTPS']);
});

test('errors of a closed `ws` WebSocket are handled and do not end the program', async (t) => {
  const { relay } = start(t);
  const socket = await relay.socket();
  socket.onerror(new Error('connection refused'));
  socket.closes();
  socket.onerror(new Error('closed before it was open')); // after it was dropped
  (await relay.socket()).accept();
});

/** Ends of an open WebSocket, at a time in milliseconds after `connected`. `ping`: in seconds. */
const ENDS = {
  'closed by a proxy after 300 ms': { at: 300, end: (socket) => socket.closes() },
  'closed by a proxy at a limit of bytes within 5 s': {
    at: 4_000, end: (socket) => { socket.sends(msg('1', notification('a'))); socket.closes(1011); },
  },
  'muted by a proxy': { at: 10_000, ping: 5 },
  'muted by a proxy after frames': { at: 12_000, ping: 5, frameAt: 2_000 },
  'muted by a proxy after five minutes': { at: 310_000, ping: 5, frameAt: 300_000 },
  'muted in one direction': {
    at: 60_000, end: (socket) => { socket.sends({ t: 'bye', code: 4102, msg: 'no pong' }); socket.closes(4102); },
  },
};

/** Opens the next WebSocket, and ends it as described by one of ENDS. */
async function endNext({ relay, tick, pass }, { at, ping = 1e6, frameAt, suspended, end }) {
  const socket = await relay.socket();
  socket.accept({ ping, resumed: true });
  for (let now = 2_000; now <= frameAt; now += 2_000) {
    tick(2_000);
    socket.sends({ t: 'ping' });
  }
  if (suspended) pass(suspended);
  tick(at - (frameAt ?? 0));
  end?.(socket);
  tick(2);
  return socket;
}

/** A client with a fake clock. */
function startTicking(t, options) {
  let clock = 0;
  const tickTimers = handTimers(t, 'setTimeout');
  const tick = (ms) => {
    clock += ms;
    tickTimers(ms);
  };
  const pass = (ms) => { clock += ms; }; // the computer is suspended, so its timers are late
  return { tick, pass, ...start(t, { now: () => clock, ...options }) };
}

for (const [what, end] of Object.entries(ENDS)) {
  test(`after two WebSockets that are ${what} the client uses SSE, and retries once, later`, async (t) => {
    const world = startTicking(t);
    const { http, client, tick } = world;
    await endNext(world, end);
    await endNext(world, end);
    for (const wait of [15_000, 30_000]) {
      const request = await http.next();
      assert.equal(request.path, '/v1/sse');
      request.stream().sends(connected({ resumed: true, ping: 1e6 }));
      while (client.state !== 'open') await new Promise(setImmediate);
      assert.equal(client.transport, 'sse');
      tick(wait - 10);
      assert.equal(client.transport, 'sse');
      tick(10);
      await endNext(world, end);
    }
    assert.equal((await http.next()).path, '/v1/sse');
  });
}

for (const [what, end] of Object.entries({
  'was stable': { at: 5_000, end: (socket) => socket.closes() },
  'was silent because its computer was suspended': { at: 10_000, ping: 5, suspended: 60_000 },
  'the relay closed because the computer was suspended': {
    at: 1,
    ping: 5,
    suspended: 60_000,
    end: (socket) => { socket.sends({ t: 'ping' }, { t: 'bye', code: 4102, msg: 'no pong' }); socket.closes(4102); },
  },
  'the relay closed': { at: 300, end: (socket) => { socket.sends({ t: 'bye', code: 4201, in: 1 }); socket.closes(); } },
})) {
  test(`a WebSocket that ${what} is retried without a fallback`, async (t) => {
    const world = startTicking(t);
    for (let i = 0; i < 4; i += 1) await endNext(world, end);
    assert.equal((await world.relay.socket()).closedWith, undefined);
    assert.equal(world.http.requests.length, 0);
  });
}

test('a WebSocket that is retried and stays stable is used again, even if the clock was set back', async (t) => {
  const world = startTicking(t);
  const {
    relay, http, client, tick, pass,
  } = world;
  for (let i = 0; i < 2; i += 1) await endNext(world, ENDS['closed by a proxy after 300 ms']);
  pass(-3_600_000);
  (await http.next()).stream().sends(connected({ resumed: true, ping: 1e6 }));
  while (client.state !== 'open') await new Promise(setImmediate);
  tick(15_000);
  await endNext(world, { at: 5_000, end: (socket) => socket.closes() });
  (await relay.socket()).accept();
  assert.deepEqual([client.transport, client.state], ['ws', 'open']);
});

test('a WebSocket that is retried, and silent because its computer was suspended, is used again', async (t) => {
  const world = startTicking(t);
  const { relay, http, client, tick } = world;
  for (let i = 0; i < 2; i += 1) await endNext(world, ENDS['muted by a proxy']);
  (await http.next()).stream().sends(connected({ resumed: true, ping: 1e6 }));
  while (client.state !== 'open') await new Promise(setImmediate);
  tick(15_000);
  await endNext(world, { at: 10_000, ping: 5, suspended: 60_000 });
  (await relay.socket()).accept();
  assert.deepEqual([client.transport, client.state], ['ws', 'open']);
});

test('a suspend during an earlier connection does not excuse a WebSocket that is muted', async (t) => {
  const world = startTicking(t);
  await endNext(world, { at: 10_000, ping: 5, suspended: 60_000 });
  for (let i = 0; i < 2; i += 1) await endNext(world, ENDS['muted by a proxy']);
  assert.equal((await world.http.next()).path, '/v1/sse');
});

test('the WebSocket is retried after an interval that doubles up to half an hour', async (t) => {
  const world = startTicking(t);
  const { http, client, tick } = world;
  const end = ENDS['closed by a proxy after 300 ms'];
  await endNext(world, end);
  await endNext(world, end);
  for (const seconds of [15, 30, 60, 120, 240, 480, 960, 1800, 1800]) {
    (await http.next()).stream().sends(connected({ resumed: true, ping: 1e6 }));
    while (client.state !== 'open') await new Promise(setImmediate);
    tick(seconds * 1000 - 10);
    assert.equal(client.transport, 'sse');
    tick(10);
    await endNext(world, end);
  }
});

test('after an outage the WebSocket is retried after a random delay', async (t) => {
  t.mock.method(Math, 'random', () => 0.5);
  const world = startTicking(t);
  const { relay, http, client, tick } = world;
  for (let i = 0; i < 2; i += 1) await endNext(world, ENDS['closed by a proxy after 300 ms']);
  const request = await http.next();
  world.pass(60_000);
  request.stream().sends(connected({ resumed: true, ping: 1e6 }));
  while (client.state !== 'open') await new Promise(setImmediate);
  tick(2_490);
  assert.deepEqual([client.transport, relay.pendingSockets], ['sse', 0]);
  tick(10);
  (await relay.socket()).accept();
  assert.equal(client.transport, 'ws');
});

test('after failures of all transports the client starts over with the WebSocket', async (t) => {
  const { relay, http, client } = start(t);
  for (let i = 0; i < 2; i += 1) (await relay.socket()).closes();
  for (const path of ['/v1/sse', '/v1/sse', '/v1/poll', '/v1/poll']) {
    const request = await http.next();
    assert.equal(request.path, path);
    request.respond(503, '{}');
  }
  (await relay.socket()).accept();
  assert.deepEqual([client.transport, http.requests.length], ['ws', 0]);
});

/** A client on SSE with a live list, whose request for rows is `request`. */
async function listOverSse(t, options) {
  const world = start(t, { transports: ['sse'] });
  const list = world.client.live('assignments', options);
  (await world.http.next()).stream().sends(connected());
  const named = await world.http.next(); // the stream again, with the list
  const stream = named.stream();
  stream.sends(connected({ resumed: true }));
  return { ...world, list, stream, named };
}

const change = (x, after) => ({
  ...msg('1', {
    ...notification(`change ${x}`),
    payload: { before: null, after },
    metadata: { ...notification(`change ${x}`).metadata, timestamp: '2026-01-01T00:00:00.000000Z' },
  }),
  x,
  rule: 'mine',
});

test('over SSE a live list requests its rows with GET, and follows the changes of the stream', async (t) => {
  const { http, list, stream, named } = await listOverSse(t, { rule: 'mine' });
  assert.deepEqual([named.path, named.query.rows], ['/v1/sse', 'assignments/mine']);
  const request = await http.next();
  assert.deepEqual([request.path, request.query], ['/v1/rows', { source: 'assignments', rule: 'mine' }]);
  assert.equal(request.headers.Authorization, 'Bearer T');
  stream.sends(change('10', { id: 1 }));
  stream.sends(change('9', { id: 2 }));
  request.respond(200, '{"key":["id"],"snapshot":"10:10:","rows":[{"id":0}]}\n');
  await until('the rows', () => list.rows.length === 2);
  assert.deepEqual(list.rows, [{ id: 0 }, { id: 1 }]);
});

test('over SSE a new stream names all lists, and their reload arrives', async (t) => {
  const { client, http } = start(t, { transports: ['sse'] });
  const lists = [client.live('tasks'), client.live('duties', { rule: 'mine' })];
  (await http.next()).stream().sends(connected());
  await http.next(); // ended by the second list
  const named = await http.next();
  assert.equal(named.query.rows, 'tasks,duties/mine');
  const stream = named.stream();
  stream.sends(connected({ resumed: true }));
  for (let i = 0; i < 2; i += 1) {
    const request = await http.next();
    request.respond(200, `{"key":["id"],"snapshot":"10:10:","rows":[{"id":"${request.query.source}"}]}`);
  }
  await until('the rows', () => lists.every(({ rows }) => rows.length === 1));
  stream.sends({ t: 'reload', source: 'duties', rule: 'mine' });
  const again = await http.next();
  assert.deepEqual([again.path, again.query.source], ['/v1/rows', 'duties']);
});

test('over SSE a list with an invalid name only fails itself: the stream does not name it', async (t) => {
  const { http, client, events } = start(t, { transports: ['sse'] });
  const stream = (await http.next()).stream();
  stream.sends(connected(), '1');
  await until('the connection', () => client.state === 'open');
  for (const source of ['', 'a,', 'x'.repeat(300)]) {
    const list = client.live(source);
    const request = await http.next();
    assert.deepEqual([request.path, request.query], ['/v1/rows', { source, pos: '1' }]);
    request.respond(400, '{"code":107,"detail":"invalid name"}');
    await until('the error', () => list.error?.code === 107);
  }
  assert.deepEqual(events.state.map(({ state }) => state), ['connecting', 'open']);
});

test('while the client polls, a list loads its rows again every minute', async (t) => {
  const { client, http } = start(t, { transports: ['poll'] });
  const list = client.live('tasks');
  (await http.next()).respond(204, null, { [POS]: '1' });
  const polls = [];
  const rows = async (id) => {
    let request = await http.next();
    for (; request.path === '/v1/poll'; request = await http.next()) polls.push(request);
    request.respond(200, `{"key":["id"],"snapshot":"10:10:","rows":[{"id":"${id}"}]}`);
    await until('the rows', () => list.rows[0]?.id === id);
  };
  await rows('a');
  if (!polls.length) polls.push(await http.next());
  const later = Date.now() + 60_000;
  t.mock.method(Date, 'now', () => later);
  polls.pop().respond(204, null, { [POS]: '1' });
  await rows('b');
});

/** A client that polls, with a live list whose rows are loaded, and its pending poll. */
async function pollingList(t) {
  t.mock.method(Math, 'random', () => 0); // no delay before another load
  const { client, http } = start(t, { transports: ['poll'] });
  const list = client.live('assignments', { rule: 'mine' });
  const polls = [];
  (await http.next()).respond(204, null, { [POS]: '1' });
  const next = async () => {
    let request = await http.next();
    for (; request.path === '/v1/poll'; request = await http.next()) polls.push(request);
    return request;
  };
  const nextLoad = async () => {
    const request = await next();
    return (snapshot, ...ids) => request.respond(200, JSON.stringify({ key: ['id'], snapshot, rows: ids.map((id) => ({ id })) }));
  };
  const load = () => within('a request for rows', nextLoad(), 20_000); // the client sends polls all the time
  const poll = async (...frames) => {
    if (!polls.length) polls.push(await http.next());
    polls.pop().respond(200, frames.map((frame) => JSON.stringify(frame)).join('\n'), { [POS]: '2' });
    await new Promise(setImmediate);
  };
  const shows = (...ids) => until(`rows ${ids}`, () => !list.loading && list.rows.map(({ id }) => id).join() === ids.join());
  (await load())('10:10:', 'a', 'b');
  await shows('a', 'b');
  return {
    client, http, list, next, load, poll, shows,
  };
}

test('while the client polls, a list loads the rows after a change, because it may have missed a TRUNCATE', async (t) => {
  const { list, load, poll, shows } = await pollingList(t);
  await poll(change('12', { id: 'c' }));
  const respond = await load();
  assert.deepEqual(list.rows, [{ id: 'a' }, { id: 'b' }]);
  respond('13:13:', 'c');
  await shows('c');
});

test('while the client polls, changes during a load cause one more load', async (t) => {
  const { list, load, poll, shows } = await pollingList(t);
  await poll(change('12', { id: 'c' }));
  const first = await load();
  await poll(change('14', { id: 'd' }), change('15', { id: 'e' }));
  first('13:13:', 'c');
  const second = await load();
  await shows('c');
  second('16:16:', 'c', 'd', 'e');
  await shows('c', 'd', 'e');
  await poll(change('15', { id: 'e' }));
  assert.equal(list.loading, false);
});

test('while the client polls, seen() requests a barrier over HTTP, then rows that contain the transaction', async (t) => {
  const { client, next, load, shows } = await pollingList(t);
  let isSeen = false;
  client.seen('14').then(() => { isSeen = true; });
  const busy = await next();
  assert.deepEqual([busy.path, busy.query.x], ['/v1/barrier', '14']);
  busy.respond(503, '{"code":111,"detail":"transaction has not ended"}', { 'Retry-After': '0.01' });
  (await next()).respond(200, '{"pos":"9","committed":true}');
  const respond = await load();
  assert.equal(isSeen, false);
  respond('15:15:', 'd');
  await shows('d');
  await until('seen()', () => isSeen);
});

test('while the client polls, reload() during a load resolves after another load', async (t) => {
  const { list, load, poll, shows } = await pollingList(t);
  await poll(change('12', { id: 'c' }));
  const first = await load();
  let isReloaded = false;
  list.reload().then(() => { isReloaded = true; });
  first('13:13:', 'c');
  await shows('c');
  const second = await load();
  assert.equal(isReloaded, false);
  second('13:13:', 'c');
  await until('the end of reload()', () => isReloaded);
});

test('over SSE a request for rows without a response ends at a timeout, and is repeated', async (t) => {
  const limit = new AbortController();
  t.mock.method(AbortSignal, 'timeout', () => limit.signal);
  const { http, list } = await listOverSse(t);
  await http.next();
  limit.abort();
  (await http.next()).respond(200, '{"key":["id"],"snapshot":"10:10:","rows":[{"id":0}]}');
  await until('the rows', () => list.rows.length === 1);
});

test('over SSE a request to a busy relay is repeated after `Retry-After`, and a lost request with growing delays', async (t) => {
  const { http, list, events } = await listOverSse(t);
  (await http.next()).respond(503, '{"code":111,"detail":"too many requests for rows"}', { 'Retry-After': '0' });
  (await http.next()).fail();
  (await http.next()).respond(200, '{"key":["id"],"snapshot":"10:10:","rows":[{"id":0}]}');
  await until('the rows', () => list.rows.length === 1);
  assert.deepEqual(events.error.map(({ error }) => error.message), ['fetch failed']);
});

test('over SSE, the codes 103 and 113 are errors of the live list', async (t) => {
  for (const [status, code] of [[403, 103], [413, 113]]) {
    const { http, list } = await listOverSse(t);
    (await http.next()).respond(status, `{"code":${code},"detail":"rejected"}`);
    await until('the error', () => list.error);
    assert.deepEqual([list.error.code, list.error.message, list.loading], [code, 'rejected', false]);
  }
});

test('over SSE the snapshot of load() is compared with the snapshot of the relay if the rule is live', async (t) => {
  const results = [{ rows: [], snapshot: '8:8:' }, { rows: [{ id: 'old' }], snapshot: '9:9:' }, { rows: [{ id: 'new' }], snapshot: '10:10:' }];
  const { http, list } = await listOverSse(t, { key: 'id', load: () => results.shift() });
  const request = await http.next();
  assert.equal(request.query.snapshot, '9:9:');
  request.respond(200, '{"key":["id"],"snapshot":"10:10:","rows":[]}');
  (await http.next()).respond(403, '{"code":103,"detail":"no such live rule for this user"}');
  await until('the rows', () => list.rows.length === 1);
  assert.deepEqual(list.rows, [{ id: 'new' }]);
});

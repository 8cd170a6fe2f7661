// user.test.js: a client closes when a token or the relay has another user.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { fakeBrowser, tokenOf } from './fake-browser.js';
import { fakeRelay, msg, notification, until } from './fake-relay.js';

let users = 0;

/** Two user ids that are unique in the process, because BroadcastChannels are shared. */
function twoUsers() {
  users += 1;
  return [`first ${users}`, `second ${users}`];
}

function start(t, options) {
  const relay = fakeRelay();
  const client = connect({
    url: 'ws://relay.test', WebSocket: relay.WebSocket, backoff: { base: 2, cap: 2 }, ...options,
  });
  const seen = [];
  const errors = [];
  client.on('message', (n) => seen.push(n.metadata.id));
  client.on('error', ({ error }) => errors.push(error));
  t.after(() => client.close());
  return { relay, client, seen, errors };
}

/** Asserts that the client is closed, with one error that names the other user. */
async function hasEnded({ client, errors }, other) {
  await until('closed', () => client.state === 'closed');
  assert.deepEqual(errors.map(({ code, message }) => [code, message]), [
    ['other user', `token of another user: ${other}`],
  ]);
}

test('a reconnect with the token of another user opens no connection', async (t) => {
  const [first, second] = twoUsers();
  const tokens = [tokenOf(first), tokenOf(second)];
  const world = start(t, { token: () => tokens.shift(), ack: 'manual' });
  const socket = await world.relay.socket();
  socket.accept();
  socket.sends(msg('1', notification('a', { ack: true })));
  socket.closes();
  world.client.ack('a'); // queued, and never sent as another user
  await hasEnded(world, second);
  assert.equal(world.relay.pendingSockets, 0);
});

test('a refresh never sends the token of another user', async (t) => {
  const [first, second] = twoUsers();
  const tokens = [tokenOf(first), tokenOf(second)];
  const world = start(t, { token: () => tokens.shift() });
  const socket = await world.relay.socket();
  socket.accept();
  socket.sends({ t: 'expiring', in: 60 });
  await hasEnded(world, second);
  assert.deepEqual(socket.frames('refresh'), []);
  assert.equal(socket.closedWith, 1000);
});

test('`connected` of another user closes the client before any delivery or ack', async (t) => {
  const [first, second] = twoUsers();
  const world = start(t, { token: 'opaque', ack: 'manual' });
  const socket = await world.relay.socket();
  socket.accept({ user: first });
  socket.closes();
  world.client.ack('a');
  const next = await world.relay.socket();
  next.onopen();
  next.sends({ t: 'connected', user: second, conn: 'c2', pos: '0', resumed: true, ping: 25 }, msg('1', notification('b')));
  await hasEnded(world, second);
  assert.deepEqual(world.seen, []);
  assert.deepEqual(next.frames('ack'), []);
  assert.equal(next.closedWith, 1000);
});

test('no request over HTTP has the token of another user', async (t) => {
  const [first, second] = twoUsers();
  const tokens = [tokenOf(first), tokenOf(second)];
  const requests = [];
  const world = start(t, {
    token: () => tokens.shift(),
    transports: ['poll'],
    fetch: async (url, { headers }) => {
      requests.push(headers.Authorization);
      return new Response('', { status: 503 });
    },
  });
  await hasEnded(world, second);
  assert.deepEqual(requests, [`Bearer ${tokenOf(first)}`]);
});

test('a non-ASCII user id is equal in the token and in `connected`', async (t) => {
  const { relay, client } = start(t, { token: tokenOf('Zoë 😀') });
  (await relay.socket()).accept({ user: 'Zoë 😀' });
  assert.equal(client.state, 'open');
});

/** A leader tab and a follower; `login.user` is the user of both tokens. */
async function twoTabs(t) {
  const [first, second] = twoUsers();
  fakeBrowser();
  const relay = fakeRelay();
  const login = { user: first };
  const open = () => start(t, { token: () => tokenOf(login.user), WebSocket: relay.WebSocket });
  const leader = open();
  const socket = await relay.socket();
  socket.accept();
  const follower = open();
  await until('the follower is open', () => follower.client.state === 'open');
  return { relay, login, leader, follower, socket, first, second };
}

test('a leader and the next leader close if a refreshed token names another user', async (t) => {
  const { relay, login, leader, follower, socket, first, second } = await twoTabs(t);
  login.user = second;
  socket.sends({ t: 'expiring', in: 60 });
  await hasEnded(leader, second);
  assert.deepEqual(socket.frames('refresh'), []);
  const next = await relay.socket();
  next.accept({ resumed: true });
  assert.equal(next.sent[0].token, tokenOf(first)); // the token fetched at its start
  next.sends({ t: 'expiring', in: 60 });
  await hasEnded(follower, second);
  assert.deepEqual(next.frames('refresh'), []);
  assert.equal(relay.pendingSockets, 0);
});

test('a leader that reconnects as another user closes; a tab of the first user continues', async (t) => {
  const { relay, login, leader, follower, socket, first, second } = await twoTabs(t);
  login.user = second;
  socket.closes();
  await hasEnded(leader, second);
  const next = await relay.socket();
  next.accept({ resumed: true });
  assert.equal(next.sent[0].token, tokenOf(first));
  next.sends(msg('1', notification('a')));
  await until('the message', () => follower.seen.length === 1);
  assert.deepEqual(leader.seen, []);
});

for (const t of ['frames', 'state', 'connected']) {
  test(`a follower ignores \`${t}\` of a leader with another user`, async (context) => {
    const { follower, first, second } = await twoTabs(context);
    const channel = new BroadcastChannel(`clairon ws://relay.test/v1/ws ${first}`);
    context.after(() => channel.close());
    const connected = { t: 'connected', user: second, pos: '0' };
    const change = { state: 'open', user: second };
    channel.postMessage({ t, leads: true, from: 1, frames: t === 'frames' ? [connected] : [], change: t === 'frames' ? undefined : change });
    channel.postMessage({ t: 'frames', leads: true, from: 1, frames: [msg('9', notification('of another user'))] });
    await hasEnded(follower, second);
    assert.deepEqual(follower.seen, []);
  });
}

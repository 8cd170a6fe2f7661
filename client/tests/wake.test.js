// wake.test.js: a client reconnects immediately when the network or the user is back.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { fakeBrowser, handTimers, tokenOf } from './fake-browser.js';
import { fakeRelay, until } from './fake-relay.js';

function start(t, options = {}) {
  const browser = fakeBrowser();
  const relay = fakeRelay();
  const client = connect({
    url: 'ws://relay.test',
    token: tokenOf('u'),
    tabs: false,
    WebSocket: relay.WebSocket,
    backoff: { base: 1e6, cap: 1e6, random: () => 1 },
    ...options,
  });
  t.after(() => client.close());
  return { browser, relay, client };
}

for (const event of ['online', 'visibilitychange']) {
  test(`${event} ends the backoff`, async (t) => {
    const { browser, relay, client } = start(t);
    (await relay.socket()).closes();
    assert.equal(client.state, 'waiting');
    browser.dispatch(event);
    (await relay.socket()).accept();
    assert.equal(client.state, 'open');
  });
}

test('the online event restarts an attempt that hangs on a lost network', async (t) => {
  let calls = 0;
  const { browser, relay, client } = start(t, {
    token: () => { calls += 1; return calls === 1 ? new Promise(() => {}) : tokenOf('u'); },
  });
  await until('the first token', () => calls === 1);
  browser.dispatch('visibilitychange');
  browser.dispatch('online');
  await relay.socket(); // this attempt also hangs
  browser.dispatch('online');
  (await relay.socket()).accept();
  assert.equal(client.state, 'open');
  assert.equal(calls, 3);
});

test('a hidden page does not reconnect early', async (t) => {
  const { browser, relay, client } = start(t);
  (await relay.socket()).closes();
  browser.document.hidden = true;
  browser.dispatch('visibilitychange');
  assert.equal(client.state, 'waiting');
});

test('the online event pings an open connection, and the client reconnects if no reply arrives', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  const { browser, relay, client } = start(t);
  const socket = await relay.socket();
  socket.accept();
  browser.dispatch('online');
  assert.equal(socket.frames('ping').length, 1);
  socket.sends({ t: 'pong' });
  tick(6000);
  assert.equal(client.state, 'open');
  browser.dispatch('online');
  tick(6000);
  assert.equal(client.state, 'waiting');
});

test('a page that becomes visible pings only after silence', async (t) => {
  let clock = 0;
  const { browser, relay } = start(t, { now: () => clock });
  const socket = await relay.socket();
  socket.accept({ ping: 25 });
  browser.dispatch('visibilitychange');
  assert.equal(socket.frames('ping').length, 0);
  clock = 26_000;
  browser.dispatch('visibilitychange');
  await until('a ping', () => socket.frames('ping').length === 1);
});

test('acks are sent before the user leaves the page', async (t) => {
  const { browser, relay, client } = start(t);
  const socket = await relay.socket();
  socket.accept();
  client.ack('a');
  browser.dispatch('pagehide');
  assert.deepEqual(socket.frames('ack'), [{ t: 'ack', ids: ['a'] }]);
});

test('after close() the client does not reconnect', async (t) => {
  const { browser, relay, client } = start(t);
  (await relay.socket()).closes();
  client.close();
  browser.dispatch('online');
  assert.equal(client.state, 'closed');
  assert.equal(relay.pendingSockets, 0);
});

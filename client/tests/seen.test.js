// seen.test.js: seen() resolves when the changes of a transaction have arrived.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay, msg, notification } from './fake-relay.js';

// The module is imported first: the fake clock must not advance during an import.
await import(new URL('rows.js', import.meta.resolve('clairon')));

let ids = 0;

const change = (x, source = 't') => {
  ids += 1;
  const n = notification(`id ${ids}`, { source });
  n.metadata.timestamp = `2026-01-01T00:00:00.${ids}Z`;
  n.payload = { before: null, after: { id: ids } };
  return { ...msg(String(ids), n), x, rule: 'default' };
};

async function turn() {
  for (let i = 0; i < 3; i += 1) await new Promise(setImmediate);
}

/** A connected client; the test controls the timers. */
async function start(t, prepare = () => {}) {
  const tick = handTimers(t, 'setTimeout');
  const relay = fakeRelay();
  const client = connect({ url: 'ws://relay.test', token: 'T', WebSocket: relay.WebSocket });
  t.after(() => client.close());
  prepare(client);
  const socket = await relay.socket();
  socket.accept({ ping: 1e6 });
  /** The result of seen(), as `value`. */
  const wait = async (xid, options) => {
    const result = {};
    client.seen(xid, options).then(() => { result.value = 'resolved'; }, (error) => { result.value = error; });
    await turn();
    return result;
  };
  const pass = async (ms = 0) => {
    await turn();
    tick(ms);
    await turn();
  };
  return { client, socket, wait, pass };
}

const respond = (socket, r, snapshot, rows = []) => socket.sends({ t: 'rows', r, key: ['id'], snapshot, rows, more: false });

test('seen() resolves when a notification of the transaction has arrived, even before the call', async (t) => {
  const { socket, wait, pass } = await start(t);
  const result = await wait('7424');
  socket.sends(change('7423'));
  await pass();
  assert.equal(result.value, undefined);
  socket.sends(change('7424'));
  await pass();
  assert.equal(result.value, 'resolved');
  for (const xid of ['7423', 7424, 7424n]) {
    const again = await wait(xid);
    await pass();
    assert.equal(again.value, 'resolved', String(xid));
  }
});

test('seen() resolves after lists show the change', async (t) => {
  let list;
  const { client, socket, pass } = await start(t, (its) => { list = its.live('t'); });
  await turn();
  respond(socket, socket.frames('rows')[0].r, '10:10:');
  await turn();
  let contained;
  client.seen('10').then(() => { contained = list.rows.length; });
  await turn();
  socket.sends(change('10'));
  await pass();
  socket.sends(change('10'));
  await pass(1);
  assert.equal(contained, undefined);
  await pass(10);
  assert.equal(contained, 2);
});

test('seen() resolves while later changes arrive without a pause', async (t) => {
  const { socket, wait, pass } = await start(t, (its) => { its.live('t'); });
  await turn();
  respond(socket, socket.frames('rows')[0].r, '10:10:');
  await turn();
  const result = await wait('10');
  for (let x = 10; x < 20; x += 1) {
    socket.sends(change(String(x)));
    await pass(3);
  }
  assert.equal(result.value, 'resolved');
});

test('seen() resolves after a list that loads its rows shows the change', async (t) => {
  let list;
  const { client, socket, pass } = await start(t, (its) => { list = its.live('t'); });
  await turn();
  respond(socket, socket.frames('rows')[0].r, '10:10:');
  await turn();
  list.reload();
  await turn();
  let contained;
  client.seen('10').then(() => { contained = list.rows.length; });
  socket.sends(change('10'));
  await pass(10);
  assert.equal(contained, undefined);
  respond(socket, socket.frames('rows')[1].r, '11:11:', [{ id: 1 }]);
  await pass(10);
  assert.equal(contained, 1);
});

test('seen() does not wait for a list with an error', async (t) => {
  const { client, socket, wait, pass } = await start(t, (its) => { its.live('t'); });
  client.on('error', () => {});
  await turn();
  socket.sends({ t: 'err', r: socket.frames('rows')[0].r, code: 100, msg: 'no database', retry: true });
  const result = await wait('10');
  socket.sends(change('10'));
  await pass(10);
  assert.equal(result.value, 'resolved');
});

test('seen() resolves when the rows of all lists contain a transaction whose notification was lost', async (t) => {
  const { socket, wait, pass } = await start(t, (client) => { client.live('t'); client.live('u'); });
  await turn();
  const [first, second] = socket.frames('rows');
  const result = await wait('10');
  respond(socket, first.r, '11:11:');
  await pass();
  assert.equal(result.value, undefined);
  respond(socket, second.r, '11:11:');
  await pass();
  assert.equal(result.value, 'resolved');
});

test('the client keeps only the ids of the last transactions', async (t) => {
  const { socket, wait, pass } = await start(t);
  for (let x = 1; x <= 4097; x += 1) socket.sends(change(String(x)));
  const [forgotten, remembered] = [await wait('1'), await wait('2')];
  await pass();
  assert.deepEqual([forgotten.value, remembered.value], [undefined, 'resolved']);
});

test('seen() rejects after 30 s, or after `timeout`', async (t) => {
  const { wait, pass } = await start(t);
  const [first, second] = [await wait('7424'), await wait('7425', { timeout: 500 })];
  await pass(499);
  assert.equal(second.value, undefined);
  await pass(1);
  assert.deepEqual([second.value.code, second.value.message], ['timeout', 'transaction 7425: no change has arrived within 500 ms']);
  await pass(29_499);
  assert.equal(first.value, undefined);
  await pass(1);
  assert.equal(first.value.code, 'timeout');
});

test('seen() rejects when the client closes, and after the client is closed', async (t) => {
  const { client, wait } = await start(t);
  const result = await wait('7424');
  client.close();
  await turn();
  assert.deepEqual([result.value.code, result.value.message], ['closed', 'transaction 7424: close()']);
  assert.equal((await wait('7424')).value.code, 'closed');
});

test('seen() rejects values that are not transaction ids', async (t) => {
  const { wait } = await start(t);
  for (const xid of ['', '-1', 'x', undefined, null, 1.5]) {
    assert.match((await wait(xid)).value.message, /^seen\(\): .* is not a transaction id$/);
  }
});

test('while the client polls, seen() resolves when the list shows the change, although newer changes have arrived', async (t) => {
  let list;
  const { socket, wait, pass } = await start(t, (client) => {
    list = client.live('t');
    Object.defineProperty(client, 'transport', { get: () => 'poll' });
  });
  await turn();
  const requests = () => socket.frames('rows');
  respond(socket, requests()[0].r, '10:10:');
  socket.sends(change('10'));
  await pass(1000);
  const result = await wait('10');
  await pass(1);
  socket.sends(change('11'));
  await pass();
  assert.equal(result.value, undefined);
  respond(socket, requests()[1].r, '11:11:', [{ id: 1 }]);
  await pass();
  assert.deepEqual([list.rows.length, result.value], [1, 'resolved']);
});

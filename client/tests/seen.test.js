// seen.test.js: seen() resolves when all lists show a transaction, by a barrier of the relay.

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
async function start(t, prepare = () => {}, connected = {}) {
  const tick = handTimers(t, 'setTimeout');
  const relay = fakeRelay();
  const client = connect({ url: 'ws://relay.test', token: 'T', WebSocket: relay.WebSocket });
  t.after(() => client.close());
  prepare(client);
  const socket = await relay.socket();
  socket.accept({ ping: 1e6, ...connected });
  /** The result of seen(), as `value`. */
  const wait = async (xid, options) => {
    const result = {};
    client.seen(xid, options).then(() => { result.value = 'resolved'; }, (error) => { result.value = error; });
    await turn();
    return result;
  };
  const advance = async (ms = 0) => {
    await turn();
    tick(ms);
    await turn();
  };
  return { relay, client, socket, wait, advance };
}

const respond = (socket, r, snapshot, rows = []) => socket.sends({ t: 'rows', r, key: ['id'], snapshot, rows, more: false });

/** A connected client with a live list, whose rows are none. */
async function startList(t, connected) {
  let list;
  const started = await start(t, (client) => { list = client.live('t'); }, connected);
  await turn();
  respond(started.socket, started.socket.frames('rows')[0].r, '10:10:');
  await turn();
  /** The number of the list's rows when seen() resolves, as `rows`. */
  const waitForList = async (xid) => {
    const seen = {};
    started.client.seen(xid).then(() => { seen.rows = list.rows.length; });
    await turn();
    return seen;
  };
  return { ...started, list, waitForList };
}

/** Replies to the last barrier. */
const pass = (socket, fields) => {
  const { r, x } = socket.frames('barrier').at(-1);
  socket.sends({ t: 'barrier', r, committed: true, ...fields });
  return x;
};

test('seen() resolves after the barrier, also without a notification', async (t) => {
  const { socket, wait, advance } = await start(t);
  for (const xid of ['7423', 7424, 7425n]) {
    const result = await wait(xid);
    socket.sends(change(String(xid)));
    await advance(1000);
    assert.equal(result.value, undefined);
    assert.equal(pass(socket), String(xid));
    await advance();
    assert.equal(result.value, 'resolved', String(xid));
  }
});

test('seen() resolves if PostgreSQL has removed the outcome', async (t) => {
  const { socket, wait, advance } = await start(t);
  const result = await wait('3');
  pass(socket, { committed: undefined });
  await advance();
  assert.equal(result.value, 'resolved');
});

test('seen() rejects a transaction that was rolled back', async (t) => {
  const { socket, wait, advance } = await start(t);
  const result = await wait('7424');
  pass(socket, { committed: false });
  await advance();
  assert.deepEqual([result.value.code, result.value.message], ['rolledback', 'transaction 7424: rolled back']);
});

test('seen() resolves after lists show the change', async (t) => {
  const { socket, advance, waitForList } = await startList(t);
  const seen = await waitForList('10');
  socket.sends(change('10'));
  socket.sends(change('10'));
  pass(socket);
  await advance();
  await advance(10);
  assert.equal(seen.rows, 2);
});

test('seen() waits for the end of a transaction of which a list holds changes', async (t) => {
  const { socket, advance, list, waitForList } = await startList(t, { features: ['barrier', 'ends'] });
  const seen = await waitForList('10');
  socket.sends(change('10'));
  pass(socket);
  await advance(10);
  socket.sends(change('11'));
  await advance(10);
  assert.deepEqual([seen.rows, list.rows.length], [undefined, 0]);
  socket.sends({ t: 'end', x: '10', pos: String(ids) });
  await advance(10);
  assert.equal(seen.rows, 1);
});

test('seen() resolves after a list that loads its rows shows the change', async (t) => {
  const { socket, advance, list, waitForList } = await startList(t);
  list.reload();
  await turn();
  const seen = await waitForList('10');
  socket.sends(change('10'));
  pass(socket);
  await advance(10);
  assert.equal(seen.rows, undefined);
  respond(socket, socket.frames('rows')[1].r, '11:11:', [{ id: 1 }]);
  await advance(10);
  assert.equal(seen.rows, 1);
});

test('seen() does not wait for a list with an error', async (t) => {
  const { client, socket, wait, advance } = await start(t, (its) => { its.live('t'); });
  client.on('error', () => {});
  await turn();
  socket.sends({ t: 'err', r: socket.frames('rows')[0].r, code: 100, msg: 'no database', retry: true });
  const result = await wait('10');
  pass(socket);
  await advance(10);
  assert.equal(result.value, 'resolved');
});

test('seen() waits for a list whose relay is busy', async (t) => {
  const { client, socket, advance, list, waitForList } = await startList(t);
  client.on('error', () => {});
  list.reload();
  for (let i = 0; i < 2; i += 1) {
    await turn();
    socket.sends({ t: 'err', r: socket.frames('rows').at(-1).r, code: 111, msg: 'busy', after: 100, retry: true });
    await advance(200 * (i + 1));
  }
  assert.equal(list.error.code, 111);
  const seen = await waitForList('10');
  socket.sends(change('10'));
  pass(socket);
  await advance(10);
  assert.equal(seen.rows, undefined);
  await advance(1000);
  respond(socket, socket.frames('rows').at(-1).r, '11:11:', [{ id: 1 }]);
  await advance(10);
  assert.equal(seen.rows, 1);
});

test('seen() repeats the request while the relay is busy, and on the next connection', async (t) => {
  const { relay, socket, wait, advance } = await start(t);
  const result = await wait('10');
  const [{ r }] = socket.frames('barrier');
  socket.sends({ t: 'err', r, code: 111, msg: 'transaction has not ended', after: 2000, retry: true });
  await advance(1999);
  assert.equal(socket.frames('barrier').length, 1);
  await advance(1);
  assert.equal(socket.frames('barrier').length, 2);
  socket.closes(1006);
  const opened = relay.socket();
  await advance(60_000 / 10);
  const next = await opened;
  next.accept({ ping: 1e6 });
  await advance();
  await advance();
  pass(next);
  await advance();
  assert.equal(result.value, 'resolved');
});

test('seen() rejects with other errors of the relay', async (t) => {
  const { socket, wait, advance } = await start(t);
  const result = await wait('10');
  socket.sends({ t: 'err', r: socket.frames('barrier')[0].r, code: 107, msg: '"x" is not the id of a transaction', retry: false });
  await advance();
  assert.equal(result.value.code, 107);
});

test('seen() rejects after 30 s, or after `timeout`', async (t) => {
  const { wait, advance } = await start(t);
  const [first, second] = [await wait('7424'), await wait('7425', { timeout: 500 })];
  await advance(499);
  assert.equal(second.value, undefined);
  await advance(1);
  assert.deepEqual([second.value.code, second.value.message], ['timeout', 'transaction 7425: not visible within 500 ms']);
  await advance(29_499);
  assert.equal(first.value, undefined);
  await advance(1);
  assert.equal(first.value.code, 'timeout');
});

test('the error for the timeout contains the reason for which the relay did not pass the last barrier', async (t) => {
  const { socket, wait, advance } = await start(t);
  const result = await wait('7424', { timeout: 500 });
  for (const msg of ['too many barriers', 'database does not reply']) {
    socket.sends({ t: 'err', r: socket.frames('barrier').at(-1).r, code: 111, msg, after: 100, retry: true });
    await advance(100 * socket.frames('barrier').length);
  }
  await advance(500);
  assert.equal(result.value.message, 'transaction 7424: not visible within 500 ms: database does not reply');
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
  for (const xid of ['', '-1', '0', 'x', undefined, null, 1.5]) {
    assert.match((await wait(xid)).value.message, /^seen\(\): .* is not a transaction id$/);
  }
});

test('over HTTP, seen() loads lists whose rows lack the transaction', async (t) => {
  let list;
  const { socket, wait, advance } = await start(t, (client) => {
    list = client.live('t');
    Object.defineProperty(client, 'transport', { get: () => 'poll' });
  });
  await turn();
  const requests = () => socket.frames('rows');
  respond(socket, requests()[0].r, '10:10:');
  await turn();
  const result = await wait('10');
  pass(socket);
  await advance();
  assert.deepEqual([requests().length, result.value], [2, undefined]);
  respond(socket, requests()[1].r, '11:11:', [{ id: 1 }]);
  await advance();
  assert.deepEqual([list.rows.length, result.value], [1, 'resolved']);
});

// live.test.js: the rows of live() equal the table, for any order of notifications and loads.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay, msg, notification, until } from './fake-relay.js';

let ids = 0;

/** A change committed at `timestamp`; default: after all previous changes and after the page was opened. */
function change(operation, { before = null, after = null, ack = false, attempts = 0, timestamp, ...rest }) {
  ids += 1;
  const at = timestamp ?? new Date(Date.now() + 60_000 + ids).toISOString().replace('Z', '000Z');
  return msg(String(ids), {
    metadata: { id: `id ${ids}`, source: 't', topic: 'demo.t', type: 'REALTIME', operation, timestamp: at },
    payload: { before, after, ...rest },
    routing: { retry: { ack_required: ack, attempts } },
  });
}

/** The rule is not live: without load() the list starts empty. */
const notLive = ({ r }, socket) => socket.sends({ t: 'err', r, code: 103, msg: 'no such live rule', retry: false });

/** A connected client and its live rows. */
async function start(t, options, connected) {
  const relay = fakeRelay({ onRows: notLive });
  const client = connect({ url: 'ws://relay.test', token: 'T', WebSocket: relay.WebSocket, backoff: { base: 2, cap: 2 } });
  t.after(() => client.close());
  const errors = [];
  client.on('error', ({ error }) => errors.push(error.message));
  const list = client.live('t', { key: 'id', ...options });
  t.after(() => list.close());
  const socket = await relay.socket();
  socket.accept(connected);
  if (!options?.load) await until('the reply', () => list.error);
  return { relay, client, socket, list, errors };
}

const rowsAre = (list, rows) => until(`rows ${JSON.stringify(rows)}`, () => JSON.stringify(list.rows) === JSON.stringify(rows));

test('create, update and delete change the rows in place', async (t) => {
  const { socket, list } = await start(t, { load: () => [{ id: 1, a: 'x' }, { id: 2, a: 'y' }] });
  await rowsAre(list, [{ id: 1, a: 'x' }, { id: 2, a: 'y' }]);
  socket.sends(
    change('create', { after: { id: 3, a: 'z' } }),
    change('update', { before: { id: 1 }, after: { id: 1, a: 'X' } }),
    change('delete', { before: { id: 2 } }),
  );
  await rowsAre(list, [{ id: 1, a: 'X' }, { id: 3, a: 'z' }]);
});

test('a listener is called with a new array immediately, and once per tick with changes', async (t) => {
  const { socket, list } = await start(t);
  const events = [];
  const off = list.subscribe((rows) => events.push(rows));
  const before = list.rows;
  socket.sends(change('create', { after: { id: 1 } }), change('create', { after: { id: 2 } }));
  await until('a change', () => events.length > 1);
  assert.deepEqual(events, [[], [{ id: 1 }, { id: 2 }]]);
  assert.notEqual(list.rows, before);
  off();
  socket.sends(change('truncate', {}));
  await rowsAre(list, []);
  assert.equal(events.length, 2);
});

test('a throwing listener does not affect other listeners', async (t) => {
  const { socket, list, errors } = await start(t);
  const events = [];
  list.subscribe(() => { throw new Error('cannot render'); });
  list.subscribe((rows) => events.push(rows));
  socket.sends(change('create', { after: { id: 1 } }));
  await until('the other', () => events.length > 1);
  assert.deepEqual(events, [[], [{ id: 1 }]]);
  assert.deepEqual(errors, ['cannot render', 'cannot render']); // the immediate call, and the change
});

test('unchanged large columns keep their value', async (t) => {
  const { socket, list } = await start(t, { load: () => [{ id: 1, a: 'x', big: 'B' }] });
  await rowsAre(list, [{ id: 1, a: 'x', big: 'B' }]);
  socket.sends(change('update', { before: { id: 1 }, after: { id: 1, a: 'y' }, unchanged: ['big'] }));
  await rowsAre(list, [{ id: 1, a: 'y', big: 'B' }]);
  socket.sends(change('update', { before: { id: 1 }, after: { id: 7, a: 'y' }, unchanged: ['big'] }));
  await rowsAre(list, [{ id: 7, a: 'y', big: 'B' }]);
});

test('columns that only load() returns keep their value', async (t) => {
  const { socket, list } = await start(t, { load: () => [{ id: 1, a: 'x', author: 'Ada' }] });
  await rowsAre(list, [{ id: 1, a: 'x', author: 'Ada' }]);
  socket.sends(change('update', { before: { id: 1 }, after: { id: 1, a: 'y' } }));
  await rowsAre(list, [{ id: 1, a: 'y', author: 'Ada' }]);
});

test('truncated values and a TRUNCATE cause a load', async (t) => {
  let rows = [{ id: 1, a: 'x' }, { id: 2, a: 'y' }];
  const { socket, list } = await start(t, { load: () => rows });
  await rowsAre(list, rows);
  rows = [{ id: 1, a: 'large' }, { id: 2, a: 'y' }];
  socket.sends(change('update', { before: { id: 1 }, after: { id: 1, a: null }, truncated: ['a'] }));
  await rowsAre(list, rows);
  rows = [{ id: 2, a: 'y' }];
  socket.sends(change('truncate', {}));
  await rowsAre(list, rows);
});

test('an incomplete change of an unknown row causes a load', async (t) => {
  let rows = [];
  const { socket, list } = await start(t, { load: () => rows });
  await rowsAre(list, []);
  rows = [{ id: 1, a: 'y', big: 'B' }];
  socket.sends(change('update', { before: { id: 1 }, after: { id: 1, a: 'y' }, unchanged: ['big'] }));
  await rowsAre(list, rows);
});

test('a change without the key causes a load', async (t) => {
  let loads = 0;
  const { socket, list } = await start(t, { load: () => [{ id: 1, load: ++loads }] });
  await until('the first load', () => loads === 1);
  socket.sends(change('delete', { before: null }), change('notify', { text: 'not a row' }));
  await rowsAre(list, [{ id: 1, load: 2 }]);
});

test('changes during a load are applied to its result, then acked', async (t) => {
  let finishLoad;
  const { client, socket, list } = await start(t, { load: () => new Promise((resolve) => { finishLoad = resolve; }) });
  await until('a load', () => finishLoad);
  client.on('other', () => {});
  socket.sends(
    change('update', { before: { id: 1 }, after: { id: 1, a: 'new' }, ack: true }),
    msg('other', notification('of nothing loaded', { source: 'other', ack: true })),
  );
  await until('the other ack', () => socket.frames('ack').length === 1);
  assert.deepEqual(socket.frames('ack')[0].ids, ['of nothing loaded']);
  finishLoad([{ id: 1, a: 'old' }, { id: 2, a: 'x' }]);
  await rowsAre(list, [{ id: 1, a: 'new' }, { id: 2, a: 'x' }]);
  await until('the ack', () => socket.frames('ack').length === 2);
});

test('a change that the list cannot apply is acked if another handler resolved, and never nacked', async (t) => {
  const { client, socket, errors } = await start(t);
  const incomplete = change('create', { after: { a: 'no key' }, ack: true });
  socket.sends(incomplete);
  await until('the error', () => errors.length);
  let calls = 0;
  client.on('t', () => { calls += 1; });
  const other = change('create', { after: { a: 'no key' }, ack: true });
  socket.sends(other);
  await until('the ack', () => socket.frames('ack').length === 1);
  socket.sends(incomplete); // the retry
  await until('the ack of the retry', () => socket.frames('ack').length === 2);
  assert.deepEqual(socket.frames('ack').flatMap(({ ids }) => ids), [other.n.metadata.id, incomplete.n.metadata.id]);
  assert.deepEqual([calls, socket.frames('nack')], [2, []]);
  assert.deepEqual(new Set(errors), new Set(["live('t'): no column id in a change", 't: not handled']));
});

test('a notification that is not a change is not acked by a list without snapshots', async (t) => {
  const { socket, errors } = await start(t);
  socket.sends(change('notify', { text: 'hello', ack: true }));
  await until('the error', () => errors.length);
  const applied = change('create', { after: { id: 1 }, ack: true });
  socket.sends(applied);
  await until('an ack', () => socket.frames('ack').length);
  assert.deepEqual(socket.frames('ack'), [{ t: 'ack', ids: [applied.n.metadata.id] }]);
  assert.deepEqual(errors, ['t: not handled']);
});

test('a retry after newer changes does not undo them', async (t) => {
  let rows = [{ id: 1, a: 'first' }];
  const { client, socket, list } = await start(t, { load: () => rows });
  await rowsAre(list, rows);
  let calls = 0;
  client.on('t', () => {
    calls += 1;
    if (calls === 1) throw new Error('not now');
  });
  const again = change('update', { after: { id: 1, a: 'second' }, ack: true });
  socket.sends(again, change('update', { after: { id: 1, a: 'third' }, ack: true }));
  rows = [{ id: 1, a: 'third', loaded: true }];
  await until('the nack', () => socket.frames('nack').length === 1);
  again.n.routing.retry.attempts = 1;
  socket.sends(again);
  await until('both acks', () => socket.frames('ack').flatMap((f) => f.ids).length === 2);
  assert.deepEqual(list.rows, rows);
});

test('the first delivery of an older change after a newer change causes a load, or is ignored without load()', async (t) => {
  let loads = 0;
  const newest = { id: 1, a: 'second' };
  const { socket, list } = await start(t, { load: () => { loads += 1; return [newest]; } });
  await until('the load', () => loads === 1);
  const older = change('update', { after: { id: 1, a: 'first' } });
  socket.sends(change('update', { after: newest }), older);
  await until('another load', () => loads === 2);
  await rowsAre(list, [newest]);
  const other = await start(t);
  const late = change('create', { after: { id: 1, a: 'first' } });
  other.socket.sends(change('update', { after: newest }), change('delete', { before: { id: 2 } }), late);
  other.socket.sends(change('create', { after: { id: 2 }, timestamp: late.n.metadata.timestamp }), change('create', { after: { id: 3 } }));
  await rowsAre(other.list, [newest, { id: 3 }]);
});

test('a retry causes a load, because changes in between are unknown', async (t) => {
  let loads = 0;
  const { socket, list } = await start(t, { load: () => { loads += 1; return [{ id: 1, loads }]; } });
  await until('the load', () => loads === 1);
  socket.sends(change('update', { after: { id: 1, a: 'retried' }, attempts: 1 }));
  await rowsAre(list, [{ id: 1, loads: 2 }]);
});

test('a late change from before the page opened does not replace the result of load()', async (t) => {
  let loads = 0;
  const { socket, list } = await start(t, { load: () => { loads += 1; return [{ id: 1, a: 'second' }]; } });
  await until('the load', () => loads === 1);
  socket.sends(change('update', { after: { id: 1, a: 'first' }, timestamp: '2020-01-01T00:00:00.000000Z' }));
  await until('another load', () => loads === 2);
  await rowsAre(list, [{ id: 1, a: 'second' }]);
});

test('a change of the same transaction is applied if its old row is the row in the list, otherwise load() runs', async (t) => {
  let rows = [];
  let loads = 0;
  const { socket, list } = await start(t, { load: () => { loads += 1; return rows; } });
  await until('the load', () => loads === 1);
  const timestamp = '2099-01-01T00:00:00.000000Z';
  const update = (before, after) => change('update', { before, after, changed: ['a'], timestamp });
  socket.sends(change('create', { after: { id: 1, a: 1 }, timestamp }), update({ id: 1, a: 1 }, { id: 1, a: 2 }));
  await rowsAre(list, [{ id: 1, a: 2 }]);
  assert.equal(loads, 1);
  rows = [{ id: 1, a: 4 }];
  socket.sends(update({ id: 1, a: 3 }, { id: 1, a: 4 }));
  await rowsAre(list, rows);
  socket.sends(update({ id: 1, a: 2 }, { id: 1, a: 3 }));
  await until('a load for the late change', () => loads === 3);
  await rowsAre(list, rows);
});

test('a result without a recent change causes another load after a second', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  const turn = () => new Promise((resolve) => { setImmediate(() => setImmediate(resolve)); });
  let rows = [];
  let loads = 0;
  const { socket, list } = await start(t, { load: () => { loads += 1; return rows; } });
  while (loads === 0) await turn();
  await turn();
  socket.sends(change('create', { after: { id: 1 } }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]);
  socket.sends({ t: 'gap', to: '2', why: 'shed' });
  await turn();
  assert.deepEqual([loads, list.rows], [2, []]); // its commit is not visible yet
  rows = [{ id: 1 }];
  tick(999);
  await turn();
  assert.equal(loads, 2);
  tick(1);
  await turn();
  assert.deepEqual([loads, list.rows], [3, rows]);
  tick(60_000);
  await turn();
  assert.equal(loads, 3);
});

test('the newest changes of many rows are kept, and the oldest are evicted', async (t) => {
  const { socket, list } = await start(t);
  const first = change('create', { after: { id: 0 } });
  socket.sends(first, change('delete', { before: { id: 0 } }));
  for (let id = 1; id <= 5000; id += 1) socket.sends(change('create', { after: { id } }), change('delete', { before: { id } }));
  first.n.metadata.id = 'sent again';
  socket.sends(first, change('create', { after: { id: 5001 } }));
  await rowsAre(list, [{ id: 5001 }]);
});

test('loading and the last load error are reported until a load succeeds', async (t) => {
  t.mock.method(Math, 'random', () => 0);
  let fail = true;
  const { list } = await start(t, {
    load: async () => {
      if (fail) throw new Error('the server is unavailable');
      return [];
    },
  });
  const events = [];
  list.subscribe(() => events.push([list.loading, list.error?.message]));
  await until('the error', () => list.error);
  assert.equal(list.loading, true);
  fail = false;
  await until('the rows', () => !list.loading);
  assert.equal(list.error, undefined);
  assert.ok(events.some(([, error]) => error === 'the server is unavailable'));
  assert.deepEqual(events.at(-1), [false, undefined]);
  const { list: empty } = await start(t);
  assert.equal(empty.loading, false);
});

test('an unknown key column is an error, and does not merge rows', async (t) => {
  const loaded = await start(t, { key: 'nosuch', load: () => [{ id: 1 }, { id: 2 }] });
  await until('the error', () => loaded.list.error);
  assert.match(loaded.errors[0], /^live\('t'\): no column nosuch in a row of load\(\)$/);
  const { socket, errors, list } = await start(t, { key: ['id', 'nosuch'] });
  socket.sends(change('create', { after: { id: 1 } }), change('create', { after: { id: 2 } }));
  await until('the errors', () => errors.length === 2);
  assert.equal(errors[0], "live('t'): no column id,nosuch in a change");
  assert.deepEqual(list.rows, []);
});

test('a load() that returns no array is reported', async (t) => {
  const { list, errors } = await start(t, { load: () => ({ rows: [] }) });
  await until('the error', () => list.error);
  assert.equal(errors[0], "live('t'): load() must return { rows, snapshot } or an array");
});

test('invalid options of live() are rejected by name', async (t) => {
  const { client } = await start(t);
  assert.throws(() => client.live('t', { load: () => [] }), /live\('t'\): key must be a column or columns/);
  assert.throws(() => client.live('t', { key: [] }), /key must be a column/);
  assert.throws(() => client.live('t', { key: 'id', load: [] }), /live\('t'\): .*load a function/);
});

test('a gap or a connection that did not resume causes a load, and a resumed connection does not', async (t) => {
  let loads = 0;
  const { relay, socket, list } = await start(t, { load: () => [{ id: 1, load: ++loads }] });
  await rowsAre(list, [{ id: 1, load: 1 }]);
  socket.sends({ t: 'gap', from: '1', to: '2', why: 'trimmed' });
  await rowsAre(list, [{ id: 1, load: 2 }]);
  socket.closes();
  (await relay.socket()).accept({ resumed: true });
  (await start(t)).client.close(); // waits as long as another client needs to start
  assert.equal(loads, 2);
});

test('a gap during a load causes another load', async (t) => {
  const pending = [];
  const { socket, list } = await start(t, { load: () => new Promise((resolve) => pending.push(resolve)) });
  await until('a load', () => pending.length === 1);
  socket.sends({ t: 'gap', to: '2', why: 'trimmed' });
  pending[0]([{ id: 'old' }]);
  await until('another load', () => pending.length === 2);
  pending[1]([{ id: 'new' }]);
  await rowsAre(list, [{ id: 'new' }]);
});

test('a failed load is reported and retried; changes are applied in between', async (t) => {
  t.mock.method(Math, 'random', () => 0);
  let loads = 0;
  const { errors, list } = await start(t, {
    load: async () => {
      loads += 1;
      if (loads === 1) throw new Error('the server is unavailable');
      return [{ id: 1 }];
    },
  });
  await rowsAre(list, [{ id: 1 }]);
  assert.deepEqual(errors, ['the server is unavailable']);
});

test('a listener can call reload()', async (t) => {
  let loads = 0;
  const { list } = await start(t, { load: () => [{ id: 1, load: ++loads }] });
  const off = list.subscribe(() => { off(); list.reload(); });
  await rowsAre(list, [{ id: 1, load: 2 }]);
});

test('a load that throws immediately is retried', async (t) => {
  t.mock.method(Math, 'random', () => 0);
  let loads = 0;
  const { list } = await start(t, {
    load: () => {
      loads += 1;
      if (loads === 1) throw new Error('no answer');
      return [{ id: 1 }];
    },
  });
  await rowsAre(list, [{ id: 1 }]);
});

test('a composite key identifies rows, and a missing key is rejected', async (t) => {
  const { client, socket, list } = await start(t, { key: ['a', 'b'] });
  socket.sends(change('create', { after: { a: 1, b: 1 } }), change('create', { after: { a: 1, b: 2 } }));
  socket.sends(change('delete', { before: { a: 1, b: 1 } }));
  await rowsAre(list, [{ a: 1, b: 2 }]);
  assert.throws(() => client.live('t', { load: () => [] }), /live\('t'\): key must be a column/);
});

test('rows are loaded once, even when the first connection resumes from a stored cursor', async (t) => {
  const { socket, list } = await start(t, { load: () => [{ id: 1 }] }, { resumed: true });
  await rowsAre(list, [{ id: 1 }]);
  socket.sends(change('create', { after: { id: 2 } }));
  await rowsAre(list, [{ id: 1 }, { id: 2 }]);
});

test('the values of a composite key can contain any characters', async (t) => {
  const { socket, list } = await start(t, { key: ['a', 'b'] });
  const rows = [{ a: 'x\ny', b: 'z' }, { a: 'x', b: 'y\nz' }];
  socket.sends(...rows.map((after) => change('create', { after })));
  await rowsAre(list, rows);
});

test('a failed load is not retried after close() of the client', async (t) => {
  const tick = handTimers(t, 'setTimeout');
  let fail;
  let loads = 0;
  const { client } = await start(t, {
    load: () => new Promise((_, reject) => {
      loads += 1;
      fail = () => reject(new Error('the server is unavailable'));
    }),
  });
  while (!fail) await new Promise(setImmediate);
  client.close();
  fail();
  await new Promise(setImmediate);
  tick(60_000);
  await new Promise(setImmediate);
  assert.equal(loads, 1);
});

test('close() stops changes and loads', async (t) => {
  let loads = 0;
  const { client, socket, list } = await start(t, { load: () => { loads += 1; return []; } });
  await until('the load', () => loads === 1);
  list.close();
  const other = client.live('t', { key: 'id' });
  socket.sends({ t: 'gap', to: '2', why: 'trimmed' }, change('create', { after: { id: 1 } }));
  await rowsAre(other, [{ id: 1 }]);
  assert.deepEqual(list.rows, []);
  assert.equal(loads, 1);
});

// live_rows.test.js: live() with the rows of a live rule: snapshots, and changes before, in and after them.

import assert from 'node:assert/strict';
import test from 'node:test';
import { change, create, loaded, remove, requestsOf, respond, start, turn, update } from './live_list.js';

test('without options the list contains the rows of the live rule, and applies its changes', async (t) => {
  const { socket, list, states, errors } = await start(t);
  assert.deepEqual(requestsOf(socket), [{ t: 'rows', source: 't' }]);
  assert.ok(Number.isInteger(socket.frames('rows')[0].r));
  assert.deepEqual([list.rows, list.loading, list.error], [[], true, undefined]);
  respond(socket, '7421:7430:7424', [{ id: 1, a: 'x' }, { id: 2, a: 'y' }]);
  await turn();
  assert.deepEqual([list.rows, list.loading, list.error], [[{ id: 1, a: 'x' }, { id: 2, a: 'y' }], false, undefined]);
  socket.sends(create(7424, { id: 3, a: 'z' }), update(7430, { id: 1, a: 'X' }), remove(7431, { id: 2 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 'X' }, { id: 3, a: 'z' }]);
  assert.equal(states.length, 3);
  assert.deepEqual(errors, []);
});

test('a rule is requested by its name; changes of other rules are ignored', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1 }], { rule: 'mine' });
  assert.deepEqual(requestsOf(socket), [{ t: 'rows', source: 't', rule: 'mine' }]);
  socket.sends(create(10, { id: 2 }), create(10, { id: 3 }, { rule: 'mine' }), create(10, { id: 4 }, { rule: undefined }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 3 }]);
});

// ---- three faults of lists that compare times, or trust the order of arrival

test('a response of a lagging replica does not undo a newer change', async (t) => {
  const { socket, list, states } = await loaded(t, '10:10:', [{ id: 1, a: 'old' }]);
  socket.sends(update(10, { id: 1, a: 'new' }));
  await turn();
  list.reload();
  await turn();
  respond(socket, '10:10:', [{ id: 1, a: 'old' }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 'new' }]);
  assert.deepEqual(states.map(([row]) => row?.a), [undefined, 'old', 'new', 'new']);
});

test('an older change that arrives after newer rows does not undo them', async (t) => {
  const { socket, list, states } = await start(t);
  const first = update(10, { id: 1, a: 'first' });
  const second = update(11, { id: 1, a: 'second' });
  respond(socket, '12:12:', [{ id: 1, a: 'second' }]);
  socket.sends(first);
  await turn();
  socket.sends(second);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 'second' }]);
  assert.ok(states.slice(1).every(([row]) => row.a === 'second'));
});

test('a change that is not visible yet in newer rows stays in the list', async (t) => {
  const { socket, list, states } = await loaded(t, '9:10:9', []);
  socket.sends(create(10, { id: 1 }));
  await turn();
  list.reload();
  await turn();
  respond(socket, '10:12:10', [{ id: 2 }]); // of transaction 9; 10 is committed, and waits for a synchronous standby
  await turn();
  assert.deepEqual(list.rows, [{ id: 2 }, { id: 1 }]);
  assert.ok(states.slice(2).every((rows) => rows.some(({ id }) => id === 1)));
});

// ---- snapshots

test('changes between request and response are applied unless the snapshot contains them', async (t) => {
  const { socket, list } = await start(t);
  const changes = [update(5, { id: 1, a: 'below xmin' }), update(21, { id: 2, a: 'running' }), update(24, { id: 3, a: 'finished' }),
    update(30, { id: 4, a: 'from xmax' })];
  socket.sends(...changes);
  await turn();
  respond(socket, '20:30:21,23', [1, 2, 3, 4].map((id) => ({ id, a: 'row' })));
  await turn();
  assert.deepEqual(list.rows.map(({ a }) => a), ['row', 'running', 'row', 'from xmax']);
});

test('transaction ids above 2^53 are compared exactly', async (t) => {
  const { socket, list } = await loaded(t, '9007199254740993:9007199254740993:', [{ id: 1, a: 'row' }]);
  socket.sends(update('9007199254740992', { id: 1, a: 'contained' }));
  await turn();
  assert.equal(list.rows[0].a, 'row');
  socket.sends(update('9007199254740993', { id: 1, a: 'next' })); // as a number it equals the previous id
  await turn();
  assert.equal(list.rows[0].a, 'next');
});

for (const [what, snapshot] of [['of an earlier time', '10:11:'], ['without a transaction', '10:20:10,15']]) {
  test(`rows of an older snapshot, ${what}, are dropped and requested again`, async (t) => {
    const { tick, socket, list } = await loaded(t, '10:20:10', [{ id: 1, a: 'held' }]);
    list.reload();
    await turn();
    respond(socket, snapshot, [{ id: 1, a: 'older' }]);
    await turn();
    assert.equal(list.rows[0].a, 'held');
    assert.equal(socket.frames('rows').length, 2);
    tick(30_000);
    await turn();
    assert.equal(socket.frames('rows').length, 3);
    respond(socket, '20:20:', [{ id: 1, a: 'newer' }]);
    await turn();
    assert.equal(list.rows[0].a, 'newer');
  });
}

test('more changes during a load than the ring can contain cause another load, not a loss', async (t) => {
  const { tick, socket, list } = await start(t);
  socket.sends(create(10, { id: 1 }));
  for (let i = 0; i < 1100; i += 1) socket.sends(update(20 + i, { id: 0, a: i }));
  await turn();
  respond(socket, '10:10:', []); // 10 is evicted
  await turn();
  assert.deepEqual([list.rows, list.loading], [[], true]);
  tick(30_000);
  await turn();
  respond(socket, '5:96:5', [{ id: 0, a: 75 }, { id: 1 }]); // transaction 5 still runs
  await turn();
  assert.deepEqual(list.rows, [{ id: 0, a: 1099 }, { id: 1 }]);
});

test('pages of one response appear together, with changes between them', async (t) => {
  const { socket, list, states } = await start(t);
  respond(socket, '10:10:', [{ id: 1 }], { more: true });
  await turn();
  socket.sends(create(10, { id: 3 }));
  await turn();
  assert.equal(states.length, 1);
  respond(socket, '10:10:', [{ id: 2 }]);
  await turn();
  assert.deepEqual(states, [[], [{ id: 1 }, { id: 2 }, { id: 3 }]]);
  assert.equal(list.loading, false);
});

test('a list ignores the response to another list', async (t) => {
  const { client, socket, list } = await start(t);
  const other = client.live('u');
  await turn();
  const [first, second] = socket.frames('rows');
  assert.notEqual(first.r, second.r);
  socket.sends({ t: 'rows', r: second.r, key: ['id'], snapshot: '10:10:', rows: [{ id: 'other' }], more: false });
  socket.sends({ t: 'rows', r: first.r, key: ['id'], snapshot: '10:10:', rows: [{ id: 'first' }], more: false });
  await turn();
  assert.deepEqual([list.rows, other.rows], [[{ id: 'first' }], [{ id: 'other' }]]);
});

test('the key of the response identifies rows, including composite keys', async (t) => {
  const { socket, list } = await start(t);
  respond(socket, '10:10:', [{ a: 1, b: 1 }, { a: 1, b: 2 }], { key: ['a', 'b'] });
  socket.sends(change(10, 'update', { before: { a: 1, b: 2 }, after: { a: 1, b: 3 } }), remove(10, { a: 1, b: 1 }));
  await turn();
  assert.deepEqual(list.rows, [{ a: 1, b: 3 }]);
});

test('after close() there are no changes, requests or listeners', async (t) => {
  const { tick, socket, list, client } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends({ t: 'gap', from: '1', to: '2', why: 'shed' });
  list.close();
  socket.sends(create(10, { id: 2 }));
  tick(60_000);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]);
  assert.equal(socket.frames('rows').length, 1);
  client.close();
});

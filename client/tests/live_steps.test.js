// live_steps.test.js: live() shows the changes of a transaction together, at its end.

import assert from 'node:assert/strict';
import test from 'node:test';
import { createSteps } from '../src/steps.js';
import { change, create, end, loaded, reconnect, respond, start, turn, update } from './live_list.js';

test('the changes of a transaction appear at its end, however long it takes to arrive', async (t) => {
  const { tick, socket, list, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  for (const id of [1, 2, 3]) {
    socket.sendsPart(create(10, { id }));
    tick(60_000);
    await turn();
  }
  assert.deepEqual([list.rows, states], [[], []]);
  socket.sendsPart(end(10));
  await turn();
  assert.deepEqual(states, [[{ id: 1 }, { id: 2 }, { id: 3 }]]);
});

test('they appear in the same task as the end, without a timer', async (t) => {
  const { socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  socket.sendsPart(create(10, { id: 1 }), end(10));
  await null;
  assert.deepEqual(states, [[{ id: 1 }]]);
});

test('the end of a transaction does not show changes of a later transaction', async (t) => {
  const { socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  socket.sendsPart(create(10, { id: 1 }), create(11, { id: 2 }), end(10), create(11, { id: 3 }));
  await turn();
  assert.deepEqual(states, [[{ id: 1 }]]);
  socket.sendsPart(end(11));
  await turn();
  assert.deepEqual(states[1], [{ id: 1 }, { id: 2 }, { id: 3 }]);
});

test('ends that arrive together are one change of the list', async (t) => {
  const { socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  socket.sends(create(10, { id: 1 }), create(11, { id: 2 }));
  await turn();
  assert.deepEqual(states, [[{ id: 1 }, { id: 2 }]]);
});

test('a transaction whose end is delayed does not delay later transactions, except those of the same rows', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1, a: 5 }, { id: 2, a: 0 }]);
  socket.sends(update(10, { id: 2, a: 'before' }));
  socket.sendsPart(update(11, { id: 1, a: 3 })); // the rest waits for the in-flight window
  socket.sends(create(12, { id: 3 }), update(13, { id: 1, a: 4 }), change(14, 'update', { before: { id: 1 }, after: { id: 5, a: 4 } }));
  socket.sends(create(15, { id: 5 }), create(16, { id: 6 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 5 }, { id: 2, a: 'before' }, { id: 3 }, { id: 6 }]);
  socket.sendsPart(update(11, { id: 2, a: 2 }), end(11));
  await turn();
  assert.deepEqual(list.rows.map(({ id, a }) => [id, a]), [[2, 2], [3, undefined], [6, undefined], [5, undefined]]);
  assert.equal(socket.frames('rows').length, 1);
});

test('a TRUNCATE waits for the transactions before it', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sendsPart(create(10, { id: 2 }));
  socket.sends(change(11, 'truncate', {}));
  socket.sends(create(12, { id: 3 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]);
  socket.sendsPart(end(10));
  await turn();
  assert.deepEqual(list.rows, [{ id: 3 }]);
});

test('an end of a transaction without changes of the list is ignored, but moves the cursor', async (t) => {
  const { client, socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  socket.sends({ ...end(10), pos: 'behind 10' });
  await turn();
  assert.deepEqual([states, client.pos], [[], 'behind 10']);
});

test('changes that arrive during a load appear with later changes of their transaction', async (t) => {
  const { socket, list, states } = await start(t);
  socket.sendsPart(create(10, { id: 1 }));
  respond(socket, '10:10:', []);
  await turn();
  assert.deepEqual([list.loading, states], [false, [[], []]]);
  socket.sendsPart(create(10, { id: 2 }), end(10));
  await turn();
  assert.deepEqual(states[2], [{ id: 1 }, { id: 2 }]);
});

test('rows that contain a transaction show it before its end', async (t) => {
  const { tick, socket, list, states } = await loaded(t, '10:10:', []);
  socket.sendsPart(create(10, { id: 1 }), { t: 'gap', from: '1', to: '2', why: 'shed' }, create(10, { id: 3 }));
  tick(1000);
  await turn();
  assert.deepEqual(list.rows, []);
  respond(socket, '11:11:', [{ id: 1 }, { id: 2 }, { id: 3 }]);
  await turn();
  const { length } = states;
  socket.sendsPart(create(10, { id: 4 }), end(10));
  await turn();
  assert.deepEqual([list.rows.length, states.length], [3, length]);
});

test('a transaction that ended during a load is shown with the rows, after those that they contain', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', []);
  list.reload();
  await turn();
  socket.sendsPart(create(10, { id: 1, a: 'part' }));
  socket.sends(update(11, { id: 1, a: 'later' }));
  respond(socket, '11:11:', [{ id: 1, a: 'whole' }, { id: 2 }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 'later' }, { id: 2 }]);
});

test('a transaction whose end was lost with the connection is shown with the next rows', async (t) => {
  const { relay, tick, socket, list } = await loaded(t, '10:10:', []);
  socket.sendsPart(create(10, { id: 1 }));
  const { socket: next } = await reconnect({ relay, tick }, list);
  assert.deepEqual(list.rows, []);
  tick(1000);
  await turn();
  respond(next, '11:11:', [{ id: 1 }, { id: 2 }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 2 }]);
});

test('the end of a transaction on the next connection shows it', async (t) => {
  const { relay, tick, socket, list, states } = await loaded(t, '10:10:', []);
  socket.sendsPart(create(10, { id: 1 }));
  const { socket: next } = await reconnect({ relay, tick }, list);
  tick(1000);
  await turn();
  respond(next, '10:10:', []);
  next.sendsPart(create(10, { id: 2 }), end(10));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 2 }]);
  assert.ok(states.every(({ length }) => length !== 1));
});

test('after an epoch change, a held change is dropped', async (t) => {
  const { tick, socket, list } = await loaded(t, '100:100:', []);
  socket.sendsPart(create(100, { id: 1 }), { t: 'gap', from: '1', to: '2', why: 'epoch' });
  tick(1000);
  await turn();
  respond(socket, '50:50:', [{ id: 2 }]);
  await turn();
  socket.sendsPart(end(100));
  await turn();
  assert.deepEqual(list.rows, [{ id: 2 }]);
});

test('a change that needs an ack is acked before the end, which may wait for the in-flight window', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', []);
  socket.sendsPart(create(10, { id: 1 }, { ack: true }));
  await turn();
  tick(0);
  assert.deepEqual([socket.frames('ack').length, list.rows], [1, []]);
});

test('a transaction with more changes than a list holds is loaded', async (t) => {
  const { socket, list, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  for (let id = 0; id <= 10_000; id += 1) socket.sendsPart(create(10, { id }));
  await turn();
  assert.equal(socket.frames('rows').length, 2);
  respond(socket, '11:11:', [{ id: 'all' }]);
  socket.sendsPart(create(10, { id: 'last' }), end(10));
  await turn();
  assert.deepEqual([list.rows, states], [[{ id: 'all' }], [[{ id: 'all' }]]]);
});

test('an older relay sends no ends: changes appear after each task', async (t) => {
  const { socket, states } = await loaded(t, '10:10:', [], undefined, { connected: { features: ['barrier'] } });
  states.length = 0;
  socket.sendsPart(create(10, { id: 1 }), create(10, { id: 2 }));
  await turn();
  socket.sendsPart(create(11, { id: 3 }));
  await turn();
  assert.deepEqual(states.map(({ length }) => length), [2, 3]);
});

test('a change without an end, late or of an older decoder, causes a load', async (t) => {
  for (const more of [{ attempts: 1 }, undefined]) {
    const { socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
    socket.sendsPart(more ? create(10, { id: 2 }, more) : { ...create(10, { id: 2 }), x: undefined });
    await turn();
    assert.equal(socket.frames('rows').length, 2);
    respond(socket, '11:11:', [{ id: 1 }, { id: 2 }]);
    await turn();
    assert.deepEqual(list.rows, [{ id: 1 }, { id: 2 }]);
    t.mock.restoreAll();
  }
});

test('a change that arrives after the end of its transaction causes a load', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', []);
  socket.sends(create(10, { id: 1 }));
  await turn();
  socket.sends(create(10, { id: 2 }));
  await turn();
  assert.deepEqual([list.rows, socket.frames('rows').length], [[{ id: 1 }], 2]);
});

test('a late change of a transaction does not show its other changes before the load', async (t) => {
  const { socket, list, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  socket.sendsPart(create(10, { id: 1 }), create(10, { id: 2 }, { attempts: 1 }), end(10));
  await turn();
  assert.deepEqual(states, []);
  respond(socket, '11:11:', [{ id: 1 }, { id: 2 }]);
  await turn();
  assert.deepEqual([list.rows.length, states.length], [2, 1]);
});

test('changes that arrive together appear together', async (t) => {
  const { socket, states } = await loaded(t, '10:10:', [{ id: 1, amount: 5 }, { id: 2, amount: 0 }]);
  socket.sends(update(10, { id: 1, amount: 0 }), update(10, { id: 2, amount: 5 }));
  await turn();
  assert.deepEqual(states.slice(2), [[{ id: 1, amount: 0 }, { id: 2, amount: 5 }]]);
});

test('held changes are released in the order of their transactions', () => {
  const steps = createSteps(({ key }) => [key]);
  const hold = (x, key) => steps.hold({ x, key });
  const names = (changes) => changes.map(({ x, key }) => x + key);
  [['A', 1], ['B', 2], ['A', 3], ['C', 1], ['C', 4], ['D', 4]].forEach((args) => hold(...args));
  assert.deepEqual(steps.end('D'), []);
  assert.deepEqual(names(steps.end('B')), ['B2']);
  assert.deepEqual(steps.end('C'), []);
  assert.deepEqual(names(steps.all()), ['A1', 'A3', 'C1', 'C4', 'D4']);
  assert.deepEqual(names(steps.end('A')), ['A1', 'A3', 'C1', 'C4', 'D4']);
  assert.deepEqual(steps.end('A'), []);
  [['E', 1], ['F', 1]].forEach((args) => hold(...args));
  steps.end('F');
  assert.deepEqual(names(steps.dropContained((x) => x === 'E')), ['F1']);
});

// live_steps.test.js: live() shows the changes of a transaction together.

import assert from 'node:assert/strict';
import test from 'node:test';
import { BURST_CHANGES, BURST_HOLD_MS, create, HOLD_MS, loaded, respond, start, turn, update } from './live_list.js';

test('the changes of a transaction appear together, even if each arrives in a separate frame', async (t) => {
  const { tick, socket, list, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  for (const id of [1, 2, 3]) {
    socket.sends(create(10, { id }));
    tick(HOLD_MS - 1);
  }
  assert.deepEqual([list.rows, states], [[], []]);
  tick(2 * HOLD_MS);
  assert.deepEqual(states, [[{ id: 1 }, { id: 2 }, { id: 3 }]]);
});

test('the changes of a long transaction appear together despite short interruptions of the network', async (t) => {
  const { tick, socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  for (let id = 0; id <= BURST_CHANGES; id += 1) socket.sends(create(10, { id }));
  tick(BURST_HOLD_MS);
  socket.sends(create(10, { id: BURST_CHANGES + 1 }));
  tick(BURST_HOLD_MS);
  assert.equal(states.length, 0);
  tick(BURST_HOLD_MS);
  assert.deepEqual(states.map((rows) => rows.length), [BURST_CHANGES + 2]);
});

test('in a burst, short interruptions do not split the next transaction either', async (t) => {
  const { tick, socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  for (let id = 0; id <= BURST_CHANGES; id += 1) socket.sends(create(10, { id }));
  tick(2 * HOLD_MS);
  socket.sends(create(11, { id: 'a' }));
  tick(BURST_HOLD_MS - 1);
  socket.sends(create(11, { id: 'b' }));
  tick(2 * BURST_HOLD_MS);
  assert.deepEqual(states.map((rows) => rows.length), [BURST_CHANGES + 1, BURST_CHANGES + 3]);
  socket.sends(create(12, { id: 'c' }));
  tick(HOLD_MS);
  assert.equal(states.length, 3, 'the burst has ended');
});

test('after a burst, single changes are shown without delay again, even if they continue to arrive', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', []);
  for (let id = 0; id < 100; id += 1) socket.sends(create(10, { id }));
  for (let x = 11; x < 21; x += 1) {
    tick(BURST_HOLD_MS / 2);
    socket.sends(create(x, { id: x + 100 }));
  }
  tick(HOLD_MS);
  assert.equal(list.rows.at(-1).id, 120);
});

test('a slow network splits a long transaction only at its beginning', async (t) => {
  const { tick, socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  for (let id = 0; id < 10 * BURST_CHANGES; id += 1) {
    socket.sends(create(10, { id }));
    if (id % 4 === 3) tick(4 * HOLD_MS);
  }
  tick(2 * BURST_HOLD_MS);
  assert.ok(states.length <= BURST_CHANGES / 4 + 1, `${states.length} states`);
  assert.equal(states.at(-1).length, 10 * BURST_CHANGES);
});

test('changes that arrive during a load appear with later changes of their transaction', async (t) => {
  const { tick, socket, list, states } = await start(t);
  socket.sends(create(10, { id: 1 }));
  respond(socket, '10:10:', []);
  for (let i = 0; i < 3; i += 1) await new Promise(setImmediate);
  tick(HOLD_MS - 1);
  socket.sends(create(10, { id: 2 }));
  tick(2 * HOLD_MS);
  assert.deepEqual(states, [[], [{ id: 1 }, { id: 2 }]]);
  assert.equal(list.loading, false);
});

test('the changes of a transaction appear together after the event loop was blocked', async (t) => {
  const { tick, socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  socket.sends(create(10, { id: 1 }));
  tick.block(10 * HOLD_MS);
  tick(0);
  socket.sends(create(10, { id: 2 }));
  tick(2 * HOLD_MS);
  assert.deepEqual(states, [[{ id: 1 }, { id: 2 }]]);
});

test('late timers delay a transaction only once', async (t) => {
  const { tick, socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  socket.sends(create(10, { id: 1 }));
  for (const count of [0, 1]) {
    tick.block(10 * HOLD_MS);
    tick(0);
    assert.equal(states.length, count);
  }
});

test('the list shows each transaction of a steady stream as a whole', async (t) => {
  const { tick, socket, states } = await loaded(t, '10:10:', []);
  states.length = 0;
  for (let x = 10; x < 30; x += 1) {
    socket.sends(create(x, { id: 2 * x }), create(x, { id: 2 * x + 1 }));
    tick(1);
  }
  assert.ok(states.length >= 2, `${states.length} states`);
  for (const rows of states) assert.equal(rows.length % 2, 0);
});

test('changes that arrive together appear together', async (t) => {
  const { socket, states } = await loaded(t, '10:10:', [{ id: 1, amount: 5 }, { id: 2, amount: 0 }]);
  socket.sends(update(10, { id: 1, amount: 0 }), update(10, { id: 2, amount: 5 }));
  await turn();
  assert.deepEqual(states.slice(2), [[{ id: 1, amount: 0 }, { id: 2, amount: 5 }]]);
});

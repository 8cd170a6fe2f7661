// live_rows.test.js: live() with the rows of a live rule, and with a load() that returns a snapshot.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay, msg, until } from './fake-relay.js';

// These modules are imported first: the fake clock must not advance during an import.
for (const name of ['rows.js', 'timed_rows.js']) await import(new URL(name, import.meta.resolve('clairon')));

// Of steps.js.
const HOLD_MS = 5;
const BURST_CHANGES = 16;
const BURST_HOLD_MS = 200;

let ids = 0;
let clock; // of the current test: tick(ms)

/** A change of a live rule by transaction `x`; default: committed after all previous changes. */
function change(x, operation, payload, { attempts = 0, rule = 'default', ack = false, source = 't', timestamp } = {}) {
  ids += 1;
  const at = timestamp ?? `2026-01-01T00:00:00.${String(ids).padStart(6, '0')}Z`;
  const n = {
    metadata: { id: `id ${ids}`, source, topic: `demo.${source}`, type: 'REALTIME', operation, timestamp: at },
    payload: { before: null, after: null, ...payload },
    routing: { retry: { ack_required: ack, attempts } },
  };
  return { ...msg(String(ids), n), x: String(x), rule };
}

const create = (x, after, more) => change(x, 'create', { after }, more);
const update = (x, after, more) => change(x, 'update', { before: { id: after.id }, after }, more);
const remove = (x, before, more) => change(x, 'delete', { before }, more);

/** A random wait before another request is never so short that turn() ends it. */
function longWaits(t) {
  const { random } = Math;
  t.mock.method(Math, 'random', () => 0.5 + random() / 2);
}

/** A connected client with a live list, whose states are in `states`. The test controls the timers. */
async function start(t, options, { connected, relayOptions, source = 't' } = {}) {
  const tick = handTimers(t, 'setTimeout');
  clock = tick;
  longWaits(t);
  const relay = fakeRelay(relayOptions);
  const client = connect({ url: 'ws://relay.test', token: 'T', WebSocket: relay.WebSocket, backoff: { base: 1, cap: 1 } });
  t.after(() => client.close());
  const errors = [];
  client.on('error', ({ error }) => errors.push(error.message));
  const list = client.live(source, options);
  t.after(() => list.close());
  const states = [];
  list.subscribe((rows) => states.push(rows));
  const socket = await relay.socket();
  socket.accept({ ping: 1e6, ...connected });
  await turn();
  return { tick, relay, client, list, errors, states, socket };
}

/** Waits until pending promises have resolved, and the list has shown its changes. */
async function turn() {
  for (let i = 0; i < 3; i += 1) await new Promise(setImmediate);
  clock(2 * HOLD_MS);
  await new Promise(setImmediate);
}

/** Responds to the last request for rows. */
function respond(socket, snapshot, rows, fields) {
  const { r } = socket.frames('rows').at(-1);
  socket.sends({ t: 'rows', r, key: ['id'], snapshot, rows, more: false, ...fields });
}

function rejectRows(socket, code, fields) {
  const { r } = socket.frames('rows').at(-1);
  socket.sends({ t: 'err', r, code, msg: `rejected with ${code}`, retry: false, ...fields });
}

const ownLoad = (calls) => ({ key: 'id', load: () => new Promise((resolve, reject) => { calls.push({ resolve, reject }); }) });

/** The last call of load() returns these rows, and the relay accepts their snapshot. */
async function acceptLoad(socket, calls, snapshot, rows) {
  calls.at(-1).resolve({ rows, snapshot });
  await turn();
  socket.sends({ t: 'rows', r: socket.frames('rows').at(-1).r, ok: true });
  await turn();
}

/** A list whose first rows come from load(). */
async function loadedByPage(t, snapshot, rows) {
  const calls = [];
  const world = await start(t, ownLoad(calls));
  await acceptLoad(world.socket, calls, snapshot, rows);
  return { ...world, calls };
}

/** A list whose first rows are loaded. */
async function loaded(t, snapshot, rows, options, more) {
  const world = await start(t, options, more);
  respond(world.socket, snapshot, rows);
  await turn();
  assert.deepEqual(world.list.rows, rows);
  return world;
}

const requestsOf = (socket) => socket.frames('rows').map(({ r, ...frame }) => frame);

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
  tick(BURST_HOLD_MS);
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

// ---- changes that need a load

test('a late change causes a load, during which newer changes wait', async (t) => {
  const { socket, list, states } = await loaded(t, '10:10:', [{ id: 1, a: 'row' }]);
  socket.sends(update(10, { id: 1, a: 'late' }, { attempts: 1 }), update(12, { id: 1, a: 'newer' }));
  await turn();
  assert.deepEqual([socket.frames('rows').length, states.length], [2, 2]);
  respond(socket, '12:12:', [{ id: 1, a: 'newest of 11' }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 'newer' }]);
  assert.equal(states.length, 3);
});

test('rows without a late change are requested again', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1, a: 'row' }]);
  socket.sends(update(10, { id: 1, a: 'late' }, { attempts: 1 }));
  await turn();
  respond(socket, '10:11:10', [{ id: 1, a: 'row' }]);
  await turn();
  tick(30_000);
  await turn();
  respond(socket, '11:11:', [{ id: 1, a: 'late' }]);
  await turn();
  assert.equal(list.rows[0].a, 'late');
  assert.equal(socket.frames('rows').length, 3);
});

test('a retry of a change that the rows contain, or that was applied, causes no load', async (t) => {
  const { client, socket, list } = await loaded(t, '10:10:', [{ id: 1, a: 'row' }]);
  client.on('t', () => { throw new Error('the page delivers retries after a failure'); });
  const applied = update(10, { id: 1, a: 'applied' }, { ack: true });
  const retry = structuredClone(applied);
  retry.n.routing.retry.attempts = 1;
  socket.sends(applied);
  await turn();
  socket.sends(update(12, { id: 1, a: 'newest' }), update(9, { id: 1, a: 'contained' }, { attempts: 2, ack: true }), retry);
  await turn();
  assert.equal(list.rows[0].a, 'newest');
  assert.equal(socket.frames('rows').length, 1);
});

for (const [what, older] of [['of a row', update(10, { id: 1, a: 'older' })], ['of a deleted row', create(10, { id: 3 })]]) {
  test(`an older change ${what} that an operator sends again on a later connection is not shown`, async (t) => {
    const { relay, tick, socket, list, calls } = await loadedByPage(t, '10:10:', [{ id: 1, a: 'row' }, { id: 2 }]);
    socket.sends(older, update(11, { id: 1, a: 'newer' }), remove(11, { id: 3 }));
    await turn();
    const { socket: next, rows } = await reconnect({ relay, tick }, list);
    const again = structuredClone(older);
    again.n.metadata.id += ' evicted'; // the page has evicted its id
    next.sends(again);
    await turn();
    assert.deepEqual(rows, [{ id: 1, a: 'newer' }, { id: 2 }]);
    assert.deepEqual(list.rows, rows);
    tick(1000);
    await turn();
    await acceptLoad(next, calls, '11:12:11', [{ id: 1, a: 'older' }, { id: 2 }, { id: 3 }]);
    assert.deepEqual(list.rows, rows);
  });
}

/** Loses the connection and resumes it, before the list requests its rows again. */
async function reconnect({ relay, tick }, list) {
  const { rows } = list;
  const opened = relay.socket();
  relay.last.closes();
  tick(1);
  const socket = await opened;
  socket.accept({ resumed: true });
  await turn();
  return { socket, rows };
}

test('an incomplete change of an unknown row causes a load', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', []);
  socket.sends(change(10, 'create', { after: { id: 1 }, unchanged: ['big'] }));
  await turn();
  assert.deepEqual(list.rows, []);
  respond(socket, '11:11:', [{ id: 1, big: 'B' }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, big: 'B' }]);
});

test('unchanged large columns keep their value, even when the key changes', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1, a: 1, big: 'B' }]);
  socket.sends(change(10, 'update', { before: { id: 1 }, after: { id: 1, a: 2 }, unchanged: ['big'] }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 2, big: 'B' }]);
  socket.sends(change(11, 'update', { before: { id: 1 }, after: { id: 7, a: 2 }, unchanged: ['big'] }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 7, a: 2, big: 'B' }]);
});

test('a column that was renamed or dropped disappears with the next change of its row', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1, v: 1, old: 2, big: 'B' }]);
  socket.sends(change(10, 'update', { before: { id: 1 }, after: { id: 1, vv: 5 }, unchanged: ['big'] }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, big: 'B', vv: 5 }]);
});

for (const [type, first, second, changed] of [
  ['jsonb', { a: 1 }, { a: 2 }, { a: 2 }], ['text[]', ['a,b'], ['a', 'b'], ['a', 'b']], ['composite', { x: 1, y: null }, { x: 1, y: '' }, { x: 1, y: '' }],
  ['nested array', [[1], [2]], [[1, 2]], [[1, 2]]], ['text', '{"a":1}', '{"a":2}', '{"a":2}'], ['bigint', 1, 2, '2'], ['float', 1, 0, -0],
]) {
  test(`a key of type ${type} identifies rows by its whole value`, async (t) => {
    const { socket, list } = await loaded(t, '10:10:', [{ id: first, v: 1 }, { id: second, v: 1 }]);
    assert.equal(list.rows.length, 2);
    socket.sends(update(10, { id: changed, v: 2 }));
    await turn();
    assert.deepEqual(list.rows.map(({ v }) => v), [1, 2]);
  });
}

test('a TRUNCATE empties the list together with later changes of its transaction', async (t) => {
  const { socket, list, states } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends(change(10, 'truncate', {}), create(10, { id: 2 }), create(11, { id: 3 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 2 }, { id: 3 }]);
  assert.equal(states.length, 3);
});

test('notifications that are not changes of rows are ignored', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends(change(10, 'notify', { text: 'hello' }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]);
  assert.equal(socket.frames('rows').length, 1);
});

test('a change that needs an ack is acked when the list shows it', async (t) => {
  const { tick, socket } = await start(t);
  socket.sends(create(10, { id: 1 }, { ack: true }));
  await turn();
  tick(0);
  assert.equal(socket.frames('ack').length, 0);
  respond(socket, '10:10:', []);
  await turn();
  tick(0);
  assert.equal(socket.frames('ack').length, 1);
});

// ---- losses and reloads

for (const [what, cause] of [
  ['a gap', (socket) => socket.sends({ t: 'gap', from: '1', to: '2', why: 'shed' })],
  ['a reload', (socket) => socket.sends({ t: 'reload', source: 't', rule: 'default' })],
]) {
  test(`${what} keeps the rows unchanged until newer rows are loaded, within a second`, async (t) => {
    const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
    cause(socket);
    socket.sends(create(11, { id: 2 }));
    await turn();
    assert.deepEqual(list.rows, [{ id: 1 }]);
    assert.equal(list.loading, false);
    tick(1000);
    await turn();
    assert.equal(socket.frames('rows').length, 2);
    respond(socket, '11:11:', [{ id: 3 }]);
    await turn();
    assert.deepEqual(list.rows, [{ id: 3 }, { id: 2 }]);
  });

  test(`a response that was requested before ${what} is dropped`, async (t) => {
    const { socket, list } = await start(t);
    cause(socket);
    respond(socket, '10:10:', [{ id: 'older' }]);
    await turn();
    assert.deepEqual(list.rows, []);
    assert.equal(socket.frames('rows').length, 2);
    respond(socket, '10:10:', [{ id: 'newer' }]);
    await turn();
    assert.deepEqual(list.rows, [{ id: 'newer' }]);
  });
}

test('a reload of another list is ignored', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends({ t: 'reload', source: 't', rule: 'other' }, { t: 'reload', source: 'u', rule: 'default' }, create(10, { id: 2 }));
  await turn();
  tick(1000);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 2 }]);
  assert.equal(socket.frames('rows').length, 1);
});

test('many lists load at different times after a gap', async (t) => {
  const delays = [];
  for (let i = 0; i < 20; i += 1) {
    const { tick, socket, client } = await loaded(t, '10:10:', [{ id: 1 }]);
    socket.sends({ t: 'gap', from: '1', to: '2', why: 'epoch' });
    let ms = 0;
    for (; socket.frames('rows').length === 1 && ms < 1000; ms += 50) {
      tick(50);
      await turn();
    }
    delays.push(ms);
    client.close();
    t.mock.restoreAll();
  }
  assert.ok(new Set(delays).size > 3, delays.join());
});

test('after an epoch change rows of any snapshot are accepted, because ids may have been assigned again', async (t) => {
  const { tick, socket, list } = await loaded(t, '100:100:', [{ id: 1 }]);
  socket.sends(create(100, { id: 2 }), { t: 'gap', from: '1', to: '2', why: 'epoch' });
  await turn();
  tick(1000);
  await turn();
  respond(socket, '50:50:', [{ id: 3 }]);
  socket.sends(create(51, { id: 4 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 3 }, { id: 4 }]);
});

test('a list loads again on a new connection, even if the connection resumed', async (t) => {
  const { relay, tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  const { socket: next } = await reconnect({ relay, tick }, list);
  next.sends(create(10, { id: 2 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]);
  assert.equal(next.frames('rows').length, 0);
  tick(1000);
  await turn();
  // The relay sends `reload` only to connections that have requested rows.
  assert.equal(next.frames('rows').length, 1);
  respond(next, '11:11:', [{ id: 1 }, { id: 2 }]);
  await turn();
  const opened = relay.socket();
  next.closes();
  tick(1);
  const last = await opened;
  last.accept({ resumed: false });
  last.sends(create(20, { id: 4 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 2 }]);
  tick(1000);
  await turn();
  respond(last, '12:12:', [{ id: 1 }, { id: 3 }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 3 }, { id: 4 }]);
  assert.equal(socket.frames('rows').length, 1);
});

test('reload() during a load accepts the response, and loads again', async (t) => {
  const { socket, list } = await start(t);
  list.reload();
  respond(socket, '10:10:', [{ id: 1 }]);
  await turn();
  assert.deepEqual([list.rows, list.loading], [[{ id: 1 }], false]);
  assert.equal(requestsOf(socket).length, 2);
  respond(socket, '11:11:', [{ id: 2 }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 2 }]);
  assert.equal(requestsOf(socket).length, 2);
});

test('a request without a reply is repeated on the next connection', async (t) => {
  const { relay, tick, socket, list, errors } = await start(t);
  assert.equal(socket.frames('rows').length, 1);
  const opened = relay.socket();
  socket.closes();
  tick(1);
  const next = await opened;
  next.accept({ resumed: true });
  await turn();
  assert.equal(next.frames('rows').length, 1);
  respond(next, '10:10:', [{ id: 1 }]);
  await turn();
  assert.deepEqual([list.rows, errors], [[{ id: 1 }], []]);
});

// ---- errors

test('a request to a busy relay is repeated after its delay, without an error', async (t) => {
  const { tick, socket, list, errors } = await start(t);
  rejectRows(socket, 111, { after: 5000, retry: true });
  await turn();
  tick(4999);
  await turn();
  assert.equal(socket.frames('rows').length, 1);
  tick(5001);
  await turn();
  assert.equal(socket.frames('rows').length, 2);
  respond(socket, '10:10:', [{ id: 1 }]);
  await turn();
  assert.deepEqual([list.rows, list.error, errors], [[{ id: 1 }], undefined, []]);
});

for (const code of [103, 113]) {
  test(`${code} is the error of the list until the list is requested again after a reload`, async (t) => {
    const { tick, socket, list, errors } = await start(t);
    rejectRows(socket, code);
    await turn();
    assert.deepEqual([list.rows, list.loading, list.error.code, list.error.message], [[], false, code, `rejected with ${code}`]);
    assert.deepEqual(errors, [`rejected with ${code}`]);
    tick(120_000);
    await turn();
    assert.equal(socket.frames('rows').length, 1);
    socket.sends({ t: 'reload', source: 't', rule: 'default' });
    tick(1000);
    await turn();
    respond(socket, '10:10:', [{ id: 1 }]);
    await turn();
    assert.deepEqual([list.rows, list.error], [[{ id: 1 }], undefined]);
  });
}

test('a user who is no longer addressed loses the rows, and the list requests them again when a change arrives', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends({ t: 'reload', source: 't', rule: 'default' });
  tick(1000);
  await turn();
  rejectRows(socket, 103);
  await turn();
  assert.deepEqual([list.rows, list.error.code], [[], 103]);
  socket.sends(create(11, { id: 2 }));
  tick(1000);
  await turn();
  assert.equal(socket.frames('rows').length, 3);
  respond(socket, '11:11:', [{ id: 1 }]);
  await turn();
  assert.deepEqual([list.rows, list.error], [[{ id: 1 }, { id: 2 }], undefined]);
});

for (const [code, change, rows] of [[103, create(11, { id: 2 }), [{ id: 2 }]], [113, remove(11, { id: 1 }), []]]) {
  test(`a change during a request that is rejected with ${code} causes another request`, async (t) => {
    const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
    socket.sends({ t: 'reload', source: 't', rule: 'default' });
    tick(1000);
    await turn();
    socket.sends(change);
    rejectRows(socket, code);
    await turn();
    assert.equal(list.error.code, code);
    tick(1000);
    await turn();
    assert.equal(socket.frames('rows').length, 3);
    respond(socket, '12:12:', rows);
    await turn();
    assert.deepEqual([list.rows, list.error], [rows, undefined]);
  });
}

test('after a rejection, the list shows the rows although changes arrive during each request', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends({ t: 'reload', source: 't', rule: 'default' });
  tick(1000);
  await turn();
  rejectRows(socket, 103);
  await turn();
  socket.sends(create(11, { id: 2 }));
  tick(1000);
  await turn();
  socket.sends(create(12, { id: 3 }));
  respond(socket, '12:12:', [{ id: 2 }]);
  await turn();
  assert.deepEqual([list.rows, list.error], [[{ id: 2 }, { id: 3 }], undefined]);
});

test('a user who is no longer addressed loses the rows, even if the application calls reload() meanwhile', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  list.reload();
  await turn();
  list.reload();
  rejectRows(socket, 103);
  await turn();
  assert.deepEqual([list.rows, list.error.code], [[], 103]);
});

test('after an error for too many rows, the list requests the rows again when a row is deleted', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }, { id: 2 }]);
  socket.sends({ t: 'reload', source: 't', rule: 'default' });
  tick(1000);
  await turn();
  rejectRows(socket, 113);
  await turn();
  assert.deepEqual([list.rows, list.error.code], [[{ id: 1 }, { id: 2 }], 113]);
  socket.sends(create(11, { id: 3 }));
  tick(120_000);
  await turn();
  assert.equal(socket.frames('rows').length, 2);
  socket.sends(remove(12, { id: 2 }));
  tick(121_000);
  await turn();
  assert.equal(socket.frames('rows').length, 3);
  respond(socket, '13:13:', [{ id: 1 }, { id: 3 }]);
  await turn();
  assert.deepEqual([list.rows, list.error], [[{ id: 1 }, { id: 3 }], undefined]);
});

/** Checks that each failed request is repeated after a longer delay. Math.random() must return almost 1. */
async function growingDelays(tick, socket, fail) {
  for (const ms of [500, 1000, 2000]) {
    fail();
    await turn();
    const { length } = socket.frames('rows');
    tick(ms * 0.9);
    await turn();
    assert.equal(socket.frames('rows').length, length);
    tick(ms * 0.2);
    await turn();
    assert.equal(socket.frames('rows').length, length + 1);
  }
}

test('error 100 is reported, and the request is repeated with growing delays', async (t) => {
  t.mock.method(Math, 'random', () => 0.999);
  const { tick, socket, list, errors } = await start(t);
  await growingDelays(tick, socket, () => rejectRows(socket, 100));
  assert.deepEqual([list.loading, list.error.code, errors.length], [true, 100, 3]);
});

test('with `key` and no live rule the list starts empty, reports the error, and applies all changes', async (t) => {
  const { socket, list, errors } = await start(t, { key: 'id' });
  socket.sends(create(10, { id: 1 }, { rule: undefined }));
  await turn();
  rejectRows(socket, 103);
  await turn();
  socket.sends(create(11, { id: 2 }, { rule: undefined }));
  await turn();
  assert.deepEqual([list.rows, list.loading, list.error.code, errors], [[{ id: 1 }, { id: 2 }], false, 103, []]);
});

// ---- load() of the application

test('load() returns rows and a snapshot, and the relay checks that the snapshot is new enough', async (t) => {
  const calls = [];
  const { tick, socket, list } = await start(t, ownLoad(calls));
  assert.equal(calls.length, 1);
  calls[0].resolve({ rows: [{ id: 1, a: 'old', author: 'Ada' }], snapshot: '9:9:' });
  await turn();
  assert.deepEqual(requestsOf(socket), [{ t: 'rows', source: 't', snapshot: '9:9:' }]);
  const { r } = socket.frames('rows')[0];
  socket.sends({ t: 'rows', r, ok: false });
  await turn();
  assert.deepEqual([list.rows, list.loading], [[], true]);
  tick(30_000);
  await turn();
  calls[1].resolve({ rows: [{ id: 1, a: 'row', author: 'Ada' }], snapshot: '10:10:' });
  await turn();
  socket.sends(update(9, { id: 1, a: 'contained' }), update(10, { id: 1, a: 'new' }));
  socket.sends({ t: 'rows', r: socket.frames('rows')[1].r, ok: true });
  await turn();
  assert.deepEqual([list.rows, list.loading], [[{ id: 1, a: 'new', author: 'Ada' }], false]);
});

test('the check of a snapshot names the rule, so that its `reload` arrives', async (t) => {
  const calls = [];
  const { socket } = await start(t, { ...ownLoad(calls), rule: 'mine' });
  calls[0].resolve({ rows: [], snapshot: '9:9:' });
  await turn();
  assert.deepEqual(requestsOf(socket), [{ t: 'rows', source: 't', rule: 'mine', snapshot: '9:9:' }]);
});

test('a truncated value causes a load', async (t) => {
  const { socket, list, calls } = await loadedByPage(t, '10:10:', [{ id: 1, a: 'x' }]);
  socket.sends(change(10, 'update', { before: { id: 1 }, after: { id: 1, a: null }, truncated: ['a'] }));
  await turn();
  assert.deepEqual([list.rows, calls.length], [[{ id: 1, a: 'x' }], 2]);
  await acceptLoad(socket, calls, '11:11:', [{ id: 1, a: 'large' }]);
  assert.deepEqual(list.rows, [{ id: 1, a: 'large' }]);
});

test('rows without a change that the list has applied before the client polls are requested again', async (t) => {
  const { tick, relay, client, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends(create(11, { id: 2 }));
  await turn();
  socket.closes();
  Object.defineProperty(client, 'transport', { get: () => 'poll' });
  tick(1);
  const next = await relay.socket();
  next.accept({ resumed: true, ping: 1e6 });
  tick(1000);
  await turn();
  respond(next, '11:11:', [{ id: 1 }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 2 }]);
  tick(1000);
  await turn();
  respond(next, '12:12:', [{ id: 2 }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 2 }]);
});

test('while the client polls, a response without a change delays further loads by growing times', async (t) => {
  const { tick, client, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  t.mock.method(Math, 'random', () => 0.999);
  Object.defineProperty(client, 'transport', { get: () => 'poll' });
  socket.sends(create(11, { id: 2 }));
  tick(1000);
  await turn();
  await growingDelays(tick, socket, () => respond(socket, '10:10:', [{ id: 1 }]));
  respond(socket, '12:12:', [{ id: 1 }, { id: 2 }]);
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }, { id: 2 }]);
});

test('after a resumed connection, changes are shown only with the response', async (t) => {
  const { relay, list, tick } = await loaded(t, '10:10:', [{ id: 1 }]);
  const { socket: next } = await reconnect({ relay, tick }, list);
  next.sends(create(12, { id: 2 })); // 11: a TRUNCATE during the absence, without a notification
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]);
  tick(1000);
  await turn();
  respond(next, '12:12:', []);
  await turn();
  assert.deepEqual(list.rows, [{ id: 2 }]);
});

test('changes during a request are shown only with the response', async (t) => {
  const { socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  list.reload();
  await turn();
  socket.sends(create(12, { id: 2 })); // 11: a TRUNCATE; the relay sends no `reload` if the response contains it
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]);
  respond(socket, '12:12:', []);
  await turn();
  assert.deepEqual(list.rows, [{ id: 2 }]);
});

test('a list that is denied after a resumed connection is empty', async (t) => {
  const { relay, list, tick } = await loaded(t, '10:10:', [{ id: 1 }]);
  const { socket: next } = await reconnect({ relay, tick }, list);
  tick(1000);
  await turn();
  rejectRows(next, 103);
  await turn();
  assert.deepEqual([list.rows, list.error.code], [[], 103]);
});

test('a resumed connection calls load() again, and changes are shown only with its result', async (t) => {
  const { relay, tick, list, calls } = await loadedByPage(t, '10:10:', [{ id: 1 }]);
  const { socket } = await reconnect({ relay, tick }, list);
  socket.sends(create(11, { id: 2 }));
  await turn();
  assert.deepEqual(list.rows, [{ id: 1 }]); // a TRUNCATE during the absence has no notification
  tick(1000);
  await turn();
  assert.equal(calls.length, 2);
});

for (const [what, response] of [['no snapshot', { rows: [] }], ['no rows', { snapshot: '1:1:' }], ['nothing', undefined],
  ['a snapshot in another form', { rows: [], snapshot: '1:1' }]]) {
  test(`a load() that returns ${what} is reported`, async (t) => {
    const { list, errors } = await start(t, { key: 'id', load: () => response });
    assert.equal(errors[0], "live('t'): load() must return { rows, snapshot } or an array");
    assert.deepEqual([list.loading, list.error.message], [true, errors[0]]);
  });
}

test('a row of load() without the key is reported', async (t) => {
  const { errors } = await start(t, { key: 'nosuch', load: () => ({ rows: [{ id: 1 }], snapshot: '1:1:' }) });
  assert.equal(errors[0], "live('t'): no column nosuch in a row of load()");
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

// live_conditions.test.js: live() with where, order and limit, and count().

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  change, create, end, loaded, reconnect, rejectRows, remove, requestsOf, respond, start, turn, update,
} from './live_list.js';

// These modules are imported first: the fake clock must not advance during an import.
for (const name of ['conditions.js', 'count.js']) await import(new URL(name, import.meta.resolve('clairon')));

const COMPARABLE = ['id', 'a', 'done', 'big'];
const ids = ({ rows }) => rows.map(({ id }) => id);

/** A list with these options, whose first response has these rows. */
async function listOf(t, options, rows, fields) {
  const world = await start(t, options);
  respond(world.socket, '10:10:', rows, { judge: COMPARABLE, ...fields });
  await turn();
  return world;
}

const requests = (socket) => socket.frames('rows').length;

test('the request has the conditions', async (t) => {
  const { socket } = await start(t, { rule: 'mine', where: { a: 1, done: null }, order: ['-a'], limit: 2 });
  assert.deepEqual(requestsOf(socket), [{ t: 'rows', source: 't', rule: 'mine', where: { a: 1, done: null }, order: ['-a'], limit: 2 }]);
});

test('null conditions are left out', async (t) => {
  const { socket, list } = await start(t, { where: null, order: null, limit: null });
  assert.deepEqual(requestsOf(socket), [{ t: 'rows', source: 't' }]);
  assert.equal(list.more, false);
});

for (const [what, where, inside, outside] of [
  ['a value', { a: 1 }, [{ a: 1 }], [{ a: 2 }, { a: null }]],
  ['a boolean', { done: false }, [{ done: false }], [{ done: true }, { done: null }]],
  ['one of a list', { a: [1, null] }, [{ a: 1 }, { a: null }], [{ a: 2 }]],
  ['an empty list', { a: [] }, [], [{ a: 1 }, { a: null }]],
  ['null', { a: null }, [{ a: null }], [{ a: 0 }]],
  ['a range', { a: { from: 1, to: 3 } }, [{ a: 1 }, { a: 2 }], [{ a: 0 }, { a: 3 }, { a: null }]],
  ['a range without an end', { a: { from: 1 } }, [{ a: 1 }, { a: 9 }], [{ a: 0 }]],
  ['a range of large integers', { a: { from: '9007199254740993', to: '9007199254740995' } },
    [{ a: '9007199254740993' }, { a: '9007199254740994' }], [{ a: 9007199254740991 }, { a: '9007199254740995' }, { a: '10000000000000000000' }]],
  ['a range of negative integers', { a: { from: -10, to: -2 } }, [{ a: -10 }, { a: -9 }], [{ a: -2 }, { a: -11 }]],
  ['two columns', { a: 1, done: true }, [{ a: 1, done: true }], [{ a: 1, done: false }, { a: 2, done: true }]],
]) {
  test(`rows move into and out of a list by ${what}`, async (t) => {
    const { socket, list } = await listOf(t, { where }, []);
    const rows = [...inside, ...outside].map((row, id) => ({ done: true, ...row, id }));
    socket.sends(...rows.map((row) => create(10, row)));
    await turn();
    assert.deepEqual(ids(list), inside.map((row, id) => id));
    for (const row of rows.slice(0, inside.length)) socket.sends(update(11 + row.id, { ...rows.at(-1), id: row.id }));
    await turn();
    assert.deepEqual(list.rows, []);
    for (const row of rows.slice(0, inside.length)) socket.sends(update(20 + row.id, row));
    await turn();
    assert.deepEqual(list.rows, rows.slice(0, inside.length));
    assert.equal(requests(socket), 1);
  });
}

test('a deleted row leaves the list, also if only its key is known', async (t) => {
  const { socket, list } = await listOf(t, { where: { a: 1 } }, [{ id: 1, a: 1 }, { id: 2, a: 1 }]);
  socket.sends(remove(10, { id: 1 }), remove(11, { id: 7 }));
  await turn();
  assert.deepEqual([ids(list), requests(socket)], [[2], 1]);
});

test('a row whose group changes stays, also if its conditions do not change', async (t) => {
  const { socket, list } = await listOf(t, { where: { a: 1 }, order: ['a'] }, [{ id: 1, a: 1, g: 1 }]);
  const [before, after] = [{ id: 1, a: 1, g: 1 }, { id: 1, a: 1, g: 2 }];
  socket.sends(change(10, 'delete', { before }), change(10, 'update', { before, after }));
  await turn();
  assert.deepEqual([list.rows, requests(socket)], [[after], 1]);
});

test('rows are in the order of the list: nulls last, descending first, ties by the key', async (t) => {
  for (const [order, expected] of [[['a'], [3, 4, 1, 2]], [['-a'], [2, 1, 3, 4]], [['-a', '-id'], [2, 1, 4, 3]], [['done', '-a'], [1, 3, 2, 4]]]) {
    const { socket, list } = await listOf(t, { order }, []);
    socket.sends(create(10, { id: 4, a: 1, done: true }), create(10, { id: 1, a: 2, done: false }),
      create(10, { id: 2, a: null, done: true }), create(10, { id: 3, a: 1, done: false }));
    await turn();
    assert.deepEqual(ids(list), expected, order.join());
    t.mock.restoreAll();
  }
});

test('a full list shows its first rows, and those that move before its last row', async (t) => {
  const { socket, list } = await listOf(t, { order: ['a'], limit: 2 }, [{ id: 1, a: 10 }, { id: 2, a: 20 }], { rest: true });
  assert.deepEqual([ids(list), list.more], [[1, 2], true]);
  socket.sends(create(10, { id: 3, a: 15 }));
  await turn();
  assert.deepEqual(ids(list), [1, 3]);
  socket.sends(create(11, { id: 4, a: 21 }), update(11, { id: 1, a: 16 }));
  await turn();
  assert.deepEqual(ids(list), [3, 1]);
  socket.sends(remove(12, { id: 3 }));
  await turn();
  assert.deepEqual([ids(list), requests(socket)], [[1, 2], 1]);
  socket.sends(remove(13, { id: 2 })); // a row before 4 may be unknown
  await turn();
  assert.deepEqual(ids(list), [1, 2]);
});

for (const [what, cause] of [
  ['is deleted', (x) => remove(x, { id: 1 })],
  ['moves behind the last row', (x) => update(x, { id: 1, a: 25 })],
  ['no longer matches', (x) => update(x, { id: 1, a: 5, done: true })],
]) {
  test(`a full list does not change until it is loaded again after a row ${what}, at most once a second`, async (t) => {
    const { tick, socket, list, states } = await listOf(t, { where: { done: false }, order: ['a'], limit: 2 },
      [{ id: 1, a: 10, done: false }, { id: 2, a: 20, done: false }], { rest: true });
    states.length = 0;
    socket.sends(cause(10), update(11, { id: 2, a: 18, done: false }));
    await turn();
    assert.deepEqual([ids(list), states, requests(socket)], [[1, 2], [], 1]);
    tick(999);
    await turn();
    assert.equal(requests(socket), 1);
    tick(1);
    await turn();
    assert.equal(requests(socket), 2);
    respond(socket, '12:12:', [{ id: 2, a: 18, done: false }, { id: 9, a: 21, done: false }], { judge: COMPARABLE, rest: true });
    await turn();
    assert.deepEqual(states.map((rows) => rows.map(({ id }) => id)), [[2, 9]]);
  });
}

test('a list that is not full needs no load when a row leaves, and has more rows when it is full', async (t) => {
  const { socket, list } = await listOf(t, { order: ['a'], limit: 2 }, [{ id: 1, a: 10 }, { id: 2, a: 20 }]);
  assert.equal(list.more, false);
  socket.sends(create(10, { id: 3, a: 30 }));
  await turn();
  assert.deepEqual([ids(list), list.more], [[1, 2], true]);
  socket.sends(remove(11, { id: 1 }));
  await turn();
  assert.deepEqual([ids(list), list.more], [[2, 3], false]);
  socket.sends(remove(12, { id: 2 }));
  await turn();
  assert.deepEqual([ids(list), requests(socket)], [[3], 1]);
});

test('a TRUNCATE of a full list leaves no rows', async (t) => {
  const { socket, list } = await listOf(t, { limit: 1 }, [{ id: 1 }], { rest: true });
  socket.sends(change(10, 'truncate', {}), create(10, { id: 7 }));
  await turn();
  assert.deepEqual([list.rows, list.more, requests(socket)], [[{ id: 7 }], false, 1]);
});

test('the rows that are kept behind a full list are limited', async (t) => {
  const { socket, list } = await listOf(t, { order: ['-a'], limit: 2 }, [{ id: 1, a: 1 }, { id: 2, a: 0 }], { rest: true });
  for (let id = 3; id < 10; id += 1) socket.sends(create(10 + id, { id, a: id }));
  await turn();
  assert.deepEqual(ids(list), [9, 8]);
  socket.sends(remove(30, { id: 9 }), create(30, { id: 10, a: 5 })); // 7 and 6 are before 10
  await turn();
  assert.deepEqual(ids(list), [9, 8]);
});

test('a column that the client may not compare causes a load, unless it is unchanged', async (t) => {
  const rows = [{ id: 1, at: '2026-01-02', v: 1 }, { id: 2, at: '2026-01-01', v: 1 }];
  const { tick, socket, list } = await listOf(t, { where: { at: { from: '2025-01-01' } }, order: ['-at'], limit: 2 }, rows, { rest: true });
  socket.sends(update(10, { id: 1, at: '2026-01-02', v: 2 }));
  socket.sends(change(11, 'update', { before: { id: 7, at: '2024-01-01', v: 1 }, after: { id: 7, at: '2024-01-01', v: 2 } }));
  await turn();
  assert.deepEqual([list.rows.map(({ v }) => v), requests(socket)], [[2, 1], 1]);
  socket.sends(create(12, { id: 3, at: '2026-01-03', v: 1 }));
  tick(1000);
  await turn();
  assert.deepEqual([ids(list), requests(socket)], [[1, 2], 2]);
  respond(socket, '13:13:', [{ id: 3, at: '2026-01-03', v: 1 }, rows[0]], { judge: COMPARABLE, rest: true });
  await turn();
  assert.deepEqual(ids(list), [3, 1]);
});

test('a row that becomes visible is loaded, also if its conditions do not change', async (t) => {
  const { tick, socket } = await listOf(t, { where: { at: 'x' } }, []);
  socket.sends(change(10, 'create', { before: { id: 1, at: 'x', hidden: true }, after: { id: 1, at: 'x', hidden: false } }));
  tick(1000);
  await turn();
  assert.equal(requests(socket), 2);
});

test('a row that matches and lacks a large value is loaded; another one is not', async (t) => {
  const { tick, socket } = await listOf(t, { where: { a: 1 } }, []);
  socket.sends(change(10, 'update', { before: { id: 1 }, after: { id: 1, a: 2 }, unchanged: ['big'] }));
  tick(2000);
  await turn();
  assert.equal(requests(socket), 1);
  socket.sends(change(11, 'update', { before: { id: 1 }, after: { id: 1, a: 1 }, unchanged: ['big'] }));
  tick(1000);
  await turn();
  assert.equal(requests(socket), 2);
});

test('a value that was too large to be sent is not compared', async (t) => {
  const { tick, socket, list } = await listOf(t, { where: { big: null } }, []);
  socket.sends(change(10, 'create', { after: { id: 1, big: null }, truncated: ['big'] }));
  tick(1000);
  await turn();
  assert.deepEqual([list.rows, requests(socket)], [[], 2]);
});

test('in a steady stream, a list shows each response, though changes arrive meanwhile that it cannot compare', async (t) => {
  const { tick, socket, states } = await listOf(t, { order: ['at'] }, []);
  for (let x = 10; x < 15; x += 1) {
    socket.sends(create(2 * x, { id: 2 * x, at: 'x' }));
    tick(1000);
    await turn();
    socket.sends(create(2 * x + 1, { id: 2 * x + 1, at: 'x' }));
    respond(socket, `${2 * x + 1}:${2 * x + 1}:`, [{ id: 2 * x, at: 'x' }], { judge: COMPARABLE });
    await turn();
    assert.deepEqual(states.at(-1).map(({ id }) => id), [2 * x]);
  }
  assert.equal(requests(socket), 6);
});

test('seen() resolves when a response contains the transaction, though the list must load again', async (t) => {
  const { tick, client, socket, list } = await listOf(t, { order: ['at'] }, []);
  socket.sends(create(10, { id: 1, at: 'x' }));
  let seen;
  client.seen('10').then(() => { seen = list.rows.length; });
  await turn();
  socket.sends({ t: 'barrier', r: socket.frames('barrier')[0].r, committed: true });
  tick(1000);
  await turn();
  assert.equal(seen, undefined);
  socket.sends(create(11, { id: 2, at: 'x' }));
  respond(socket, '11:11:', [{ id: 1, at: 'x' }], { judge: COMPARABLE });
  await turn();
  assert.equal(seen, 1);
});

test('`judge` of the first page and `rest` of the last page apply to all pages', async (t) => {
  const { socket, list } = await start(t, { order: ['a'], limit: 2 });
  respond(socket, '10:10:', [{ id: 1, a: 1 }], { judge: COMPARABLE, more: true });
  respond(socket, '10:10:', [{ id: 2, a: 2 }], { rest: true });
  await turn();
  socket.sends(create(10, { id: 3, a: 0 }));
  await turn();
  assert.deepEqual([ids(list), list.more, requests(socket)], [[3, 1], true, 1]);
});

test('without `judge` every change of a condition causes a load', async (t) => {
  const { tick, socket } = await listOf(t, { where: { a: 1 } }, [], { judge: undefined });
  socket.sends(create(10, { id: 1, a: 2 }));
  tick(1000);
  await turn();
  assert.equal(requests(socket), 2);
});

test('a condition that the relay rejects is the error of the list, without further requests', async (t) => {
  const { tick, socket, list } = await start(t, { where: { nosuch: 1 } });
  rejectRows(socket, 107);
  await turn();
  socket.sends(create(10, { id: 1, nosuch: 1 }));
  tick(120_000);
  await turn();
  assert.deepEqual([list.rows, list.loading, list.error.code, requests(socket)], [[], false, 107, 1]);
});

test('with conditions, the error 103 names a column outside filter_columns as a possible cause', async (t) => {
  const texts = [];
  for (const options of [{ where: { a: 1 } }, { order: ['a'] }, { limit: 1 }]) {
    const { socket, list } = await start(t, options);
    rejectRows(socket, 103, { msg: 'no such live rule for this user: rule "default" of "t"' });
    await turn();
    texts.push(list.error.message);
    t.mock.restoreAll();
  }
  const text = 'no such live rule for this user, or a column outside its filter_columns: rule "default" of "t"';
  assert.deepEqual(texts, [text, text, 'no such live rule for this user: rule "default" of "t"']);
});

test('unknown options of live() and count() are the error of the list, without a request', async (t) => {
  const { client, socket, tick, errors } = await start(t, { order: undefined, colour: undefined });
  for (const [method, options, text] of [
    ['live', { filter: { a: 1 }, sort: ['a'], colour: 1 },
      "live('t'): unknown option filter (did you mean where?), sort (did you mean order?), colour; valid: rule, where, order, limit, key, load"],
    ['count', { sort: ['a'], filter: {} }, "count('t'): unknown option sort, filter (did you mean where?); valid: rule, where"],
    ['count', { limit: 1 }, "count('t'): unknown option limit; valid: rule, where"],
  ]) {
    const list = client[method]('t', options);
    const texts = [];
    list.subscribe(() => texts.push(list.error?.message));
    await turn();
    tick(60_000);
    await turn();
    assert.deepEqual([list.error.name, list.loading, texts], ['TypeError', false, [undefined, text]]);
    assert.equal(errors.pop(), text);
    list.reload();
    socket.sends(create(10, { id: 1 }));
    await turn();
    list.close();
  }
  assert.deepEqual([errors, requests(socket)], [[], 1]);
});

test('a list with load() rejects conditions', async (t) => {
  const { list } = await start(t, { key: 'id', load: () => [], limit: 1 });
  assert.match(list.error.message, /load excludes where, order and limit/);
});

test('a row that returns in its transaction has no value of its former version', async (t) => {
  const { socket, list, tick } = await listOf(t, { where: { a: 1 } }, [{ id: 1, a: 1, text: 'former' }]);
  socket.sends(
    remove(11, { id: 1, a: 1 }),
    create(11, { id: 1, a: 2, text: 'new' }),
    change(11, 'update', { before: { id: 1 }, after: { id: 1, a: 1 }, unchanged: ['text'] }),
  );
  await turn();
  tick(2000);
  await turn();
  assert.deepEqual([list.rows, requests(socket)], [[{ id: 1, a: 1, text: 'former' }], 2]);
  respond(socket, '12:12:', [{ id: 1, a: 1, text: 'new' }], { judge: COMPARABLE });
  await turn();
  assert.deepEqual(list.rows, [{ id: 1, a: 1, text: 'new' }]);
});

// ---- loadMore()

/** Responds to the request for a page, and to the barrier that follows. */
async function replyPage(socket, snapshot, rows, fields) {
  respond(socket, snapshot, rows, { judge: COMPARABLE, ...fields });
  await turn();
  passBarrier(socket);
  await turn();
}

const passBarrier = (socket) => socket.sends({ t: 'barrier', r: socket.frames('barrier').at(-1).r });

test('loadMore() requests only the rows behind the list, and resolves with `more`', async (t) => {
  const { socket, list } = await listOf(t, { order: ['a'], limit: 1 }, [{ id: 1, a: 1 }], { rest: true });
  const results = [];
  list.loadMore().then((more) => results.push(more, ids(list)));
  await turn();
  assert.deepEqual(requestsOf(socket)[1], { t: 'rows', source: 't', order: ['a'], limit: 1, after: [1, 1] });
  await replyPage(socket, '11:11:', [{ id: 2, a: 2 }], { rest: true });
  assert.deepEqual(results, [true, [1, 2]]);
  list.loadMore(3).then((more) => results.push(more));
  await turn();
  assert.deepEqual([requestsOf(socket)[2].limit, requestsOf(socket)[2].after], [3, [2, 2]]);
  await replyPage(socket, '12:12:', [{ id: 3, a: 3 }]);
  assert.deepEqual([results.at(-1), ids(list), list.more], [false, [1, 2, 3], false]);
  assert.equal(await list.loadMore(), false);
  assert.equal(requests(socket), 3);
});

/** A list of two rows, ordered by `a`, that has requested a third one. */
async function growing(t, options) {
  const world = await listOf(t, { order: ['a'], limit: 2, ...options }, [{ id: 1, a: 1 }, { id: 2, a: 2 }], { rest: true });
  let more;
  world.list.loadMore(1).then((value) => { more = value; });
  await turn();
  return { ...world, result: () => more };
}

test('a page is shown when all changes in its snapshot have arrived', async (t) => {
  const { socket, list, result } = await growing(t);
  respond(socket, '12:12:', [{ id: 4, a: 4 }], { judge: COMPARABLE, rest: true });
  await turn();
  assert.deepEqual([ids(list), result(), socket.frames('barrier').length], [[1, 2], undefined, 1]);
  socket.sendsPart(change(11, 'update', { before: { id: 1, a: 1 }, after: { id: 1, a: 1, done: true } }));
  passBarrier(socket);
  await turn();
  assert.deepEqual([list.rows, result()], [[{ id: 1, a: 1 }, { id: 2, a: 2 }], undefined]); // the end of the transaction follows
  socket.sends(end(11));
  await turn();
  assert.deepEqual([list.rows, result()], [[{ id: 1, a: 1, done: true }, { id: 2, a: 2 }, { id: 4, a: 4 }], true]);
  assert.equal(requests(socket), 2);
});

test('a page has the changes that its snapshot lacks', async (t) => {
  const { socket, list, result } = await growing(t);
  socket.sends(change(12, 'update', { before: { id: 4, a: 4 }, after: { id: 4, a: 4, done: true } }));
  socket.sends(change(13, 'update', { before: { id: 1, a: 1 }, after: { id: 1, a: 1, done: true } }));
  respond(socket, '12:12:', [{ id: 4, a: 4, done: false }], { judge: COMPARABLE, rest: true });
  await turn();
  socket.sends(create(14, { id: 3, a: 3 }));
  passBarrier(socket);
  await turn();
  assert.deepEqual([list.rows.map(({ id, done }) => [id, done]), result()], [[[1, true], [2, undefined], [3, undefined]], true]);
  list.loadMore(1);
  await turn();
  assert.deepEqual([list.rows.map(({ id, done }) => [id, done]).at(-1), requests(socket)], [[4, true], 2]); // the row was known
});

test('a change of the snapshot of a page that arrives behind the barrier is a reason to load all rows', async (t) => {
  const { socket, list, tick } = await growing(t);
  await replyPage(socket, '12:12:', [{ id: 4, a: 4 }], { rest: true });
  assert.deepEqual(ids(list), [1, 2, 4]);
  socket.sends(remove(11, { id: 1, a: 1 }));
  await turn();
  tick(2000);
  await turn();
  assert.deepEqual([requestsOf(socket).at(-1).limit, requestsOf(socket).at(-1).after], [3, undefined]);
});

test('rows that are older than a page are not shown', async (t) => {
  const { socket, list, tick } = await growing(t);
  await replyPage(socket, '12:12:', [{ id: 4, a: 4 }], { rest: true });
  list.reload();
  await turn();
  const all = [{ id: 1, a: 1 }, { id: 2, a: 2 }, { id: 3, a: 3 }];
  respond(socket, '11:11:', all, { judge: COMPARABLE, rest: true });
  await turn();
  assert.deepEqual(ids(list), [1, 2, 4]);
  tick(2000);
  await turn();
  respond(socket, '13:13:', all, { judge: COMPARABLE, rest: true });
  await turn();
  assert.deepEqual(ids(list), [1, 2, 3]);
});

test('all rows are requested if a page cannot be joined', async (t) => {
  const moved = change(12, 'update', { before: { id: 4, a: 4 }, after: { id: 4, a: 1 } });
  for (const [what, prepare, after] of [
    ['a `reload`', ({ socket }) => socket.sends({ t: 'reload', source: 't', rule: 'default' })],
    ['a row of the page is also in the list', ({ socket }) => socket.sends(moved), { row: { id: 2, a: 4 } }],
    ['an older snapshot', () => {}, { snapshot: '9:9:' }],
    ['a TRUNCATE', ({ socket }) => socket.sends(change(12, 'truncate', {}))],
    ['an error of the barrier', ({ socket }) => socket.sends({ t: 'err', r: socket.frames('barrier').at(-1).r, code: 111, after: 100 })],
  ]) {
    const world = await growing(t);
    const { socket, list, tick, result } = world;
    respond(socket, after?.snapshot ?? '12:12:', [after?.row ?? { id: 4, a: 4 }], { judge: COMPARABLE, rest: true });
    await turn();
    prepare(world);
    await turn();
    if (what !== 'an error of the barrier') passBarrier(socket);
    await turn();
    tick(2000);
    await turn();
    assert.deepEqual([what, requestsOf(socket).at(-1)], [what, { t: 'rows', source: 't', order: ['a'], limit: 3 }]);
    respond(socket, '13:13:', [{ id: 1, a: 1 }, { id: 2, a: 2 }, { id: 5, a: 5 }], { judge: COMPARABLE, rest: true });
    await turn();
    assert.deepEqual([what, ids(list), result()], [what, [1, 2, 5], true]);
    t.mock.restoreAll();
  }
});

test('all rows are requested from an older relay, and if a change cannot be compared with those of the page', async (t) => {
  const { socket, list } = await start(t, { order: ['a'], limit: 1 }, { connected: { features: ['ends'] } });
  respond(socket, '10:10:', [{ id: 1, a: 1 }], { judge: COMPARABLE, rest: true });
  await turn();
  list.loadMore();
  await turn();
  assert.deepEqual(requestsOf(socket)[1], { t: 'rows', source: 't', order: ['a'], limit: 2 });
  t.mock.restoreAll();

  const at = { order: ['-at'], limit: 1 };
  const world = await listOf(t, at, [{ id: 1, at: '2024-01-02' }], { rest: true });
  world.list.loadMore();
  await turn();
  assert.deepEqual(requestsOf(world.socket)[1], { t: 'rows', source: 't', ...at, after: ['2024-01-02', 1] });
  await replyPage(world.socket, '11:11:', [{ id: 2, at: '2024-01-01' }], { rest: true });
  assert.deepEqual(ids(world.list), [1, 2]);
  world.socket.sends(change(12, 'update', { before: { id: 2, at: '2024-01-01', a: 1 }, after: { id: 2, at: '2024-01-01', a: 2 } }));
  await turn();
  assert.deepEqual([world.list.rows, requests(world.socket)], [[{ id: 1, at: '2024-01-02' }, { id: 2, at: '2024-01-01', a: 2 }], 2]);
  world.socket.sends(create(13, { id: 3, at: '2024-01-03' }));
  await turn();
  world.tick(2000);
  await turn();
  assert.equal(requestsOf(world.socket)[2].limit, 2);
});

test('a list with pages that is longer than a response may be becomes shorter when all rows are loaded', async (t) => {
  const { socket, list, tick } = await growing(t);
  await replyPage(socket, '11:11:', [{ id: 3, a: 3 }], { rest: true });
  assert.deepEqual(ids(list), [1, 2, 3]);
  list.reload();
  await turn();
  assert.equal(requestsOf(socket).at(-1).limit, 3);
  rejectRows(socket, 107);
  await turn();
  tick(2000);
  await turn();
  assert.equal(requestsOf(socket).at(-1).limit, 2);
  respond(socket, '12:12:', [{ id: 1, a: 1 }, { id: 2, a: 2 }], { judge: COMPARABLE, rest: true });
  await turn();
  assert.deepEqual([ids(list), list.more, list.error], [[1, 2], true, undefined]);
});

test('loadMore() of a list without a limit, or without further rows, resolves to false', async (t) => {
  for (const options of [undefined, { order: ['a'] }, { limit: 5 }]) {
    const { socket, list } = await listOf(t, options, [{ id: 1, a: 1 }]);
    assert.deepEqual([await list.loadMore(), requests(socket)], [false, 1]);
    t.mock.restoreAll();
  }
});

test('loadMore() during a load requests the page behind the loaded rows', async (t) => {
  const { socket, list } = await start(t, { limit: 1 });
  let more;
  list.loadMore().then((value) => { more = value; });
  respond(socket, '10:10:', [{ id: 1 }], { judge: COMPARABLE, rest: true });
  await turn();
  assert.deepEqual([more, ids(list), requestsOf(socket)[1].after], [undefined, [1], [1]]);
  await replyPage(socket, '10:10:', [{ id: 2 }]);
  assert.deepEqual([more, ids(list)], [false, [1, 2]]);
});

test('loadMore() survives a lost connection, and rejects when the relay rejects the number of rows', async (t) => {
  const { relay, tick, list } = await listOf(t, { limit: 1 }, [{ id: 1 }], { rest: true });
  let more;
  list.loadMore().then((value) => { more = value; });
  await turn();
  const { socket } = await reconnect({ relay, tick }, list);
  tick(2000);
  await turn();
  assert.equal(requestsOf(socket)[0].limit, 2);
  respond(socket, '11:11:', [{ id: 1 }, { id: 2 }], { judge: COMPARABLE, rest: true });
  await turn();
  assert.equal(more, true);
  let error;
  list.loadMore(100_000).catch((cause) => { error = cause; });
  await turn();
  rejectRows(socket, 107);
  await turn();
  assert.equal(requestsOf(socket).at(-1).limit, 100_002);
  rejectRows(socket, 107);
  await turn();
  tick(2000);
  await turn();
  assert.deepEqual([error.code, requestsOf(socket).at(-1).limit], [107, 2]);
  respond(socket, '12:12:', [{ id: 1 }, { id: 2 }], { judge: COMPARABLE, rest: true });
  await turn();
  assert.deepEqual([ids(list), list.error], [[1, 2], undefined]);
});

test('loadMore() ends when the list closes', async (t) => {
  const { list } = await listOf(t, { limit: 1 }, [{ id: 1 }], { rest: true });
  const more = list.loadMore();
  await turn();
  list.close();
  assert.equal(await more, true);
});

test('a response that the relay has cut is no reason for another load', async (t) => {
  const { tick, socket, list } = await listOf(t, { limit: 10 }, [{ id: 1 }, { id: 2 }], { rest: true });
  socket.sends(create(10, { id: 0 }));
  tick(5000);
  await turn();
  assert.deepEqual([ids(list), list.more, requests(socket)], [[0, 1], true, 1]);
});

// ---- count()

/** A count with these options, whose first response is `count`. */
async function countOf(t, options, count, fields) {
  const world = await start(t, { rule: 'other' });
  const result = world.client.count('t', options);
  const values = [];
  result.subscribe((value) => values.push(value));
  await turn();
  const reply = (snapshot, number) => {
    const { r } = world.socket.frames('rows').findLast((frame) => frame.count);
    world.socket.sends({ t: 'rows', r, count: number, snapshot, judge: COMPARABLE, ...fields });
  };
  assert.deepEqual([result.value, result.loading], [0, true]);
  reply('10:10:', count);
  await turn();
  return { ...world, result, values, reply, requested: () => world.socket.frames('rows').filter((frame) => frame.count).length };
}

test('count() requests the number of rows, and follows the changes', async (t) => {
  const { socket, result, values, requested } = await countOf(t, {}, 7);
  assert.deepEqual(requestsOf(socket)[1], { t: 'rows', source: 't', count: true });
  assert.deepEqual([result.value, result.loading, result.error, 'rows' in result], [7, false, undefined, false]);
  socket.sendsPart(create(10, { id: 1 }), create(10, { id: 2 }));
  await turn();
  assert.equal(result.value, 7);
  socket.sendsPart(end(10));
  socket.sends(remove(11, { id: 1 }), update(12, { id: 2 }));
  await turn();
  assert.deepEqual([result.value, values, requested()], [8, [0, 7, 8], 1]);
  socket.sends(change(13, 'truncate', {}));
  await turn();
  assert.equal(result.value, 0);
});

test('count() with `where` compares the old and the new row', async (t) => {
  const { socket, result, requested } = await countOf(t, { where: { a: 1 } }, 7);
  const move = (x, before, after) => change(x, 'update', { before: { id: 1, ...before }, after: { id: 1, ...after } });
  socket.sends(move(10, { a: 1 }, { a: 2 }), move(11, { a: 2 }, { a: 3 }), create(12, { id: 2, a: 1 }), create(12, { id: 3, a: 2 }));
  await turn();
  assert.equal(result.value, 7);
  socket.sends(move(13, { a: 3 }, { a: 1 }), move(14, { a: 1, v: 1 }, { a: 1, v: 2 }), remove(15, { id: 2, a: 1 }), remove(16, { id: 3, a: 2 }));
  await turn();
  assert.deepEqual([result.value, requested()], [7, 1]);
});

for (const [what, where, cause] of [
  ['a change without the old row', { a: 1 }, () => update(10, { id: 1, a: 1 })],
  ['a delete without the old row', { a: 1 }, () => remove(10, { id: 1 })],
  ['a column that it may not compare', { at: 'x' }, () => create(10, { id: 1, at: 'x' })],
]) {
  test(`count() loads again after ${what}, at most once a second`, async (t) => {
    const { tick, socket, result, reply, requested } = await countOf(t, { where }, 7);
    socket.sends(cause());
    await turn();
    assert.equal(requested(), 1);
    tick(1000);
    await turn();
    assert.deepEqual([requested(), result.value], [2, 7]);
    reply('11:11:', 8);
    await turn();
    assert.equal(result.value, 8);
  });
}

test('count() needs no load for a column that it may not compare if it is unchanged', async (t) => {
  const { tick, socket, requested } = await countOf(t, { where: { at: 'x' } }, 7);
  socket.sends(change(10, 'update', { before: { id: 1, at: 'x', v: 1 }, after: { id: 1, at: 'x', v: 2 } }));
  tick(1000);
  await turn();
  assert.equal(requested(), 1);
});

for (const [what, frames] of [
  ['loses', (before, after) => [change(10, 'delete', { before }), change(10, 'update', { before, after })]],
  ['gains', (before, after) => [change(10, 'update', { before, after }), change(10, 'create', { after })]],
]) {
  test(`count() loads again if one group ${what} a row that another one has`, async (t) => {
    const { tick, socket, result, requested } = await countOf(t, {}, 7);
    socket.sends(...frames({ id: 1, g: 1 }, { id: 1, g: 2 }));
    tick(1000);
    await turn();
    assert.deepEqual([requested(), result.value], [2, 7]);
  });
}

test('count() is 0 with the error if the user is not addressed', async (t) => {
  const { client, socket } = await loaded(t, '10:10:', []);
  client.on('error', () => {});
  const result = client.count('t', { rule: 'other' });
  await turn();
  rejectRows(socket, 103);
  await turn();
  assert.deepEqual([result.value, result.loading, result.error.code], [0, false, 103]);
  result.close();
});

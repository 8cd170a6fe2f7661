// live_changes.test.js: live() applies single changes, and loads its rows again after those that it cannot apply.

import assert from 'node:assert/strict';
import test from 'node:test';
import { acceptLoad, change, create, loaded, loadedByPage, reconnect, remove, respond, start, turn, update } from './live_list.js';

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

for (const [what, hidden] of [
  ['a change of another rule', (x) => create(x, { id: 7 }, { ack: true })],
  ['a notification that is not a change', () => change(undefined, 'notify', { text: 'hello' }, { ack: true, rule: 'mine' })],
]) {
  test(`${what} is not acked by a list`, async (t) => {
    const { tick, client, socket, errors } = await start(t, { rule: 'mine' });
    const acked = async () => {
      await turn();
      tick(0);
      return socket.frames('ack').flatMap(({ ids }) => ids);
    };
    socket.sends(hidden(9), hidden(10)); // during the load
    respond(socket, '10:10:', []);
    assert.deepEqual(await acked(), []);
    const visible = create(13, { id: 1 }, { rule: 'mine', ack: true });
    socket.sends(visible, hidden(9), hidden(11));
    assert.deepEqual(await acked(), [visible.n.metadata.id]);
    assert.deepEqual(errors, ['t: not handled']);
    client.on('t', () => {});
    const handled = hidden(12);
    socket.sends(handled);
    assert.deepEqual(await acked(), [visible.n.metadata.id, handled.n.metadata.id]);
  });
}

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

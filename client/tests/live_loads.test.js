// live_loads.test.js: live() requests its rows again after losses and errors, from the relay or with a load() of the application.

import assert from 'node:assert/strict';
import test from 'node:test';
import {
  acceptLoad, change, create, growingDelays, loaded, loadedByPage, ownLoad, reconnect, rejectRows, remove, requestsOf, respond, start,
  turn, update,
} from './live_list.js';

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

function rejectToken(socket) {
  socket.sends({ t: 'err', r: 1, code: 101, msg: 'unknown key', retry: false }, { t: 'bye', code: 4001, msg: 'unknown key' });
  socket.closes(4001);
}

const facts = ({ rows, loading, error }) => [rows, loading, error?.code, error?.message];

test('if the relay rejects the token, the error of each list has the reason', async (t) => {
  const { socket, list, client, errors } = await loaded(t, '10:10:', [{ id: 1 }]);
  const lists = [client.live('u'), client.live('v', ownLoad([]))];
  await turn();
  rejectToken(socket);
  lists.push(client.live('w'));
  await turn();
  lists.push(client.live('x'));
  await turn();
  assert.deepEqual(facts(list), [[{ id: 1 }], false, 4001, 'unknown key']);
  for (const each of lists) assert.deepEqual(facts(each), [[], false, 4001, 'unknown key']);
  assert.deepEqual(errors, ['unknown key']);
});

test('if the relay rejects the token, the error of a list without snapshots has the reason', async (t) => {
  const { socket, list, errors } = await start(t, { key: 'id' });
  rejectRows(socket, 103);
  await turn();
  assert.equal(list.error.code, 103);
  rejectToken(socket);
  await turn();
  assert.deepEqual(facts(list), [[], false, 4001, 'unknown key']);
  assert.deepEqual(errors, ['unknown key']);
});

test('if the relay rejects the token during a load() without a snapshot, its rows are shown with the reason', async (t) => {
  const calls = [];
  const own = await start(t, ownLoad(calls));
  calls[0].resolve([{ id: 1 }]);
  await turn();
  own.list.reload();
  await turn();
  rejectToken(own.socket);
  calls.at(-1).resolve([{ id: 2 }]);
  await turn();
  assert.deepEqual(facts(own.list), [[{ id: 2 }], false, 4001, 'unknown key']);
});

test('if the relay rejects the token, the error of a failed load() does not replace the reason', async (t) => {
  const calls = [];
  const own = await start(t, ownLoad(calls));
  calls[0].resolve([{ id: 1 }]);
  await turn();
  own.list.reload();
  await turn();
  rejectToken(own.socket);
  calls.at(-1).reject(new Error('the server is unavailable'));
  await turn();
  assert.deepEqual(facts(own.list), [[{ id: 1 }], false, 4001, 'unknown key']);
  assert.deepEqual(own.errors, ['unknown key', 'the server is unavailable']);
});

test('after close() a list is not loading, and has no error', async (t) => {
  const { client, list } = await start(t);
  client.close();
  await turn();
  assert.deepEqual(facts(list), [[], false, undefined, undefined]);
});

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

for (const options of [{}, { where: { id: 1 } }]) {
  for (const method of ['live', 'count']) {
    test(`while the relay stays busy, ${method}() with ${JSON.stringify(options)} has its error, and requests again`, async (t) => {
      const { tick, socket, client, errors } = await start(t, {});
      respond(socket, '10:10:', []);
      await import(new URL('count.js', import.meta.resolve('clairon')));
      await import(new URL('conditions.js', import.meta.resolve('clairon')));
      const list = client[method]('t', options);
      t.after(() => list.close());
      const seen = [];
      list.subscribe(() => seen.push(list.error?.message));
      await turn();
      rejectRows(socket, 111, { after: 1000, retry: true, msg: 'too many requests for rows' });
      await turn();
      assert.deepEqual([list.loading, list.error], [true, undefined]);
      for (let i = 0; i < 2; i += 1) {
        tick(2000 * (i + 1));
        await turn();
        assert.equal(socket.frames('rows').length, 3 + i);
        rejectRows(socket, 111, { after: 1000, retry: true, msg: 'database does not reply' });
        await turn();
        assert.deepEqual([list.loading, list.error.code, list.error.message, seen.at(-1)],
          [true, 111, 'database does not reply', 'database does not reply']);
      }
      assert.deepEqual(errors, ['database does not reply']);
      tick(8000);
      await turn();
      respond(socket, '10:10:', [], { count: 0 });
      await turn();
      assert.deepEqual([list.loading, list.error, seen.at(-1), errors.length], [false, undefined, undefined, 1]);
    });
  }
}

test('the error of a relay that has waited for the database appears with its first reply', async (t) => {
  const { tick, socket, list, errors } = await start(t);
  tick(3000);
  rejectRows(socket, 111, { after: 1000, retry: true, msg: 'database does not reply' });
  await turn();
  assert.deepEqual([list.loading, list.error.code, errors], [true, 111, ['database does not reply']]);
  tick(6000);
  await turn();
  respond(socket, '10:10:', [{ id: 1 }]);
  await turn();
  assert.deepEqual([list.rows, list.error], [[{ id: 1 }], undefined]);
});

test('an error of a busy relay does not change the rows', async (t) => {
  const { tick, socket, list } = await loaded(t, '10:10:', [{ id: 1 }]);
  socket.sends({ t: 'reload', source: 't', rule: 'default' });
  for (let i = 0; i < 2; i += 1) {
    tick(2000 * (i + 1));
    await turn();
    rejectRows(socket, 111, { after: 1000, retry: true });
    await turn();
  }
  assert.deepEqual([list.rows, list.loading, list.error.code], [[{ id: 1 }], false, 111]);
});

test('103 is reported once until rows are loaded', async (t) => {
  const { tick, socket, list, errors } = await start(t);
  for (let i = 0; i < 3; i += 1) {
    rejectRows(socket, 103);
    await turn();
    socket.sends(create(11 + i, { id: i }));
    tick(1000 * (i + 1));
    await turn();
    assert.equal(socket.frames('rows').length, 2 + i);
  }
  assert.deepEqual([list.error.code, errors], [103, ['rejected with 103']]);
  respond(socket, '20:20:', []);
  await turn();
  list.reload();
  await turn();
  rejectRows(socket, 103);
  await turn();
  assert.equal(errors.length, 2);
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

for (const [reason, act] of [['a change', (socket) => socket.sends(create(11, { id: 1 }))], ['reload()', (socket, list) => list.reload()]]) {
  test(`the first rejection ends the loading, even if ${reason} during the request causes another one`, async (t) => {
    const { tick, socket, list } = await start(t);
    act(socket, list);
    rejectRows(socket, 103);
    await turn();
    assert.deepEqual([list.rows, list.loading, list.error.code], [[], false, 103]);
    tick(1000);
    await turn();
    assert.equal(socket.frames('rows').length, 2);
    respond(socket, '12:12:', [{ id: 1 }]);
    await turn();
    assert.deepEqual([list.rows, list.loading, list.error], [[{ id: 1 }], false, undefined]);
  });
}

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

// live_tabs.test.js: live lists in tabs that share one connection.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { fakeBrowser, tokenOf } from './fake-browser.js';
import { fakeRelay, msg, until } from './fake-relay.js';

let users = 0;
let ids = 0;

const create = (x, after) => {
  ids += 1;
  return {
    ...msg(String(ids), {
      metadata: {
        id: `id ${ids}`, source: 't', topic: 'demo.t', type: 'REALTIME', operation: 'create', timestamp: `2026-01-01T00:00:00.${ids}Z`,
      },
      payload: { before: null, after },
      routing: { retry: { ack_required: false, attempts: 0 } },
    }),
    x: String(x),
    rule: 'default',
  };
};

/** A leader tab and a follower with one list each. `table` has the rows of the relay's responses. */
async function twoTabs(t, table, features) {
  fakeBrowser();
  users += 1;
  const relay = fakeRelay({
    onRows: ({ r, source }, socket) => {
      const { snapshot, rows } = table;
      if (table.isHung) return;
      socket.sends({ t: 'rows', r, key: ['id'], snapshot, rows: rows.slice(0, 1), more: true });
      socket.sends({ t: 'rows', r, key: ['id'], snapshot, rows: rows.slice(1), more: false });
    },
  });
  const token = tokenOf(`live user ${users}`); // BroadcastChannels are shared by the process
  const open = () => {
    const client = connect({ url: 'ws://relay.test', token, WebSocket: relay.WebSocket, backoff: { base: 2, cap: 2 } });
    t.after(() => client.close());
    const states = [];
    const list = client.live('t');
    list.subscribe((rows) => states.push(rows.map(({ id }) => id).join()));
    return { client, list, states };
  };
  const first = open();
  const socket = await relay.socket();
  socket.accept({ features });
  await until('the leader is open', () => first.client.state === 'open');
  const second = open();
  return { relay, open, first, second, socket };
}

const hasRows = (tab, rows) => until(`rows ${rows}`, () => tab.states.at(-1) === rows);

test('each tab requests its rows over the shared connection, and applies the changes', async (t) => {
  const { relay, first, second, socket } = await twoTabs(t, { snapshot: '10:10:', rows: [{ id: 1 }, { id: 2 }] });
  await hasRows(first, '1,2');
  await hasRows(second, '1,2');
  assert.equal(relay.pendingSockets, 0);
  assert.equal(new Set(socket.frames('rows').map(({ r }) => r)).size, 2);
  socket.sends(create(10, { id: 3 }));
  for (const tab of [first, second]) await hasRows(tab, '1,2,3');
});

const forwarded = (posted) => posted.mock.calls.filter(({ arguments: [{ t }] }) => t === 'frames');

test('the rows of one transaction appear together in every tab, and are forwarded in one message', async (t) => {
  const { first, second, socket } = await twoTabs(t, { snapshot: '10:10:', rows: [{ id: 1 }] });
  await hasRows(second, '1');
  const posted = t.mock.method(BroadcastChannel.prototype, 'postMessage');
  socket.sends(create(10, { id: 2 }), create(10, { id: 3 }), create(10, { id: 4 }));
  await hasRows(second, '1,2,3,4');
  assert.deepEqual([first, second].map(({ states }) => states), Array(2).fill(['', '1', '1,2,3,4']));
  assert.deepEqual(forwarded(posted).map(({ arguments: [{ frames }] }) => frames.length), [3]);
});

const end = (x) => ({ t: 'end', x: String(x), pos: `end ${x}` });

test('a tab that joins during a transaction shows it at its end, as the others do', async (t) => {
  const table = { snapshot: '10:10:', rows: [{ id: 1 }] };
  const { open, first, second, socket } = await twoTabs(t, table, ['ends']);
  await hasRows(second, '1');
  socket.sends(create(10, { id: 2 }));
  await until('its cursor', () => second.client.pos === String(ids));
  Object.assign(table, { snapshot: '11:11:', rows: [{ id: 1 }, { id: 2 }, { id: 3 }] });
  const third = open();
  await hasRows(third, '1,2,3');
  socket.sends(create(10, { id: 3 }), create(11, { id: 4 }));
  socket.sends(create(11, { id: 5 }), end(10));
  for (const tab of [first, second]) await hasRows(tab, '1,2,3');
  socket.sends(end(11));
  for (const tab of [first, second, third]) await hasRows(tab, '1,2,3,4,5');
  assert.deepEqual([first, second, third].map(({ states }) => states.at(-2)), Array(3).fill('1,2,3'));
  assert.equal(third.client.pos, 'end 11');
});

test('a returning tab receives the ends that it missed', async (t) => {
  const { relay, first, second, socket } = await twoTabs(t, { snapshot: '10:10:', rows: [] }, ['ends']);
  await until('the list', () => second.states.length > 1);
  const start = create(9, { id: 0 });
  socket.sends(start, end(9));
  await until('its cursor', () => second.client.pos === 'end 9');
  socket.sends(create(10, { id: 1 }), end(10), create(11, { id: 2 }));
  await hasRows(first, '1');
  const gaps = [];
  const back = connect({ url: 'ws://relay.test', token: tokenOf(`live user ${users}`), WebSocket: relay.WebSocket, pos: 'end 9' });
  t.after(() => back.close());
  back.on('gap', (gap) => gaps.push(gap));
  await until('its cursor', () => back.pos === String(ids));
  socket.sends(end(11));
  await until('the end', () => back.pos === 'end 11');
  await hasRows(second, '1,2');
  assert.deepEqual(gaps, []);
});

test('only the requesting tab receives the rows', async (t) => {
  const { first, second } = await twoTabs(t, { snapshot: '10:10:', rows: [{ id: 1 }] });
  await hasRows(second, '1');
  const posted = t.mock.method(BroadcastChannel.prototype, 'postMessage');
  await first.list.reload();
  await until('the rows again', () => first.states.length === 3);
  assert.deepEqual(forwarded(posted), []);
});

test('an error reaches the list of the requesting tab', async (t) => {
  const table = { snapshot: '10:10:', rows: [{ id: 1 }], isHung: true };
  const { first, second, socket } = await twoTabs(t, table);
  await until('both requests', () => socket.frames('rows').length === 2);
  const errors = [];
  for (const { client } of [first, second]) client.on('error', ({ error }) => errors.push(error.code));
  socket.sends({ t: 'err', r: socket.frames('rows')[1].r, code: 113, msg: 'too many rows', retry: false });
  await until('the error', () => second.list.error);
  assert.deepEqual([first.list.error, second.list.error.code, errors], [undefined, 113, [113]]);
});

test('a reload and a gap reach the lists of all tabs', async (t) => {
  const table = { snapshot: '10:10:', rows: [{ id: 1 }] };
  const { first, second, socket } = await twoTabs(t, table);
  await hasRows(second, '1');
  Object.assign(table, { snapshot: '11:11:', rows: [{ id: 2 }] });
  socket.sends({ t: 'reload', source: 't', rule: 'default' });
  for (const tab of [first, second]) await hasRows(tab, '2');
  Object.assign(table, { snapshot: '12:12:', rows: [{ id: 3 }] });
  socket.sends({ t: 'gap', from: '1', to: '2', why: 'shed' });
  for (const tab of [first, second]) await hasRows(tab, '3');
});

test('a request that was lost with the leader is repeated by the next leader, even for other tabs', async (t) => {
  const table = { snapshot: '10:10:', rows: [{ id: 1 }], isHung: true };
  const { relay, open, first, second, socket } = await twoTabs(t, table);
  const third = open();
  await until('all requests', () => socket.frames('rows').length === 3);
  table.isHung = false;
  first.client.close();
  (await relay.socket()).accept({ resumed: true });
  for (const tab of [second, third]) await hasRows(tab, '1');
});

test('a lost connection ends the requests of all tabs: the leader forwards no reply to them', async (t) => {
  const table = { snapshot: '10:10:', rows: [{ id: 1 }], isHung: true };
  const { relay, first, second, socket } = await twoTabs(t, table);
  await until('both requests', () => socket.frames('rows').length === 2);
  table.isHung = false;
  socket.closes();
  const next = await relay.socket();
  next.accept({ resumed: true });
  for (const tab of [first, second]) await hasRows(tab, '1');
  const posted = t.mock.method(BroadcastChannel.prototype, 'postMessage');
  for (const { r } of socket.frames('rows')) next.sends({ t: 'rows', r, rows: [], more: false });
  assert.deepEqual(posted.mock.calls, []);
});

test('lists of a new leader and its followers receive further changes', async (t) => {
  const { relay, open, first, second } = await twoTabs(t, { snapshot: '10:10:', rows: [{ id: 1 }] });
  const third = open();
  await hasRows(third, '1');
  first.client.close();
  const next = await relay.socket();
  next.accept({ resumed: true });
  next.sends(create(10, { id: 2 }));
  for (const tab of [second, third]) await hasRows(tab, '1,2');
});

test('seen() resolves in every tab', async (t) => {
  const { first, second, socket } = await twoTabs(t, { snapshot: '10:10:', rows: [] });
  await until('both lists', () => first.states.length > 1 && second.states.length > 1);
  const both = Promise.all([first, second].map(({ client }) => client.seen('10')));
  await until('both barriers', () => socket.frames('barrier').length === 2);
  socket.sends(create(10, { id: 1 }));
  socket.frames('barrier').forEach(({ r }) => socket.sends({ t: 'barrier', r, committed: true }));
  await both;
  assert.deepEqual([first, second].map(({ list }) => list.rows), [[{ id: 1 }], [{ id: 1 }]]);
});

test('a returning tab shows notifications that need an ack in their order', async (t) => {
  const { relay, second, socket } = await twoTabs(t, { snapshot: '10:10:', rows: [] });
  await until('the list', () => second.states.length > 1);
  const seen = [];
  const [missed, pending] = [create(10, { id: 1 }), create(11, { id: 2 })];
  pending.n.routing.retry.ack_required = true;
  const start = create(9, { id: 0 });
  socket.sends(start);
  await until('its cursor', () => second.client.pos === start.pos);
  socket.sends(missed, pending);
  await until('both', () => second.list.rows.length === 2);
  const back = connect({
    url: 'ws://relay.test', token: tokenOf(`live user ${users}`), WebSocket: relay.WebSocket, ack: 'manual', pos: start.pos,
  });
  t.after(() => back.close());
  back.on('message', ({ metadata }) => seen.push(metadata.id));
  await until('both', () => seen.length === 2);
  assert.deepEqual(seen, [missed.n.metadata.id, pending.n.metadata.id]);
});

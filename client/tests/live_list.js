// live_list.js: a live list whose relay, timers and load() the test controls.

import assert from 'node:assert/strict';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay, msg } from './fake-relay.js';

// These modules are imported first: the fake clock must not advance during an import.
for (const name of ['rows.js', 'timed_rows.js']) await import(new URL(name, import.meta.resolve('clairon')));

let ids = 0;
let clock; // of the current test: tick(ms)

/** A change of a live rule by transaction `x`; default: committed after all previous changes. */
export function change(x, operation, payload, { attempts = 0, rule = 'default', ack = false, source = 't', timestamp } = {}) {
  ids += 1;
  const at = timestamp ?? `2026-01-01T00:00:00.${String(ids).padStart(6, '0')}Z`;
  const n = {
    metadata: { id: `id ${ids}`, source, topic: `demo.${source}`, type: 'REALTIME', operation, timestamp: at },
    payload: { before: null, after: null, ...payload },
    routing: { retry: { ack_required: ack, attempts } },
  };
  return { ...msg(String(ids), n), x: String(x), rule };
}

export const create = (x, after, more) => change(x, 'create', { after }, more);
export const update = (x, after, more) => change(x, 'update', { before: { id: after.id }, after }, more);
export const remove = (x, before, more) => change(x, 'delete', { before }, more);

export const end = (x) => ({ t: 'end', x: String(x), pos: String(ids) });

/**
 * The relay sends the end of each transaction behind its last change in `frames`. `sendsPart(..)` sends only the given
 * frames.
 */
function sendEnds(socket) {
  const { sends } = socket;
  socket.sendsPart = sends;
  socket.sends = (...frames) => {
    const xs = frames.map(({ t, x, n }) => t === 'msg' && !n.routing.retry.attempts && x);
    sends.apply(socket, frames.flatMap((frame, i) => (xs[i] && xs.lastIndexOf(xs[i]) === i ? [frame, end(xs[i])] : [frame])));
  };
}

/** Accepts the connection, as a relay that sends the ends of transactions. */
function accept(socket, connected) {
  sendEnds(socket);
  socket.accept({ features: ['barrier', 'ends'], ...connected });
}

/** A random wait before another request is never so short that turn() ends it. */
function longWaits(t) {
  const { random } = Math;
  t.mock.method(Math, 'random', () => 0.5 + random() / 2);
}

/** A connected client with a live list, whose states are in `states`. The test controls the timers. */
export async function start(t, options, { connected, relayOptions, source = 't' } = {}) {
  const tick = handTimers(t, 'setTimeout');
  clock = tick;
  longWaits(t);
  const relay = fakeRelay(relayOptions);
  const client = connect({
    url: 'ws://relay.test', token: 'T', WebSocket: relay.WebSocket, transports: ['ws'], backoff: { base: 1, cap: 1 },
  });
  t.after(() => client.close());
  const errors = [];
  client.on('error', ({ error }) => errors.push(error.message));
  const list = client.live(source, options);
  t.after(() => list.close());
  const states = [];
  list.subscribe((rows) => states.push(rows));
  const socket = await relay.socket();
  accept(socket, { ping: 1e6, ...connected });
  await turn();
  return { tick, relay, client, list, errors, states, socket };
}

/** Waits until pending promises have resolved, and the list has shown its changes. */
export async function turn() {
  for (let i = 0; i < 3; i += 1) await new Promise(setImmediate);
  clock(0);
  await new Promise(setImmediate);
}

/** Responds to the last request for rows. */
export function respond(socket, snapshot, rows, fields) {
  const { r } = socket.frames('rows').at(-1);
  socket.sends({ t: 'rows', r, key: ['id'], snapshot, rows, more: false, ...fields });
}

export function rejectRows(socket, code, fields) {
  const { r } = socket.frames('rows').at(-1);
  socket.sends({ t: 'err', r, code, msg: `rejected with ${code}`, retry: false, ...fields });
}

export const ownLoad = (calls) => ({ key: 'id', load: () => new Promise((resolve, reject) => { calls.push({ resolve, reject }); }) });

/** The last call of load() returns these rows, and the relay accepts their snapshot. */
export async function acceptLoad(socket, calls, snapshot, rows) {
  calls.at(-1).resolve({ rows, snapshot });
  await turn();
  socket.sends({ t: 'rows', r: socket.frames('rows').at(-1).r, ok: true });
  await turn();
}

/** A list whose first rows come from load(). */
export async function loadedByPage(t, snapshot, rows) {
  const calls = [];
  const world = await start(t, ownLoad(calls));
  await acceptLoad(world.socket, calls, snapshot, rows);
  return { ...world, calls };
}

/** A list whose first rows are loaded. */
export async function loaded(t, snapshot, rows, options, more) {
  const world = await start(t, options, more);
  respond(world.socket, snapshot, rows);
  await turn();
  assert.deepEqual(world.list.rows, rows);
  return world;
}

export const requestsOf = (socket) => socket.frames('rows').map(({ r, ...frame }) => frame);

/** Loses the connection and resumes it, before the list requests its rows again. */
export async function reconnect({ relay, tick }, list) {
  const { rows } = list;
  const opened = relay.socket();
  relay.last.closes();
  tick(1);
  const socket = await opened;
  accept(socket, { resumed: true });
  await turn();
  return { socket, rows };
}

/** Checks that each failed request is repeated after a longer delay. Math.random() must return almost 1. */
export async function growingDelays(tick, socket, fail) {
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

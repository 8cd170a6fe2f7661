// live_order.test.js: live() converges to the table for any delivery order.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay, msg } from './fake-relay.js';

// These modules are imported first: the fake clock must not advance during an import.
for (const name of ['rows.js', 'timed_rows.js']) await import(new URL(name, import.meta.resolve('clairon')));

const SEEDS = 200;
const LAG_MS = 500; // from a commit to its visibility

/** Seeded random numbers below `n`, and random booleans. */
function dice(seed) {
  let state = seed * 2654435761;
  const next = () => {
    state = (state + 0x6D2B79F5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n) => Math.floor(next() * n);
  return { below, chance: (p) => next() < p, pick: (list) => list.splice(below(list.length), 1)[0] };
}

/** A table with its history; commit() is one transaction and returns its notifications. */
function createTable({ below, chance }, { isFull, hasTies, movesKeys, truncates }) {
  const rows = new Map();
  const past = []; // [ms, rows]
  let ids = 0;
  let micros = 0;

  function change(at, operation, before, after, more) {
    ids += 1;
    return {
      metadata: { id: `id ${ids}`, source: 't', topic: 'demo.t', type: 'REALTIME', operation, timestamp: at },
      payload: { before, after, ...more },
      routing: { retry: { ack_required: true, attempts: 0 } },
    };
  }

  const image = (row) => (isFull ? row : { id: row.id });

  function update(at, row, consumed) {
    const after = { ...row, a: below(3) };
    const id = 1 + below(5);
    if (movesKeys && chance(0.15) && !rows.has(id) && (hasTies || !consumed.has(id))) after.id = id;
    consumed.add(after.id);
    if (chance(0.4)) after.big = below(100);
    const isUnchanged = !isFull && after.big === row.big && (movesKeys || after.id === row.id);
    rows.delete(row.id);
    rows.set(after.id, after);
    const { big, ...rest } = after;
    return change(at, 'update', image(row), isUnchanged ? rest : after,
      isFull ? { changed: ['a'] } : isUnchanged && { unchanged: ['big'] });
  }

  function step(at, consumed) {
    const id = 1 + below(5);
    const row = rows.get(id);
    if (truncates && chance(0.03)) {
      rows.clear();
      return change(at, 'truncate', null, null);
    }
    if (!hasTies && consumed.has(id)) return undefined;
    consumed.add(id);
    if (row && chance(0.7)) return update(at, row, consumed);
    if (row) {
      rows.delete(id);
      return change(at, 'delete', image(row), null);
    }
    rows.set(id, { id, a: below(3), big: below(100) });
    return change(at, 'create', null, rows.get(id));
  }

  function commit(now) {
    micros = (micros + 1) % 1000;
    const at = new Date(now).toISOString().replace('Z', `${String(micros).padStart(3, '0')}Z`);
    const consumed = new Set();
    const lines = Array.from({ length: 1 + below(3) }, () => step(at, consumed)).filter(Boolean);
    past.push([now, [...rows.values()]]);
    return lines;
  }

  /** The rows at that time. */
  const asOf = (now) => past.findLast(([at]) => at <= now)?.[1] ?? [];

  return { commit, asOf };
}

const sorted = (rows) => rows.map((row) => JSON.stringify(row, ['id', 'a', 'big'])).sort();

/** Waits until pending promises have resolved; works with fake timers. */
async function settle() {
  for (let i = 0; i < 3; i += 1) await new Promise(setImmediate);
}

/** One list of one client, with a clock and a load() that the test controls. */
async function createPage(t, chances, { hasLoad, skew, knowsNow }) {
  const tick = handTimers(t, 'setTimeout');
  const page = { now: 1e12, loads: [], startedAt: 1e12 };
  const relay = fakeRelay({ onRows: ({ r }, to) => to.sends({ t: 'err', r, code: 103, msg: 'no such live rule' }) });
  const client = connect({
    url: 'ws://relay.test', token: 'T', WebSocket: relay.WebSocket, transports: ['ws'], ack: 'manual', dedupe: 3,
    now: () => page.now + skew, backoff: { base: 1, cap: 1, random: () => 0 },
  });
  t.after(() => client.close());
  const load = () => new Promise((resolve, reject) => {
    page.loads.push({ resolve, reject, requestedAt: page.now });
  });
  page.errors = [];
  client.on('error', ({ error }) => page.errors.push(error.message));
  page.list = client.live('t', { key: 'id', load: hasLoad ? load : undefined });
  page.pass = (ms) => { page.now += ms; tick(ms); };
  let socket;
  page.open = async (resumed) => {
    page.startedAt = resumed ? page.startedAt : page.now;
    const next = relay.socket();
    socket?.closes();
    page.pass(1);
    socket = await next;
    socket.accept({ resumed, ping: 1e6, now: knowsNow ? page.now : undefined });
  };
  page.gap = () => {
    page.startedAt = page.now;
    socket.sends({ t: 'gap', from: '1', to: '2', why: 'shed' });
  };
  let pos = 0;
  page.deliver = (n) => socket.sends(msg(String(pos += 1), structuredClone(n)));
  return page;
}

function finishLoad(page, table, { below, pick, chance }) {
  const { resolve, reject, requestedAt } = pick(page.loads);
  if (chance(0.1)) {
    reject(new Error('the server is unavailable'));
    return;
  }
  const seenAt = Math.max(page.startedAt, requestedAt - below(LAG_MS) + below(page.now - requestedAt + LAG_MS));
  resolve(structuredClone(table.asOf(Math.min(page.now, seenAt))));
}

/** A duplicate of a notification: a retry, or a redrive by an operator. */
const again = (n, { chance }) => ({
  ...n, routing: { retry: { ...n.routing.retry, attempts: chance(0.5) ? n.routing.retry.attempts + 1 : 0 } },
});

/** Drops some pending deliveries: acknowledged by another session, or lost. */
const lose = (pool, page, { chance }) => pool.filter(
  ({ metadata }) => Date.parse(metadata.timestamp) > page.now - LAG_MS || chance(0.5),
);

async function play(t, seed, kind) {
  const { hasLoad } = kind;
  const chances = dice(seed);
  const { below, chance, pick } = chances;
  const table = createTable(chances, kind);
  const page = await createPage(t, chances, kind);
  let pool = [];
  const act = {
    commit: () => { page.pass(1 + below(50)); pool.push(...table.commit(page.now)); },
    deliver: () => {
      if (!pool.length) return;
      const n = chance(0.6) ? pool.shift() : pick(pool);
      if (chance(0.2)) pool.push(again(n, chances));
      page.deliver(n);
    },
    finishLoad: () => page.loads.length && finishLoad(page, table, chances),
    wait: () => page.pass(below(3000)),
    reconnect: async () => {
      const resumed = !hasLoad || chance(0.5);
      if (!resumed) pool = lose(pool, page, chances);
      await page.open(resumed);
    },
    gap: () => {
      if (!hasLoad) return;
      pool = lose(pool, page, chances);
      page.gap();
    },
  };
  const steps = ['commit', 'commit', 'commit', 'deliver', 'deliver', 'deliver', 'deliver', 'finishLoad', 'finishLoad', 'wait'];
  for (let i = 0; i < 6; i += 1) act.commit();
  page.pass(LAG_MS);
  if (hasLoad) pool = pool.filter(() => chance(0.5));
  await page.open(false);
  for (let i = 0; i < 60; i += 1) {
    await act[chance(0.06) ? ['reconnect', 'gap'][below(2)] : steps[below(steps.length)]]();
    if (chance(0.7)) await settle();
  }
  while (pool.length) page.deliver(pick(pool));
  for (let i = 0; i < 8; i += 1) { // until no load causes another
    await settle();
    page.pass(LAG_MS);
    while (page.loads.length) pick(page.loads).resolve(structuredClone(table.asOf(page.now - (i < 2 ? LAG_MS : 0))));
    await settle();
    page.pass(2000);
  }
  await settle();
  assert.deepEqual(sorted(page.list.rows), sorted(table.asOf(page.now)), `seed ${seed} ${JSON.stringify(kind)}`);
  t.mock.restoreAll();
}

// The device's clock is right or an hour off. A relay of an older version sends no `now`.
const SKEWS = [
  { skew: 0 }, { skew: 3_600_000 }, { skew: 0, knowsNow: true },
  { skew: 3_600_000, knowsNow: true }, { skew: -3_600_000, knowsNow: true },
];

test(`with load() the rows equal the table after ${SEEDS} orders of late, lost, repeated and redriven changes`, async (t) => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    await play(t, seed, {
      hasLoad: true, isFull: seed % 2 === 0, hasTies: true, movesKeys: true, truncates: true, ...SKEWS[seed % 5],
    });
  }
});

test(`without load() the rows equal the table after ${SEEDS} orders of late, repeated and redriven changes`, async (t) => {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    await play(t, seed, {
      hasLoad: false, isFull: seed % 2 === 0, hasTies: false, movesKeys: seed % 6 === 0, ...SKEWS[seed % 5],
    });
  }
});

// live_model.test.js: live lists against a model of PostgreSQL and a relay, with random transactions, snapshots and
// losses.
//
// After each step the list equals the rows of one snapshot plus all transactions up to one point of commit order, and
// these points only move forward. Transactions whose end is delayed are missing, as are later transactions of the same
// rows. Without pending changes the list equals the table. The same holds for the rows that meet the conditions of a
// list, in its order and up to its limit, and for their number.

import assert from 'node:assert/strict';
import test from 'node:test';
import { connect } from 'clairon';
import { handTimers } from './fake-browser.js';
import { fakeRelay } from './fake-relay.js';

// These modules are imported first: the fake clock must not advance during an import.
for (const name of ['rows.js', 'timed_rows.js', 'conditions.js', 'count.js']) await import(new URL(name, import.meta.resolve('clairon')));

const SEEDS = Number(process.env.CLAIRON_SEEDS ?? 150);
const STEPS = 120;
const KEYS = 5; // few, so that most changes concern the same rows
const MANY_KEYS = 14; // for limits
const PAGED_KEYS = 24;
const GROUPS = 3;
const STATES = [0, 1, 2, null];

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
  return { next, below, chance: (p) => next() < p, pick: (list) => list[below(list.length)] };
}

/**
 * A table whose rows belong to one or two groups, and the memberships of one user. A commit is first sent to the relay,
 * in the order of `commits`, and becomes visible on the primary later, in any order. Until then it keeps its row locks.
 * A replica sees a prefix of `commits`.
 */
function createDatabase({ below, chance, pick }, keys) {
  const changes = []; // of all transactions: { bit, before, after, joins, leaves, truncates }
  const running = []; // transactions: { x, changes, keys }
  const commits = [];
  const finished = new Set(); // ids that every snapshot contains: rolled back
  let nextId = 2n ** 60n; // too large for a number
  let values = 0;

  /** The table and the memberships after these changes, a bit mask. */
  function stateOf(mask) {
    const table = new Map();
    const groups = new Set([0]);
    for (const transaction of commits) {
      for (const { bit, before, after, joins, leaves, truncates } of transaction.changes) {
        if (!(mask & bit)) continue;
        if (joins) groups.add(joins);
        if (leaves) groups.delete(leaves);
        if (truncates) table.clear();
        if (before) table.delete(before.id);
        if (after) table.set(after.id, after);
      }
    }
    return { table, groups };
  }

  /** The user's rows. */
  function rowsOf(mask) {
    const { table, groups } = stateOf(mask);
    return [...table.values()].filter(({ g }) => g.some((group) => groups.has(group)));
  }

  const someGroups = () => [...new Set(keys >= MANY_KEYS && chance(0.6) ? [0] : chance(0.4) ? [below(GROUPS), below(GROUPS)] : [below(GROUPS)])];

  const maskOf = (transactions) => transactions.flatMap((one) => one.changes).reduce((mask, { bit }) => mask | bit, 0n);
  const visible = () => commits.filter((one) => one.isVisible);

  function begin() {
    if (running.length > 3) return;
    nextId += 1n;
    running.push({ x: String(nextId), changes: [], keys: new Set(), isLong: chance(0.1) });
  }

  const isLocked = (transaction, key) => [...running, ...commits].some(
    (other) => other !== transaction && !other.isVisible && (other.keys.has(key) || other.keys.has('all')),
  );

  function write(transaction) {
    const { table } = stateOf(maskOf([...visible(), transaction]) | maskOf(commits.filter((one) => one === transaction)));
    for (const { before, after, truncates } of transaction.changes) {
      if (truncates) table.clear();
      if (before) table.delete(before.id);
      if (after) table.set(after.id, after);
    }
    const id = 1 + below(keys);
    if (isLocked(transaction, id)) return;
    const before = table.get(id);
    values += 1;
    const change = { bit: 1n << BigInt(changes.length) };
    if (chance(0.02) && !Array.from({ length: keys }, (_, i) => isLocked(transaction, i + 1)).some(Boolean)) {
      transaction.keys.add('all');
      change.truncates = true;
    } else if (!before) {
      change.after = { id, g: someGroups(), s: pick(STATES), a: values, big: below(100) };
    } else {
      change.before = before;
      if (chance(0.8)) change.after = { ...before, a: values };
      if (change.after && chance(0.3)) change.after.g = someGroups();
      if (change.after && chance(0.4)) change.after.s = pick(STATES);
      if (change.after && chance(0.3)) change.after.big = below(100);
      const to = 1 + below(keys);
      if (change.after && chance(0.2) && !table.has(to) && !isLocked(transaction, to)) {
        change.after.id = to;
        transaction.keys.add(to);
      }
    }
    transaction.keys.add(id);
    transaction.changes.push(change);
    changes.push(change);
  }

  function commit(transaction) {
    running.splice(running.indexOf(transaction), 1);
    if (!transaction.changes.length || chance(0.1)) { // rolled back
      finished.add(transaction.x);
      transaction.keys.clear();
      return;
    }
    commits.push(transaction);
  }

  /** A membership changes. It is visible immediately, because a relay sends no earlier changes of other groups. */
  function moveUser() {
    commits.forEach(show);
    nextId += 1n;
    const { groups } = stateOf(maskOf(commits));
    const group = 1 + below(GROUPS - 1);
    const change = { bit: 1n << BigInt(changes.length), [groups.has(group) ? 'leaves' : 'joins']: group };
    changes.push(change);
    commits.push({ x: String(nextId), changes: [change], keys: new Set(), isVisible: true, isMove: true });
  }

  function show(transaction) {
    transaction.isVisible = true;
  }

  /** A snapshot that contains these transactions: its text, rows, and mask. */
  function snapshotOf(transactions) {
    const contained = new Set([...transactions.map(({ x }) => x), ...finished]);
    const ids = [...contained].map(BigInt);
    const xmax = ids.reduce((most, id) => (id > most ? id : most), 2n ** 60n) + 1n;
    const others = [...running, ...commits].map(({ x }) => x).filter((x) => !contained.has(x) && BigInt(x) < xmax);
    const xmin = others.reduce((least, x) => (BigInt(x) < least ? BigInt(x) : least), xmax);
    const mask = maskOf(transactions);
    return { text: `${xmin}:${xmax}:${others.join()}`, rows: rowsOf(mask), mask };
  }

  const act = {
    begin,
    write: () => running.length && write(pick(running)),
    commit: () => {
      const open = running.filter(({ isLong }) => !isLong || chance(0.05));
      if (open.length) commit(pick(open));
    },
    show: () => {
      const hidden = commits.filter((one) => !one.isVisible);
      if (hidden.length) show(pick(hidden));
    },
    moveUser,
  };

  function finish() {
    while (running.length) commit(running[0]);
    commits.forEach(show);
  }

  return { act, commits, visible, stateOf, rowsOf, maskOf, snapshotOf, finish };
}

/** The notifications of a commit for the user, by change and by the memberships as of this commit. */
function notificationsOf(db, index, kind) {
  const { x, changes } = db.commits[index];
  const { groups } = db.stateOf(db.maskOf(db.commits.slice(0, index)));
  const timestamp = `2026-01-01T00:00:00.${String(index).padStart(6, '0')}Z`;
  const notifications = changes.map((change) => ({
    bit: change.bit,
    frames: imagesOf(change, groups, kind).map(({ operation, payload }) => ({
      t: 'msg',
      x,
      rule: 'default',
      n: {
        metadata: { id: `change ${change.bit} ${operation}`, source: 't', topic: 'demo.t', type: 'REALTIME', timestamp, operation },
        payload,
        routing: { retry: { ack_required: kind.needsAck, attempts: 0 } },
      },
    })),
  })).filter(({ frames }) => frames.length);
  return kind.hasEnds && notifications.length ? [...notifications, { frames: [{ t: 'end', x }] }] : notifications;
}

/** The user receives the notifications of each of the user's groups: groups that lose the row, keep it, or gain it. */
function imagesOf({ before, after, truncates }, groups, { isFull, hidesTruncate }) {
  if (truncates) return hidesTruncate ? [] : [{ operation: 'truncate', payload: { before: null, after: null } }];
  const [had, has] = [before, after].map((row) => row?.g.filter((group) => groups.has(group)) ?? []);
  const old = before && (isFull ? before : { id: before.id });
  const isSame = !isFull && before && after && before.big === after.big && before.id === after.id;
  const { big, ...small } = after ?? {};
  const image = isSame ? { after: small, unchanged: ['big'] } : { after };
  return [
    had.some((group) => !has.includes(group)) && { operation: 'delete', payload: { before: old, after: null } },
    had.some((group) => has.includes(group)) && { operation: 'update', payload: { before: old, ...image } },
    has.some((group) => !had.includes(group)) && { operation: 'create', payload: { before: null, ...image } },
  ].filter(Boolean);
}

/** The keys of the rows in these frames. */
const keysOf = (frames) => frames.flatMap(({ frame: { n } }) => {
  if (!n) return [];
  const { metadata: { operation }, payload: { before, after } } = n;
  return operation === 'truncate' ? ['all'] : [before, after].filter(Boolean).map(({ id }) => id);
});

// ---- conditions, as PostgreSQL evaluates them

const meets = (value, condition) => {
  if (condition === null) return value === null;
  if (Array.isArray(condition)) return condition.includes(value);
  if (typeof condition !== 'object') return value === condition;
  return value !== null && value >= (condition.from ?? -Infinity) && value < (condition.to ?? Infinity);
};

function compareRows(order, a, b) {
  for (const name of [...order, 'id']) {
    const column = name.replace('-', '');
    const [x, y] = [a, b].map((row) => row[column] ?? Infinity);
    if (x !== y) return (x < y ? -1 : 1) * (name === column ? 1 : -1);
  }
  return 0;
}

/** All rows that meet the conditions, in order. */
const matching = (rows, { where = {}, order = [] }) => rows
  .filter((row) => Object.entries(where).every(([column, condition]) => meets(row[column], condition)))
  .sort((a, b) => compareRows(order, a, b));

/** The rows behind the one with these values of the order and the key. */
const rowsBehind = (after, rows, { order = [] }) => {
  if (!after) return rows;
  const columns = [...order.map((name) => name.replace('-', '')), ...(order.some((name) => name.endsWith('id')) ? [] : ['id'])];
  const last = Object.fromEntries(columns.map((column, i) => [column, after[i]]));
  return rows.filter((row) => compareRows(order, row, last) > 0);
};

function someConditions({ below, chance, pick }, isCount, hasPages) {
  if (hasPages) return { where: pick([undefined, { s: { from: 1 } }]), order: pick([undefined, ['s'], ['-s'], ['-a'], ['big'], ['s', '-id']]), limit: 1 + below(2) };
  const where = pick([undefined, { s: 1 }, { s: [0, null] }, { s: null }, { s: { from: 1 } }, { a: { to: 20 } }, { big: { to: 50 } }, { s: 1, big: { from: 20 } }]);
  if (isCount) return { where };
  return { where, order: pick([undefined, ['s'], ['-s'], ['-a'], ['big'], ['s', '-id']]), limit: chance(0.7) ? 1 + below(3) : undefined };
}

const textOf = (rows) => rows.map((row) => JSON.stringify(row, ['id', 'g', 's', 'a', 'big'])).sort().join();

/**
 * Checks each published state of the list against the points that it may show. `limits`: those of the responses.
 */
function createChecker(db, list, { conditions, isCount }, describe) {
  const limits = new Set();

  /** True if the list may show these rows, or this number, of all rows of the user. */
  function isView(displayed, all) {
    if (!conditions) return textOf(displayed) === textOf(all);
    const rows = matching(all, conditions);
    if (isCount) return displayed === rows.length;
    if (!list.more && displayed.length < rows.length) return false;
    if (displayed.length < rows.length && !limits.has(displayed.length)) return false;
    const { order, limit } = conditions;
    const expected = rows.slice(0, displayed.length);
    return order || limit ? JSON.stringify(displayed.map(({ id }) => id)) === JSON.stringify(expected.map(({ id }) => id))
      && textOf(displayed) === textOf(expected) : textOf(displayed) === textOf(rows);
  }

  const points = []; // masks of the changes up to each point that was delivered
  const delayed = []; // functions that return such a mask for the mask of a response
  const responses = []; // masks of the snapshots that the list may have accepted
  let possible; // masks of the changes that the list may contain now
  const publish = (rows) => {
    if (list?.loading ?? true) return;
    const reached = new Set();
    for (const response of responses) {
      for (const point of [0n, ...points, ...delayed.map((pointOf) => pointOf(response))]) {
        const mask = response | point;
        if (!possible || possible.some((earlier) => (earlier & mask) === earlier)) reached.add(mask);
      }
    }
    const next = [...reached].filter((mask) => isView(rows, db.rowsOf(mask)));
    assert.ok(next.length, `${describe()}: no later point has the rows ${isCount ? rows : textOf(rows)}`);
    possible = next;
  };
  return { points, delayed, responses, limits, isView, publish, watch: (its) => { list = its; } };
}

/** Waits until pending promises have resolved; works with fake timers. */
async function settle() {
  for (let i = 0; i < 4; i += 1) await new Promise(setImmediate);
}

/** The relay's side of one session, and a client with one list. */
async function createPage(t, db, chances, kind, describe) {
  const { below, chance, pick } = chances;
  const tick = handTimers(t, 'setTimeout');
  t.mock.method(Math, 'random', chances.next);
  const checker = createChecker(db, undefined, kind, describe);
  const requests = []; // without a response
  const loads = []; // pending calls of load()
  const sent = []; // delivered notifications
  let socket;
  let position = 0; // commits before it are delivered on this connection
  let rest = []; // notifications of the commit at `position` that are not sent yet, and its end
  let delayed = []; // ends that wait for the in-flight window: { index, frame }
  const delivered = []; // frames with the index of their commit
  let floor = 0; // commits before it may be lost for this session
  let hasRequested = false; // on this connection
  let barriers = []; // without a reply: { r, until }, the number of commits when the relay received it
  let wanted = 0; // by loadMore()
  const relay = fakeRelay({
    onRows: (frame) => {
      hasRequested = true;
      requests.push(frame);
    },
    onBarrier: ({ r }) => barriers.push({ r, until: db.commits.length }),
  });
  const client = connect({
    url: 'ws://relay.test', token: 'T', WebSocket: relay.WebSocket, dedupe: 2, tabs: false, transports: ['ws'],
    ack: 'manual', backoff: { base: 1, cap: 1, random: () => 0 },
  });
  t.after(() => client.close());
  client.on('error', () => {});
  const load = () => new Promise((resolve, reject) => { loads.push({ resolve, reject }); });
  const list = kind.isCount
    ? client.count('t', kind.conditions)
    : client.live('t', kind.hasLoad ? { key: 'id', load } : kind.conditions);
  checker.watch(list);
  let isPolling = false;
  if (kind.polls) Object.defineProperty(client, 'transport', { get: () => (isPolling ? 'poll' : 'ws') });
  const failures = [];
  list.subscribe((rows) => {
    try {
      checker.publish(rows);
    } catch (error) {
      failures.push(error);
    }
  });

  /** A snapshot of the primary or of a replica, which contains the commits before `from`. */
  function snapshotSince(from) {
    const onPrimary = db.visible();
    if (chance(0.5) && db.commits.slice(0, from).every((one) => one.isVisible)) return db.snapshotOf(onPrimary);
    return db.snapshotOf(db.commits.slice(0, from + below(db.commits.length - from + 1)));
  }

  const isDelivered = (mask, from) => (db.maskOf(db.commits.slice(0, from)) & ~mask) === 0n;

  const needsReload = ({ isMove, changes }) => isMove || (kind.hidesTruncate && changes.some(({ truncates }) => truncates));

  /**
   * The relay sends `reload` only to connections that have requested rows, and not if a pending response with all rows will
   * contain the change. Polls receive no `reload`.
   */
  const isAnnounced = () => !isPolling
    && (kind.hasLoad || (hasRequested && (kind.conditions || requests.every(({ reply }) => reply))));

  function deliver() {
    const frames = [];
    do {
      if (!rest.length) {
        if (position >= db.commits.length) break;
        rest = notificationsOf(db, position, kind);
        if (needsReload(db.commits[position])) {
          if (isAnnounced()) frames.push({ t: 'reload', source: 't', rule: 'default' });
          floor = position + 1; // the next response contains the change
        }
      }
      const before = db.maskOf(db.commits.slice(0, position));
      const count = kind.splits && chance(0.3) ? 1 + below(rest.length) : rest.length;
      const its = rest.splice(0, count).flatMap((change) => change.frames);
      its.forEach((frame) => delivered.push({ index: position, frame }));
      const changes = db.commits[position].changes.filter(({ bit }) => !rest.length || bit < rest[0].bit);
      if (its.at(-1)?.t === 'end' && chance(0.3)) delayed.push({ index: position, frame: its.pop() });
      frames.push(...its);
      sent.push(...its.filter(({ t: type }) => type === 'msg'));
      if (!rest.length) position += 1;
      if (!kind.hasEnds) checker.points.push(before | db.maskOf([{ changes }]));
      else observeEnds();
    } while (!rest.length && chance(0.3));
    send(frames);
    passBarriers();
  }

  /** Ends may follow the barrier. */
  function passBarriers() {
    if (rest.length || chance(0.3)) return;
    const passed = barriers.filter(({ until }) => until <= position);
    barriers = barriers.filter((barrier) => !passed.includes(barrier));
    for (const { r } of passed) {
      if (chance(0.1)) socket.sends({ t: 'err', r, code: 111, msg: 'busy', after: 100 });
      else {
        socket.sends({ t: 'barrier', r });
        kind.pages += 1;
      }
    }
  }

  function send(frames) {
    if (frames.length) socket.sends(...frames.map((frame) => ({ ...frame, pos: String(sent.length) })));
  }

  /**
   * The list may show the delivered transactions now. It hides those whose end is delayed, and later ones of the same
   * rows, unless a response contains them.
   */
  function observeEnds() {
    const commits = db.commits.slice(0, position);
    const mask = db.maskOf(commits);
    if (!delayed.length) {
      checker.points.push(mask);
      return;
    }
    const keys = commits.map((commit, index) => keysOf(delivered.filter((one) => one.index === index)));
    const late = commits.map((commit, index) => delayed.some((one) => one.index === index));
    checker.delayed.push((response) => {
      const hidden = new Set();
      return db.maskOf(commits.filter((commit, index) => {
        const isContained = (db.maskOf([commit]) & ~response) === 0n;
        const isBlocked = hidden.size > 0 && (hidden.has('all') || keys[index].some((key) => key === 'all' || hidden.has(key)));
        if (isContained || !(late[index] || isBlocked)) return true;
        keys[index].forEach((key) => hidden.add(key));
        return false;
      }));
    });
  }

  /** The window has room: the end of a transaction is no longer delayed. */
  function drain() {
    if (!delayed.length) return;
    const [{ frame }] = delayed.splice(below(delayed.length), 1);
    observeEnds();
    send([frame]);
  }

  /** A retry, or after a reconnect a notification that an operator has sent again. */
  function repeat(isRedriven) {
    if (!sent.length) return;
    const again = structuredClone(pick(sent));
    again.n.routing.retry.attempts = isRedriven ? 0 : 1;
    socket.sends({ ...again, pos: String(sent.length) });
  }

  /** The relay reads the rows, or compares the snapshot. More frames are delivered while the reply is in transit. */
  function evaluate() {
    const request = requests.find(({ reply }) => !reply);
    if (!request) return;
    if (request.snapshot) {
      const mask = loaded.get(request.snapshot);
      request.reply = { ok: isDelivered(mask, position), mask };
    } else {
      request.reply = snapshotSince(kind.isExact ? Math.max(position, floor) : floor);
    }
  }

  /** Replies to a request, perhaps in pages between notifications. */
  function respond() {
    if (!requests[0].reply) evaluate();
    const { r, limit = Infinity, after, count, reply: { ok, text: snapshot, rows: all, mask } } = requests.shift();
    if (chance(0.15)) {
      socket.sends({ t: 'err', r, code: pick([100, 111]), msg: 'busy', after: 100 });
      return;
    }
    if (ok !== false && !after) checker.responses.push(mask);
    if (ok !== undefined) {
      socket.sends({ t: 'rows', r, ok });
      return;
    }
    const comparable = ['id', 's', 'a'];
    const found = kind.conditions && rowsBehind(after, matching(all, kind.conditions), kind.conditions);
    if (count) {
      socket.sends({ t: 'rows', r, count: found.length, snapshot, judge: comparable });
      return;
    }
    if (!after) checker.limits.add(limit);
    const rows = found?.slice(0, limit) ?? all;
    const rest = found?.length > limit || undefined;
    const pages = [rows.slice(0, below(rows.length + 1))];
    pages.push(rows.slice(pages[0].length));
    pages.forEach((page, i) => {
      socket.sends({
        t: 'rows', r, key: ['id'], snapshot, judge: i ? undefined : comparable, rows: structuredClone(page), more: i === 0, rest: i ? rest : undefined,
      });
      if (i === 0 && chance(0.3)) deliver();
    });
  }

  const loaded = new Map(); // snapshot text -> mask
  function finishLoad() {
    const { resolve, reject } = loads.shift();
    if (chance(0.1)) {
      reject(new Error('the server is unavailable'));
      return;
    }
    const { text, rows, mask } = snapshotSince(kind.isAtRest ? position : below(position + 1));
    loaded.set(text, mask);
    resolve({ snapshot: text, rows: structuredClone(rows) });
  }

  async function open(resumed) {
    requests.length = 0;
    barriers = [];
    hasRequested = false;
    const next = relay.socket();
    socket?.closes();
    tick(1);
    socket = await next;
    isPolling = kind.polls && chance(0.7);
    if (!resumed) {
      position = db.commits.length;
      floor = position;
      rest = [];
    }
    if (!resumed || chance(0.3)) { // delayed ends are lost: the next response contains their transactions
      floor = Math.max(floor, ...delayed.map(({ index }) => index + 1));
      delayed = [];
    }
    observeEnds();
    socket.accept({ resumed, ping: 1e6, pos: String(sent.length), features: kind.hasEnds ? ['barrier', 'ends'] : undefined });
  }

  function lose() {
    position = db.commits.length;
    floor = position;
    rest = [];
    observeEnds();
    socket.sends({ t: 'gap', from: '1', to: String(sent.length), why: pick(['shed', 'trimmed', 'expired']) });
  }

  const act = {
    deliver,
    drain,
    retry: () => repeat(false),
    reconnect: async () => {
      await open(true);
      if (chance(0.5)) repeat(true);
    },
    replace: () => open(false),
    lose,
    evaluate,
    respond: () => requests.length && respond(),
    finishLoad: () => loads.length && finishLoad(),
    wait: () => tick(below(2000)),
    reload: () => { if (kind.hasPages) act.loadMore(); else list.reload(); },
    loadMore: () => {
      if (!kind.conditions?.limit || !(list.rows?.length < 9)) return;
      const count = 1 + below(2);
      for (let i = 0; i < count; i += 1) checker.limits.add(kind.conditions.limit + (wanted += 1)); // further rows may be known
      list.loadMore(count).catch(() => {});
    },
  };
  return { act, list, open, failures, tick, isView: checker.isView, isIdle: () => !requests.length && !barriers.length && !loads.length && !delayed.length && position >= db.commits.length };
}

const STEP_WEIGHTS = Object.entries({
  begin: 10, write: 20, commit: 12, show: 12, moveUser: 1, deliver: 22, evaluate: 4, respond: 14, finishLoad: 10, wait: 8,
  retry: 2, drain: 3, reload: 5, loadMore: 5, reconnect: 1.5, replace: 1, lose: 1,
}).flatMap(([name, weight]) => Array(weight * 2).fill(name));

async function play(t, seed, kind) {
  const chances = dice(seed);
  const { below, pick } = chances;
  if (kind.hasConditions) kind.conditions = someConditions(chances, kind.isCount, kind.hasPages);
  const keys = kind.hasPages ? PAGED_KEYS : MANY_KEYS;
  const db = createDatabase(chances, kind.hasConditions ? keys : KEYS);
  let step = 0;
  const describe = () => `seed ${seed}, step ${step}, ${JSON.stringify(kind)}`;
  for (let i = 0; i < (kind.hasPages ? 300 : kind.hasConditions ? 120 : 30); i += 1) db.act[pick(['begin', 'write', 'write', 'commit', 'show'])]();
  const page = await createPage(t, db, chances, kind, describe);
  await page.open(false);
  for (step = 1; step <= STEPS; step += 1) {
    const name = pick(STEP_WEIGHTS);
    await (db.act[name] ?? page.act[name])();
    if (below(10) < 7) await settle();
    if (page.failures.length) throw page.failures[0];
  }
  db.finish();
  kind.isAtRest = true;
  if (kind.polls) page.act.reload(); // a client that polls loads again every minute
  for (let i = 0; i < 20 || (i < 100 && !page.isIdle()); i += 1) {
    page.act.deliver();
    page.act.drain();
    page.act.finishLoad();
    await settle();
    page.act.respond();
    await settle();
    page.tick(60_000);
    await settle();
  }
  if (page.failures.length) throw page.failures[0];
  const rows = db.rowsOf(db.maskOf(db.commits));
  assert.ok(page.isView(page.list.rows ?? page.list.value, rows), `${describe()}: ${textOf(page.list.rows ?? [])} ${page.list.value}`);
  t.mock.restoreAll();
}

const KINDS = {
  'rows of the relay': { isExact: true },
  'rows of a relay that may lag behind the session': { isExact: false },
  'rows of the relay while the client polls, or uses a WebSocket': { isExact: false, polls: true },
  'rows with conditions, an order and a limit': { isExact: true, hasConditions: true },
  'rows with conditions of a relay that may lag behind the session': { isExact: false, hasConditions: true },
  'rows with conditions while the client polls, or uses a WebSocket': { isExact: false, polls: true, hasConditions: true },
  'rows that are loaded by pages': { isExact: true, hasConditions: true, hasPages: true },
  'rows that are loaded by pages from a relay that may lag behind the session': { isExact: false, hasConditions: true, hasPages: true },
  'a number of rows': { isExact: true, hasConditions: true, isCount: true },
  'a number of rows of a relay that may lag behind the session': { isExact: false, hasConditions: true, isCount: true },
  'rows of load()': { hasLoad: true },
  'rows of load() while the client polls, or uses a WebSocket': { hasLoad: true, polls: true },
};

for (const [name, kind] of Object.entries(KINDS)) {
  test(`${name}: ${SEEDS} seeds of ${STEPS} steps`, async (t) => {
    let pages = 0;
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const hidesTruncate = !kind.hasLoad && seed % 5 < 3;
      const hasEnds = seed % 8 !== 0 && seed % 7 !== 0; // otherwise an older relay
      const its = {
        ...kind, hidesTruncate, isFull: seed % 2 === 0, needsAck: seed % 3 === 0, splits: seed % 4 === 0 || hasEnds, hasEnds, pages: 0,
      };
      await play(t, seed, its);
      pages += its.pages;
    }
    if (kind.hasPages) assert.ok(pages > SEEDS / 2, `${pages} pages`);
  });
}

// lists.js: the live lists of several clients; prints each state of a list. Appended to the script of
// Clairon::Test::Page, after `const CLIENTS = [{ name, url, token, transport, queries }, ..];`. A client with `queries`
// (one per list) loads rows in turn from each of DATABASES, with psql, and from the relay.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const LISTS = {
  own: ['tasks', undefined, ({ id, owner, teams, is_open, n }) => [id, owner, teams?.join('+'), is_open, n]],
  team: ['tasks', 'team', ({ id, owner, teams, is_open, n }) => [id, owner, teams?.join('+'), is_open, n]],
  open: ['tasks', 'open', ({ id, n }) => [id, n]],
  docs: ['docs', undefined, ({ part, id, n, body }) => [part, id, n, body.length, body.slice(0, 12)]],
  first: ['tasks', undefined, ({ id, n }) => [id, n], { where: { is_open: true }, order: ['-n'], limit: 3 }],
  bare: ['tasks', 'team', undefined, { where: { owner: null } }], // the number of tasks
};

// A list that grows by pages. It is then closed and opened again.
const PAGED = ['tasks', { rule: 'team', order: ['-n'], limit: 2 }];
const PAGED_MOST = 8;
const PAGED_MS = 700;

// Polls receive no `reload`, so the client loads the rows every minute. The test does not wait a minute.
const POLLED_RELOAD_MS = 5_000;

/** The rows, in the order of `conditions` if it has one, or their number. */
function textOf(rows, columns, conditions) {
  if (!columns) return String(rows);
  const texts = rows.map((row) => columns(row).map((value) => value ?? '').join('|'));
  return (conditions ? texts : texts.sort()).join(' ');
}

// Records the snapshots of replies, which determine the possible states.
function emitSnapshots(text) {
  for (const [, snapshot] of text.matchAll(/"snapshot":"(\d+:\d+:[\d,]*)"/g)) emit({ snapshot });
}

class NotedSocket extends (globalThis.WebSocket ?? NoWebSocket) {
  constructor(...options) {
    super(...options);
    this.addEventListener?.('message', ({ data }) => emitSnapshots(data));
  }
}

async function notedFetch(url, options) {
  const response = await fetch(url, options);
  if (`${url}`.includes('/rows?')) emitSnapshots(await response.clone().text());
  return response;
}

async function noted(loading) {
  const result = await loading;
  emit({ snapshot: result.snapshot });
  return result;
}

const run = promisify(execFile);
let loads = 0;

async function load({ url, token, queries }, list) {
  loads += 1;
  const conninfo = [...DATABASES, undefined][loads % (DATABASES.length + 1)];
  if (conninfo) return JSON.parse((await run('psql', ['-XAtqc', queries[list], conninfo])).stdout);
  const [source, rule] = LISTS[list];
  const query = new URLSearchParams({ source, rule: rule ?? 'default' });
  const response = await notedFetch(new URL(`rows?${query}`, url), { headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error(`rows: ${response.status}`);
  return response.json();
}

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// `size` of an event: the number of rows up to which the list shows all; `wanted`: those that it shows at rest.
async function openPaged(its, name, transport) {
  const [source, options] = PAGED;
  const { limit } = options;
  const event = { client: name, list: 'paged' };
  let wanted = limit;
  let published;
  const live = its.live(source, options);
  emit({ ...event, isNew: true, wanted });
  live.subscribe((rows) => {
    const text = live.loading ? undefined : textOf(rows, ({ id, n }) => [id, n], options);
    if (text === published) return;
    published = text;
    emit({ ...event, text, size: Math.max(limit, Math.ceil(rows.length / limit) * limit) });
  });
  for (let i = 0; i < 2 * PAGED_MOST / limit; i += 1) {
    await sleep(PAGED_MS);
    if (transport === 'poll') live.reload();
    if (wanted >= PAGED_MOST || !live.more || live.loading) continue;
    try {
      await live.loadMore();
      wanted += limit;
      emit({ ...event, wanted });
    } catch (error) {
      emit({ client: name, error: `loadMore(): ${error.message}` });
    }
  }
  live.close();
  openPaged(its, name, transport);
}

for (const client of CLIENTS) {
  const { name, url, token, transport, queries } = client;
  const its = connect({
    url,
    token,
    transports: [transport],
    fetch: notedFetch,
    WebSocket: NotedSocket,
    backoff: { base: 50, cap: 500 },
  });
  its.on('state', ({ state, reason }) => emit({ client: name, connection: state, reason, transport: its.transport }));
  its.on('gap', (gap) => emit({ client: name, gap }));
  its.on('error', ({ error }) => emit({ client: name, error: error.message }));
  for (const [list, [source, rule, columns, conditions]] of Object.entries(LISTS)) {
    if (queries && conditions) continue;
    const live = its[columns ? 'live' : 'count'](source, queries
      ? { rule: rule ?? 'default', key: source === 'docs' ? ['part', 'id'] : 'id', load: () => noted(load(client, list)) }
      : { rule, ...conditions });
    if (transport === 'poll') setInterval(() => live.reload(), POLLED_RELOAD_MS);
    let published;
    live.subscribe((rows) => {
      const text = live.loading ? undefined : textOf(rows, columns, conditions);
      if (text === published) return;
      published = text;
      emit({ client: name, list, text });
    });
  }
  if (!queries) openPaged(its, name, transport);
}

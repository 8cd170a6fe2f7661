// console.js: polls the state of the relay every two seconds and renders it.
//
// This is one file because the page has one script, whose sections share the sign-in state below.
const EVERY_MS = 2000;
const REQUEST_TIMEOUT_MS = 5000;
const STALE_MS = 6000; // older figures are marked as stale
const TAIL_MS = 1000;
const TAIL_ROWS = 200;
const TAIL_OVERLAP_MS = 2000; // stream entries of different shards are not ordered
const HISTORY = 60;
const TOKEN = 'clairon.console.token';

const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem(TOKEN) ?? '';
let timer = 0;
let paused = false;
let last = null; // the previous overview
let updatedAt = 0; // time of the last overview
const ownChanges = { running: 0, ended: 0 }; // changes of the error log that this page made
let round = 0; // responses of an earlier sign-in are ignored

// ---- helpers

function make(name, options = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === 'text') element.textContent = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Reuses the element of each item, so that the focus is kept.
function show(list, items, key, build, fill, empty) {
  const old = new Map([...list.children].map((e) => [e.dataset.key, e]));
  const rows = items.map((item) => {
    const name = String(key(item));
    const row = old.get(name) ?? build(item);
    row.dataset.key = name;
    fill(row, item);
    return row;
  });
  if (rows.length === 0) {
    rows.push(old.get('none') ?? make('li', { class: 'empty', 'data-key': 'none' }));
    set(rows[0], empty);
  }
  const same = rows.length === list.children.length && rows.every((row, i) => row === list.children[i]);
  if (!same) list.replaceChildren(...rows);
}

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const plural = (count, word, many = `${word}s`) => `${number.format(count)} ${count === 1 ? word : many}`;

function bytes(count) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) {
    count /= 1024;
    at++;
  }
  return `${number.format(count)} ${units[at]}`;
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// A sentence about shards of the store that did not reply; empty if all did.
function without(missing = [], effect) {
  if (missing.length === 0) return '';
  return `${missing.length === 1 ? `Shard ${missing[0]} does` : `Shards ${missing.join(', ')} do`} not reply: ${effect}.`;
}

const clock = (ms) => new Date(ms).toISOString().replace('T', ' ').replace('Z', '');

// ---- the relay

class RequestError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function request(path, body) {
  const control = new AbortController();
  const timeout = setTimeout(() => control.abort(), REQUEST_TIMEOUT_MS);
  try {
    return await exchange(path, body, control.signal);
  } finally {
    clearTimeout(timeout);
  }
}

async function exchange(path, body, signal) {
  const response = await fetch(`v1/${path}`, {
    signal,
    method: body ? 'POST' : 'GET',
    body: body && JSON.stringify(body),
    headers: { Authorization: `Bearer ${token}` },
    cache: 'no-store',
    credentials: 'omit',
    redirect: 'error',
  });
  const content = await response.json().catch((error) => {
    if (error.name === 'AbortError') throw error;
    return {};
  });
  if (!response.ok) throw new RequestError(response.status, content.detail ?? `the relay responded with ${response.status}`);
  const next = response.headers.get('Clairon-Next'); // of a page
  return next === null ? content : { page: content, next };
}

// Reports an error. A rejected token signs out.
function failed(error, report) {
  if (error.status === 401 || (error.status === 403 && last === null)) leave(error.message);
  else report(error.status ? error.message : 'the relay does not reply');
}

// ---- signing in and out

function leave(why = '') {
  round++;
  clearTimeout(timer);
  sessionStorage.removeItem(TOKEN);
  token = '';
  last = null;
  history.clear();
  stopTail();
  tail.rows = [];
  $('main').hidden = $('tools').hidden = $('jump').hidden = true;
  $('enter').hidden = false;
  $('life').hidden = true;
  for (const id of ['errors', 'pending', 'relays', 'sinks', 'figures', 'life-events', 'tail', 'user-pending', 'browsers', 'rules', 'acts']) $(id).replaceChildren();
  for (const id of ['errors-count', 'errors-status', 'life-status', 'user-status', 'test-status', 'rules-status', 'acts-status', 'about', 'user-id', 'test-user'])
    if ($(id).localName === 'input') $(id).value = '';
    else set($(id), '');
  $('user-kick').hidden = $('user-pending').hidden = $('user-browsers').hidden = $('rules').hidden = $('acts').hidden = true;
  document.body.classList.remove('stale');
  $('state').dataset.text = '';
  $('state').replaceChildren(make('span', { class: 'badge', text: 'signed out' }));
  set($('token-error'), why);
  $('token').focus();
}

function enter() {
  round++;
  $('enter').hidden = true;
  set($('token-error'), '');
  refresh();
}

$('enter').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token').value.trim();
  $('token').value = '';
  // Only these characters are valid in a header.
  if (!/^[\x21-\x7e]+$/.test(token)) return leave('This is not a token.');
  sessionStorage.setItem(TOKEN, token);
  enter();
});
$('leave').addEventListener('click', () => leave());

// ---- figures

const history = new Map(); // name -> the newest values

// The sum over the labels of a metric.
const sum = (stats, name) => Object.entries(stats).reduce((all, [key, value]) => (key.startsWith(`${name}{`) ? all + value : all), 0);

// The labels of a metric with their values above 0.
function labels(stats, name) {
  return Object.entries(stats).filter(([key, value]) => key.startsWith(`${name}{`) && value > 0)
    .map(([key, value]) => [/"(.*)"/.exec(key)[1], value]);
}

// Only what also sends an alert: an expired token, or a list of rows that a page may not read, is no failure.
const WRONG_KEY = ['signature', 'algorithm', 'issuer', 'audience'];
const FAILED_LIST = ['failed', 'timeout', 'lost', 'busy', 'stale'];

function failures(stats) {
  const of = (name, kinds) => labels(stats, name).filter(([kind]) => kinds.includes(kind)).reduce((all, [, value]) => all + value, 0);
  return [
    [of('clairon_gate_tokens_rejected_total', WRONG_KEY), 'token of another key', 'tokens of another key'],
    [of('clairon_rows_errors_total', FAILED_LIST), 'failed list'],
    [stats.clairon_internal_errors_total ?? 0, 'internal error'], [stats.clairon_log_lines_lost_total ?? 0, 'lost log line'],
  ].filter(([count]) => count > 0);
}

const FIGURES = [
  { name: 'Connections', value: (o) => o.stats.clairon_gate_connections + o.stats.clairon_gate_streams,
    more: (o) => `${number.format(o.stats.clairon_gate_connections)} WebSocket · ${number.format(o.stats.clairon_gate_streams)} SSE, poll` },
  { name: 'Stored', rate: 'clairon_store_notifications_total', more: (o) => o.store && `${number.format(o.store.entries)} kept` },
  { name: 'Delivered', rate: 'clairon_hub_delivered_total', more: () => 'to sockets of this relay' },
  { name: 'Acknowledged', rate: 'clairon_store_acks_total', more: (o) => `${number.format(o.stats.clairon_store_acks_total)} since start` },
  { name: 'Slot lag', value: (o) => o.slot?.lag, text: bytes, more: (o) => (o.slot ? `slot ${o.slot.name}` : ['off', 'standby'].includes(o.relay.feed) ? 'the feed runs elsewhere' : `feed ${o.relay.feed}`) },
  { name: 'Pending', value: (o) => o.store?.pending, more: () => 'notifications without all acks' },
  { name: 'Errors', value: (o) => o.store?.errors, more: (o) => `${plural(o.stats.clairon_retries_total, 'retry', 'retries')} since start`, bad: (v) => v > 0 },
  { name: 'Denied', value: (o) => sum(o.stats, 'clairon_denied_total'), bad: (v) => v > 0,
    more: (o) => labels(o.stats, 'clairon_denied_total').map(([reason, count]) => `${reason}: ${number.format(count)}`).join(' · ') || 'changes not sent, since start' },
  { name: 'Failures', value: (o) => failures(o.stats).reduce((all, [count]) => all + count, 0), bad: (v) => v > 0,
    more: (o) => failures(o.stats).map((found) => plural(...found)).join(' · ') || 'tokens, lists, relay, since start' },
  { name: 'Store memory', value: (o) => o.store?.memory, text: bytes, more: (o) => (o.store?.memory_max ? `of ${bytes(o.store.memory_max)}` : 'no limit set') },
];

function rate(overview, name) {
  if (last === null || overview.at <= last.at || overview.stats[name] < last.stats[name]) return undefined;
  return ((overview.stats[name] - last.stats[name]) * 1000) / (overview.at - last.at);
}

const HEIGHT = 40;

function shape(tag, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// The last two minutes, from 0 to the maximum, with a grid line at half of it.
function chart() {
  const svg = shape('svg', { viewBox: `0 0 ${HISTORY - 1} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  svg.append(shape('line', { class: 'grid', x1: 0, x2: HISTORY - 1, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
    shape('polygon', { class: 'area' }), shape('polyline', { class: 'trend' }));
  return svg;
}

function draw(box, values) {
  const top = Math.max(1, ...values);
  const step = (HISTORY - 1) / (Math.max(values.length, 12) - 1); // a new chart fills quickly
  const first = HISTORY - 1 - step * (values.length - 1);
  const points = values.map((v, i) => `${(first + step * i).toFixed(2)},${(HEIGHT - 1 - ((HEIGHT - 4) * v) / top).toFixed(1)}`);
  box.querySelector('.trend').setAttribute('points', points.join(' '));
  box.querySelector('.area').setAttribute('points', points.length ? `${first},${HEIGHT} ${points.join(' ')} ${HISTORY - 1},${HEIGHT}` : '');
}

const figureText = (spec, value) =>
  value === undefined ? '–' : spec.text ? spec.text(value) : number.format(value) + (spec.rate ? '/s' : '');

function figure(box, overview, spec) {
  const value = spec.rate ? rate(overview, spec.rate) : spec.value(overview);
  const past = history.get(spec.name) ?? [];
  if (value !== undefined) past.push(value);
  history.set(spec.name, past.slice(-HISTORY));
  set(box.querySelector('.value'), figureText(spec, value));
  box.querySelector('.value').classList.toggle('bad', value !== undefined && spec.bad?.(value) === true);
  set(box.querySelector('.more'), spec.more(overview) || '');
  const values = history.get(spec.name);
  set(box.querySelector('.most'), values.length > 1 ? `max ${figureText(spec, Math.max(...values))}` : '');
  draw(box, values);
}

function figures(overview) {
  const list = $('figures');
  if (list.children.length === 0)
    list.append(...FIGURES.map((spec) => make('div', { 'data-name': spec.name }, make('dt', { text: spec.name }),
      make('dd', { class: 'value' }), make('dd', { class: 'most', 'aria-hidden': 'true' }), make('dd', { class: 'more' }), chart())));
  FIGURES.forEach((spec, i) => figure(list.children[i], overview, spec));
}

const isStale = () => !paused && updatedAt > 0 && Date.now() - updatedAt > STALE_MS;

// A relay that hangs returns no error, so the age of the last response marks the figures as stale.
function age() {
  if (!token || last === null) return;
  const { version, uptime } = last.relay;
  const ms = Date.now() - updatedAt;
  document.body.classList.toggle('stale', isStale());
  document.title = isStale() ? '(stale) clairon console' : 'clairon console';
  set($('about'), `${version} · up ${span((uptime ?? 0) * 1000)} · ${ms < STALE_MS ? 'live' : `last response ${span(ms)} ago`}`);
  badges(last);
}
setInterval(age, 1000);

function badges(overview) {
  const { relay, store, stats, missing } = overview;
  const found = isStale() ? [['bad', 'stale: the relay does not reply']] : [
    relay.ready ? ['good', 'ready'] : ['bad', relay.draining ? 'draining' : 'not ready'],
    !store ? ['bad', 'store down'] : relay.store !== 'up' ? ['bad', `store ${relay.store}`] : missing ? ['bad', `store: ${plural(missing.length, 'shard')} missing`] : ['good', 'store up'],
    [['streaming', 'off', 'standby'].includes(relay.feed) ? 'good' : 'bad', `feed ${relay.feed}`],
  ];
  if (!relay.realtime) found.push(['warn', 'real-time delivery is off']);
  if (stats.clairon_shedding) found.push(['warn', `shedding ${stats.clairon_shedding > 1 ? 'LOW and NORMAL' : 'LOW'} notifications`]);
  for (const sink of sinks(overview)) if (sink.bad) found.push(['warn', `sink ${sink.name} fails`]);
  if (paused) found.push(['warn', 'paused']);
  const text = found.map(([, words]) => words).join();
  if ($('state').dataset.text === text) return; // announced by screen readers only when it changes
  $('state').dataset.text = text;
  $('state').replaceChildren(...found.map(([kind, words]) => make('span', { class: `badge ${kind}`, text: words })));
}

// What the red badges mean, and the reason if the relay knows it.
const DOCTOR = 'clairon doctor -c relay.conf prints the reason and the fix';
const sentence = (text) => text.replace(/[.\s]*$/, '.');

function problems({ relay, store, missing }) {
  const found = [without(missing, 'the figures and lists do not include them')];
  if (!store) found.push(sentence(`The store does not reply: no notification is stored or delivered, PostgreSQL keeps the changes. ${DOCTOR}`));
  else if (relay.store !== 'up') found.push(sentence(`The store ${relay.store}: PostgreSQL keeps new changes. ${DOCTOR}`));
  // Without the store, the feed is down too.
  if (store && ['down', 'stalled'].includes(relay.feed))
    found.push(sentence(`No new changes arrive, the feed is ${relay.feed}: ${relay.reason ?? DOCTOR}`));
  if (relay.draining) found.push('The relay is shutting down.');
  return found.filter(Boolean).join('\n');
}

// ---- lists

function row(...actions) {
  const item = make('li', {}, make('div', { class: 'what' }), make('div', { class: 'facts' }));
  if (actions.length) item.append(make('div', { class: 'do' }, ...actions));
  return item;
}

const idButton = (id) => make('button', { type: 'button', class: 'id', text: id, title: 'Show the trace', onclick: () => life(id, true) });

function lists(overview) {
  const now = overview.store?.at ?? 0;
  show($('pending'), overview.store?.oldest ?? [], (p) => p.id, (p) => {
    const item = row();
    item.querySelector('.what').append(idButton(p.id));
    return item;
  }, (item, p) => {
    const recipients = p.open ? 'its recipients' : plural(p.users, 'user');
    set(item.querySelector('.facts'), `${p.topic ? `${p.topic} · ` : ''}waits for ${recipients} · for ${span(now - p.since)}`
      + (p.expires ? ` · expires in ${span(p.expires - now)}` : ''));
  }, overview.missing ? 'Nothing is pending in the other shards.' : overview.store ? 'Nothing is pending.' : 'The store does not reply.');
  show($('relays'), overview.store?.relays ?? [], (r) => r.name, () => row(), (item, r) => {
    set(item.querySelector('.what'), r.name === overview.relay.name ? `${r.name} (this relay)` : r.name);
    item.querySelector('.what').classList.add('id');
    set(item.querySelector('.facts'), `${plural(r.users, 'user')} connected · ${r.silent < 10000 ? 'alive' : `no heartbeat for ${span(r.silent)}`}`);
  }, overview.store?.relays === null ? 'Unknown: shard 0 does not reply.' : overview.store ? 'No relay has reported yet.' : 'The store does not reply.');
}

// ---- sinks

const SINKS = { sql: 'Table clairon.receipt', webhook: 'Webhook', webpush: 'Web Push' };
const ALIVE_MS = 10000;

// A value of the metric clairon_sink_<name> of a sink; undefined if the relay does not have it. Those in seconds have
// microseconds here.
const sinkValue = (stats, name, sink) =>
  Object.entries(stats).find(([key]) => key.startsWith(`clairon_sink_${name}`) && key.endsWith(`{sink="${sink}"}`))?.[1];

function sinkQueue({ at, stats }, sink, ...words) {
  const waiting = sinkValue(stats, 'backlog', sink);
  const oldest = sinkValue(stats, 'oldest_seconds', sink);
  const success = sinkValue(stats, 'last_success', sink);
  return [
    waiting === undefined ? '' : `${plural(waiting, ...words)} waiting${waiting > 0 && oldest ? `, the oldest for ${span(oldest / 1000)}` : ''}`,
    success ? `last taken ${span(at - success / 1000)} ago` : success === 0 ? 'none taken since start' : '',
  ];
}

// Relays send a heartbeat for a sink while they can reach its destination.
function sinkRelays(serving, own) {
  const alive = serving.filter((each) => each.silent < ALIVE_MS);
  if (alive.length > 0) return own ? '' : `its figures are in the console of ${alive.map((each) => each.relay).join(', ')}`;
  const last = serving.sort((a, b) => a.silent - b.silent)[0];
  return `no relay serves it${last ? `: ${last.relay} stopped ${span(last.silent)} ago` : ''}`;
}

function receiptSink(overview, name) {
  const { at, stats, store } = overview;
  const own = overview.sinks.find((each) => each.name === name);
  const serving = (store?.sinks ?? []).filter((each) => each.name === name);
  if (!own && serving.length === 0) return undefined;
  const failures = sinkValue(stats, 'failures', name), off = sinkValue(stats, 'off', name) === 1;
  const lost = sinkValue(stats, 'dropped', name), rejected = sinkValue(stats, 'rejected', name);
  const relays = store?.sinks ? sinkRelays(serving, own) : '';
  return { name, bad: off || own?.failing || relays.startsWith('no relay'), facts: [
    ...(own ? sinkQueue(overview, name, 'receipt') : []),
    relays,
    off ? 'switched off, because its endpoint replied 410: reload a relay (SIGHUP) to switch it on' : '',
    own?.failed_at ? `${plural(failures, 'failure')} since start, the last ${span(at - own.failed_at)} ago: ${own.reason}` : '',
    own && lost ? `${plural(lost, 'receipt')} lost: trimmed before they were taken` : '',
    own && rejected ? `${plural(rejected, 'receipt')} rejected by PostgreSQL` : '',
  ] };
}

const PUSHES_LATE_US = 600e6; // like clairon doctor

function pushSink(overview) {
  if (!overview.webpush) return undefined;
  const { at, stats } = overview;
  const own = overview.sinks.find((each) => each.name === 'webpush');
  const failures = sinkValue(stats, 'failures', 'webpush'), expired = sinkValue(stats, 'dropped', 'webpush');
  const isLate = sinkValue(stats, 'oldest_seconds', 'webpush') > PUSHES_LATE_US;
  const counts = (name) => labels(stats, name).map(([label, count]) => `${label}: ${number.format(count)}`).join(', ');
  const rejections = counts('clairon_webpush_refused_total'), denied = counts('clairon_webpush_denied_total');
  return { name: 'webpush', bad: isLate, facts: [
    ...sinkQueue(overview, 'webpush', 'Web Push', 'Web Pushes'),
    isLate ? 'no relay has the role sink, or push services fail: the log of the relays has the reason' : '',
    `${number.format(stats.clairon_webpush_sent_total)} sent since start`,
    failures ? plural(failures, 'failed attempt') : '',
    own?.failed_at ? `the last failure ${span(at - own.failed_at)} ago: ${own.reason}` : '',
    expired ? `${number.format(expired)} expired before they were sent` : '',
    rejections ? `rejected with status ${rejections}` : '',
    denied ? `not sent, by reason: ${denied}` : '',
  ] };
}

const sinks = (overview) => [receiptSink(overview, 'sql'), receiptSink(overview, 'webhook'), pushSink(overview)].filter(Boolean);

// Why a sink is not listed.
function sinksOff(overview) {
  const found = sinks(overview).map((sink) => sink.name);
  const none = [];
  if (!overview.store?.sinks) none.push('Unknown: the store, or its shard 0, does not reply.');
  else if (!found.includes('sql') && !found.includes('webhook'))
    none.push('No relay has the role sink with receipts.sql or webhook.url: receipts stay in the store, and applications read them with GET /v1/receipts.');
  if (!overview.webpush) none.push('Web Push is off in this relay: webpush.vapid_key_file is not set.');
  return none;
}

function listSinks(overview) {
  const rows = [...sinks(overview), ...sinksOff(overview).map((why) => ({ name: why, why }))];
  show($('sinks'), rows, (sink) => sink.name, () => row(), (item, sink) => {
    set(item.querySelector('.what'), sink.why ? '' : `${SINKS[sink.name]}${sink.bad ? ' fails' : ''}`);
    item.querySelector('.what').classList.toggle('bad', sink.bad === true);
    set(item.querySelector('.facts'), sink.why ?? sink.facts.filter(Boolean).join(' · '));
  });
}

async function refresh() {
  const mine = round;
  const endedBefore = ownChanges.running > 0 ? -1 : ownChanges.ended;
  clearTimeout(timer);
  try {
    const overview = await request('console');
    if (mine !== round) return;
    const first = last === null;
    $('main').hidden = $('tools').hidden = $('jump').hidden = false;
    set($('notice'), problems(overview));
    $('notice').hidden = $('notice').textContent === '';
    figures(overview);
    lists(overview);
    listSinks(overview);
    // The count may miss a change that this page made meanwhile: keep the expected count.
    if (!first && last.store && overview.store && (ownChanges.running > 0 || ownChanges.ended !== endedBefore))
      overview.store.errors = last.store.errors;
    const grown = !first && last.store && overview.store && last.store.errors !== overview.store.errors;
    last = overview;
    updatedAt = Date.now();
    age();
    countErrors();
    if (first) {
      $('main').focus({ preventScroll: true });
      errors();
    } else if (grown) {
      set($('errors-status'), 'The error log has changed: refresh to see it.');
    }
  } catch (error) {
    if (mine !== round) return;
    failed(error, (why) => {
      $('main').hidden = $('tools').hidden = $('jump').hidden = false;
      $('notice').hidden = false;
      set($('notice'), `No update: ${why}. Retrying.`);
    });
  }
  if (token && mine === round) schedule();
}

function schedule() {
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(refresh, EVERY_MS);
}

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  set($('pause'), paused ? 'Resume' : 'Pause');
  if (last) badges(last);
  if (paused) clearTimeout(timer);
  else refresh();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && token && !paused) refresh();
});

// ---- the error log

const WHY = { exhausted: 'retry limit reached', expired: 'expired before all acknowledgements', rejected: 'rejected', undecodable: 'could not be decoded' };

function names(entry) {
  if (entry.user_count === 0) return 'no pending users';
  const more = entry.user_count - entry.users.length;
  return `for ${entry.users.join(', ')}${more > 0 ? ` and ${number.format(more)} more` : ''}`;
}

function errorRow(entry) {
  const again = make('button', { type: 'button', class: 'again', text: 'Redrive', onclick: () => redrive(entry) });
  const drop = make('button', { type: 'button', class: 'danger drop', text: 'Drop', onclick: () => confirmDrop(entry) });
  for (const button of [again, drop]) button.setAttribute('aria-label', `${button.textContent} ${entry.id}`);
  again.hidden = entry.user_count === 0;
  const item = row(again, drop);
  const about = entry.notification?.metadata;
  item.querySelector('.what').append(make('span', { class: 'reason', text: entry.reason, title: WHY[entry.reason] ?? '' }),
    ` ${about ? `${about.operation} on ${about.topic} ` : ''}`, idButton(entry.id));
  set(item.querySelector('.facts'), `${clock(entry.at)} · after ${entry.attempts === 1 ? '1 retry' : `${entry.attempts} retries`} · ${names(entry)}`);
  item.entry = entry;
  return item;
}

let errorsMissing; // shards that are not in the list

const listedErrors = () => [...$('errors').children].map((e) => e.entry).filter(Boolean);

function updateErrors() {
  if (listedErrors().length === 0 && $('errors-older').hidden)
    $('errors').replaceChildren(make('li', { class: 'empty', 'data-key': 'none',
      text: errorsMissing ? 'The error logs of the other shards are empty.' : 'The error log is empty.' }));
  $('errors-redrive').hidden = listedErrors().filter((e) => e.user_count > 0).length < 2;
  countErrors();
}

function countErrors() {
  const listed = listedErrors().length;
  const total = last?.store?.errors ?? listed;
  set($('errors-count'), total > listed && listed > 0
    ? `The newest ${listed} of ${number.format(total)}. For many: clairon errors redrive --source TABLE --dry-run` : '');
}

async function errors(before) {
  const mine = round;
  try {
    const { errors: page, missing } = await request(`console/errors${before ? `?before=${before}` : ''}`);
    if (mine !== round) return;
    errorsMissing = missing;
    if (!before) $('errors').replaceChildren();
    $('errors').append(...page.map(errorRow));
    // A page of large notifications, which it does not contain, is shorter.
    $('errors-older').hidden = page.length < 20 && page.every((e) => e.notification);
    set($('errors-status'), without(missing, 'the list does not include them'));
    updateErrors();
    if (before && page.length > 0) $('errors').children[$('errors').children.length - page.length].querySelector('button').focus();
  } catch (error) {
    if (mine === round) failed(error, (why) => set($('errors-status'), `Could not read the error log: ${why}.`));
  }
}

// Removes a row and moves the focus to the adjacent row.
function forget(entry) {
  const item = [...$('errors').children].find((e) => e.entry === entry);
  if (!item) return;
  const next = item.nextElementSibling ?? item.previousElementSibling;
  const had = item.contains(document.activeElement) || document.activeElement === document.body;
  item.remove();
  updateErrors();
  if (had) (next?.querySelector('.do button:not([hidden])') ?? $('errors-refresh')).focus();
}

function busy(entry, is) {
  const item = [...$('errors').children].find((e) => e.entry === entry);
  for (const button of item?.querySelectorAll('.do button') ?? []) button.setAttribute('aria-disabled', String(is));
  if (item) item.busy = is;
}
const isBusy = (entry) => [...$('errors').children].find((e) => e.entry === entry)?.busy === true;

async function changeError(entry, verb, describe) {
  const mine = round;
  if (isBusy(entry)) return false;
  busy(entry, true);
  ownChanges.running++;
  try {
    const response = await request(`console/${verb}`, { entry: entry.entry });
    if (mine !== round) return false;
    forget(entry);
    if (last?.store) last.store.errors--;
    set($('errors-status'), describe(response));
    return true;
  } catch (error) {
    if (mine !== round) return false;
    busy(entry, false);
    if (error.status === 404) forget(entry);
    failed(error, (why) => set($('errors-status'), `${entry.id}: ${why}.`));
    return error.status === 404;
  } finally {
    ownChanges.running--;
    ownChanges.ended++;
  }
}

const redrive = (entry) => changeError(entry, 'redrive', (response) =>
  response.users > 0 ? `${entry.id} redriven to ${plural(response.users, 'user')}.` : `${entry.id}: already acknowledged by all users.`);

function confirm(title, text, act, verb = 'Drop it', keep = 'Keep it') {
  set($('sure-title'), title);
  set($('sure-text'), text);
  set($('sure').querySelector('[value=yes]'), verb);
  set($('sure').querySelector('[value=no]'), keep);
  $('sure').returnValue = '';
  $('sure').onclose = () => {
    if ($('sure').returnValue === 'yes') act();
  };
  $('sure').showModal();
}

const confirmDrop = (entry) => confirm('Drop this entry?', `${entry.id}, ${names(entry)}: this notification will not be delivered.`,
  () => changeError(entry, 'drop', () => `${entry.id} dropped.`));

$('errors-refresh').addEventListener('click', () => errors());
$('errors-older').addEventListener('click', () => errors(listedErrors().at(-1)?.entry));
$('errors-redrive').addEventListener('click', async () => {
  const entries = listedErrors().filter((e) => e.user_count > 0);
  let done = 0;
  $('errors-redrive').disabled = true;
  for (const entry of entries) {
    if (!(await redrive(entry))) break;
    done++;
  }
  $('errors-redrive').disabled = false;
  if (done === entries.length) set($('errors-status'), `${plural(done, 'notification')} redriven.`);
});

// ---- the trace of a notification

// Timestamps have microseconds, Date.parse only milliseconds.
const msOf = (at) => Date.parse(`${at.slice(0, 19)}Z`) + Number(`0${at.slice(19, -1)}`) * 1000;

function after(ms) {
  if (ms < 1000) return `+${number.format(Math.max(0, ms))} ms`;
  return ms < 60000 ? `+${number.format(ms / 1000)} s` : `+${span(ms)}`;
}

function eventItem(event, start) {
  const what = [event.attempt > 0 ? `attempt ${event.attempt}` : '', event.reason ?? ''].filter(Boolean).join(' · ');
  const at = event.at.replace('T', ' ').replace('Z', '');
  return make('li', { class: event.stage }, make('span', { class: 'stage', text: event.stage }),
    make('span', { class: 'who', text: what }),
    make('time', { datetime: event.at, title: `${at} UTC`, text: event.user === undefined ? at : after(msOf(event.at) - start) }));
}

// Events without a user first, then by user in the order of the first event.
function byUser(events) {
  const groups = new Map([[undefined, []]]);
  for (const event of events) groups.set(event.user, [...(groups.get(event.user) ?? []), event]);
  return [...groups].filter(([, list]) => list.length > 0);
}

function eventGroup([user, list], start) {
  const acked = list.find((e) => e.stage === 'acked');
  const note = acked ? ` acknowledged ${after(msOf(acked.at) - start)}` : '';
  return make('div', { class: 'group' },
    ...(user === undefined ? [] : [make('h3', {}, user, make('small', { text: note }))]),
    make('ol', {}, ...list.map((event) => eventItem(event, start))));
}

// ---- its receipts

const RECEIPT_ROWS = 100;
const RECEIPT_REQUESTS = 20; // each reads up to 5 000 receipts of a shard
const OUTCOMES = {
  acked: 'acknowledged', expired: 'expired before the acknowledgement', exhausted: 'retry limit reached',
  unreached: 'ended without having been written to a socket of the user', dropped: 'dropped by an operator',
  forgotten: 'the user was erased', escalated: 'not acknowledged in time, ends nothing', escalated2: 'still not acknowledged, ends nothing',
};

function receiptRow(receipt) {
  const isOwn = receipt.user_id === '';
  const time = (at) => (at ? make('time', { datetime: at, text: at.slice(0, 23).replace('T', ' ') }) : '–');
  const cell = (label, ...content) => make('td', { 'data-label': label }, ...content);
  return make('tr', { class: receipt.outcome },
    make('th', { scope: 'row', text: isOwn ? 'all users' : receipt.user_id }),
    cell('Outcome', make('span', { class: 'outcome', text: receipt.outcome, title: OUTCOMES[receipt.outcome] ?? '' }),
      isOwn ? ` ${receipt.acked} of ${receipt.recipients} acknowledged` : ''),
    cell('At (UTC)', time(receipt.at)), cell('First delivery', isOwn ? '' : time(receipt.delivered_at)),
    cell('Retries', String(receipt.attempts)), cell('Round', String(receipt.round)));
}

function noReceipts(waiting) {
  return waiting > 0
    ? `No receipt yet: ${plural(waiting, 'user has', 'users have')} not acknowledged. Receipts are written only if the rule has receipts or escalate_after.`
    : "No receipts: the rule has no receipts => 'user' or 'notification', or they are older than receipts.retention.";
}

// A page may be empty although receipts follow.
async function receipts(id, waiting, after = '') {
  const mine = round;
  const body = $('receipts').tBodies[0];
  let cursor = after, isEnd = false;
  const found = [];
  try {
    for (let i = 0; i < RECEIPT_REQUESTS && found.length < RECEIPT_ROWS && !isEnd; i++) {
      const page = await request(`console/receipts?id=${encodeURIComponent(id)}&after=${cursor}`);
      if (mine !== round || $('find-id').value !== id) return;
      found.push(...page.receipts);
      isEnd = page.next === cursor;
      cursor = page.next;
    }
    if (after === '') body.replaceChildren();
    body.append(...found.map(receiptRow));
    $('receipts').hidden = body.rows.length === 0;
    if (isEnd && document.activeElement === $('receipts-more')) $('life-note').querySelector('summary').focus();
    $('receipts-more').hidden = isEnd;
    $('receipts-more').onclick = () => receipts(id, waiting, cursor);
    set($('receipts-status'), body.rows.length > 0 ? `${plural(body.rows.length, 'receipt')}${isEnd ? '' : ' so far'}, oldest first.`
      : isEnd ? noReceipts(waiting) : 'None found yet among many receipts of other notifications.');
  } catch (error) {
    if (mine === round) failed(error, (why) => set($('receipts-status'), `Could not read the receipts: ${why}.`));
  }
}

async function dropPending(id) {
  const mine = round;
  try {
    await request(`console/notifications/${id}/drop`, {});
    if (mine === round) life(id, false);
  } catch (error) {
    if (mine === round) failed(error, (why) => set($('life-status'), `Could not drop ${id}: ${why}.`));
  }
}

async function life(id, jump) {
  const mine = round;
  $('find-id').value = id;
  try {
    const trace = await request(`notifications/${encodeURIComponent(id)}`);
    if (mine !== round) return;
    const waiting = trace.waiting ?? [];
    const start = trace.events.length ? msOf(trace.events[0].at) : 0;
    $('life-events').replaceChildren(...byUser(trace.events).map((group) => eventGroup(group, start)));
    set($('life-waiting'), waiting.length ? `Waits for ${waiting.slice(0, 50).join(', ')}${waiting.length > 50 ? ' ..' : ''}` : '');
    $('life-drop').hidden = waiting.length === 0;
    $('life-drop').onclick = () => confirm('Drop this notification?',
      `${trace.id}: it will not be retried, and needs no further acknowledgement.`, () => dropPending(trace.id));
    set($('life-note').querySelector('pre'), trace.notification ? JSON.stringify(trace.notification, null, 2) : 'Trimmed from the stream.');
    $('life').hidden = false;
    receipts(id, waiting.length);
    set($('life-status'), `${plural(trace.events.length, 'event')} of ${trace.id}.`);
    if (jump) {
      $('find').scrollIntoView({ block: 'start' });
      $('find-id').focus({ preventScroll: true });
    }
  } catch (error) {
    if (mine !== round) return;
    $('life').hidden = true;
    failed(error, (why) => set($('life-status'), error.status === 404 ? 'No such notification.' : `Could not read the trace: ${why}.`));
  }
}

$('find').addEventListener('submit', (event) => {
  event.preventDefault();
  set($('why-answer'), '');
  life($('find-id').value.trim(), false);
});

async function why(id, user) {
  const mine = round;
  try {
    const { outcome, explanation } = await request(`notifications/${encodeURIComponent(id)}/why?user=${encodeURIComponent(user)}`);
    if (mine === round) set($('why-answer'), `${outcome.replace('_', ' ')}: ${explanation}`);
  } catch (error) {
    if (mine === round) failed(error, (reason) => set($('why-answer'), error.status === 404 ? 'No such notification.' : `No answer: ${reason}.`));
  }
}

$('why').addEventListener('submit', (event) => {
  event.preventDefault();
  if ($('find').reportValidity()) why($('find-id').value.trim(), $('why-user').value);
});

// A link may contain a token in its fragment, which browsers never send. Remove the token.
const linked = /^#token=([\x21-\x7e]+)$/.exec(location.hash);
if (linked) {
  token = linked[1];
  sessionStorage.setItem(TOKEN, token);
  window.history.replaceState(null, '', location.pathname);
}
// ---- the live tail: polls only while it is watched

const tail = { on: false, paused: false, rows: [], missing: undefined, timer: 0 };

function tailText(row) {
  const recipients = row.audience === 'ALL' ? 'ALL' : `${row.audience ?? '?'} ${row.targets.join(', ')}`;
  const more = row.target_count - row.targets.length;
  if (more > 0 && row.targets.length === 0) return `${recipients}${number.format(more)} targets`; // a long list has only a number
  return more > 0 ? `${recipients} and ${number.format(more)} more` : recipients;
}

const tailWords = (row) => [row.operation, row.topic, row.priority, row.id, tailText(row)].join(' ').toLowerCase();

function tailItem(row) {
  const facts = [tailText(row), row.priority === 'NORMAL' ? '' : row.priority, row.ack ? 'needs an ack' : '', row.attempt > 0 ? `attempt ${row.attempt}` : ''];
  return make('li', {}, make('time', { datetime: new Date(row.at).toISOString(), text: clock(row.at).slice(11) }),
    make('div', {}, make('span', { class: `op ${row.operation}`, text: row.operation ?? '?' }), ' ',
      make('span', { class: 'topic', text: `${row.topic ?? ''} → ${facts.filter(Boolean).join(' · ')}` })), idButton(row.id));
}

function showTail() {
  const wanted = $('tail-filter').value.trim().toLowerCase();
  const rows = tail.rows.filter((row) => tailWords(row).includes(wanted));
  show($('tail'), rows, (row) => row.entry + row.id, tailItem, () => {}, tail.rows.length ? 'Nothing matches the filter.' : 'No notification yet.');
  set($('tail-status'), `${plural(rows.length, 'notification')}${wanted ? ` of ${tail.rows.length}` : ''}${tail.paused ? ', paused' : ''}`
    + `${tail.missing ? `. ${without(tail.missing, 'the tail does not include them')}` : ''}`);
}

// Overlaps with the last poll, because another shard may add stream entries with an earlier time.
function tailStart() {
  const newest = Math.max(0, ...tail.rows.map((row) => row.at));
  return newest > 0 ? `?after=${newest - TAIL_OVERLAP_MS}-0` : '';
}

async function followTail() {
  const mine = round;
  clearTimeout(tail.timer);
  try {
    const { latest, missing } = await request(`console/latest${tailStart()}`);
    if (mine !== round || !tail.on || tail.paused) return;
    tail.missing = missing;
    const known = new Set(tail.rows.map((row) => row.entry + row.id));
    const fresh = latest.filter((row) => !known.has(row.entry + row.id));
    tail.rows = [...fresh, ...tail.rows].sort((a, b) => b.at - a.at).slice(0, TAIL_ROWS);
    showTail();
  } catch (error) {
    if (mine !== round) return;
    failed(error, (why) => set($('tail-status'), `Could not read the tail: ${why}.`));
  }
  if (tail.on && !tail.paused && !document.hidden && mine === round) tail.timer = setTimeout(followTail, TAIL_MS);
}

function stopTail() {
  tail.on = tail.paused = false;
  clearTimeout(tail.timer);
  $('tail').hidden = $('tail-box').hidden = $('tail-pause').hidden = true;
  set($('tail-watch'), 'Watch');
  $('tail-watch').setAttribute('aria-pressed', 'false');
}

$('tail-watch').addEventListener('click', () => {
  if (tail.on) return stopTail();
  tail.on = true;
  $('tail').hidden = $('tail-box').hidden = $('tail-pause').hidden = false;
  set($('tail-watch'), 'Stop watching');
  set($('tail-pause'), 'Pause tail');
  $('tail-watch').setAttribute('aria-pressed', 'true');
  followTail();
});
$('tail-pause').addEventListener('click', () => {
  tail.paused = !tail.paused;
  set($('tail-pause'), tail.paused ? 'Resume tail' : 'Pause tail');
  $('tail-pause').setAttribute('aria-pressed', String(tail.paused));
  if (tail.paused) clearTimeout(tail.timer);
  else followTail();
  showTail();
});
$('tail-filter').addEventListener('input', showTail);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && tail.on && !tail.paused) followTail();
});

// ---- rules

const RULES_ATTEMPTS = 20;
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// The first request makes the relay read the rules; a later request returns them.
async function readRules() {
  for (let i = 0; i < RULES_ATTEMPTS; i++) {
    const reply = await request('console/rules');
    if (reply.rules || reply.elsewhere) return reply;
    await pause(250);
  }
  throw new RequestError(504, 'PostgreSQL does not reply');
}

function ruleItem(rule) {
  const item = row();
  const timeout = rule.ack_timeout ? ` after ${rule.ack_timeout}` : '';
  const facts = [rule.live ? 'live' : '', rule.operations.join(', '), rule.type, rule.priority === 'NORMAL' ? '' : rule.priority,
    rule.ack_required ? `needs acks, ${plural(rule.retry_limit, 'retry', 'retries')}${timeout}` : '',
    rule.ttl ? `for ${rule.ttl}` : '', rule.columns ? `columns ${rule.columns}` : '', rule.only_when ? `only when ${rule.only_when}` : ''];
  item.querySelector('.what').append(make('strong', { text: rule.relation }), rule.name === 'default' ? '' : ` · ${rule.name}`,
    ` → ${rule.audience}${rule.targets ? ` ${rule.targets}` : ''}`);
  set(item.querySelector('.facts'), facts.filter(Boolean).join(' · '));
  return item;
}

$('rules-show').addEventListener('click', async () => {
  const mine = round;
  try {
    const { rules, elsewhere } = await readRules();
    if (mine !== round) return;
    $('rules').hidden = false;
    $('rules').replaceChildren(...(rules ?? []).map(ruleItem));
    if (rules?.length === 0) $('rules').append(make('li', { class: 'empty', text: 'No table is watched: SELECT clairon.watch(..)' }));
    $('rules').hidden = elsewhere === true;
    set($('rules-status'), elsewhere ? 'Another process reads the slot: use its console, or SELECT * FROM clairon.rules.' : plural(rules.length, 'rule'));
    set($('rules-show'), 'Refresh rules');
  } catch (error) {
    if (mine !== round) return;
    failed(error, (why) => set($('rules-status'), `Could not read the rules: ${why}.`));
  }
});

// ---- the acts of operators

const ACTS_DAYS = 7;
const ACTS_PAGE = 1000;
const ACTS_REQUESTS = 10;
const ACTS_ROWS = 200;

function actItem({ at, actor, act, object }) {
  const item = row();
  item.querySelector('.what').append(make('strong', { text: act }), ` ${object}`);
  item.querySelector('.facts').append(make('time', { datetime: at, text: at.slice(0, 23).replace('T', ' ') }), ` · ${actor}`);
  return item;
}

// A relay returns the oldest acts first.
async function acts() {
  const mine = round;
  const found = [];
  let after = `${Math.max(0, (last?.at ?? Date.now()) - ACTS_DAYS * 86400000)}-0`, isEnd = false;
  try {
    for (let i = 0; i < ACTS_REQUESTS && !isEnd; i++) {
      const { page, next } = await request(`audit?after=${after}`);
      if (mine !== round) return;
      found.push(...page);
      isEnd = page.length < ACTS_PAGE;
      after = next;
    }
    const newest = found.reverse().slice(0, ACTS_ROWS);
    $('acts').replaceChildren(...newest.map(actItem));
    $('acts').hidden = newest.length === 0;
    set($('acts-status'), `${plural(found.length, 'act')} in the last ${ACTS_DAYS} days${newest.length < found.length ? `, the newest ${newest.length}` : ''}.`
      + `${isEnd ? '' : ' There are more: GET /v1/audit.'}`);
    set($('acts-show'), 'Refresh acts');
  } catch (error) {
    if (mine === round) failed(error, (why) => set($('acts-status'), `Could not read the acts: ${why}.`));
  }
}

$('acts-show').addEventListener('click', () => acts());

// ---- user lookup and test notification

// The list has only the origins, since an endpoint allows anybody to send to its browser.
async function browsers(id) {
  const mine = round;
  try {
    const { at, subscriptions } = await request(`console/subscriptions?id=${encodeURIComponent(id)}`);
    if (mine !== round || $('user-id').value !== id) return;
    $('user-browsers').hidden = false;
    show($('browsers'), subscriptions.map((each, i) => ({ ...each, i })), (each) => each.i, () => row(), (item, each) => {
      set(item.querySelector('.what'), each.origin);
      set(item.querySelector('.facts'), [
        `renewed ${span(at - each.renewed_at)} ago`,
        each.failed_at ? `the last Web Push that failed: ${span(at - each.failed_at)} ago, ${each.reason}` : '',
      ].filter(Boolean).join(' · '));
    }, last?.webpush ? 'None: no page of this user has called enable(), or none within webpush.keep.'
      : 'Web Push is off in this relay: webpush.vapid_key_file is not set.');
  } catch (error) {
    if (mine !== round) return;
    $('user-browsers').hidden = true;
    failed(error, (why) => set($('user-status'), `Could not read the browsers of the user: ${why}.`));
  }
}

async function lookUp(id) {
  const mine = round;
  $('user-kick').onclick = () => confirm('Kick this user?',
    `${id}: all connections are closed, the tokens that were issued until now are rejected, and no Web Push is sent until the user signs in again.`,
    () => kick(id), 'Kick', 'Cancel');
  try {
    const { connections, user, missing } = await request(`console/user?id=${encodeURIComponent(id)}`);
    if (mine !== round) return;
    const where = user.relays === null ? 'relays unknown' : user.relays.length ? `connected on ${plural(user.relays.length, 'relay')} (${user.relays.join(', ')})` : 'not connected';
    set($('user-status'), `${id}: ${where} · ${plural(connections, 'connection')} on this process · ${number.format(user.pending)} pending`
      + `${missing ? `. ${without(missing, 'more may be pending')}` : ''}`);
    $('user-kick').hidden = $('user-pending').hidden = false;
    browsers(id);
    show($('user-pending'), user.oldest, (p) => p.id, (p) => {
      const item = row();
      item.querySelector('.what').append(idButton(p.id));
      return item;
    }, (item, p) => set(item.querySelector('.facts'), `${p.topic ? `${p.topic} · ` : ''}for ${span(user.at - p.since)}`
      + (p.due ? ` · next attempt in ${span(p.due - user.at)}` : '')), missing ? 'Nothing is pending in the other shards.' : 'Nothing is pending for this user.');
  } catch (error) {
    if (mine !== round) return;
    $('user-kick').hidden = $('user-pending').hidden = true;
    failed(error, (why) => set($('user-status'), `Could not look up the user: ${why}.`));
  }
}

// The relays close the connections within a second.
async function kick(id) {
  const mine = round;
  try {
    await request(`console/users/${encodeURIComponent(id)}/disconnect`, {});
    if (mine !== round) return;
    set($('user-status'), `${id} kicked: connections are closed, and earlier tokens are rejected.`);
    if ($('user-id').value === id) browsers(id);
    if (!$('acts').hidden) acts();
  } catch (error) {
    if (mine === round) failed(error, (why) => set($('user-status'), `Could not kick ${id}: ${why}.`));
  }
}

$('user').addEventListener('submit', (event) => {
  event.preventDefault();
  lookUp($('user-id').value);
});

$('test').addEventListener('submit', async (event) => {
  event.preventDefault();
  const mine = round;
  const notification = {
    payload: { text: $('test-text').value },
    routing: { audience: { type: 'USER', targets: [$('test-user').value] }, retry: { ack_required: $('test-ack').checked } },
  };
  try {
    const { id } = await request('console/notifications', notification);
    if (mine !== round) return;
    $('test-status').replaceChildren('Sent: ', idButton(id));
  } catch (error) {
    if (mine !== round) return;
    const hint = error.status === 403 ? ' (sign in with a token that has "publish": true too)' : '';
    failed(error, (why) => set($('test-status'), `Not sent: ${why}${hint}.`));
  }
});

if (token) enter();
else $('token').focus();

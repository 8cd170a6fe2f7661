// streams.js: the fallback if no WebSocket can be opened: /v1/sse and /v1/poll, with fetch().

import { TOKEN_EXPIRED, UNREACHABLE, rejectionOf } from './closing.js';
import { BUSY, EXPIRED, UNKNOWN_FRAME } from './errors.js';

const POLL_WAIT_S = 25;
const POST_AGAIN_MS = 5_000;
const ROWS_TIMEOUT_MS = 30_000;
const RELOAD_MS = 50_000; // polls receive no `reload`; checked after each poll, so about every minute
const RESTARTS = ['connect', 'refresh', 'subscribe', 'unsubscribe', 'ping']; // frames that restart the request
const LISTS_MAX = 32; // maximum number of lists in an event stream

/** Returns the `err` frame for a rejected request for rows. */
function errorOf({ status, headers }, { code, detail, after }) {
  const delay = headers.get('Retry-After');
  return {
    t: 'err',
    code: code ?? (delay ? BUSY : status),
    msg: detail ?? `status ${status}`,
    after: after ?? delay * 1000,
  };
}

/**
 * Returns an object with the interface of a WebSocket. `transport`: 'sse' or 'poll'. `url`: of the
 * WebSocket; the other endpoints are siblings.
 */
export function openStream(transport, fetch, url) {
  const base = url.replace(/^ws/, 'http');
  const shard = new URL(base).searchParams.get('shard'); // the user's shard, for a proxy: see shard.js
  const socket = { send, close };
  const topics = new Set();
  const lists = new Map(); // the live lists that have requested rows: name in ?rows= -> { source, rule }
  let token;
  let pos;
  let attempt; // an AbortController
  queueMicrotask(() => socket.onopen?.());

  function send(text) {
    const { t, ...frame } = JSON.parse(text);
    if (frame.ids) { // ack or nack
      post(t, JSON.stringify(frame));
    } else if (t === 'rows') {
      requestRows(frame);
    } else if (t === 'barrier') {
      fetchReply(t, frame);
    } else if (!RESTARTS.includes(t)) {
      if (frame.r) emit(JSON.stringify({ t: 'err', r: frame.r, code: UNKNOWN_FRAME, msg: `${t} needs a WebSocket` }));
    } else { // the next response serves as the pong of a ping
      token = frame.token ?? token;
      pos = frame.pos ?? pos;
      frame.topics?.forEach((topic) => topics[t === 'unsubscribe' ? 'delete' : 'add'](topic));
      start();
    }
  }

  function close() {
    attempt?.abort();
    attempt = null;
  }

  /** Starts, or restarts from the current cursor with a changed token or topics. */
  async function start() {
    close();
    const ours = new AbortController();
    attempt = ours;
    let end = { code: 1006 }; // the caller uses the code of a preceding `bye`
    try {
      await (transport === 'sse' ? stream : poll)(ours.signal);
    } catch (error) { // an Error (network failure, missing browser feature), or the rejection of get()
      end = error.message ? { code: 1006, reason: error.message } : error;
    }
    // On a WebSocket this frame precedes the close. Other rejections close the client, with one error.
    if (end.code === TOKEN_EXPIRED) emit(JSON.stringify({ t: 'err', code: EXPIRED, msg: end.reason }));
    if (attempt === ours) socket.onclose(end);
  }

  /** An ack lost with the connection is repeated when the notification is delivered again. */
  async function post(path, body) {
    const { status } = await request(path, { method: 'POST', body, keepalive: true }).catch(() => ({}));
    // Permanent errors, for example for an unknown id, are not repeated.
    if (attempt && !(status < 429)) setTimeout(post, POST_AGAIN_MS, path, body);
  }

  /**
   * The stream contains `reload` only for the lists in its request, and must be open before the rows are read. So a new
   * list restarts the stream; after `connected` all lists request their rows again.
   */
  function requestRows(frame) {
    const { source, rule } = frame;
    const name = rule ? `${source}/${rule}` : source;
    // The relay would reject the whole stream for an invalid name.
    const isNew = !lists.has(name) && lists.size < LISTS_MAX && /^[^,/]{1,127}(\/[^,]{1,127})?$/.test(name);
    if (isNew) lists.set(name, { source, rule });
    if (isNew && transport === 'sse') start();
    else fetchReply('rows', pos ? { ...frame, pos } : frame); // it may come from a relay that has not read as far
  }

  /** Requests the rows of a live list, or a barrier. The reply is a frame, as on a WebSocket. */
  async function fetchReply(t, { r, ...query }) {
    let reply;
    try {
      const signal = AbortSignal.timeout?.(ROWS_TIMEOUT_MS); // older browsers lack timeout()
      for (const name of ['where', 'order']) if (query[name]) query[name] = JSON.stringify(query[name]);
      const response = await request(`${t}?${new URLSearchParams(query)}`, { signal });
      const body = await response.json();
      reply = response.ok ? { ...body, t } : errorOf(response, body);
    } catch ({ message }) { // network failure, or the server is not a relay
      reply = { t: 'err', msg: message };
    }
    emit(JSON.stringify({ ...reply, r }));
  }

  function request(path, options) {
    const headers = { Authorization: `Bearer ${token}` };
    return fetch(new URL(path, base), { ...options, headers });
  }

  /** Resolves to a successful response. Rejects with a close code and reason, or when aborted. */
  async function get(path, signal, query) {
    if (pos) query.pos = pos;
    if (topics.size) query.topics = [...topics].join();
    if (shard) query.shard = shard;
    query.ends = 1;
    const response = await request(`${path}?${new URLSearchParams(query)}`, { signal })
      .catch(() => { throw { code: UNREACHABLE }; });
    if (!response.ok) throw await rejectionOf(response);
    return response;
  }

  async function stream(signal) {
    const { body } = await get('sse', signal, lists.size ? { rows: [...lists.keys()].join() } : {});
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (signal.aborted) return;
        if (line.startsWith('id: ')) pos = line.slice(4);
        else emit(line.startsWith('data: ') ? line.slice(6) : ''); // a comment resets the silence timer
      }
    }
  }

  async function poll(signal) {
    let reloadedAt = Date.now();
    for (let wait = 0; ; wait = POLL_WAIT_S) { // the first response means `connected`
      const before = pos;
      const response = await get('poll', signal, { wait });
      const lines = await response.text();
      if (signal.aborted) return;
      pos = response.headers.get('Clairon-Pos');
      if (!pos) throw { code: UNREACHABLE }; // the server is not a relay, for example a captive portal
      if (!wait) {
        emit(JSON.stringify({
          t: 'connected',
          resumed: before && !/^{"t":"gap"/m.test(lines),
          ping: POLL_WAIT_S,
          features: ['ends'],
          pos: lines ? undefined : pos, // if the response has notifications, the last notification advances the cursor
        }));
      }
      emit(lines);
      if (Date.now() - reloadedAt >= RELOAD_MS) {
        reloadedAt = Date.now();
        lists.forEach((list) => emit(JSON.stringify({ t: 'reload', ...list, rule: list.rule ?? 'default' })));
      }
    }
  }

  function emit(data) {
    if (attempt) socket.onmessage({ data });
  }

  return socket;
}

/**
 * A browser does not report to a page why a connection was rejected, so the warning names the likely causes. `reason`
 * may also be the reason of the relay, for example `token expired`.
 */
export function warn(url, reason) {
  const { origin } = globalThis.location ?? {};
  const question = reason.startsWith('connection lost') ? `. Is it the address of a relay${
    origin ? `, and does gate.origins of the relay list ${origin}` : ''}?` : '';
  console.warn(`clairon: cannot connect to ${url}: ${reason}${question}`);
}

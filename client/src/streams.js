// streams.js: stands in for a WebSocket where none gets through: /v1/sse and /v1/poll, by fetch().

import { UNREACHABLE, refusalOf } from './closing.js';

const POLL_WAIT_S = 25;
const POST_AGAIN_MS = 5_000;

/**
 * The surface of a WebSocket. `transport`: 'sse' or 'poll'; `url` is the WebSocket's, the others
 * stand beside it.
 */
export function openStream(transport, fetch, url) {
  const base = url.replace(/^ws/, 'http');
  const socket = { send, close };
  const topics = new Set();
  let token;
  let pos;
  let attempt; // an AbortController
  queueMicrotask(() => socket.onopen?.());

  function send(text) {
    const { t, ...frame } = JSON.parse(text);
    if (frame.ids) { // ack or nack
      post(t, JSON.stringify(frame));
    } else { // also a ping: the next answer says as much as a pong
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

  /** Begins, or begins again from where it is with what has changed. */
  async function start() {
    close();
    const ours = new AbortController();
    attempt = ours;
    let end = { code: 1006 }; // the `bye` before it knows better
    try {
      await (transport === 'sse' ? stream : poll)(ours.signal);
    } catch (error) { // of an Error only the text: the network broke, or the browser lacks something
      end = error.message ? { code: 1006, reason: error.message } : error;
    }
    if (attempt === ours) socket.onclose(end);
  }

  /** What is lost with the connection is made up for when the message comes again. */
  async function post(path, body) {
    const { status } = await ask(path, { method: 'POST', body, keepalive: true }).catch(() => ({}));
    // Not what is refused for ever, as an id that is not known there.
    if (attempt && !(status < 429)) setTimeout(post, POST_AGAIN_MS, path, body);
  }

  function ask(path, options) {
    const headers = { Authorization: `Bearer ${token}` };
    return fetch(new URL(path, base), { ...options, headers });
  }

  /** Resolves to a good response; rejects with a close code and its reason, or when it is aborted. */
  async function get(path, signal, query) {
    if (pos) query.pos = pos;
    if (topics.size) query.topics = [...topics].join();
    const response = await ask(`${path}?${new URLSearchParams(query)}`, { signal })
      .catch(() => { throw { code: UNREACHABLE }; });
    if (!response.ok) throw await refusalOf(response);
    return response;
  }

  async function stream(signal) {
    const { body } = await get('sse', signal, {});
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
        else say(line.startsWith('data: ') ? line.slice(6) : ''); // a comment is a sign of life
      }
    }
  }

  async function poll(signal) {
    for (let wait = 0; ; wait = POLL_WAIT_S) { // the first answer says that we are connected
      const before = pos;
      const response = await get('poll', signal, { wait });
      const lines = await response.text();
      if (signal.aborted) return;
      pos = response.headers.get('Clairon-Pos');
      if (!pos) throw { code: UNREACHABLE }; // a page of somebody else, who answers everything
      if (!wait) {
        say(JSON.stringify({
          t: 'connected',
          resumed: before && !/^{"t":"gap"/m.test(lines),
          ping: POLL_WAIT_S,
          pos: lines ? undefined : pos, // that of the last message is it, once it was shown
        }));
      }
      say(lines);
    }
  }

  function say(data) {
    if (attempt) socket.onmessage({ data });
  }

  return socket;
}

// connection.js: keeps one connection to a relay alive and hands its frames on.

import { NO_ANSWER, SILENT, TOKEN_EXPIRED, UNREACHABLE, closeClass } from './closing.js';
import { createLadder } from './ladder.js';
import { refreshDelay } from './refresher.js';

const SUBPROTOCOL = 'clairon.v1.json';

const ANSWER_MS = 10_000; // from the first try to `connected`
const PROBE_MS = 5_000; // from a ping of ours to any frame
const DEFAULT_PING_S = 25;
// A relay that sends us away "at once" again and again is treated as one that is ill.
const SHORT_LIFE_MS = 5_000;

export const NO_TOKEN = 'could not get a token';
const ALL = ['*'];

/**
 * States, each told through `onState`:
 *   connecting  asking for a token, opening, waiting for `connected`
 *   open        messages flow
 *   waiting     lost; the next try is in `retryIn` ms
 *   closed      the end: close() was called, or the relay said that trying again cannot help
 *
 * `options`: url, token, window, backoff, WebSocket, fetch, transports, now.
 * `owner`: position() -> pos or null, topics() -> array or null, onFrame(frame, length),
 * onState(change), onError(error).
 */
export function createConnection(options, owner) {
  const { url, window, backoff, now } = options;
  const canRefresh = typeof options.token === 'function';
  const ladder = createLadder(options.transports);
  const timers = {};
  let state = 'idle';
  let socket = null;
  let attempt; // changes with each; what belongs to another is for nobody
  let bye;
  let openedAt; // undefined until `connected`
  let heardAt;
  let requests = 0;
  let pingMs = DEFAULT_PING_S * 1000;
  let topics = ALL; // in force on this connection

  /** `token`: one that was just brought; without it a new one is asked for. */
  async function open(token) {
    const ours = {};
    attempt = ours;
    bye = null;
    setState('connecting');
    token ??= await bringToken();
    if (attempt !== ours) return;
    if (token) dial(token, ours);
    else retry(backoff.next(), { reason: NO_TOKEN });
  }

  /** False when nothing is open; the frame is then not sent. */
  function send(frame) {
    if (state !== 'open') return false;
    socket.send(JSON.stringify(frame));
    return true;
  }

  /** The owner's topics have changed. While nothing is open, the next `connect` says them. */
  function retopic() {
    const before = topics;
    topics = owner.topics() ?? ALL;
    const added = topics.filter((topic) => !before.includes(topic));
    const dropped = before.filter((topic) => !topics.includes(topic));
    if (added.length > 0) request('subscribe', { topics: added });
    if (dropped.length > 0) request('unsubscribe', { topics: dropped });
  }

  /** Something says that the world is back; `isChanged`: by another network, perhaps. */
  function wake(isChanged) {
    if (state === 'waiting') {
      clearTimeout(timers.retry);
      open();
    } else if (state === 'open' && (isChanged || now() - heardAt > pingMs)) {
      send({ t: 'ping' });
      expectWord(PROBE_MS);
    }
  }

  /** Lets go without a word; open() begins again. */
  function suspend() {
    drop(1000);
    state = 'idle';
  }

  function close() {
    drop(1000);
    setState('closed', { reason: 'closed by this page' });
  }

  /** Undefined when there is none to be had. */
  async function bringToken() {
    try {
      return canRefresh ? await options.token() : options.token;
    } catch (cause) {
      owner.onError(new Error(NO_TOKEN, { cause }));
      return undefined;
    }
  }

  async function dial(token, ours) {
    after('answer', ANSWER_MS, () => lost({ code: NO_ANSWER }));
    const Socket = await socketClass(ladder.rung()).catch(() => null);
    if (attempt !== ours) return;
    if (!Socket) {
      lost({ code: UNREACHABLE });
      return;
    }
    socket = new Socket(url, SUBPROTOCOL);
    socket.onopen = () => {
      requests += 1;
      const wanted = owner.topics();
      topics = wanted ?? ALL;
      // What is undefined is left out.
      socket.send(JSON.stringify({
        t: 'connect',
        r: requests,
        token,
        pos: owner.position() ?? undefined,
        win: window,
        topics: wanted ?? undefined,
      }));
    };
    socket.onmessage = (event) => receive(event.data);
    // 'error' tells nothing and is always followed by 'close'.
    socket.onclose = lost;
  }

  /** The others are loaded where no WebSocket gets through. */
  async function socketClass(transport) {
    if (transport === 'ws') return options.WebSocket;
    const { SseSocket, PollSocket } = await import('./streams.js');
    const Class = transport === 'sse' ? SseSocket : PollSocket;
    return Class.bind(null, options.fetch);
  }

  function receive(data) {
    const ours = socket;
    heard();
    for (const line of String(data).split('\n')) {
      if (line === '') continue;
      let frame;
      try {
        frame = JSON.parse(line);
      } catch (error) {
        owner.onError(error);
        continue;
      }
      handle(frame, line.length);
      if (socket !== ours) return; // a handler closed us: the rest is for nobody
    }
  }

  function handle(frame, length) {
    switch (frame.t) {
      case 'ping':
        socket.send('{"t":"pong"}'); // also before `connected`
        break;
      case 'connected':
        connected(frame);
        break;
      case 'refreshed':
        planRefresh(frame.exp);
        break;
      case 'expiring':
        refresh();
        break;
      case 'bye':
        bye = frame;
        break;
      case 'err':
        owner.onError(Object.assign(new Error(frame.msg), { code: frame.code, retry: frame.retry }));
        break;
      default: // msg, acked, gap, and whatever a later relay may send
        owner.onFrame(frame, length);
    }
  }

  function connected(frame) {
    clearTimeout(timers.answer);
    if (frame.ping > 0) pingMs = frame.ping * 1000;
    openedAt = now();
    ladder.opened();
    if (!ladder.isTop()) after('climb', ladder.nextClimb(), climb);
    heard();
    planRefresh(frame.exp);
    owner.onFrame(frame);
    const { user, conn, resumed } = frame;
    setState('open', { user, conn, resumed: resumed === true });
  }

  /** What works is not always the best: it is tried from the top again, from where we are. */
  function climb() {
    ladder.top();
    drop(1000);
    open();
  }

  /** Twice the ping interval without a frame means that nobody is there. */
  function heard() {
    heardAt = now();
    expectWord(2 * pingMs);
  }

  function expectWord(within) {
    after('silence', within, () => lost({ code: SILENT }));
  }

  /** A frame that is answered. */
  function request(t, fields) {
    requests += 1;
    send({ t, r: requests, ...fields });
  }

  function lost({ code, reason }) {
    const neverOpen = openedAt === undefined;
    const life = neverOpen ? 0 : now() - openedAt;
    drop(4102);
    // A close without a handshake shows as 1006; the relay's `bye` knows better.
    const why = bye && code === 1006 ? bye.code : code;
    const change = { code: why, reason: reason || `connection lost (${why})` };
    // A fixed token cannot become valid again.
    if (closeClass(why) === 'stop' || (why === TOKEN_EXPIRED && !canRefresh)) {
      setState('closed', change);
      owner.onError(Object.assign(new Error(change.reason), { code: why }));
      return;
    }
    if (neverOpen && !bye) ladder.failed(code === UNREACHABLE);
    if (life >= SHORT_LIFE_MS) backoff.reset();
    retry(pause(why, life), change);
  }

  function pause(code, life) {
    const asked = bye?.in >= 0 ? bye.in : undefined;
    if (closeClass(code) === 'now') {
      if (asked !== undefined) return asked;
      if (life >= SHORT_LIFE_MS) return 0;
    }
    return Math.max(backoff.next(), asked ?? 0);
  }

  function retry(retryIn, change) {
    after('retry', retryIn, open);
    setState('waiting', { ...change, retryIn });
  }

  /** Lets go of the socket at once: the closing handshake of a dead network takes minutes. */
  function drop(code) {
    for (const name of Object.keys(timers)) clearTimeout(timers[name]);
    attempt = null;
    openedAt = undefined;
    const ours = socket;
    socket = null;
    if (!ours) return;
    ours.onopen = ours.onmessage = ours.onclose = null;
    ours.close(code);
  }

  function planRefresh(exp) {
    if (canRefresh && exp) after('refresh', refreshDelay(exp, now()), refresh);
  }

  async function refresh() {
    clearTimeout(timers.refresh);
    if (!canRefresh) return;
    const ours = socket;
    const token = await bringToken();
    // The answer may come when the connection it was for is gone; the next one asks anew.
    if (token && socket === ours) request('refresh', { token });
  }

  /** A timer of this name; the one before it is forgotten. */
  function after(name, ms, act) {
    clearTimeout(timers[name]);
    timers[name] = setTimeout(() => act(), ms);
  }

  function setState(next, detail) {
    if (next === state && next === 'closed') return;
    state = next;
    owner.onState({ state, ...detail });
  }

  return {
    open,
    send,
    retopic,
    wake,
    suspend,
    close,
    state: () => state,
    transport: () => ladder.rung(),
  };
}

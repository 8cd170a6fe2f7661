// connection.js: keeps one connection to a relay open and forwards its frames.

import {
  NO_PONG, NO_REPLY, NOW, OTHER_USER, SILENT, STOP, TOKEN_EXPIRED, UNREACHABLE, closeClass,
} from './closing.js';
import { EXPIRED, failure } from './errors.js';
import { refreshDelay, subjectOf } from './token.js';

const SUBPROTOCOL = 'clairon.v1.json';

const TOKEN_MS = 30_000; // the token function may have to connect to a server too
const CONNECT_MS = 10_000; // from opening the socket to `connected`
const PROBE_MS = 5_000; // from a ping of this client to the next frame, of any type
const DEFAULT_PING_S = 25;
// After a shorter connection the client backs off, even if the close code allows an immediate reconnect: otherwise a
// relay that closes each new connection would cause a reconnect loop. It is also a failure of the transport: some
// proxies admit a WebSocket, and close it soon.
const STABLE_MS = 5_000;
// Maximum random delay of an attempt with the best transport that is already due: after an outage it is due for all
// clients of the relay.
const SPREAD_MS = 5_000;

// The transport after the best one: see onLost() and retryBest().
const MAX_FAILURES = 2;
const RETRY_BEST_MS = 15_000;
const RETRY_BEST_CAP_MS = 1_800_000;

const ALL = ['*'];

/**
 * States, reported through `onState`:
 *   connecting: fetching a token, opening the socket, waiting for `connected`
 *   open: notifications are delivered
 *   waiting: connection lost; the next attempt starts after `retryIn` ms
 *   closed: final, because close() was called, or the relay's close code forbids a reconnect
 *
 * `options`: the result of settingsOf().
 * `owner`: cursor(); wanted(), its topics or undefined; isUser(user), false for any user except the first;
 * onToken(token), which may suspend the connection; onFrame(frame, length); onState(change); onError(error).
 */
export function createConnection(options, owner) {
  const {
    url, backoff, now, transports,
  } = options;
  const canRefresh = typeof options.token === 'function';
  const timers = {};
  let state = 'idle';
  let socket;
  let attempts = 0; // number of the current attempt; asynchronous results of earlier attempts are ignored
  let bye; // the relay's `bye` frame
  let tokenError; // reason of the last failed token request
  let openedAt; // undefined until `connected`
  let lastFrameAt;
  let wasSuspended; // during this connection
  let requests = 0;
  let pingMs = DEFAULT_PING_S * 1000;
  let topics = ALL; // subscriptions of this connection
  let at = 0; // index of the transport; the best transport is the first
  let failures = 0; // consecutive failures of the transport
  let retryAt; // time of the next attempt with the best transport
  let retryMs = RETRY_BEST_MS;
  let formerAt = 0; // while the best transport is retried: the transport in use before

  /** `token`: a token that was just fetched; if undefined, the token function is called. */
  async function open(token) {
    attempts += 1;
    const ours = attempts;
    bye = undefined;
    if (!token) setState('connecting');
    token ??= await fetchToken();
    if (token && attempts === ours && admits(subjectOf(token))) owner.onToken(token);
    if (attempts !== ours) return;
    if (!token) {
      retry(backoff.nextWait(), { reason: tokenError });
      return;
    }
    const transport = transports[at];
    failAfter(CONNECT_MS, NO_REPLY);
    try {
      const opened = transport === 'ws'
        ? new options.WebSocket(url, SUBPROTOCOL)
        : (await import('./streams.js')).openStream(transport, options.fetch, url);
      if (attempts !== ours) return;
      socket = opened;
    } catch ({ message }) { // for example a ws:// URL on an https page
      if (attempts === ours) onLost({ code: UNREACHABLE, reason: message });
      return;
    }
    socket.onopen = () => {
      const wanted = owner.wanted();
      topics = wanted ?? ALL;
      sendFrame({
        t: 'connect',
        r: requests += 1,
        token,
        pos: owner.cursor(),
        win: options.window,
        topics: wanted,
        ends: true, // also without a list: a list may be opened later
      });
    };
    socket.onmessage = receive;
    socket.onclose = onLost;
    // The 'close' event that follows has the details. The package `ws` throws if 'error' has no listener.
    socket.onerror = () => {};
  }

  /** Returns false, and sends nothing, unless the connection is open. */
  function transmit(frame) {
    if (state !== 'open') return false;
    sendFrame(frame);
    return true;
  }

  /** Undefined fields are omitted. */
  function sendFrame(frame) {
    socket.send(JSON.stringify(frame));
  }

  /** Call it when the owner's topics have changed. Unless the connection is open, the next `connect` contains them. */
  function retopic() {
    if (state !== 'open') return;
    const before = topics;
    topics = owner.wanted() ?? ALL;
    changeTopics('subscribe', topics.filter((topic) => !before.includes(topic)));
    changeTopics('unsubscribe', before.filter((topic) => !topics.includes(topic)));
  }

  function changeTopics(t, changed) {
    if (changed.length) request({ t, topics: changed });
  }

  /** Call it when the network or the user is available again. `isChanged`: the network may have changed. */
  function wake(isChanged) {
    if (state === 'waiting' || (isChanged && state === 'connecting')) {
      reconnect();
    } else if (isChanged || now() - lastFrameAt > pingMs) {
      if (transmit({ t: 'ping' })) failAfter(PROBE_MS, SILENT);
    }
  }

  /** Closes the socket without a state change; open() connects again. */
  function suspend() {
    drop();
    if (state !== 'closed') state = 'idle';
  }

  function close() {
    if (state === 'closed') return;
    drop();
    setState('closed', { reason: 'close()' });
  }

  /**
   * The user of a connection never changes, because notifications, tabs and acks belong to one user. Closes the client
   * if `user` differs; undefined is an unknown user.
   */
  function admits(user) {
    const isAdmitted = owner.isUser(user);
    if (!isAdmitted) end({ code: OTHER_USER, reason: `token of another user: ${user}` });
    return isAdmitted;
  }

  /** Closes permanently and reports an error. */
  function end(change) {
    drop();
    setState('closed', change);
    owner.onError(failure(change.reason, change));
  }

  /** Returns undefined, and reports an error, if no token is available in time. */
  async function fetchToken() {
    try {
      const token = canRefresh ? await Promise.race([
        options.token(),
        new Promise((resolve, reject) => after('token', TOKEN_MS, () => reject(NO_REPLY))),
      ]) : options.token;
      if (token && token.trim) return token;
      throw new TypeError(`token() returned ${token === '' ? 'an empty string' : typeof token}`);
    } catch (cause) {
      tokenError = `no token: ${cause?.message ?? cause}`;
      owner.onError(new Error(tokenError, { cause }));
    }
  }

  function receive({ data }) {
    const ours = socket;
    restartSilenceTimer();
    for (const line of `${data}`.split('\n')) { // a binary frame is reported as invalid JSON
      try {
        if (line) handle(JSON.parse(line), line.length);
      } catch (error) {
        owner.onError(error);
      }
      if (socket !== ours) return; // a handler closed the connection: the remaining frames are dropped
    }
  }

  function handle(frame, length) {
    const { t } = frame;
    if (t === 'ping') sendFrame({ t: 'pong' }); // even before `connected`
    else if (t === 'connected') connected(frame);
    else if (t === 'refreshed') planRefresh(frame.exp);
    else if (t === 'expiring') refresh();
    else if (t === 'bye') bye = frame;
    else if (t === 'err' && !(frame.r < 0)) {
      // After a rejected token, a close follows. If it ends the client, it is reported with the same reason, see end().
      if (frame.code !== 101 && (frame.code !== EXPIRED || canRefresh)) owner.onError(failure(frame.msg, frame));
    } else owner.onFrame(frame, length); // msg, acked, gap, replies to live lists, and types of later versions
  }

  function connected(frame) {
    const { user, conn, resumed, ping, features } = frame;
    if (!admits(user)) return;
    clearTimeout(timers[NO_REPLY]);
    pingMs = ping * 1000 || pingMs;
    openedAt = now();
    // The clock may have been set back.
    if (at) after('retryBest', Math.min(retryMs, Math.max(SPREAD_MS * Math.random(), retryAt - openedAt)), retryBest);
    restartSilenceTimer();
    planRefresh(frame.exp);
    owner.onFrame(frame);
    setState('open', { user, conn, resumed: !!resumed, features });
    retopic(); // the topics may have changed since `connect`
  }

  /**
   * Retries the best transport, from the current cursor. After one failure the former transport is used again, for twice
   * as long.
   */
  function retryBest() {
    backoff.reset();
    formerAt = at;
    at = 0;
    failures = MAX_FAILURES - 1;
    retryMs = Math.min(retryMs * 2, RETRY_BEST_CAP_MS);
    reconnect();
  }

  function reconnect() {
    drop();
    open();
  }

  /** A connection without a frame for twice the ping interval is lost. After a suspend this is noticed late. */
  function restartSilenceTimer() {
    wasSuspended ||= now() - lastFrameAt > 2 * (pingMs + PROBE_MS);
    lastFrameAt = now();
    failAfter(2 * pingMs, SILENT);
  }

  /** Closes the connection with `code` after `ms`, unless a later call or clearTimeout(timers[code]) prevents it. */
  function failAfter(ms, code) {
    after(code, ms, () => onLost({ code }));
  }

  /** Sends a frame that has a reply. */
  function request(frame) {
    transmit({ r: requests += 1, ...frame });
  }

  function onLost({ code, reason }) {
    // 1006 means that the close handshake is missing, so the code of the relay's `bye` is used.
    const why = bye && code === 1006 ? bye.code : code;
    const change = { code: why, reason: reason || bye?.msg || `connection lost (${why})` };
    restartSilenceTimer(); // it may be late; drop() clears it
    // Some networks admit a WebSocket, and then lose its data. A suspended computer has the same symptom.
    const isMute = !wasSuspended && [SILENT, NO_PONG].includes(why);
    const wasStable = !isMute && now() - openedAt >= STABLE_MS; // false if the connection was never open
    drop(NO_PONG);
    // A fixed token cannot be renewed.
    if (closeClass(why) === STOP || (why === TOKEN_EXPIRED && !canRefresh)) {
      end(change);
      return;
    }
    if (wasStable) {
      backoff.reset();
      failures = formerAt = 0;
      if (!at) retryMs = RETRY_BEST_MS;
    } else if (isMute || !bye) onFailure(why === UNREACHABLE ? MAX_FAILURES : 1);
    const isImmediate = closeClass(why) === NOW && (wasStable || bye?.in >= 0);
    retry(Math.max(isImmediate ? 0 : backoff.nextWait(), bye?.in ?? 0), change);
  }

  /**
   * The transport failed. After consecutive failures, or if no response arrived, the next transport is used, and after
   * the last one the best one.
   */
  function onFailure(count) {
    failures += count;
    if (failures < MAX_FAILURES) return;
    if (!at) retryAt = now() + retryMs;
    at = formerAt || (at + 1) % transports.length;
    failures = formerAt = 0;
  }

  function retry(retryIn, change) {
    after('retry', retryIn, open);
    setState('waiting', { ...change, retryIn });
  }

  /** Detaches the socket without waiting for its close, which takes minutes on a dead network. */
  function drop(code = 1000) {
    Object.values(timers).forEach(clearTimeout);
    attempts += 1;
    openedAt = lastFrameAt = wasSuspended = undefined;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close(code);
    socket = undefined;
  }

  function planRefresh(exp) {
    if (exp) after('refresh', refreshDelay(exp, now()), refresh);
  }

  async function refresh() {
    if (!canRefresh) return;
    const ours = socket;
    const token = await fetchToken();
    // The socket may have changed meanwhile. A new connection requests a new token.
    if (token && socket === ours && admits(subjectOf(token))) request({ t: 'refresh', token });
  }

  /** Sets the timer of this name, and cancels the previous timer. */
  function after(name, ms, act) {
    clearTimeout(timers[name]);
    timers[name] = setTimeout(act, ms);
  }

  function setState(next, detail) {
    state = next;
    owner.onState({ state, transport: transports[at], ...detail });
  }

  return {
    open,
    transmit,
    retopic,
    wake,
    suspend,
    admits,
    close,
  };
}

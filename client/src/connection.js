// connection.js: keeps one connection to a relay alive and hands its frames on.

import {
  NO_ANSWER, NOW, OTHER_USER, SILENT, STOP, TOKEN_EXPIRED, UNREACHABLE, closeClass,
} from './closing.js';
import { createLadder } from './ladder.js';
import { refreshDelay } from './refresher.js';
import { subjectOf } from './token.js';

const SUBPROTOCOL = 'clairon.v1.json';

const ANSWER_MS = 10_000; // from the first try to `connected`
const PROBE_MS = 5_000; // from a ping of ours to any frame
const DEFAULT_PING_S = 25;
// A relay that sends us away "at once" again and again is treated as one that is ill.
const SHORT_LIFE_MS = 5_000;

const ALL = ['*'];

const failure = (text, fields) => Object.assign(new Error(text), fields);

/**
 * States, each told through `onState`:
 *   connecting  asking for a token, opening, waiting for `connected`
 *   open        messages flow
 *   waiting     lost; the next try is in `retryIn` ms
 *   closed      the end: close() was called, or the relay said that trying again cannot help
 *
 * `options`: as settingsOf() has them.
 * `owner`: position() and wanted(), its topics, which may be undefined, isUser(user), false for any user
 * but the first, onToken(token), which may suspend the connection, onFrame(frame, length),
 * onState(change), onError(error).
 */
export function createConnection(options, owner) {
  const { url, backoff, now } = options;
  const canRefresh = typeof options.token === 'function';
  const ladder = createLadder(options.transports);
  const timers = {};
  let state = 'idle';
  let socket;
  let attempts = 0; // what belongs to another is for nobody
  let bye;
  let tokenFault; // why there is no token
  let openedAt; // undefined until `connected`
  let heardAt;
  let requests = 0;
  let pingMs = DEFAULT_PING_S * 1000;
  let topics = ALL; // in force on this connection

  /** `token`: one that was just brought, which was told; without it a new one is asked for. */
  async function open(token) {
    attempts += 1;
    const ours = attempts;
    bye = undefined;
    if (!token) setState('connecting');
    token ??= await bringToken();
    if (token && attempts === ours && admits(subjectOf(token))) owner.onToken(token);
    if (attempts !== ours) return;
    if (!token) {
      retry(backoff.nextWait(), { reason: tokenFault });
      return;
    }
    const transport = ladder.rung();
    giveUp(ANSWER_MS, NO_ANSWER);
    try {
      const opened = transport === 'ws'
        ? new options.WebSocket(url, SUBPROTOCOL)
        : (await import('./streams.js')).openStream(transport, options.fetch, url);
      if (attempts !== ours) return;
      socket = opened;
    } catch ({ message }) { // a page on https may not ask for ws://, say
      if (attempts === ours) lost({ code: UNREACHABLE, reason: message });
      return;
    }
    socket.onopen = () => {
      const wanted = owner.wanted();
      topics = wanted ?? ALL;
      say({
        t: 'connect',
        r: requests += 1,
        token,
        pos: owner.position(),
        win: options.window,
        topics: wanted,
      });
    };
    socket.onmessage = receive;
    socket.onclose = lost;
    // It tells nothing that 'close' does not, but unheard it would end a program that uses `ws`.
    socket.onerror = () => {};
  }

  /** False when nothing is open; the frame is then not sent. */
  function transmit(frame) {
    if (state !== 'open') return false;
    say(frame);
    return true;
  }

  /** What is undefined in it is left out. */
  function say(frame) {
    socket.send(JSON.stringify(frame));
  }

  /** The owner's topics have changed. While nothing is open, the next `connect` says them. */
  function retopic() {
    if (state !== 'open') return;
    const before = topics;
    topics = owner.wanted() ?? ALL;
    ask('subscribe', topics.filter((topic) => !before.includes(topic)));
    ask('unsubscribe', before.filter((topic) => !topics.includes(topic)));
  }

  function ask(t, changed) {
    if (changed.length) request({ t, topics: changed });
  }

  /** Something says that the world is back; `isChanged`: by another network, perhaps. */
  function wake(isChanged) {
    if (state === 'waiting' || (isChanged && state === 'connecting')) {
      again();
    } else if (isChanged || now() - heardAt > pingMs) {
      if (transmit({ t: 'ping' })) giveUp(PROBE_MS, SILENT);
    }
  }

  /** Lets go without a word; open() begins again. */
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
   * The user of a connection never changes: messages, tabs and acks of one are not another's. Ends
   * the connection when `user` is a different one; undefined is an unknown one.
   */
  function admits(user) {
    const isAdmitted = owner.isUser(user);
    if (!isAdmitted) end({ code: OTHER_USER, reason: `token of another user: ${user}` });
    return isAdmitted;
  }

  /** Closes for good, with an error. */
  function end(change) {
    drop();
    setState('closed', change);
    owner.onError(failure(change.reason, change));
  }

  /** Undefined when there is none to be had. */
  async function bringToken() {
    try {
      const token = canRefresh ? await options.token() : options.token;
      if (token && token.trim) return token;
      throw new TypeError(`the token function returned ${token === '' ? 'an empty string' : typeof token}`);
    } catch (cause) {
      tokenFault = `no token: ${cause?.message ?? cause}`;
      owner.onError(new Error(tokenFault, { cause }));
    }
  }

  function receive({ data }) {
    const ours = socket;
    heard();
    for (const line of `${data}`.split('\n')) { // a binary frame is no text, and told as that
      try {
        if (line) handle(JSON.parse(line), line.length);
      } catch (error) {
        owner.onError(error);
      }
      if (socket !== ours) return; // a handler closed us: the rest is for nobody
    }
  }

  function handle(frame, length) {
    const { t } = frame;
    if (t === 'ping') say({ t: 'pong' }); // also before `connected`
    else if (t === 'connected') connected(frame);
    else if (t === 'refreshed') planRefresh(frame.exp);
    else if (t === 'expiring') refresh();
    else if (t === 'bye') bye = frame;
    else if (t === 'err') owner.onError(failure(frame.msg, frame));
    else owner.onFrame(frame, length); // msg, acked, gap, and whatever a later relay may send
  }

  function connected(frame) {
    const { user, conn, resumed, ping } = frame;
    if (!admits(user)) return;
    clearTimeout(timers[NO_ANSWER]);
    pingMs = ping * 1000 || pingMs;
    openedAt = now();
    const climbIn = ladder.opened();
    if (climbIn) after('climb', climbIn, climb);
    heard();
    planRefresh(frame.exp);
    owner.onFrame(frame);
    setState('open', { user, conn, resumed: !!resumed });
    retopic(); // since `connect` they may be others
  }

  /** What works is not always the best: it is tried from the top again, from where we are. */
  function climb() {
    ladder.climb();
    again();
  }

  function again() {
    drop();
    open();
  }

  /** Twice the ping interval without a frame means that nobody is there. */
  function heard() {
    heardAt = now();
    giveUp(2 * pingMs, SILENT);
  }

  /** Unless something clears the timer, which is called as the reason is. */
  function giveUp(ms, code) {
    after(code, ms, () => lost({ code }));
  }

  /** A frame that is answered. */
  function request(frame) {
    transmit({ r: requests += 1, ...frame });
  }

  function lost({ code, reason }) {
    const life = now() - openedAt; // not a number when it never was open
    drop(4102);
    // A close without a handshake shows as 1006; the relay's `bye` knows better.
    const why = bye && code === 1006 ? bye.code : code;
    const change = { code: why, reason: reason || `connection lost (${why})` };
    // A fixed token cannot become valid again.
    if (closeClass(why) === STOP || (why === TOKEN_EXPIRED && !canRefresh)) {
      end(change);
      return;
    }
    if (isNaN(life) && !bye) ladder.failed(code === UNREACHABLE);
    const hasLived = life >= SHORT_LIFE_MS;
    if (hasLived) backoff.reset();
    const isAtOnce = closeClass(why) === NOW && (hasLived || bye?.in >= 0);
    retry(Math.max(isAtOnce ? 0 : backoff.nextWait(), bye?.in ?? 0), change);
  }

  function retry(retryIn, change) {
    after('retry', retryIn, open);
    setState('waiting', { ...change, retryIn });
  }

  /** Lets go of the socket at once: the closing handshake of a dead network takes minutes. */
  function drop(code = 1000) {
    Object.values(timers).forEach(clearTimeout);
    attempts += 1;
    openedAt = undefined;
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
    const token = await bringToken();
    // The answer may come when the connection it was for is gone; the next one asks anew.
    if (token && socket === ours && admits(subjectOf(token))) request({ t: 'refresh', token });
  }

  /** A timer of this name; the one before it is forgotten. */
  function after(name, ms, act) {
    clearTimeout(timers[name]);
    timers[name] = setTimeout(act, ms);
  }

  function setState(next, detail) {
    state = next;
    owner.onState({ state, transport: ladder.rung(), ...detail });
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

// connection.js: keeps one connection to a relay alive and hands its frames on.

import { NO_ANSWER, SILENT, UNREACHABLE, closeClass, closeMeaning } from './closing.js';
import { Ladder } from './ladder.js';
import { Refresher } from './refresher.js';
import { PollSocket, SseSocket } from './streams.js';

export const SUBPROTOCOL = 'clairon.v1.json';

const ANSWER_MS = 10_000; // from the first try to `connected`
const PROBE_MS = 5_000; // from a ping of ours to any frame
const DEFAULT_PING_S = 25;
// A relay that sends us away "at once" again and again is treated as one that is ill.
const SHORT_LIFE_MS = 5_000;

const ALL = ['*'];

/**
 * States, each told through `onState`:
 *   connecting  asking for a token, opening, waiting for `connected`
 *   open        messages flow
 *   waiting     lost; the next try is in `retryIn` ms
 *   closed      the end: close() was called, or the relay said that trying again cannot help
 */
export class Connection {
  state = 'idle';
  transport;
  #options;
  #owner;
  #socket = null;
  #attempt;
  #bye;
  #openedAt;
  #heardAt;
  #requests = 0;
  #pingMs = DEFAULT_PING_S * 1000;
  #topics = ALL; // in force on this connection
  #ladder;
  #refresher;
  #timers = { answer: 0, silence: 0, retry: 0, climb: 0 };

  /**
   * `options`: url, token, window, backoff, WebSocket, fetch, transports, now.
   * `owner`: position() -> pos or null, topics() -> array or null, onFrame(frame),
   * onState(change), onError(error).
   */
  constructor(options, owner) {
    this.#options = options;
    this.#owner = owner;
    this.#ladder = new Ladder(options.transports);
    this.#refresher = new Refresher({
      can: typeof options.token === 'function',
      refresh: () => this.#refresh(),
      now: options.now,
    });
  }

  /** `token`: one that was just brought; without it a new one is asked for. */
  async open(token) {
    const attempt = Symbol('attempt');
    this.#attempt = attempt;
    this.#bye = null;
    this.#setState('connecting');
    try {
      token ??= await this.#token();
    } catch (error) {
      if (this.#attempt === attempt) this.#tokenFailed(error);
      return;
    }
    if (this.#attempt === attempt) this.#dial(token);
  }

  /** False when nothing is open; the frame is then not sent. */
  send(frame) {
    if (this.state !== 'open') return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** The owner's topics have changed. While nothing is open, the next `connect` says them. */
  retopic() {
    const before = this.#topics;
    const now = this.#owner.topics() ?? ALL;
    this.#topics = now;
    this.#ask('subscribe', now.filter((topic) => !before.includes(topic)));
    this.#ask('unsubscribe', before.filter((topic) => !now.includes(topic)));
  }

  /** Something says that the world is back; `isChanged`: by another network, perhaps. */
  wake(isChanged) {
    if (this.state === 'waiting') {
      clearTimeout(this.#timers.retry);
      this.open();
    } else if (this.state === 'open' && (isChanged || this.#options.now() - this.#heardAt > this.#pingMs)) {
      this.send({ t: 'ping' });
      this.#expectWord(PROBE_MS);
    }
  }

  /** Lets go without a word; open() begins again. */
  suspend() {
    this.#drop(1000);
    this.state = 'idle';
  }

  close() {
    this.#drop(1000);
    this.#setState('closed', { reason: 'closed by this page' });
  }

  async #token() {
    const { token } = this.#options;
    return typeof token === 'function' ? token() : token;
  }

  #tokenFailed(cause) {
    const reason = 'could not get a token';
    this.#owner.onError(new Error(reason, { cause }));
    this.#retry(this.#options.backoff.next(), { reason });
  }

  #dial(token) {
    const socket = this.#newSocket();
    this.#socket = socket;
    this.#timers.answer = setTimeout(() => this.#lost({ code: NO_ANSWER }), ANSWER_MS);
    socket.onopen = () => {
      const connect = { t: 'connect', r: ++this.#requests, token };
      const pos = this.#owner.position();
      if (pos !== null) connect.pos = pos;
      if (this.#options.window !== undefined) connect.win = this.#options.window;
      const topics = this.#owner.topics();
      if (topics !== null) connect.topics = topics;
      this.#topics = topics ?? ALL;
      socket.send(JSON.stringify(connect));
    };
    socket.onmessage = (event) => this.#receive(event.data);
    // 'error' tells nothing and is always followed by 'close'.
    socket.onclose = (event) => this.#lost(event);
  }

  #newSocket() {
    const { url, WebSocket, fetch } = this.#options;
    this.transport = this.#ladder.rung;
    if (this.transport === 'sse') return new SseSocket(url, fetch);
    if (this.transport === 'poll') return new PollSocket(url, fetch);
    return new WebSocket(url, SUBPROTOCOL);
  }

  #receive(data) {
    const socket = this.#socket;
    this.#heard();
    if (typeof data !== 'string') return;
    for (const line of data.split('\n')) {
      if (line === '') continue;
      let frame;
      try {
        frame = JSON.parse(line);
      } catch {
        this.#owner.onError(new Error('the relay sent a line that is not JSON'));
        continue;
      }
      this.#handle(frame, line.length);
      if (this.#socket !== socket) return; // a handler closed us: the rest is for nobody
    }
  }

  #handle(frame, size) {
    switch (frame.t) {
      case 'ping':
        this.#socket.send('{"t":"pong"}'); // also before `connected`
        break;
      case 'connected':
        this.#connected(frame);
        break;
      case 'refreshed':
        this.#refresher.schedule(frame.exp);
        break;
      case 'expiring':
        this.#refresher.hurry();
        break;
      case 'bye':
        this.#bye = frame;
        break;
      case 'err':
        this.#owner.onError(Object.assign(new Error(frame.msg ?? 'the relay refused a frame'), {
          code: frame.code,
          retry: frame.retry,
        }));
        break;
      default: // msg, acked, gap, and whatever a later relay may send
        this.#owner.onFrame(frame, size);
    }
  }

  #connected(frame) {
    clearTimeout(this.#timers.answer);
    if (frame.ping > 0) this.#pingMs = frame.ping * 1000;
    this.#openedAt = this.#options.now();
    this.#ladder.opened();
    this.#planClimb();
    this.#heard();
    this.#refresher.schedule(frame.exp);
    this.#owner.onFrame(frame);
    const { user, conn, resumed } = frame;
    this.#setState('open', { user, conn, resumed: resumed === true });
  }

  /** What works is not always the best: later it is tried from the top, from where we are. */
  #planClimb() {
    clearTimeout(this.#timers.climb);
    if (this.#ladder.isTop) return;
    this.#timers.climb = setTimeout(() => {
      this.#ladder.top();
      this.#drop(1000);
      this.open();
    }, this.#ladder.nextClimb());
  }

  /** Twice the ping interval without a frame means that nobody is there. */
  #heard() {
    this.#heardAt = this.#options.now();
    this.#expectWord(2 * this.#pingMs);
  }

  #expectWord(within) {
    clearTimeout(this.#timers.silence);
    this.#timers.silence = setTimeout(() => this.#lost({ code: SILENT }), within);
  }

  #ask(t, topics) {
    if (topics.length > 0) this.send({ t, r: ++this.#requests, topics });
  }

  #lost({ code, reason }) {
    const bye = this.#bye;
    const neverOpen = this.#openedAt === undefined;
    const life = neverOpen ? 0 : this.#options.now() - this.#openedAt;
    this.#drop(4102);
    // A close without a handshake shows as 1006; the relay's `bye` knows better.
    const why = bye && code === 1006 ? bye.code : code;
    const change = { code: why, reason: closeMeaning(why, reason) };
    // A fixed token cannot become valid again.
    if (closeClass(why) === 'stop' || (why === 4100 && !this.#refresher.can)) {
      this.#setState('closed', change);
      this.#owner.onError(Object.assign(new Error(change.reason), { code: why }));
      return;
    }
    if (neverOpen && !bye) this.#ladder.failed(code === UNREACHABLE);
    if (life >= SHORT_LIFE_MS) this.#options.backoff.reset();
    this.#retry(this.#pause(why, bye, life), change);
  }

  #pause(code, bye, life) {
    const asked = bye?.in >= 0 ? bye.in : undefined;
    if (closeClass(code) === 'now') {
      if (asked !== undefined) return asked;
      if (life >= SHORT_LIFE_MS) return 0;
    }
    return Math.max(this.#options.backoff.next(), asked ?? 0);
  }

  #retry(retryIn, change) {
    this.#timers.retry = setTimeout(() => this.open(), retryIn);
    this.#setState('waiting', { ...change, retryIn });
  }

  /** Lets go of the socket at once: the closing handshake of a dead network takes minutes. */
  #drop(code) {
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    this.#refresher.stop();
    this.#attempt = null;
    this.#openedAt = undefined;
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close(code);
  }

  async #refresh() {
    const socket = this.#socket;
    try {
      const token = await this.#token();
      // The answer may come when the connection it was for is gone; the next one asks anew.
      if (this.#socket === socket) this.send({ t: 'refresh', r: ++this.#requests, token });
    } catch (cause) {
      this.#owner.onError(new Error('could not get a token', { cause }));
    }
  }

  #setState(state, detail = {}) {
    if (state === this.state && state === 'closed') return;
    this.state = state;
    this.#owner.onState({ state, ...detail });
  }
}

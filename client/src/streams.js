// streams.js: stands in for a WebSocket where none gets through: /v1/sse and /v1/poll, by fetch().
// Only loaded then.

const UNREACHABLE = 'unreachable'; // as in closing.js: nothing is shared with what is always loaded

const POLL_WAIT_S = 25;

/** What both have: the surface of a WebSocket, acks over HTTP, and an end with a close code. */
class HttpSocket {
  /** `url` is that of the WebSocket; the others stand beside it. */
  constructor(fetch, url) {
    this.base = url.replace(/^ws/, 'http').replace(/[^/]*$/, '');
    this.fetch = fetch;
    this.topics = null;
    this.isClosed = false;
    queueMicrotask(() => this.onopen?.());
  }

  send(text) {
    const frame = JSON.parse(text);
    switch (frame.t) {
      case 'connect':
        this.token = frame.token;
        this.pos = frame.pos ?? null;
        this.topics = frame.topics ? new Set(frame.topics) : null;
        this.#start();
        break;
      case 'refresh':
        this.token = frame.token;
        this.#start();
        break;
      case 'subscribe':
        this.topics = new Set([...(this.topics ?? []), ...frame.topics]);
        this.#start();
        break;
      case 'unsubscribe':
        for (const topic of frame.topics) this.topics?.delete(topic);
        this.#start();
        break;
      case 'ack':
        this.#post('ack', { ids: frame.ids });
        break;
      case 'nack':
        this.#post('nack', { ids: frame.ids, delay: frame.delay });
        break;
      case 'ping':
        this.#start();
        break;
      default: // pong: the next answer says as much
    }
  }

  close() {
    this.isClosed = true;
    this.abort?.abort();
  }

  /** Begins, or begins again from where it is with what has changed. */
  async #start() {
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    let code = 1006;
    try {
      code = await this.run(abort.signal);
    } catch {
      if (!this.hasAnswered) code = UNREACHABLE;
    }
    if (abort.signal.aborted || this.isClosed) return;
    this.close();
    this.onclose?.({ code, reason: '' });
  }

  /** Resolves to the response; rejects when there is no answer at all. */
  async get(path, query, headers, signal) {
    if (this.topics) query.topics = [...this.topics].join(',');
    const search = new URLSearchParams(query).toString();
    this.hasAnswered = false;
    const response = await this.fetch(`${this.base}${path}${search && `?${search}`}`, {
      headers: { Authorization: `Bearer ${this.token}`, ...headers },
      cache: 'no-store',
      signal,
    });
    this.hasAnswered = true;
    return response;
  }

  say(data) {
    if (!this.isClosed) this.onmessage?.({ data });
  }

  /** What is lost here, or not known there, is made up for when the message comes again. */
  async #post(path, body) {
    try {
      await this.fetch(`${this.base}${path}`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${this.token}`, 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
        keepalive: true,
      });
    } catch {
      // see above
    }
  }
}

/** The close code that a WebSocket would have had. */
async function codeOf(response) {
  if (response.status === 401) {
    const problem = await response.json().catch(() => ({}));
    return problem.code === 109 ? 4100 : 4001;
  }
  if (response.status === 403) return 4003;
  return response.status === 429 || response.status === 503 ? 4103 : 1006;
}

export class SseSocket extends HttpSocket {
  async run(signal) {
    const headers = { Accept: 'text/event-stream' };
    if (this.pos !== null) headers['Last-Event-ID'] = this.pos;
    const response = await this.get('sse', {}, headers, signal);
    if (!response.ok) return codeOf(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done || signal.aborted) return 1006; // the `bye` before it knows better
      const events = (rest + value).split('\n\n');
      rest = events.pop();
      for (const event of events) {
        if (signal.aborted) return 1006;
        this.#take(event);
      }
    }
  }

  /** A comment is an empty message: a sign of life. */
  #take(event) {
    const data = [];
    for (const line of event.split('\n')) {
      if (line.startsWith('data: ')) data.push(line.slice(6));
      else if (line.startsWith('id: ')) this.pos = line.slice(4);
    }
    this.say(data.join('\n'));
  }
}

export class PollSocket extends HttpSocket {
  async run(signal) {
    let wait = 0; // the first answer says that we are connected
    for (;;) {
      const query = { wait };
      const resumed = this.pos !== null;
      if (resumed) query.pos = this.pos;
      const response = await this.get('poll', query, {}, signal);
      if (response.status !== 200 && response.status !== 204) return codeOf(response);
      const lines = response.status === 200 ? await response.text() : '';
      if (signal.aborted) return 1006;
      this.pos = response.headers.get('Clairon-Pos') ?? this.pos;
      if (wait === 0) this.#sayConnected(resumed, lines);
      wait = POLL_WAIT_S;
      this.say(lines);
    }
  }

  #sayConnected(resumed, lines) {
    const connected = { t: 'connected', resumed: resumed && !/^\{"t":"gap"/m.test(lines), ping: POLL_WAIT_S };
    if (lines === '') connected.pos = this.pos;
    this.say(JSON.stringify(connected));
  }
}

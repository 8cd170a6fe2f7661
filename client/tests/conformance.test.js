// conformance.test.js: the client passes the scenarios of conformance/: this file plays the relay, as its README defines.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { connect } from 'clairon';
import { fakeRelay, until } from './fake-relay.js';

const folder = new URL('../conformance/', import.meta.url);
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const isVariable = (value) => typeof value === 'string' && value.startsWith('$');

function merge(base, more) {
  if (!isObject(base) || !isObject(more)) return more;
  return Object.entries(more).reduce((all, [key, value]) => ({ ...all, [key]: merge(base[key], value) }), { ...base });
}

/** The variables of a scenario: bound at first sight, and compared afterwards. */
class Variables {
  constructor(values, bound) {
    this.values = values;
    this.bound = new Map(Object.entries(bound));
  }

  get(text) {
    const [name, ...path] = text.slice(1).split('.');
    return path.reduce((value, key) => value[key], this.bound.get(name));
  }

  /** The value to send: an unbound variable takes its value from the scenario. */
  fill(pattern) {
    if (isVariable(pattern)) {
      const [name] = pattern.slice(1).split('.');
      if (!this.bound.has(name)) {
        assert.ok(name in this.values, `${pattern} has no value`);
        this.bound.set(name, this.values[name]);
      }
      return this.fill(this.get(pattern));
    }
    if (Array.isArray(pattern)) return pattern.map((each) => this.fill(each));
    if (!isObject(pattern)) return pattern;
    const { $like, ...rest } = pattern;
    const filled = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, this.fill(value)]));
    return $like ? merge(this.fill($like), filled) : filled;
  }

  match(pattern, actual) {
    if (isVariable(pattern)) {
      if (!pattern.includes('.') && !this.bound.has(pattern.slice(1))) {
        this.bound.set(pattern.slice(1), actual);
        return true;
      }
      return this.match(this.get(pattern), actual);
    }
    if (Array.isArray(pattern)) {
      return Array.isArray(actual) && actual.length === pattern.length && pattern.every((each, i) => this.match(each, actual[i]));
    }
    if (isObject(pattern)) {
      return isObject(actual) && Object.entries(pattern).every(([key, each]) => key in actual && this.match(each, actual[key]));
    }
    return pattern === actual;
  }

  expect(pattern, actual) {
    if (!this.match(pattern, actual)) assert.fail(`expected ${JSON.stringify(pattern)}, got ${JSON.stringify(actual)}`);
  }
}

function tokenOf({ signature, exp = 3600, ...claims }) {
  const body = JSON.stringify({ sub: 'u1', ...claims, exp: Math.floor(Date.now() / 1000) + exp });
  return `e30.${Buffer.from(body).toString('base64url')}.${signature ?? 'x'}`;
}

/** Three ways to connect: each has frame(), the next frame of the client, send(..frames), and close(code). */
function socketLink(socket) {
  let read = 0;
  socket.onopen?.();
  return {
    frame: async () => {
      for (;;) {
        const frame = await until('a frame', () => socket.sent[read]);
        read += 1;
        if (frame.t !== 'ping') return frame;
        socket.sends({ t: 'pong' });
      }
    },
    send: (frames) => socket.sends(...frames),
    close: (code) => socket.closes(code),
  };
}

const posted = (request) => async () => {
  const found = await request('/v1/ack', '/v1/nack');
  found.resolve(new Response(null, { status: 204 }));
  return { t: found.path.slice('/v1/'.length), ...JSON.parse(found.body) };
};

function streamLink(found, request) {
  let controller;
  found.resolve(new Response(new ReadableStream({ start: (c) => { controller = c; } })));
  return {
    frame: posted(request),
    send: (frames) => frames.forEach((frame) => controller.enqueue(new TextEncoder().encode(
      `data: ${JSON.stringify(frame)}\n${frame.pos ? `id: ${frame.pos}\n` : ''}\n`))),
    close: () => controller.close(),
  };
}

function pollLink(found, request) {
  return {
    frame: posted(request),
    send: (frames, pos) => {
      const body = frames.length > 0 ? frames.map((frame) => `${JSON.stringify(frame)}\n`).join('') : null;
      found.resolve(new Response(body, { status: body ? 200 : 204, headers: { 'Clairon-Pos': pos } }));
    },
  };
}

class Player {
  constructor(t, scenario) {
    this.t = t;
    const tokens = Object.entries(scenario.tokens).map(([name, claims]) => [name, tokenOf(claims)]);
    this.vars = new Variables(scenario.values ?? {}, { user: 'u1', ...Object.fromEntries(tokens) });
    this.relay = fakeRelay();
    this.requests = [];
    this.received = [];
    this.gaps = [];
    this.lists = {};
    this.times = 0;
  }

  /** The next request with one of these paths. */
  request = (...paths) => until(`a request to ${paths}`, () => {
    const at = this.requests.findIndex(({ path }) => paths.includes(path));
    return at >= 0 && this.requests.splice(at, 1)[0];
  });

  fetch = (url, options) => new Promise((resolve, reject) => {
    const { pathname, searchParams } = new URL(url);
    this.requests.push({ path: pathname, query: Object.fromEntries(searchParams), body: options.body, resolve });
    options.signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
  });

  async connect({ connect: kind, after, reject, pos }) {
    if (kind === 'ws') {
      const socket = await this.relay.socket();
      if (after) assert.ok(performance.now() - this.ended >= after, `the client reconnects after ${after} ms`);
      if (reject) socket.closes(1006);
      else this.link = socketLink(socket);
      return;
    }
    const found = await this.request(`/v1/${kind}`);
    if (pos) this.vars.expect(pos, found.query.pos);
    this.link = (kind === 'sse' ? streamLink : pollLink)(found, this.request);
  }

  async client({ client: pattern }) {
    if (pattern.t !== 'ack') {
      const frame = await this.link.frame();
      this.vars.expect(pattern, frame);
      if (frame.t === 'connect') this.hello = frame;
      return;
    }
    const ids = new Set(pattern.ids.map((id) => this.vars.fill(id)));
    while (ids.size > 0) {
      const frame = await this.link.frame();
      if (frame.t !== 'ack' || !frame.ids.every((id) => ids.delete(id))) assert.fail(`not an ack of ${[...ids]}: ${JSON.stringify(frame)}`);
    }
  }

  async relay_({ relay, pos, if: feature }) {
    if (feature && !this.hello?.[feature]) return;
    this.link.send([relay].flat().map((frame) => this.vars.fill(frame)), pos && this.vars.fill(pos));
  }

  close({ close }) {
    this.ended = performance.now();
    this.link.close(close);
  }

  break() {
    this.close({ close: 1006 });
  }

  publish({ publish, change, notification }) {
    this.times += 1;
    const needsAck = notification.routing?.retry?.ack_required ?? false;
    this.vars.bound.set(publish ?? change, merge({
      metadata: {
        id: crypto.randomUUID(), priority: 'NORMAL', type: 'NOTIFICATION', emitter: 'conformance', source: 'notify',
        topic: 'notify', operation: 'notify', timestamp: `2026-03-05T12:00:${String(this.times).padStart(2, '0')}.000000Z`,
      },
      routing: {
        audience: { type: 'USER', targets: ['u1'] },
        retry: { ack_required: needsAck, enabled: needsAck, attempts: 0, limit: 5, backoff: 'EXPONENTIAL' },
      },
    }, this.vars.fill(notification)));
  }

  change(step) {
    this.publish(step);
  }

  sql() {} // the rows are in the frames

  async app({ app, ...given }) {
    await this.apps[app](this.vars.fill(given));
  }

  apps = {
    start: (options) => {
      this.token = this.vars.bound.get('token');
      this.subject = connect({
        url: 'http://relay.test', WebSocket: this.relay.WebSocket, fetch: this.fetch, tabs: false,
        backoff: { base: 2, cap: 2 }, transports: ['ws'], ...options, token: () => this.token,
      });
      this.t.after(() => this.subject.close());
      this.subject.on('*', ({ metadata }) => { this.received.push(metadata.id); });
      this.subject.on('gap', (gap) => this.gaps.push(gap));
      this.subject.on('state', (state) => { this.state = state; });
      this.subject.on('error', () => {});
    },
    token: ({ token }) => { this.token = token; },
    receive: async ({ id }) => {
      await until('a notification', () => this.received.length > 0);
      assert.equal(this.received.shift(), id);
    },
    gap: async (gap) => {
      await until('a gap', () => this.gaps.length > 0);
      this.vars.expect(gap, this.gaps.shift());
    },
    state: (state) => until(`the state ${JSON.stringify(state)}`, () => this.state && this.vars.match(state, this.state)),
    ack: ({ id }) => this.subject.ack(id),
    nack: ({ id, delay }) => this.subject.nack(id, { delay }),
    subscribe: ({ topics }) => this.subject.subscribe(topics),
    unsubscribe: ({ topics }) => this.subject.unsubscribe(topics),
    live: ({ list, source, ...options }) => { this.lists[list] = this.subject.live(source, options); },
    rows: ({ list, rows, ordered }) => {
      const listed = (each) => JSON.stringify(ordered ? each : each.map((row) => JSON.stringify(row)).sort());
      return until(`the rows ${JSON.stringify(rows)}`, () => listed(this.lists[list].rows) === listed(rows));
    },
  };
}

const files = readdirSync(folder).filter((name) => name.endsWith('.json'));

test('there are scenarios of clients', () => assert.ok(files.length >= 50));

for (const file of files) {
  const scenario = JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
  if (!scenario.tests.includes('client')) continue;
  test(`${file}: ${scenario.name}`, async (t) => {
    const player = new Player(t, scenario);
    for (const [i, step] of scenario.steps.entries()) {
      const [kind] = Object.keys(step);
      if (!(step.tests ?? ['client']).includes('client')) continue;
      try {
        await player[kind === 'relay' ? 'relay_' : kind](step);
      } catch (error) {
        error.message = `step ${i + 1} (${kind}): ${error.message}`;
        throw error;
      }
    }
  });
}

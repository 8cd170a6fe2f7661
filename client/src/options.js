// options.js: checks what connect() was given and fills in the rest.

import { createBackoff } from './backoff.js';

const KNOWN = ('url token pos window topics ack storage dedupe backoff transports tabs ' +
  'WebSocket fetch now').split(' ');
const VALUES = { transports: ['ws', 'sse', 'poll'], ack: ['auto', 'manual'] };

function demand(isRight, text) {
  if (!isRight) throw new TypeError(`connect(): ${text}`);
}

export function checkOptions(options) {
  const unknown = Object.keys(options).find((name) => !KNOWN.includes(name));
  demand(unknown === undefined, `unknown option "${unknown}"; known are ${KNOWN.join(', ')}`);
  demand(/^(string|function)$/.test(typeof options.token), 'token: a string or a function');
  for (const [name, valid] of Object.entries(VALUES)) {
    const given = [options[name] ?? []].flat();
    demand(given.every((value) => valid.includes(value)), `${name} is one of ${valid.join(', ')}`);
  }
}

/** What a connection is made with. */
export function settingsOf(options) {
  const { WebSocket, fetch } = globalThis;
  const settings = { WebSocket, fetch, now: Date.now, ...VALUES, ...options };
  settings.url = socketUrl(options.url);
  settings.backoff = createBackoff(options.backoff);
  const hasMeans = (name) => settings[name === 'ws' ? 'WebSocket' : 'fetch'];
  settings.transports = settings.transports.filter(hasMeans);
  demand(settings.transports[0], 'no WebSocket here');
  return settings;
}

function socketUrl(url = '/v1/ws') {
  const resolved = new URL(url, globalThis.location?.href);
  resolved.protocol = resolved.protocol.replace('http', 'ws');
  if (resolved.pathname === '/') resolved.pathname = '/v1/ws';
  return resolved.href;
}

// options.js: checks what connect() was given and fills in the rest.

import { createBackoff } from './backoff.js';

const KNOWN = ('url token pos window topics ack storage dedupe backoff transports tabs ' +
  'WebSocket fetch now').split(' ');
const VALUES = { transports: ['ws', 'sse', 'poll'], ack: ['auto', 'manual'] };

function demand(isRight, text) {
  if (!isRight) throw new TypeError(`connect(): ${text}`);
}

/** What a connection is made with. An option that is undefined is one that was not given. */
export function settingsOf(options) {
  const { WebSocket, fetch } = globalThis;
  const settings = { WebSocket, fetch, now: Date.now, ...VALUES };
  for (const name in options) {
    demand(KNOWN.includes(name), `option ${name} is none of ${KNOWN.join(', ')}`);
    settings[name] = options[name] ?? settings[name];
  }
  for (const [name, valid] of Object.entries(VALUES)) {
    const isValid = [settings[name]].flat().every((value) => valid.includes(value));
    demand(isValid, `${name} is one of ${valid.join(', ')}`);
  }
  demand(settings.token?.length >= 0, 'token: a string or a function'); // what has a length
  settings.url = socketUrl(settings.url);
  settings.backoff = createBackoff(settings.backoff);
  const hasMeans = (name) => settings[name === 'ws' ? 'WebSocket' : 'fetch'];
  settings.transports = [settings.transports].flat().filter(hasMeans);
  demand(settings.transports[0], 'no WebSocket here');
  return settings;
}

function socketUrl(url = '/v1/ws') {
  const resolved = new URL(url, globalThis.location);
  resolved.protocol = resolved.protocol.replace('http', 'ws');
  if (resolved.pathname === '/') resolved.pathname = '/v1/ws';
  return resolved.href;
}

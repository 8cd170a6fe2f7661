// options.js: checks what connect() was given and fills in the rest.

import { createBackoff } from './backoff.js';

const KNOWN = [
  'url', 'token', 'pos', 'window', 'topics', 'ack', 'storage', 'dedupe', 'backoff', 'transports',
  'tabs', 'WebSocket', 'fetch', 'now',
];
const TRANSPORTS = ['ws', 'sse', 'poll'];
const VALUES = { transports: TRANSPORTS, ack: ['auto', 'manual'] };

function demand(isRight, text) {
  if (!isRight) throw new TypeError(`connect(): ${text}`);
}

export function checkOptions(options) {
  for (const name of Object.keys(options)) {
    demand(KNOWN.includes(name), `unknown option "${name}"; there are ${KNOWN.join(', ')}`);
  }
  demand(/^(string|function)$/.test(typeof options.token), 'token is a string or a function');
  for (const [name, valid] of Object.entries(VALUES)) {
    const given = [options[name] ?? []].flat();
    demand(given.every((value) => valid.includes(value)), `${name} is one of ${valid.join(', ')}`);
  }
}

/** What a connection is made with. */
export function settingsOf({ url, token, window, backoff, WebSocket, fetch, transports = TRANSPORTS, now = Date.now }) {
  const settings = {
    url: socketUrl(url),
    token,
    window,
    backoff: createBackoff(backoff),
    WebSocket: WebSocket ?? globalThis.WebSocket,
    fetch: fetch ?? globalThis.fetch?.bind(globalThis),
    now,
  };
  settings.transports = transports.filter((name) => (name === 'ws' ? settings.WebSocket : settings.fetch));
  demand(settings.transports.length > 0, 'no WebSocket here, pass one in');
  return settings;
}

function socketUrl(url = '/v1/ws') {
  const resolved = new URL(url, globalThis.location?.href);
  resolved.protocol = resolved.protocol.replace('http', 'ws');
  if (resolved.pathname === '/') resolved.pathname = '/v1/ws';
  return resolved.href;
}

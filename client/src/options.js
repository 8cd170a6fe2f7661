// options.js: checks what connect() was given and fills in the rest.

import { Backoff } from './backoff.js';

const KNOWN = [
  'url', 'token', 'pos', 'window', 'topics', 'ack', 'storage', 'dedupe', 'backoff', 'transports',
  'tabs', 'WebSocket', 'fetch', 'now',
];
const TRANSPORTS = ['ws', 'sse', 'poll'];

function refuse(text) {
  throw new TypeError(`connect(): ${text}`);
}

export function checkOptions({ token, ack = 'auto', transports = [], ...rest }) {
  for (const name of Object.keys(rest)) {
    if (!KNOWN.includes(name)) refuse(`unknown option "${name}"; there are ${KNOWN.join(', ')}`);
  }
  if (!['string', 'function'].includes(typeof token)) refuse('token is a string, or a function that returns one');
  if (!transports.every((name) => TRANSPORTS.includes(name))) refuse("transports are 'ws', 'sse', 'poll'");
  if (!['auto', 'manual'].includes(ack)) refuse("ack is 'auto' or 'manual'");
}

/** What a Connection is made with. */
export function settingsOf(options) {
  const settings = {
    url: socketUrl(options.url),
    token: options.token,
    window: options.window,
    backoff: new Backoff(options.backoff),
    WebSocket: options.WebSocket ?? globalThis.WebSocket,
    fetch: options.fetch ?? globalThis.fetch?.bind(globalThis),
    now: options.now ?? Date.now,
  };
  settings.transports = (options.transports ?? TRANSPORTS)
    .filter((name) => (name === 'ws' ? settings.WebSocket : settings.fetch));
  if (settings.transports.length === 0) refuse('no WebSocket here, pass one in');
  return settings;
}

function socketUrl(url) {
  const resolved = new URL(url ?? '/v1/ws', globalThis.location?.href);
  resolved.protocol = resolved.protocol.replace(/^http/, 'ws');
  if (resolved.pathname === '/') resolved.pathname = '/v1/ws';
  return resolved.href;
}

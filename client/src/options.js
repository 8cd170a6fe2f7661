// options.js: checks what connect() was given and fills in the rest.

import { createBackoff } from './backoff.js';

const KNOWN = ('url token pos window topics ack storage dedupe backoff transports tabs ' +
  'WebSocket fetch now').split(' ');
const VALUES = { transports: ['ws', 'sse', 'poll'], ack: ['auto', 'manual'] };

function demand(isRight, text) {
  if (!isRight) throw new TypeError(`connect(): ${text}`);
}

/** What a connection is made with. An option that is undefined is one that was not given. */
export function settingsOf(options = {}) {
  const { WebSocket, fetch } = globalThis;
  const settings = { WebSocket, fetch, now: Date.now, ...VALUES };
  for (const name in options) {
    demand(KNOWN.includes(name), `unknown option ${name}, known are ${KNOWN.join(', ')}`);
    settings[name] = options[name] ?? settings[name];
  }
  for (const [name, valid] of Object.entries(VALUES)) {
    const given = [settings[name]].flat();
    const isValid = given.length && given.every((value) => valid.includes(value));
    demand(isValid, `${name}: one of ${valid.join(', ')}`);
  }
  for (const name of ['window', 'dedupe']) {
    const value = settings[name] ?? 1;
    demand(Number.isInteger(value) && value > 0, `${name}: a whole number above 0`);
  }
  if (settings.topics) {
    settings.topics = [settings.topics].flat();
    demand(settings.topics.every((topic) => topic?.trim), 'topics: an array of strings');
  }
  const { token } = settings;
  demand(token && (token.call || token.trim), 'token: a string or a function');
  settings.url = socketUrl(settings.url);
  settings.backoff = createBackoff(settings.backoff);
  const hasMeans = (name) => settings[name === 'ws' ? 'WebSocket' : 'fetch'];
  settings.transports = [settings.transports].flat().filter(hasMeans);
  demand(settings.transports[0], 'no WebSocket here, give one as an option');
  return settings;
}

/** `localhost:8080` is a URL too, of the scheme `localhost`. */
function socketUrl(url = '/v1/ws') {
  let resolved;
  try {
    resolved = new URL(url, globalThis.location);
    resolved.protocol = resolved.protocol.replace('http', 'ws');
  } catch {} // refused below
  demand(/^wss?:/.test(resolved?.protocol), `url: ws://, wss://, http:// or https:// before ${url}`);
  if (resolved.pathname === '/') resolved.pathname = '/v1/ws';
  return resolved.href;
}

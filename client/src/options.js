// options.js: validates the options of connect() and applies defaults.

import { createBackoff } from './backoff.js';
import { demandFor } from './demand.js';

const KNOWN = ('url token pos window topics ack storage dedupe backoff transports tabs ' +
  'WebSocket fetch now').split(' ');
const VALUES = { transports: ['ws', 'sse', 'poll'], ack: ['auto', 'manual'] };

const demand = demandFor('connect()');

/** Returns the validated options. Undefined options have their defaults. */
export function settingsOf(options = {}) {
  const { WebSocket, fetch } = globalThis;
  const settings = { WebSocket, fetch, now: Date.now, ...VALUES };
  for (const name in options) {
    demand(KNOWN.includes(name), `unknown option ${name}, valid: ${KNOWN.join(', ')}`);
    settings[name] = options[name] ?? settings[name];
  }
  for (const [name, valid] of Object.entries(VALUES)) {
    const given = [settings[name]].flat();
    const isValid = given.length && given.every((value) => valid.includes(value));
    demand(isValid, `${name} must be one of ${valid.join(', ')}`);
  }
  for (const name of ['window', 'dedupe']) {
    const value = settings[name] ?? 1;
    demand(value && value === value >>> 0, `${name} must be a positive integer`);
  }
  if (settings.topics) settings.topics = topicsOf(settings.topics);
  const { token } = settings;
  demand(token && (token.call || token.trim), 'token must be a string or a function');
  settings.url = socketUrl(settings.url);
  settings.backoff = createBackoff(settings.backoff);
  const hasMeans = (name) => settings[name === 'ws' ? 'WebSocket' : 'fetch'];
  settings.transports = [settings.transports].flat().filter(hasMeans);
  demand(settings.transports[0], 'no WebSocket: pass the option WebSocket');
  return settings;
}

/**
 * Returns the distinct topics. The relay rejects each `connect` that has an invalid topic, more than 256 or more than
 * 8 kB, so the client would never connect again.
 */
export function topicsOf(given) {
  const topics = [...new Set([given].flat(2))];
  const areValid = topics.every((topic) => topic?.match?.(/^[^*]{0,254}.$/)) && topics[0] && !topics[256] && !topics.join('')[8192];
  demand(areValid, 'invalid topics');
  return topics;
}

/** Without the check, `127.0.0.1:8080` would be a path, and `localhost:8080` a URL with the scheme `localhost`. */
function socketUrl(url = '/v1/ws') {
  let resolved;
  try {
    resolved = /^\/|:\/\//.test(url) && new URL(url, globalThis.location);
    resolved.protocol = resolved.protocol.replace('http', 'ws');
  } catch {} // rejected below
  demand(/^wss?:/.test(resolved?.protocol), `url ${url} must start with /, ws(s):// or http(s)://`);
  if (resolved.pathname === '/') resolved.pathname = '/v1/ws';
  return resolved.href;
}

// webpush.test.js: enable() and disable() register a browser with the relay, and the service worker shows what it receives.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { afterEach } from 'node:test';
import vm from 'node:vm';
import { connect } from 'clairon';
import { disable, enable } from 'clairon/webpush';
import { sizeOf } from './size.js';

const KEY = Buffer.alloc(65, 4).toString('base64url');
const OTHER = Buffer.alloc(65, 5).toString('base64url');
const names = ['navigator', 'Notification', 'PushManager'];
const before = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));

afterEach(() => names.forEach((name, i) => {
  delete globalThis[name];
  if (before[i]) Object.defineProperty(globalThis, name, before[i]);
}));

/** Installs a browser, with the key of its subscription, if any. */
function browserWith({ permission = 'granted', made } = {}) {
  const log = [];
  let subscription;
  const subscriptionOf = (key) => ({
    endpoint: `https://push.example/${key[0]}`,
    options: { applicationServerKey: new Uint8Array(Buffer.from(key, 'base64url')).buffer },
    toJSON: () => ({ endpoint: `https://push.example/${key[0]}`, expirationTime: null, keys: { p256dh: 'P', auth: 'A' } }),
    unsubscribe: async () => { log.push('unsubscribe'); subscription = null; return true; },
  });
  subscription = made ? subscriptionOf(made) : null;
  const displayed = [];
  const registration = {
    getNotifications: async () => displayed,
    pushManager: {
      getSubscription: async () => subscription,
      subscribe: async ({ userVisibleOnly, applicationServerKey }) => {
        assert.equal(userVisibleOnly, true);
        log.push('subscribe');
        subscription = subscriptionOf(applicationServerKey);
        return subscription;
      },
    },
  };
  const serviceWorker = {
    register: async (path) => { log.push(`register ${path}`); return registration; },
    getRegistration: async () => registration,
    ready: Promise.resolve(registration),
  };
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { serviceWorker } });
  globalThis.Notification = { requestPermission: async () => permission };
  globalThis.PushManager = class {};
  return { log, displayed };
}

/** A client whose requests are recorded and responded. */
function clientWith(respond = () => [200, '{}'], options = {}) {
  const requests = [];
  const client = connect({
    url: 'ws://relay.example/v1/ws?shard=2',
    token: () => 'T',
    WebSocket: class { close() {} },
    fetch: async (url, { method = 'GET', headers, body }) => {
      requests.push({ url: String(url), method, token: headers?.Authorization, body: body && JSON.parse(body) });
      const [status, text] = String(url).endsWith('/key') ? [200, JSON.stringify({ key: KEY })] : respond();
      return new Response(text, { status });
    },
    ...options,
  });
  client.close();
  return { client, requests };
}

test('enable() subscribes and registers the subscription with the relay', async () => {
  const { log } = browserWith();
  const { client, requests } = clientWith();
  const subscription = await enable(client, { serviceWorker: '/sw.js' });
  assert.equal(subscription.endpoint, 'https://push.example/B');
  assert.deepEqual(log, ['register /sw.js?ack=http%3A%2F%2Frelay.example%2Fv1%2Fack', 'subscribe']);
  assert.deepEqual(requests, [
    { url: 'http://relay.example/v1/webpush/key', method: 'GET', token: undefined, body: undefined },
    {
      url: 'http://relay.example/v1/webpush/subscriptions', method: 'POST', token: 'Bearer T',
      body: { endpoint: 'https://push.example/B', expirationTime: null, keys: { p256dh: 'P', auth: 'A' }, key: KEY },
    },
  ]);
});

test('enable() keeps a subscription for the same key and registers it again', async () => {
  const { log } = browserWith({ made: KEY });
  const { client, requests } = clientWith(undefined, { token: 'fixed' });
  await enable(client);
  assert.match(log.join(' '), /^register \/clairon-worker\.js\?ack=\S+$/);
  assert.equal(requests[1].method, 'POST');
  assert.equal(requests[1].token, 'Bearer fixed');
});

test('enable() replaces a subscription for another key', async () => {
  const { log } = browserWith({ made: OTHER });
  const { client } = clientWith();
  await enable(client);
  assert.deepEqual(log.slice(1), ['unsubscribe', 'subscribe']);
});

test('enable() rejects without permission, and registers nothing', async () => {
  const { log } = browserWith({ permission: 'denied' });
  const { client, requests } = clientWith();
  await assert.rejects(enable(client), { code: 'denied' });
  assert.deepEqual([log, requests], [[], []]);
});

test('enable() rejects in a browser without Web Push', async () => {
  browserWith();
  delete globalThis.PushManager;
  await assert.rejects(enable(clientWith().client), { code: 'unsupported', message: /Home Screen/ });
});

test('enable() reports the error of the relay', async () => {
  browserWith();
  await assert.rejects(
    enable(clientWith(() => [400, '{"detail":"endpoint is not of a push service in webpush.origins"}']).client),
    { code: 400, message: 'Web Push: endpoint is not of a push service in webpush.origins' },
  );
  browserWith();
  await assert.rejects(enable(clientWith(() => [502, '<html>']).client), { code: 502, message: 'Web Push: status 502' });
});

test('enable() requires a client', async () => {
  browserWith();
  await assert.rejects(enable({}), { name: 'TypeError', message: /the result of connect\(\)/ });
});

test('enable() spends the ticket in the URL of the page, and removes it', async () => {
  browserWith();
  const { client, requests } = clientWith();
  const replaced = [];
  globalThis.location = new URL(`https://app.example/x?y#clairon=${'a1'.repeat(16)}`);
  globalThis.history = { state: 7, replaceState: (...how) => replaced.push(how) };
  await enable(client);
  delete globalThis.location;
  delete globalThis.history;
  assert.deepEqual(replaced, [[7, '', '/x?y']]);
  assert.deepEqual(requests[0], {
    url: 'http://relay.example/v1/ack', method: 'POST', token: undefined, body: { ticket: 'a1'.repeat(16) },
  });
});

test('what is acknowledged elsewhere is closed, by its id, once', async () => {
  const { displayed } = browserWith();
  const { client } = clientWith();
  const listeners = [];
  client.on = (type, listener) => listeners.push([type, listener]);
  await enable(client);
  await enable(client);
  assert.deepEqual(listeners.map(([type]) => type), ['acked']);
  const closed = [];
  displayed.push(...[
    { tag: 'id1', data: { id: 'id1' } },
    { tag: 'a hash', data: { id: 'id2' } }, // with `collapse`
    { tag: 'id3', data: { id: 'id4' } },
    { tag: 'id5' },
  ].map((each, i) => ({ ...each, close: () => closed.push(i) })));
  await listeners[0][1]({ ids: ['id1', 'id2', 'id3', 'id5'] });
  assert.deepEqual(closed, [0, 1, 3]);
});

test('disable() removes the subscription from the relay and the browser', async () => {
  const { log } = browserWith({ made: KEY });
  const { client, requests } = clientWith(() => [200, '']);
  await disable(client);
  assert.deepEqual(requests, [{
    url: 'http://relay.example/v1/webpush/subscriptions', method: 'DELETE', token: 'Bearer T',
    body: { endpoint: 'https://push.example/B' },
  }]);
  assert.deepEqual(log, ['unsubscribe']);
  await disable(client); // nothing to remove
  assert.equal(requests.length, 1);
});

test('disable() unsubscribes the browser if the relay cannot be reached', async () => {
  const { log } = browserWith({ made: KEY });
  await assert.rejects(disable(clientWith(() => [503, '{"detail":"store does not reply"}']).client), { code: 503 });
  assert.deepEqual(log, ['unsubscribe']);
});

test('webpush.js and worker.js have less than 1 500 bytes, gzipped', () => {
  for (const name of ['webpush.js', 'worker.js']) assert.ok(sizeOf(name).gzipped < 1_500, JSON.stringify(sizeOf(name)));
});

/** Runs the service worker; `dispatch(type, event)` resolves when its work is done. */
function workerWith({ pages = [] } = {}) {
  const log = [];
  const listeners = {};
  const scope = {
    addEventListener: (type, listener) => { listeners[type] = listener; },
    registration: { showNotification: async (title, options) => log.push(['show', title, options]) },
    clients: {
      matchAll: async () => pages.map((url) => ({ url, focus: async () => log.push(['focus', url]) })),
      openWindow: async (url) => log.push(['open', url]),
    },
    navigator: { setAppBadge: async (count) => log.push(['badge', count]) },
    location: { href: 'https://app.example/clairon-worker.js?ack=https%3A%2F%2Frelay.example%2Fv1%2Fack', toString() { return this.href; } },
    fetch: async (url, { method, body }) => log.push(['fetch', url, method, body]),
    URL,
  };
  vm.runInNewContext(readFileSync(new URL('../dist/worker.js', import.meta.url), 'utf8'), scope);
  const dispatch = async (type, event) => {
    let work;
    listeners[type]({ ...event, waitUntil: (promise) => { work = promise; } });
    await work;
    return JSON.parse(JSON.stringify(log));
  };
  return dispatch;
}

const pushed = (body) => ({ data: { json: () => body } });

test('the service worker shows a Web Push', async () => {
  const body = {
    web_push: 8030, app_badge: 3, mutable: true,
    notification: { title: 'New grade', body: 'Maths', navigate: 'https://app.example/x', tag: 'id1', data: { id: 'id1' } },
  };
  assert.deepEqual(await workerWith()('push', pushed(body)), [
    ['show', 'New grade', { body: 'Maths', tag: 'id1', data: { id: 'id1', navigate: 'https://app.example/x' } }],
    ['badge', 3],
  ]);
});

test('the service worker shows nothing that the browser shows itself', async () => {
  assert.deepEqual(await workerWith()('push', { data: null }), []);
  assert.deepEqual(await workerWith()('push', { ...pushed({}), notification: {} }), []);
});

const clicked = (navigate, log = [], ticket = undefined) => ({
  notification: { data: { navigate, ticket }, close: () => log.push('closed') },
});

test('a click spends the ticket, and opens the URL without it', async () => {
  const dispatch = workerWith();
  assert.deepEqual(await dispatch('notificationclick', clicked('https://app.example/x#clairon=T', [], 'T')), [
    ['fetch', 'https://relay.example/v1/ack', 'POST', '{"ticket":"T"}'],
    ['open', 'https://app.example/x'],
  ]);
});

test('a click opens the URL, or focuses the page that shows it', async () => {
  const closed = [];
  const dispatch = workerWith({ pages: ['https://app.example/', 'https://app.example/x#y'] });
  await dispatch('notificationclick', clicked('https://app.example/x', closed));
  const log = await dispatch('notificationclick', clicked('https://app.example/z', closed));
  assert.deepEqual(log, [['focus', 'https://app.example/x#y'], ['open', 'https://app.example/z']]);
  assert.deepEqual(closed, ['closed', 'closed']);
});

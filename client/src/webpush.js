// webpush.js: registers this browser for Web Push, for the user of a client.

import { demandFor } from './demand.js';
import { failure } from './errors.js';

const registrations = new WeakMap(); // of clients whose acknowledgements close what is displayed

const WORKER = '/clairon-worker.js';

const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
  .replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');

/** The URL of a sibling of the relay's WebSocket. */
const urlOf = ({ settings: { url } }, path) => new URL(path, url.replace(/^ws/, 'http'));

/** Sends a request to a sibling of the relay's WebSocket. Returns the parsed response, undefined if it is empty. */
async function request(client, path, method, body) {
  const { token, fetch } = client.settings;
  const headers = {};
  if (method) headers.Authorization = `Bearer ${token.call ? await token() : token}`;
  if (body) headers['Content-Type'] = 'application/json';
  const response = await fetch(urlOf(client, `webpush/${path}`), {
    method, headers, body: body && JSON.stringify(body),
  });
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : undefined;
  let detail = `status ${response.status}`;
  try {
    detail = JSON.parse(text).detail ?? detail;
  } catch {} // a response of a proxy
  throw failure(`Web Push: ${detail}`, { code: response.status });
}

/** Returns this browser's subscription for the key. One for another key is replaced. */
async function subscribe({ pushManager }, key) {
  const current = await pushManager.getSubscription();
  const made = current?.options.applicationServerKey;
  if (made && base64url(made) === key) return current;
  await current?.unsubscribe();
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

/** The service worker reads the URL for acknowledgements from its own URL. */
const workerUrl = (client, path) => `${path}${path.includes('?') ? '&' : '?'}ack=${encodeURIComponent(urlOf(client, 'ack').href)}`;

/** A browser that showed a Web Push without the service worker opens the page with its ticket, which acknowledges it. */
function spendTicket(client) {
  const { location, history } = globalThis;
  const ticket = /^#clairon=([0-9a-f]{32})$/.exec(location?.hash)?.[1];
  if (!ticket) return;
  history.replaceState(history.state, '', location.pathname + location.search);
  client.settings.fetch(urlOf(client, 'ack'), { method: 'POST', body: JSON.stringify({ ticket }) }).catch(() => {});
}

/** With `collapse`, the tag is no id. */
async function closeAcked(client, { ids }) {
  const displayed = await registrations.get(client).getNotifications();
  displayed.filter(({ data, tag }) => ids.includes(data?.id ?? tag)).forEach((each) => each.close());
}

/** See webpush.d.ts. */
export async function enable(client, { serviceWorker = WORKER } = {}) {
  demandFor('enable()')(client?.settings, 'the first argument must be a client, the result of connect()');
  spendTicket(client);
  const { navigator, Notification, PushManager } = globalThis;
  if (!navigator?.serviceWorker || !Notification || !PushManager) {
    throw failure('Web Push is not available in this browser; on iPhone and iPad, add the page to the Home Screen', { code: 'unsupported' });
  }
  // First: browsers show the question only as the direct result of a click.
  if (await Notification.requestPermission() !== 'granted') throw failure('notifications are not allowed', { code: 'denied' });
  const [{ key }, registration] = await Promise.all([
    request(client, 'key'),
    navigator.serviceWorker.register(workerUrl(client, serviceWorker)).then(() => navigator.serviceWorker.ready),
  ]);
  const subscription = await subscribe(registration, key);
  await request(client, 'subscriptions', 'POST', { ...subscription.toJSON(), key });
  if (!registrations.has(client)) client.on('acked', (event) => closeAcked(client, event));
  registrations.set(client, registration);
  return subscription;
}

/** See webpush.d.ts. */
export async function disable(client, { serviceWorker = WORKER } = {}) {
  const registration = await globalThis.navigator?.serviceWorker?.getRegistration(serviceWorker);
  const subscription = await registration?.pushManager?.getSubscription();
  if (!subscription) return;
  try {
    await request(client, 'subscriptions', 'DELETE', { endpoint: subscription.endpoint });
  } finally { // without it, the push service rejects the next request of the relay, which then removes the subscription
    await subscription.unsubscribe();
  }
}

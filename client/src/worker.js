// worker.js: the service worker of Web Push: shows what the relay sends, and opens the page on a click. Serve a copy on the
// page's origin, or load it with importScripts() into another service worker.

const { registration, clients, navigator, fetch } = globalThis;

/** The body is a declarative Web Push. A browser that shows it without this worker hands over the notification. */
async function show({ data, notification: proposed }) {
  if (proposed || !data) return;
  const { notification: { title, navigate, ...options }, app_badge: badge } = data.json();
  await registration.showNotification(title, { ...options, data: { ...options.data, navigate } });
  if (badge !== undefined) await navigator.setAppBadge?.(badge);
}

const withoutHash = (url) => url.split('#')[0];

/** The page has registered this worker with the URL for acknowledgements in `?ack=`. */
const ackUrl = new URL(globalThis.location).searchParams.get('ack');

/** Acknowledges the notification. The ticket works once; without a connection the notification stays unacknowledged. */
const spend = (ticket) => ticket && ackUrl
  && fetch(ackUrl, { method: 'POST', body: JSON.stringify({ ticket }), keepalive: true }).catch(() => {});

/** Focuses a page that shows the URL already, otherwise opens it. */
async function open({ notification }) {
  notification.close();
  const { navigate, ticket } = notification.data ?? {};
  const spent = spend(ticket);
  const url = navigate?.replace(/#clairon=.*/, '');
  if (url) {
    const pages = await clients.matchAll({ type: 'window', includeUncontrolled: true });
    const page = pages.find((each) => withoutHash(each.url) === withoutHash(url));
    await (page ? page.focus() : clients.openWindow(url));
  }
  await spent;
}

globalThis.addEventListener('push', (event) => event.waitUntil(show(event)));
globalThis.addEventListener('notificationclick', (event) => event.waitUntil(open(event)));

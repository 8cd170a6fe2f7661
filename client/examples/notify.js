// notify.js: a checkbox "Notify me when this page is closed", which registers this browser for Web Push.

import { disable, enable } from '../dist/webpush.js';

const SERVICE = "push service of the browser's vendor, which needs access to the internet, also here on localhost";

/**
 * Shows the checkbox in `element`. The browser is registered for the user of `client`, and no longer for another user.
 * `test()` sends a test to the user's browsers, and returns the response of the relay.
 */
export function showNotify(element, client, test) {
  element.innerHTML = `
    <label><input type="checkbox"> Notify me when this page is closed</label>
    <p role="status"></p>`;
  const box = element.querySelector('input');
  const report = (text) => { element.querySelector('p').textContent = text; };

  async function change(isOn, action) {
    box.disabled = true;
    try {
      report(await action());
      box.checked = isOn;
    } catch (error) {
      report(reasonOf(error));
      box.checked = !isOn;
    }
    box.disabled = false;
  }

  async function register() {
    report(`Registering at the ${SERVICE}.`);
    const { endpoint } = await enable(client);
    report('On. Sending a test.');
    const { subscriptions } = await test();
    return resultOf(subscriptions.find((each) => each.endpoint === endpoint) ?? {});
  }

  async function unregister() {
    await disable(client);
    return 'Off.';
  }

  async function renew() {
    await enable(client);
    return 'On.';
  }

  box.onchange = () => (box.checked ? change(true, register) : change(false, unregister));
  // At each start of the page.
  isRegistered().then((isOn) => isOn && change(true, renew));
}

async function isRegistered() {
  if (globalThis.Notification?.permission !== 'granted') return false;
  const registration = await navigator.serviceWorker?.getRegistration('/clairon-worker.js');
  return (await registration?.pushManager?.getSubscription() ?? null) !== null;
}

function resultOf({ status, error }) {
  if (status >= 200 && status < 300) return 'On. The push service has accepted a test. Close this page: the next message arrives as a notification.';
  return `On, but a test failed: ${error ?? `the push service responded with ${status}`}. The relay sends to the ${SERVICE}.`;
}

function reasonOf({ name, code, message }) {
  if (code === 'denied') return 'This browser does not allow notifications of this page. Allow them in its settings for this site, then try again.';
  if (code === 404) return 'Web Push is off in this relay: webpush.vapid_key_file is not set.';
  // pushManager.subscribe()
  if (name === 'AbortError') return `The browser could not register at the ${SERVICE}: ${message}`;
  return message;
}

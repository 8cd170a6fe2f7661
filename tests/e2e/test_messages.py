"""test_messages.py: the sender of a message sees its readers, and a closed page receives Web Pushes."""

import json
import unittest
import urllib.request
import uuid

from browser import BrowserCase
from stack import WAIT_SECONDS, wait_for

ENDPOINT = "https://fcm.googleapis.com/fcm/send/test"

# A push service: Chromium's one is on the internet. The keys are those of the example of RFC 8291.
PUSH_SERVICE = f"""
const subscription = {{
  endpoint: '{ENDPOINT}',
  options: {{}},
  unsubscribe: async () => {{ localStorage.removeItem('subscribed'); }},
  toJSON: () => ({{ endpoint: '{ENDPOINT}', keys: {{
    p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
    auth: 'BTBZMqHH6r4Tts7J_aSIgg' }} }}),
}};
PushManager.prototype.getSubscription = async () => (localStorage.getItem('subscribed') ? subscription : null);
PushManager.prototype.subscribe = async () => {{
  localStorage.setItem('subscribed', 'yes');
  return subscription;
}};
"""
TEST_RESULT = """
const request = window.fetch;
window.fetch = async (url, options) => (String(url).endsWith('/v1/webpush/test')
  ? new Response(JSON.stringify({ subscriptions: [RESULT] })) : request(url, options));
"""
NO_PUSH_SERVICE = """
PushManager.prototype.getSubscription = async () => null;
PushManager.prototype.subscribe = async () => { throw new DOMException('push service error', 'AbortError'); };
"""
TITLES = """
const done = arguments[0];
navigator.serviceWorker.ready.then((registration) => registration.getNotifications())
  .then((displayed) => done(displayed.map(({ title }) => title)));
"""


class Messages(BrowserCase):
    def setUp(self):
        self.browser.size(1440, 1000)
        self.browser.errors()  # drop the errors of the previous test

    def cdp(self, command, **arguments):
        return self.browser.driver.execute_cdp_cmd(command, arguments)

    def allow(self, setting):
        self.cdp("Browser.setPermission", origin=self.stack.url, permission={"name": "notifications"}, setting=setting)

    def with_script(self, source):
        """Runs the script before those of the pages that this test opens."""
        added = self.cdp("Page.addScriptToEvaluateOnNewDocument", source=source)
        self.addCleanup(self.cdp, "Page.removeScriptToEvaluateOnNewDocument", **added)

    def with_test_result(self, **result):
        """The relay's response to a test, which does not reach the push service."""
        self.with_script(TEST_RESULT.replace("RESULT", json.dumps({"endpoint": ENDPOINT, **result})))

    def open_messages(self, user):
        self.browser.driver.get(f"{self.stack.url}/examples/messages.html?user={user}")
        wait_for("the page has started", lambda: self.browser.texts("#notify input"))

    def notify_status(self):
        return self.browser.texts("#notify [role=status]")[0]

    def is_on(self):
        return self.browser.js("return document.querySelector('#notify input').checked")

    def browsers_of(self, user):
        """The origins of the user's browsers, as the console lists them."""
        request = urllib.request.Request(f"{self.stack.relay.url}/v1/console/subscriptions?id={user}")
        request.add_header("Authorization", "Bearer " + self.stack.relay.token("--sub", "root", "--admin"))
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            return [each["origin"] for each in json.load(response)["subscriptions"]]

    def test_the_sender_sees_who_has_read_the_message(self):
        self.browser.open(self.stack.url, "u1", "u2", "u3")
        sender, *readers = map(self.browser.pane, ("u1", "u2", "u3"))
        text = f"Meeting {uuid.uuid4().hex[:8]}"
        self.browser.find(".pane[data-user='u1'] .message input").send_keys(text)
        sender.click(".message button")
        sent = lambda: [line for line in sender.texts(".sent li") if text in line]
        wait_for("the message is listed", lambda: sent() == [f"{text} read by 0 of 3"])
        for reader in readers:
            (message,) = reader.wait_words(f"Ana Lima: {text}")
            reader.click(f".pending [data-row='{message['id']}'] button")
        wait_for("two users have read it", lambda: sent() == [f"{text} read by 2 of 3: Bruno Costa, Chloé Martin"])
        self.assertEqual(sender.feed(), [])
        self.browser.driver.switch_to.new_window("tab")
        self.open_messages("u4")
        wait_for("the third user reads it", lambda: f"Ana Lima: {text}" in self.browser.texts("#received li"))
        self.assertEqual(self.browser.errors(), [])
        self.browser.driver.close()
        self.browser.driver.switch_to.window(self.browser.driver.window_handles[0])
        wait_for("all users have read it", lambda: sent() == [f"{text} read by 3 of 3: Bruno Costa, Chloé Martin, David Petit"])
        self.browser.driver.refresh()
        sender.wait_state("open")
        wait_for("a reloaded page lists it too", sent)
        self.assertEqual(self.browser.errors(), [])

    def test_a_registered_browser_shows_a_web_push(self):
        self.with_script(PUSH_SERVICE)
        self.allow("granted")
        self.with_test_result(status=201)
        self.open_messages("u4")
        self.browser.js("localStorage.clear()")
        self.browser.find("#notify input").click()
        wait_for("the browser is registered", lambda: "has accepted a test" in self.notify_status())
        self.assertEqual(self.browsers_of("u4"), ["https://fcm.googleapis.com"])
        self.cdp("ServiceWorker.enable")
        body = {"web_push": 8030, "notification": {"title": "Ana Lima", "navigate": self.stack.url, "tag": "id1"}}
        push = lambda: self.cdp(
            "ServiceWorker.deliverPushMessage", origin=self.stack.url, registrationId="0", data=json.dumps(body))
        # Chromium drops what arrives before the worker is active.
        wait_for("the push is shown", lambda: push() or self.browser.driver.execute_async_script(TITLES) == ["Ana Lima"])

        # A message to the closed page.
        store = self.stack.store
        queue = lambda: [each.split(":")[1] for each in store.execute("ZRANGE", f"{store.prefix}:webpush", "0", "-1")]
        self.browser.driver.get("about:blank")
        wait_for("the user is not connected", lambda: self.stack.relay.connections() == 0)
        self.sql("SELECT send_message('u1', 'to a closed page')")
        wait_for("a Web Push is queued for the user", lambda: "u4" in queue())

        # Another user signs in with the same browser.
        self.open_messages("u3")
        wait_for("the browser is registered for the new user", lambda: self.browsers_of("u3") and not self.browsers_of("u4"))
        wait_for("the page shows it", self.is_on)
        self.browser.find("#notify input").click()
        wait_for("the browser is no longer registered", lambda: self.notify_status() == "Off." and not self.browsers_of("u3"))
        self.assertEqual(self.browser.errors(), [])

    def test_failures_are_explained(self):
        self.with_script(NO_PUSH_SERVICE)
        self.allow("denied")
        self.open_messages("u4")
        self.browser.find("#notify input").click()
        wait_for("the page explains the permission", lambda: "does not allow notifications" in self.notify_status())
        self.assertFalse(self.is_on())
        self.allow("granted")
        self.browser.find("#notify input").click()
        wait_for("the page names the internet", lambda: "internet" in self.notify_status() and "push service error" in self.notify_status())
        self.assertFalse(self.is_on())
        self.with_script(PUSH_SERVICE)
        self.with_test_result(error="could not send to the push service")
        self.open_messages("u4")
        self.browser.js("localStorage.clear()")
        self.browser.find("#notify input").click()
        wait_for("the page names the failed test", lambda: "but a test failed: could not send" in self.notify_status())
        self.assertIn("internet", self.notify_status())
        self.assertTrue(self.is_on())
        self.browser.find("#notify input").click()
        wait_for("the browser is no longer registered", lambda: self.notify_status() == "Off.")


if __name__ == "__main__":
    unittest.main()

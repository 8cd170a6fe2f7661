"""test_web_push_click.py: a click on the notification of a Web Push opens or focuses the page, and acknowledges.

Real: the page, its registration at the relay, the relay's Web Push with its encryption and its ticket, Chromium's service
worker, the notification, the click (notifications.py), and the acknowledgement.

Made: the push service. Chromium's is on the internet. The relay sends to one on loopback (tools/push_service.js), which
decrypts; the decrypted body is handed to Chromium through DevTools. So the page's PushManager is replaced.
"""

import json
import os
import socket
import subprocess
import threading
import unittest
import urllib.error
import urllib.request
import uuid

from browser import BrowserCase, the_browser
from notifications import Desktop, is_available
from stack import ROOT, WAIT_SECONDS, wait_for

PUSH_MANAGER = """
const made = MADE;
const subscription = {
  endpoint: made.endpoint,
  options: {},
  unsubscribe: async () => { localStorage.removeItem('subscribed'); },
  toJSON: () => made,
};
PushManager.prototype.getSubscription = async () => (localStorage.getItem('subscribed') ? subscription : null);
PushManager.prototype.subscribe = async () => {
  localStorage.setItem('subscribed', 'yes');
  return subscription;
};
"""


class PushService:
    """The requests that tools/push_service.js receives and decrypts."""

    def __init__(self):
        self.bodies = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.origin = f"http://127.0.0.1:{port}"
        command = ["node", str(ROOT / "tests/tools/push_service.js"), str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.keys = json.loads(self.process.stdout.readline())
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.bodies.append(json.loads(json.loads(line)["plain"]))

    def titled(self, text):
        """The body whose notification has this text."""
        return next((body for body in self.bodies if body["notification"].get("body") == text), None)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


@unittest.skipUnless(is_available(), "dbus-daemon is not installed")
@unittest.skipIf("CLAIRON_DEMO_URL" in os.environ, "a running demo does not send to the push service of this test")
class WebPushClick(BrowserCase):
    @classmethod
    def setUpClass(cls):
        cls.desktop = Desktop()
        cls.addClassCleanup(cls.desktop.close)
        cls.service = PushService()
        cls.addClassCleanup(cls.service.close)
        # Chromium and the relay inherit them.
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = cls.desktop.address
        os.environ["CLAIRON_WEBPUSH_ORIGINS"] = cls.service.origin
        os.environ["CLAIRON_WEBPUSH_ALLOW_PRIVATE"] = "on"
        super().setUpClass()
        cls.addClassCleanup(lambda: the_browser().quit())

    def cdp(self, command, **arguments):
        return self.browser.driver.execute_cdp_cmd(command, arguments)

    def register(self, user):
        """Registers the browser for the user, on the page of messages."""
        made = {"endpoint": f"{self.service.origin}/201/{user}", "keys": self.service.keys}
        source = PUSH_MANAGER.replace("MADE", json.dumps(made))
        added = self.cdp("Page.addScriptToEvaluateOnNewDocument", source=source)
        self.cdp("Browser.setPermission", origin=self.stack.url, permission={"name": "notifications"}, setting="granted")
        self.browser.driver.get(f"{self.stack.url}/examples/messages.html?user={user}")
        wait_for("the page has started", lambda: self.browser.texts("#notify input"))
        self.browser.find("#notify input").click()
        wait_for("the relay has sent a test", lambda: "has accepted a test" in self.browser.texts("#notify [role=status]")[0])
        self.cdp("Page.removeScriptToEvaluateOnNewDocument", **added)

    def show_message(self, text):
        """Sends a message to the absent user, and hands its Web Push to Chromium. Returns its id and its ticket."""
        ((message,),) = self.sql("SELECT send_message('u1', %s)", text)
        body = wait_for("the relay has sent the Web Push", lambda: self.service.titled(text))
        self.assertEqual(body["notification"]["data"]["id"], message)
        data = json.dumps(body)
        is_displayed = lambda: any(text in each for _, each in self.desktop.notifications.values())
        # Chromium drops what arrives before the worker is active.
        push = lambda: self.cdp("ServiceWorker.deliverPushMessage", origin=self.stack.url, registrationId="0", data=data)
        wait_for("the desktop shows the notification", lambda: is_displayed() or (push(), is_displayed())[1])
        return message, body["notification"]["data"]["ticket"]

    def is_acked(self, message, user):
        return self.stack.store.acks_of(message)[user]

    def status_of(self, ticket):
        """The response to an acknowledgement with this ticket."""
        request = urllib.request.Request(f"{self.stack.relay.url}/v1/ack", json.dumps({"ticket": ticket}).encode())
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_a_click_opens_or_focuses_the_page_and_acknowledges(self):
        driver = self.browser.driver
        self.register("u4")
        self.cdp("ServiceWorker.enable")
        driver.get("about:blank")
        wait_for("the user is not connected", lambda: self.stack.relay.connections() == 0)

        first = driver.current_window_handle
        message, ticket = self.show_message(f"first {uuid.uuid4()}")
        self.assertFalse(self.is_acked(message, "u4"))
        self.desktop.click("Ana Lima")
        wait_for("the notification is acknowledged", lambda: self.is_acked(message, "u4"))
        self.assertFalse(self.is_acked(message, "u3"), "for the user of the browser only")
        self.assertEqual(self.status_of(ticket), 410, "the ticket is used")
        wait_for("a page is opened", lambda: len(driver.window_handles) == 2)
        (opened,) = set(driver.window_handles) - {first}
        driver.switch_to.window(opened)
        page = f"{self.stack.url}/examples/messages.html"
        wait_for("it is the page of the application, without the ticket", lambda: driver.current_url == page)
        wait_for("the notification is closed", lambda: not self.desktop.titles())

        # That page is open, behind another tab.
        driver.close()
        driver.switch_to.window(first)
        driver.get(page)
        driver.switch_to.new_window("tab")
        other = driver.current_window_handle
        driver.switch_to.window(first)  # shows the page
        self.cdp("Target.activateTarget", targetId=other)
        hidden = lambda: self.browser.js("return document.visibilityState") == "hidden"
        wait_for("the page is hidden", hidden)
        message, ticket = self.show_message(f"second {uuid.uuid4()}")
        self.assertTrue(hidden())
        self.desktop.click("Ana Lima")
        wait_for("the notification is acknowledged", lambda: self.is_acked(message, "u4"))
        wait_for("the page is focused", lambda: not hidden())
        self.assertEqual(len(driver.window_handles), 2, "no further page is opened")
        self.assertEqual(self.status_of(ticket), 410, "the ticket is used")


if __name__ == "__main__":
    unittest.main()

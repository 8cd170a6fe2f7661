"""console.py: the relay's console in a browser, with or without a signed-in user, with accessors for its contents."""

import base64
import json
import os
import urllib.error
import urllib.request

from browser import BrowserCase
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from stack import WAIT_SECONDS, wait_for

SHOTS = os.environ.get("CLAIRON_SHOTS")  # a directory for screenshots to review


class ConsoleCase(BrowserCase):
    def setUp(self):
        self.relay = self.stack.relay.url
        self.token = self.stack.relay.token
        self.browser.size(1280, 1000)
        self.prefer("light")
        self.browser.errors()
        self.notifications = []
        self.addCleanup(self.empty)

    def empty(self):
        """Acknowledges or removes all pending notifications and errors of this test."""
        store = self.stack.store
        for user in ("nobody-1", "nobody-2", "waits", "tested"):
            self.ack(user, self.notifications)
        for notification in self.notifications:
            wait_for("the notification has no pending acks", lambda: not store.execute("EXISTS", f"{store.prefix}:ack:{notification}"))
        for entry in store.execute("XRANGE", f"{store.prefix}:errors", "-", "+"):
            store.execute("XDEL", f"{store.prefix}:errors", entry[0])

    def ack(self, user, ids):
        if ids:
            request = urllib.request.Request(
                f"{self.relay}/v1/ack",
                json.dumps({"ids": ids}).encode(),
                {"Authorization": "Bearer " + self.token("--sub", user)},
            )
            urllib.request.urlopen(request, timeout=WAIT_SECONDS).close()

    def prefer(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, name):
        if SHOTS:
            shot = self.browser.driver.execute_cdp_cmd(
                "Page.captureScreenshot", {"captureBeyondViewport": True}
            )
            with open(f"{SHOTS}/{name}.png", "wb") as file:
                file.write(base64.b64decode(shot["data"]))

    def open(self):
        """Opens the page without a stored token."""
        self.browser.get_fresh(f"{self.relay}/console")

    def keys(self, *keys):
        chain = ActionChains(self.browser.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def focused(self):
        return self.browser.js(
            "const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent"
        )

    def text(self, selector):
        return self.browser.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def figure(self, name):
        return self.text(f"#figures [data-name='{name}'] .value")

    def tab_to(self, name):
        for _ in range(60):
            if self.focused() == name:
                return
            self.keys(Keys.TAB)
        self.fail(f"no key moves the focus to {name}; at {self.focused()}")

    def sign_in(self, token=None):
        self.open()
        wait_for("the sign-in form has the focus", lambda: self.focused() == "token")
        text = token or self.token("--sub", "root", "--admin", "--publish")
        self.browser.driver.execute_cdp_cmd("Input.insertText", {"text": text})  # cheaper than hundreds of keys
        self.keys(Keys.ENTER)

    def sign_in_and_wait(self):
        self.sign_in()
        wait_for("the page shows the figures", lambda: self.figure("Pending") not in ("", "–"))
        wait_for("the page shows the error log", lambda: self.browser.js("return document.querySelector('#errors').children.length"))

    def expire(self, count=1, users="nobody-1,nobody-2"):
        """Creates notifications that expire unacknowledged; returns their ids."""
        ids = []
        for _ in range(count):
            rows = self.sql(
                "SELECT clairon.notify('USER', string_to_array(%s, ','), '{\"text\": \"for whom\"}',"
                " topic => 'demo.letters', ack_required => true, ttl => '1 day')",
                users,
            )
            ids.append(str(rows[0][0]))
        self.notifications += ids
        store = self.stack.store
        for notification in ids:
            key = f"{store.prefix}:due"
            wait_for("the notification is stored", lambda: store.execute("ZSCORE", key, f"{notification}:"))
            store.execute("ZADD", key, "1", f"{notification}:")
        wait_for("all notifications are in the error log", lambda: store.execute("XLEN", f"{store.prefix}:errors") == count)
        return ids

    def errors(self):
        return self.browser.texts("#errors .what button.id")

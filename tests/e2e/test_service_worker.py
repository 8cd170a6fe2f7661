"""test_service_worker.py: Chromium hands a Web Push to the client's service worker, which shows it."""

import functools
import http.server
import json
import shutil
import tempfile
import threading
import unittest
from pathlib import Path

from browser import Browser
from stack import ROOT, wait_for

PAGE = "<!doctype html><title>page</title><script>navigator.serviceWorker.register('/clairon-worker.js')</script>"
BODY = {
    "web_push": 8030,
    "mutable": True,
    "notification": {
        "title": "New grade",
        "body": "Maths",
        "navigate": "http://localhost/assignments",
        "tag": "id1",
        "data": {"id": "id1"},
    },
}
DISPLAYED = """
const done = arguments[0];
navigator.serviceWorker.ready.then((registration) => registration.getNotifications()).then((displayed) => done(
    displayed.map(({ title, body, tag, data }) => ({ title, body, tag, data }))));
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class ServiceWorkerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="clairon-worker-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "index.html").write_text(PAGE)
        shutil.copy(ROOT / "client/dist/worker.js", cls.folder / "clairon-worker.js")
        handler = functools.partial(Quiet, directory=str(cls.folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.origin = f"http://localhost:{server.server_address[1]}"
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)

    def cdp(self, command, **arguments):
        return self.browser.driver.execute_cdp_cmd(command, arguments)

    def push(self, body):
        self.cdp(
            "ServiceWorker.deliverPushMessage",
            origin=self.origin,
            registrationId="0",  # the first one of a new profile
            data=json.dumps(body),
        )

    def displayed(self):
        return self.browser.driver.execute_async_script(DISPLAYED)

    def test_a_web_push_is_displayed_once(self):
        self.cdp("Browser.grantPermissions", origin=self.origin, permissions=["notifications"])
        self.browser.driver.get(self.origin)
        self.browser.driver.execute_async_script(
            "navigator.serviceWorker.ready.then(() => arguments[0]())"
        )
        self.cdp("ServiceWorker.enable")
        # Chromium drops what arrives before the worker is active.
        displayed = wait_for(
            "the notification is shown", lambda: self.push(BODY) or self.displayed()
        )
        data = {"id": "id1", "navigate": "http://localhost/assignments"}
        self.assertEqual(
            displayed, [{"title": "New grade", "body": "Maths", "tag": "id1", "data": data}]
        )
        again = {**BODY, "notification": {**BODY["notification"], "title": "New grade again"}}
        self.push(again)
        titles = lambda: [each["title"] for each in self.displayed()]
        wait_for("the notification is replaced", lambda: titles() == ["New grade again"])


if __name__ == "__main__":
    unittest.main()

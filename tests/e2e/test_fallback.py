"""test_fallback.py: a browser without WebSockets receives its notifications over SSE and polling."""

import os
import signal
import unittest

from browser import BrowserCase
from stack import WAIT_SECONDS, wait_for

# Behaves like a proxy that blocks WebSockets.
NO_WEBSOCKET = """
window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose?.({ code: 1006, reason: '' }), 1); }
  close() {}
};
"""

# The browser's EventSource cannot set headers, so the page uses a ticket.
EVENT_SOURCE = """
const [user, done] = arguments;
(async () => {
  const post = (url, headers, body) => fetch(url, { method: 'POST', headers, body }).then((r) => r.json());
  const json = { 'Content-Type': 'application/json' };
  const { token } = await post('/api/token', json, JSON.stringify({ user }));
  const config = await fetch('/api/config').then((r) => r.json());
  const relay = Object.values(config).find((v) => /^(ws|http)s?:/.test(v)).replace(/^ws/, 'http').replace(/\\/v1\\/ws$/, '');
  const { ticket } = await post(`${relay}/v1/ticket`, { Authorization: `Bearer ${token}` });
  window.lines = [];
  const source = new EventSource(`${relay}/v1/sse?ticket=${ticket}`);
  source.onmessage = (event) => {
    window.lines.push({ id: event.lastEventId, line: JSON.parse(event.data) });
    if (window.lines.length === 1) done(window.lines[0].line.t);
  };
})().catch((error) => done(String(error)));
"""

# Records the states of the first pane.
OBSERVE = """
window.states = [];
const pane = document.querySelector('.pane');
new MutationObserver(() => window.states.push(pane.dataset.state)).observe(pane, { attributeFilter: ['data-state'] });
"""


class Fallback(BrowserCase):
    def block_websockets(self):
        driver = self.browser.driver
        added = driver.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument", {"source": NO_WEBSOCKET}
        )
        self.addCleanup(
            driver.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", added
        )

    def test_a_page_without_websockets_receives_notifications(self):
        self.block_websockets()
        self.browser.open(self.stack.url, "u1", "u2")
        u1, u2 = self.browser.pane("u1"), self.browser.pane("u2")
        for pane in (u1, u2):
            pane.wait_words(self.retitle(pane.user))

    def test_a_page_without_websockets_loses_the_rows_of_an_establishment_with_its_membership(self):
        self.block_websockets()
        self.browser.open(self.stack.url, "u4")
        u4 = self.browser.pane("u4")
        wait_for("the pane shows the other members", lambda: u4.others() == "with Chloé Martin (student), Irène Moreau (staff)")
        self.addCleanup(
            self.sql, "INSERT INTO members VALUES ('s2', 'u4', 'student') ON CONFLICT DO NOTHING"
        )
        self.sql("DELETE FROM members WHERE user_id = 'u4'")
        wait_for("the pane has no rows", lambda: (u4.texts(".chips li"), u4.others()) == ([], ""))

    def test_with_realtime_off_the_client_polls(self):
        if not self.stack.relay:
            self.skipTest("needs the relay's process")
        self.browser.open(self.stack.url, "u1")
        u1 = self.browser.pane("u1")
        u1.wait_words(self.retitle("u1"))
        self.browser.js(OBSERVE)
        pid = self.stack.relay.pid()
        os.kill(pid, signal.SIGUSR1)
        self.addCleanup(os.kill, pid, signal.SIGUSR2)
        wait_for("the page reports the lost connection", lambda: self.browser.js("return states.some((state) => state !== 'open')"))
        missed = self.retitle("u1")
        u1.wait_state("open")
        u1.wait_words(missed)
        u1.wait_words(self.retitle("u1"))

    def test_eventsource_works_with_a_ticket(self):
        self.browser.driver.get(self.stack.url)
        self.browser.driver.set_script_timeout(WAIT_SECONDS)
        self.assertEqual(
            self.browser.driver.execute_async_script(EVENT_SOURCE, "u3"), "connected"
        )
        title = self.retitle("u3")
        found = wait_for(
            "the message arrives",
            lambda: self.browser.js(
                "return window.lines.find((l) => JSON.stringify(l).includes(arguments[0]))", title
            ),
        )
        self.assertEqual(found["id"], found["line"]["pos"])


if __name__ == "__main__":
    unittest.main()

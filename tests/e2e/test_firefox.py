"""test_firefox.py: the client works in Firefox, if it is installed, as in Chromium."""

import os
import signal
import unittest
import urllib.parse

import firefox
from stack import StackCase, wait_for


# A client with a single transport; `window.seen` records its notifications.
CLIENT = """
const [transports, done] = arguments;
(async () => {
  const { connect } = await import('/dist/index.js');
  const { relay, token } = await import('/examples/login.js');
  window.seen = [];
  window.client = connect({ url: await relay(), token, transports, tabs: false });
  client.on('*', (n) => { seen.push(n.payload.after.title); });
  client.on('state', ({ state, resumed }) => { if (state === 'open') done(client.transport); });
})().catch((error) => done(String(error)));
"""

# The browser's EventSource cannot set headers, so the page uses a ticket, and Last-Event-ID to resume.
EVENT_SOURCE = """
const [done] = arguments;
(async () => {
  const { relay, token } = await import('/examples/login.js');
  const base = (await relay()).replace(/^ws/, 'http').replace(/\\/v1\\/ws$/, '');
  const headers = { Authorization: `Bearer ${await token()}` };
  const { ticket } = await fetch(`${base}/v1/ticket`, { method: 'POST', headers }).then((r) => r.json());
  window.lines = [];
  const source = new EventSource(`${base}/v1/sse?ticket=${ticket}`);
  source.onmessage = ({ data, lastEventId }) => {
    const line = JSON.parse(data);
    lines.push({ ...line, id: lastEventId });
    if (line.t === 'connected') done(line.t);
  };
})().catch((error) => done(String(error)));
"""


@unittest.skipUnless(firefox.program(), "Firefox is not installed")
class InFirefox(StackCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = firefox.Firefox()
        cls.addClassCleanup(cls.browser.quit)

    def open(self, page="minimal.html", **query):
        query = urllib.parse.urlencode({"user": "u1", **query})
        return self.browser.open_tab(f"{self.stack.url}/examples/{page}?{query}")

    def open_connected(self, **query):
        tab = self.open(**query)
        script = "return document.getElementById('state').value"
        wait_for("the page is connected", lambda: self.browser.js(tab, script) == "open")
        return tab

    def texts(self, tab, selector):
        script = f"return [...document.querySelectorAll('{selector}')].map((e) => e.textContent)"
        return self.browser.js(tab, script)

    def each_once(self, tab, titles):
        """Titles on the page, newest first."""
        def listed():
            found = [t for text in self.texts(tab, "#messages li") for t in titles if f'title":"{t}' in text]
            return list(reversed(found))

        wait_for("the page lists the last message", lambda: titles[-1] in listed())
        self.assertEqual(listed(), titles)

    def has_one_connection(self):
        return self.stack.relay.connections() == 1

    def test_tabs_share_a_connection_and_change_the_leader(self):
        tabs = [self.open_connected() for _ in range(3)]
        wait_for("the relay has one connection", self.has_one_connection)
        titles = [self.retitle(), self.retitle()]
        for tab in tabs:
            self.each_once(tab, titles)
        self.browser.close_tab(tabs.pop(0))
        titles.append(self.retitle())
        for tab in tabs:
            self.each_once(tab, titles)
        wait_for("the relay has one connection again", self.has_one_connection)
        for tab in tabs:
            self.browser.close_tab(tab)

    def test_the_client_polls_while_realtime_is_off(self):
        pid = self.stack.relay.pid()
        os.kill(pid, signal.SIGUSR1)
        self.addCleanup(os.kill, pid, signal.SIGUSR2)
        tab = self.open_connected()
        self.each_once(tab, [self.retitle(), self.retitle()])
        self.browser.close_tab(tab)

    def test_sse_resumes_after_a_break(self):
        tab = self.open()
        self.assertEqual(self.browser.wait_js(tab, CLIENT, ["sse"]), "sse")
        titles = [self.retitle(), self.retitle()]
        seen = lambda: self.browser.js(tab, "return seen")
        wait_for("the messages arrive in order", lambda: seen() == titles)
        self.browser.js(tab, "client.subscribe('*')")  # restarts the stream at the same cursor
        titles.append(self.retitle())
        wait_for("the next message arrives", lambda: seen() == titles)
        self.assertEqual(self.browser.js(tab, "return client.transport"), "sse")
        self.browser.close_tab(tab)

    def test_eventsource_resumes(self):
        tab = self.open()
        self.assertEqual(self.browser.wait_js(tab, EVENT_SOURCE), "connected")
        title = self.retitle()
        lines = lambda: self.browser.js(tab, "return lines")
        wait_for("the message arrives", lambda: lines()[-1]["t"] == "msg")
        self.assertEqual(lines()[-1]["n"]["payload"]["after"]["title"], title)
        self.assertEqual(lines()[-1]["id"], lines()[-1]["pos"])
        self.browser.close_tab(tab)

    def test_without_websockets_the_client_uses_sse(self):
        tab = self.open()
        self.browser.js(tab, """
            window.WebSocket = class { constructor() { setTimeout(() => this.onclose?.({ code: 1006 }), 1); } close() {} };
        """)
        self.assertEqual(self.browser.wait_js(tab, CLIENT, ["ws", "sse", "poll"]), "sse")
        title = self.retitle()
        wait_for("the message arrives", lambda: self.browser.js(tab, "return seen") == [title])
        self.browser.close_tab(tab)

    def test_the_live_list_follows_the_table(self):
        tab = self.open("live.html")
        wait_for("the page lists the rows", lambda: self.texts(tab, "#rows tr"))
        title = self.retitle()
        wait_for("the page lists the new row", lambda: title in self.texts(tab, "#rows td"))
        self.browser.close_tab(tab)


if __name__ == "__main__":
    unittest.main()

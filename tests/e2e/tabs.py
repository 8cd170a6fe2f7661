"""tabs.py: the client in several tabs of one browser; each records its events."""

import json

from browser import BrowserCase
from stack import WAIT_SECONDS, wait_for

# Opens the client in a page of the demo's origin that otherwise does not connect.
SCRIPT = """
const [user, relay, options, done] = arguments;
(async () => {
  const { connect } = await import('/dist/index.js');
  const token = async () => {
    const response = await fetch('/api/token', {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ user }),
    });
    return (await response.json()).token;
  };
  window.events = { delivered: [], repeat: [], gap: [], state: [], acked: [], error: [], sockets: 0 };
  const Native = window.WebSocket;
  window.WebSocket = class extends Native {
    constructor(...given) { super(...given); window.events.sockets += 1; }
  };
  window.failing = 0;
  window.client = connect({ url: relay, token, backoff: { base: 100, cap: 500 }, ...options });
  client.on('*', (n) => {
    events.delivered.push({ id: n.metadata.id, title: n.payload.after?.title });
    if (window.failing > 0) { window.failing -= 1; throw new Error('not now'); }
  });
  client.on('repeat', (n) => events.repeat.push(n.metadata.id));
  client.on('acked', ({ ids }) => events.acked.push(...ids));
  client.on('gap', (gap) => events.gap.push(gap));
  client.on('state', (change) => events.state.push(change));
  client.on('error', ({ error }) => events.error.push(error.message));
  done('');
})().catch((error) => done(String(error)));
"""


class Tab:
    """One tab. Each method first switches to it, because the driver controls one tab at a time."""

    def __init__(self, browser, page_url, relay, user, **options):
        self.driver = browser.driver
        self.driver.switch_to.new_window("tab")
        self.handle = self.driver.current_window_handle
        self.cdp("Page.setBypassCSP", enabled=True)  # a test may put a proxy in front of the relay
        self.driver.get(f"{page_url}/dist/")
        self.driver.set_script_timeout(WAIT_SECONDS)
        trouble = self.driver.execute_async_script(SCRIPT, user, relay, options)
        assert trouble == "", trouble

    def turn(self):
        self.driver.switch_to.window(self.handle)

    def cdp(self, command, **arguments):
        self.turn()
        return self.driver.execute_cdp_cmd(command, arguments)

    def js(self, script, *arguments):
        self.turn()
        return self.driver.execute_script(script, *arguments)

    def events(self, what):
        return self.js("return events[arguments[0]]", what)

    def ids(self):
        return [m["id"] for m in self.events("delivered")]

    def titles(self):
        return [m["title"] for m in self.events("delivered")]

    def wait_title(self, title):
        wait_for(f"a tab has received {title!r}", lambda: title in self.titles())

    def wait_state(self, state, transport=None):
        wait_for(
            f"the tab is {state}, transport {transport or 'any'}; events {json.dumps(self.events('state'))}",
            lambda: self.js("return [client.state, client.transport]")
            in ([state, t] for t in ([transport] if transport else ["ws", "sse", "poll"])),
        )

    def close(self):
        self.turn()
        self.driver.close()


class TabsCase(BrowserCase):
    """Test case whose tests each start with one empty tab and without stored data."""

    def setUp(self):
        self.relay = self.stack.relay.url
        self.start = self.browser.driver.current_window_handle
        self.addCleanup(self.close_tabs)

    def close_tabs(self):
        """Closes the tabs of this test with the commands of another tab, because a crashed tab executes none."""
        driver = self.browser.driver
        driver.switch_to.window(self.start)
        for handle in driver.window_handles:
            if handle != self.start:
                driver.execute_cdp_cmd("Target.closeTarget", {"targetId": handle})
        wait_for("one tab remains", lambda: driver.window_handles == [self.start])
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.stack.url, "storageTypes": "all"})
        wait_for("no connection remains", lambda: self.connections() == 0)

    def tabs(self, count, user="u1", **options):
        """Opens tabs. The first tab is the leader; the other tabs can become leader in this order."""
        tabs = []
        for _ in range(count):
            tabs.append(Tab(self.browser, self.stack.url, self.relay, user, **options))
            tabs[-1].wait_state("open")
        return tabs

    def each_once(self, tab, titles):
        for title in titles:
            tab.wait_title(title)
        seen = [t for t in tab.titles() if t in titles]
        self.assertEqual(seen, titles)
        ids = tab.ids()
        self.assertEqual(len(ids), len(set(ids)))

    def connections(self):
        return self.stack.relay.connections()

    def sockets(self, tabs):
        return [tab.events("sockets") for tab in tabs]

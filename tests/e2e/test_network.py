"""test_network.py: network and proxy failures cause no loss and no duplicates in the tabs of a user."""

import unittest
import urllib.parse

from proxy import Proxy
from stack import wait_for
from tabs import TabsCase


class Network(TabsCase):
    """Tabs behind a proxy with controlled faults."""

    def setUp(self):
        super().setUp()
        address = urllib.parse.urlsplit(self.relay)
        self.proxy = Proxy(address.hostname, address.port)
        self.addCleanup(self.proxy.close)
        self.relay = self.proxy.url

    def test_a_lost_network_causes_no_loss(self):
        tabs = self.tabs(2)
        titles = [self.retitle()]
        for tab in tabs:
            self.each_once(tab, titles)
        leader = tabs[0]
        leader.cdp("Network.enable")
        offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        leader.cdp("Network.emulateNetworkConditions", offline=True, **offline)
        self.proxy.cut()
        for tab in tabs:
            wait_for("the tab reports the lost connection", lambda tab=tab: tab.js("return client.state") != "open")
        titles.append(self.retitle())
        self.proxy.restore()
        leader.cdp("Network.emulateNetworkConditions", offline=False, **offline)
        for tab in tabs:
            self.each_once(tab, titles)
            tab.wait_state("open")
            self.assertEqual(tab.events("gap"), [])

    def test_without_websockets_sse_serves_all_tabs(self):
        self.proxy.reject = ("Upgrade: websocket",)
        self.follows("sse")

    def test_without_sse_the_client_polls(self):
        self.proxy.reject = ("Upgrade: websocket", "GET /v1/sse")
        self.follows("poll")

    def test_a_proxy_that_closes_websockets_after_admission_causes_a_fallback(self):
        self.proxy.websocket_seconds = 0.3
        self.follows("sse")

    def test_a_file_of_the_client_that_was_missing_once_is_loaded_later(self):
        (tab,) = self.tabs(1, user="u2", ack="manual")
        tab.cdp("Network.enable")
        tab.cdp("Network.setBlockedURLs", urls=["*/rows.js"])
        tab.js("window.list = client.live('assignments')")
        wait_for("the list has the error", lambda: "rows.js" in tab.js("return list.error?.message ?? ''"))
        tab.cdp("Network.setBlockedURLs", urls=[])
        title = self.retitle("u2")
        wait_for("the list has the rows", lambda: title in tab.js("return list.rows.map((row) => row.title)"))
        self.assertEqual(tab.js("return [list.loading, list.error ?? null]"), [False, None])

    def follows(self, transport):
        tabs = self.tabs(2, user="u2")
        for tab in tabs:
            tab.wait_state("open", transport)
        titles = [self.retitle("u2") for _ in range(3)]
        for tab in tabs:
            self.each_once(tab, titles)
        news = self.announce()
        tabs[1].wait_title(news)
        (notification_id,) = {m["id"] for m in tabs[1].events("delivered") if m["title"] == news}
        wait_for("the ack is stored", lambda: self.stack.store.acks_of(notification_id).get("u2", True))

    def test_a_transport_change_causes_no_loss(self):
        (tab,) = self.tabs(1, user="u2")
        titles = []
        for reject, transport in (
            (("Upgrade: websocket",), "sse"),
            (("Upgrade: websocket", "GET /v1/sse"), "poll"),
        ):
            titles.append(self.retitle("u2"))
            self.each_once(tab, titles)
            self.proxy.reject = reject
            self.proxy.cut()
            titles.append(self.retitle("u2"))
            self.proxy.restore()
            tab.wait_state("open", transport)
        titles.append(self.retitle("u2"))
        self.each_once(tab, titles)
        self.assertEqual(tab.events("gap"), [])
        tab.js("window.failing = 1")
        news = self.announce()
        wait_for("the nacked notification is retried", lambda: tab.titles().count(news) == 2)


if __name__ == "__main__":
    unittest.main()

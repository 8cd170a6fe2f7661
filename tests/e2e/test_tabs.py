"""test_tabs.py: do the tabs of one user share a connection, and lose and double nothing when it changes hands?"""

import unittest
import urllib.parse

from browser import Browser
from proxy import Proxy
from stack import StackCase, wait_for
from tabs import Tab


class World(StackCase):
    """A browser of its own for each test."""

    def setUp(self):
        self.relay = self.stack.relay.url
        self.browser = Browser()
        self.addCleanup(self.browser.quit)
        self.start = self.browser.driver.current_window_handle

    def tabs(self, count, user="u1", **options):
        tabs = [Tab(self.browser, self.stack.url, self.relay, user, **options) for _ in range(count)]
        for tab in tabs:
            tab.wait_state("open")
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
        return [tab.told("sockets") for tab in tabs]


class Tabs(World):
    def test_three_tabs_have_one_connection_and_each_message(self):
        tabs = self.tabs(3)
        self.assertEqual(self.sockets(tabs), [1, 0, 0])
        self.assertEqual(self.connections(), 1)
        titles = [self.retitle() for _ in range(5)]
        for tab in tabs:
            self.each_once(tab, titles)

    def test_what_all_tabs_handle_is_acked_once(self):
        tabs = self.tabs(2)
        title = self.announce()
        for tab in tabs:
            tab.wait_title(title)
        (note_id,) = [m["id"] for m in tabs[0].told("shown") if m["title"] == title]
        wait_for("the ack", lambda: self.stack.store.who_acked(note_id).get("u1", True))
        wait_for("the tabs hear of it", lambda: any(note_id in t.told("acked") for t in tabs))

    def test_the_leader_may_go_in_every_way(self):
        """Closed, navigated away, frozen, crashed: the others lose and double nothing."""
        ends = (
            Tab.close,
            lambda tab: tab.js("location.href = '/icon.svg'"),
            lambda tab: tab.cdp("Page.setWebLifecycleState", state="frozen"),
            crash,
        )
        tabs = self.tabs(len(ends) + 1)
        titles = []
        for end in ends:
            titles += [self.retitle(), self.retitle()]
            leader, *tabs = tabs
            self.each_once(leader, titles)
            end(leader)
            titles.append(self.retitle())
            wait_for("a new leader", lambda tabs=tabs: self.sockets(tabs)[0] == 1)
            titles.append(self.retitle())
            for tab in tabs:
                self.each_once(tab, titles)
                self.assertEqual(tab.told("gap"), [])
        self.assertEqual(self.connections(), 1)

    def test_a_frozen_leader_follows_when_it_thaws(self):
        leader, other = self.tabs(2)
        leader.cdp("Page.setWebLifecycleState", state="frozen")
        wait_for("a new leader", lambda: other.told("sockets") == 1)
        title = self.retitle()
        other.wait_title(title)
        leader.cdp("Page.setWebLifecycleState", state="active")
        self.each_once(leader, [title])
        self.each_once(leader, [title, self.retitle()])
        self.assertEqual(leader.told("sockets"), 1)
        self.assertEqual(self.connections(), 1)

    def test_a_leader_that_hangs_is_robbed_of_the_lead(self):
        leader, other = self.tabs(2)
        title = self.retitle()
        self.each_once(leader, [title])
        leader.js("setTimeout(() => { for (const end = Date.now() + 28000; Date.now() < end;); }, 50)")
        titles = [title, self.retitle()]
        wait_for("a new leader", lambda: other.told("sockets") == 1, 35)
        titles.append(self.retitle())
        self.each_once(other, titles)
        self.assertEqual(other.told("gap"), [])
        wait_for("the old one lets go", lambda: self.connections() == 1, 60)
        self.each_once(leader, titles)

    def test_a_relay_that_is_killed_shows_nothing_twice(self):
        tabs = self.tabs(2)
        titles = []
        for _ in range(3):
            titles += [self.announce(), self.announce()]
            again = self.stack.relay.kill()
            titles.append(self.announce())
            self.stack.relay.start(again)
            for tab in tabs:
                for title in titles:
                    tab.wait_title(title)
        for tab in tabs:
            ids = tab.ids()
            self.assertEqual(len(ids), len(set(ids)))
            self.assertEqual(tab.told("gap"), [])

    def test_what_was_acked_is_not_shown_after_a_reload(self):
        (tab,) = self.tabs(1, user="u3")
        title = self.announce("s2")
        tab.wait_title(title)
        (note_id,) = [m["id"] for m in tab.told("shown") if m["title"] == title]
        wait_for("the ack", lambda: self.stack.store.who_acked(note_id).get("u3"))
        tab.close()
        self.browser.driver.switch_to.window(self.start)
        (later,) = self.tabs(1, user="u3")
        later.wait_title(self.retitle("u3"))
        self.assertNotIn(note_id, later.ids())

    def test_a_handler_that_fails_gets_the_message_again(self):
        (tab,) = self.tabs(1, user="u2", topics=["demo.announcements"])
        tab.wait_state("open")
        tab.js("window.failing = 1")
        title = self.announce()
        wait_for("it is shown again", lambda: tab.titles().count(title) == 2)
        self.assertIn("not now", tab.told("error"))
        (note_id,) = {m["id"] for m in tab.told("shown") if m["title"] == title}
        wait_for("the ack", lambda: self.stack.store.who_acked(note_id).get("u2", True))


class Network(World):
    """Through a proxy that lets through what it is told to."""

    def setUp(self):
        super().setUp()
        address = urllib.parse.urlsplit(self.relay)
        self.proxy = Proxy(address.hostname, address.port)
        self.addCleanup(self.proxy.close)
        self.relay = self.proxy.url

    def test_a_network_that_goes_and_comes(self):
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
            wait_for("the tab notices", lambda tab=tab: tab.js("return client.state") != "open")
        titles.append(self.retitle())
        self.proxy.restore()
        leader.cdp("Network.emulateNetworkConditions", offline=False, **offline)
        for tab in tabs:
            self.each_once(tab, titles)
            tab.wait_state("open")
            self.assertEqual(tab.told("gap"), [])

    def test_where_no_websocket_gets_through_sse_stands_in_for_all_tabs(self):
        self.proxy.refuse = ("Upgrade: websocket",)
        self.follows("sse")

    def test_where_sse_does_not_either_polls_do(self):
        self.proxy.refuse = ("Upgrade: websocket", "GET /v1/sse")
        self.follows("poll")

    def follows(self, transport):
        tabs = self.tabs(2, user="u2")
        for tab in tabs:
            tab.wait_state("open", transport)
        titles = [self.retitle("u2") for _ in range(3)]
        for tab in tabs:
            self.each_once(tab, titles)
        news = self.announce()
        tabs[1].wait_title(news)
        (note_id,) = {m["id"] for m in tabs[1].told("shown") if m["title"] == news}
        wait_for("the ack", lambda: self.stack.store.who_acked(note_id).get("u2", True))

    def test_a_way_that_closes_is_left_for_another_without_a_loss(self):
        (tab,) = self.tabs(1, user="u2")
        titles = []
        for refuse, transport in (
            (("Upgrade: websocket",), "sse"),
            (("Upgrade: websocket", "GET /v1/sse"), "poll"),
        ):
            titles.append(self.retitle("u2"))
            self.each_once(tab, titles)
            self.proxy.refuse = refuse
            self.proxy.cut()
            titles.append(self.retitle("u2"))
            self.proxy.restore()
            tab.wait_state("open", transport)
        titles.append(self.retitle("u2"))
        self.each_once(tab, titles)
        self.assertEqual(tab.told("gap"), [])
        tab.js("window.failing = 1")
        news = self.announce()
        wait_for("a nacked message comes again", lambda: tab.titles().count(news) == 2)


def crash(tab):
    """The renderer dies; the driver cannot speak to this tab any more."""
    tab.turn()
    tab.driver.set_page_load_timeout(2)
    try:
        tab.driver.get("chrome://crash")
    except Exception:  # whatever the driver calls it
        pass
    tab.driver.set_page_load_timeout(30)


if __name__ == "__main__":
    unittest.main()

"""test_tabs.py: the tabs of one user share a connection; a change of leader causes no loss and no duplicates."""

import socket
import unittest

from stack import WAIT_SECONDS, wait_for
from tabs import Tab, TabsCase

# When the server responds, blocks the page in a synchronous request. A busy loop would occupy a core that other
# tests need.
HANG = """
const [url] = arguments;
fetch(url).then(() => {
  const request = new XMLHttpRequest();
  request.open('GET', url, false);
  request.send();
});
"""


class HangingServer:
    """Blocks a page that runs HANG, from respond() to the end of the `with` block."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT_SECONDS)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        return self

    def respond(self):
        with self.listener.accept()[0] as page:
            page.recv(65536)
            page.sendall(
                b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )

    def __exit__(self, *_):
        with self.listener:
            self.respond()


class Tabs(TabsCase):
    def test_three_tabs_share_a_connection_and_receive_each_notification(self):
        tabs = self.tabs(3)
        self.assertEqual(self.sockets(tabs), [1, 0, 0])
        self.assertEqual(self.connections(), 1)
        titles = [self.retitle() for _ in range(5)]
        for tab in tabs:
            self.each_once(tab, titles)

    def test_a_notification_handled_in_all_tabs_is_acked_once(self):
        tabs = self.tabs(2)
        title = self.announce()
        for tab in tabs:
            tab.wait_title(title)
        (notification_id,) = [m["id"] for m in tabs[0].events("delivered") if m["title"] == title]
        wait_for("the ack is stored", lambda: self.stack.store.acks_of(notification_id).get("u1", True))
        wait_for("the tabs receive the event", lambda: any(notification_id in t.events("acked") for t in tabs))

    def test_a_leader_that_disappears_in_any_way_is_replaced(self):
        """Closing, navigation, freezing and a crash of a tab cause no loss and no duplicates in the other tabs."""
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
            wait_for("another tab is the leader", lambda tabs=tabs: self.sockets(tabs)[0] == 1)
            titles.append(self.retitle())
            for tab in tabs:
                self.each_once(tab, titles)
                self.assertEqual(tab.events("gap"), [])
        wait_for("one connection remains", lambda: self.connections() == 1)

    def test_a_frozen_leader_becomes_a_follower_when_resumed(self):
        leader, other = self.tabs(2)
        leader.cdp("Page.setWebLifecycleState", state="frozen")
        wait_for("another tab is the leader", lambda: other.events("sockets") == 1)
        title = self.retitle()
        other.wait_title(title)
        leader.cdp("Page.setWebLifecycleState", state="active")
        self.each_once(leader, [title])
        self.each_once(leader, [title, self.retitle()])
        self.assertEqual(leader.events("sockets"), 1)
        wait_for("one connection remains", lambda: self.connections() == 1)

    def test_a_follower_replaces_a_leader_that_hangs(self):
        leader, other = self.tabs(2)
        title = self.retitle()
        self.each_once(leader, [title])
        with HangingServer() as server:
            leader.js(HANG, server.url)
            other.turn()  # the driver would wait for the blocked page
            server.respond()
            titles = [title, self.retitle()]
            wait_for("another tab is the leader", lambda: other.events("sockets") == 1)
            titles.append(self.retitle())
            self.each_once(other, titles)
            self.assertEqual(other.events("gap"), [])
        wait_for("the previous leader closes its connection", lambda: self.connections() == 1)
        self.each_once(leader, titles)

    def test_a_killed_relay_causes_no_duplicates(self):
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
            self.assertEqual(tab.events("gap"), [])

    def test_an_acked_notification_is_not_delivered_after_a_reload(self):
        (tab,) = self.tabs(1, user="u3")
        title = self.announce("s2")
        tab.wait_title(title)
        (notification_id,) = [m["id"] for m in tab.events("delivered") if m["title"] == title]
        wait_for("the ack is stored", lambda: self.stack.store.acks_of(notification_id).get("u3"))
        tab.close()
        self.browser.driver.switch_to.window(self.start)
        (later,) = self.tabs(1, user="u3")
        later.wait_title(self.retitle("u3"))
        self.assertNotIn(notification_id, later.ids())

    def test_a_failing_handler_receives_the_retry(self):
        (tab,) = self.tabs(1, user="u2", topics=["demo.announcements"])
        tab.wait_state("open")
        tab.js("window.failing = 1")
        title = self.announce()
        wait_for("the notification is retried", lambda: tab.titles().count(title) == 2)
        self.assertIn("not now", tab.events("error"))
        (notification_id,) = {m["id"] for m in tab.events("delivered") if m["title"] == title}
        wait_for("the ack is stored", lambda: self.stack.store.acks_of(notification_id).get("u2", True))


def crash(tab):
    """Crashes the renderer; the driver cannot control this tab afterwards."""
    tab.turn()
    tab.driver.set_page_load_timeout(2)
    try:
        tab.driver.get("chrome://crash")
    except Exception:  # the exception's type depends on the driver
        pass
    tab.driver.set_page_load_timeout(WAIT_SECONDS)


if __name__ == "__main__":
    unittest.main()

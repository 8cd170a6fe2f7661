"""test_examples.py: the examples in client/examples work unchanged."""

import json
import random
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import BrowserCase
from stack import ROOT, WAIT_SECONDS, end, wait_for

REACT = Path("/usr/share/nodejs")

# Resolves 'react' and 'clairon' like a bundler, with Debian's script of React.
IMPORT_MAP = """
const map = document.createElement('script');
map.type = 'importmap';
const react = Object.keys(React).map((name) => `export const ${name} = window.React.${name};`).join('');
map.textContent = JSON.stringify({ imports: {
  react: URL.createObjectURL(new Blob([react], { type: 'text/javascript' })),
  clairon: '/dist/index.js',
  'clairon/react': '/dist/react.js',
} });
document.head.append(map);
"""

REACT_PAGE = """
const done = arguments[0];
(async () => {
  const { App } = await import('/examples/react.js');
  const { relay, token } = await import('/examples/login.js');
  const main = document.body.appendChild(document.createElement('main'));
  window.root = ReactDOM.createRoot(main);
  root.render(React.createElement(React.StrictMode, null,
    React.createElement(App, { url: await relay(), token })));
  done('');
})().catch((error) => done(String(error)));
"""


class Examples(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = cls.browser.driver

    def open(self, page, user):
        self.driver.get(f"{self.stack.url}/examples/{page}?user={user}")

    def rows_of(self, user):
        return sorted(
            f"{number} {title} {status}"
            for number, title, status in self.sql(
                "SELECT id, title, status FROM assignments WHERE student_id = %s", user
            )
        )

    def listed_rows(self):
        script = (
            "return [...document.querySelectorAll('#rows tr')]"
            ".map((tr) => [...tr.cells].map((c) => c.textContent).join(' '))"
        )
        return sorted(self.driver.execute_script(script))

    def wait_rows(self, user):
        wait_for("the page lists the rows of the table", lambda: self.listed_rows() == self.rows_of(user), 40)

    def test_the_minimal_page_lists_notifications(self):
        self.driver.get("about:blank")
        self.browser.errors()  # drop the errors of the previous page, whose relay was killed
        self.open("minimal.html", "u1")
        state = "return document.getElementById('state').value"
        wait_for("the page is connected", lambda: self.browser.js(state) == "open")
        title = self.retitle("u1")
        wait_for("the page lists the message", lambda: any(title in t for t in self.browser.texts("#messages li")))
        self.assertEqual(self.browser.errors(), [])

    def test_the_minimal_page_acknowledges_only_on_click(self):
        store = self.stack.store
        self.open("minimal.html", "u4")
        title = self.announce("s2")
        row = f"//li[contains(., '{title}')]"
        wait_for("the page lists the announcement", lambda: self.driver.find_elements("xpath", row))
        notification = self.notification_of(title)
        # Acks are sent in order, so an ack of this row would arrive before the ack of a later row.
        later = self.announce("s2")
        wait_for("the page lists the later announcement", lambda: self.driver.find_elements("xpath", f"//li[contains(., '{later}')]"))
        self.driver.find_element("xpath", f"//li[contains(., '{later}')]/button").click()
        wait_for("the later announcement is acknowledged", lambda: store.acks_of(self.notification_of(later)).get("u4"))
        self.assertFalse(store.acks_of(notification)["u4"])
        self.driver.find_element("xpath", f"{row}/button").click()
        wait_for("the announcement is acknowledged", lambda: store.acks_of(notification).get("u4"))

    def notification_of(self, title):
        """The id of the announcement with that title."""
        store = self.stack.store
        for _, fields in store.execute("XREVRANGE", f"{store.prefix}:stream", "+", "-", "COUNT", "100"):
            if f'"title":"{title}"' in "".join(map(str, fields)):
                return fields[fields.index("id") + 1]
        raise AssertionError(f"no stream entry of {title}")

    def test_the_live_list_equals_the_table_through_changes_and_a_restart(self):
        dice = random.Random(7)
        self.addCleanup(self.sql, "DELETE FROM assignments WHERE title LIKE 'live %%'")
        self.driver.get("about:blank")
        self.browser.errors()  # drop the errors of the previous page
        self.announce("s2")  # needs an ack, and this page has no handler for it
        self.open("live.html", "u4")
        self.wait_rows("u4")
        title = self.retitle("u4")
        wait_for("the page lists the change", lambda: any(title in row for row in self.listed_rows()))
        self.assertEqual(self.browser.errors(), [])
        self.open("live.html", "u3")
        self.wait_rows("u3")
        for round_number in range(3):
            for _ in range(40):
                self.change(dice, "u3")
            if round_number == 1:
                again = self.stack.relay.kill()
                for _ in range(20):
                    self.change(dice, "u3")
                self.stack.relay.start(again)
            self.wait_rows("u3")
        self.sql("UPDATE assignments SET student_id = 'u4' WHERE title LIKE 'live %%'")
        self.wait_rows("u3")

    def change(self, dice, user):
        """Inserts, deletes or updates one row."""
        kind = dice.choice(("create", "update", "update", "delete"))
        title = f"live {dice.randrange(10**6)}"
        if kind == "create":
            self.sql("INSERT INTO assignments (student_id, title) VALUES (%s, %s)", user, title)
        elif kind == "update":
            status = dice.choice(("draft", "submitted", "graded"))
            self.sql(
                "UPDATE assignments SET title = %s, status = %s WHERE title LIKE 'live %%'"
                " AND id %% 3 = %s AND student_id = %s",
                title, status, dice.randrange(3), user,
            )  # fmt: skip
        else:
            self.sql(
                "DELETE FROM assignments WHERE title LIKE 'live %%' AND id %% 5 = %s",
                dice.randrange(5),
            )

    def unread(self):
        return self.browser.texts("#bell .unread")

    def grade(self, user, grade):
        """Grades an assignment of this user; returns the title of the inbox entry."""
        title = self.retitle(user)
        self.sql("UPDATE assignments SET grade = %s WHERE title = %s", grade, title)
        return f"{title}: {grade} of 20"

    def test_the_inbox_is_the_same_on_two_devices(self):
        self.addCleanup(self.sql, "DELETE FROM muted")
        self.sql("DELETE FROM inbox WHERE user_id = 'u3'")
        self.sql("UPDATE assignments SET grade = NULL WHERE student_id = 'u3'")
        self.open("inbox.html", "u3")
        first = self.driver.current_window_handle
        wait_for("the first page lists no entry", lambda: self.unread() == [""])
        self.driver.switch_to.new_window("window")
        self.addCleanup(self.driver.switch_to.window, first)
        self.addCleanup(self.driver.close)
        self.open("inbox.html", "u3")
        titles = [self.grade("u3", "12.0"), self.announce("s2")]
        wait_for("the second page counts the entries", lambda: self.unread() == ["2"])
        bell = self.browser.find("#bell button")
        self.assertEqual(bell.get_attribute("aria-label"), "Inbox, 2 unread")
        bell.click()
        self.assertEqual(self.browser.texts("#bell strong"), titles[::-1])
        self.driver.switch_to.window(first)
        wait_for("the first page counts the entries", lambda: self.unread() == ["2"])
        self.browser.find("#bell button").click()
        self.browser.find("#bell .read").click()
        wait_for("the first page has no unread entry", lambda: self.unread() == [""])
        self.driver.switch_to.window(self.driver.window_handles[-1])
        wait_for("the second page has no unread entry", lambda: self.unread() == [""])
        self.assertEqual(self.browser.texts("#bell strong"), [])
        self.browser.find("input[value=grade]").click()
        wait_for("grades are muted", lambda: self.sql("SELECT 1 FROM muted WHERE user_id = 'u3'"))
        self.grade("u3", "13.0")
        title = self.announce("s2")
        wait_for("only the announcement is new", lambda: self.browser.texts("#bell strong") == [title])
        self.assertEqual(self.browser.errors(), [])

    @unittest.skipUnless((REACT / "react-dom").is_dir(), "React (node-react-dom) is not installed")
    def test_the_react_component_follows_the_table(self):
        self.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
        self.addCleanup(self.driver.execute_cdp_cmd, "Page.setBypassCSP", {"enabled": False})
        self.driver.get(f"{self.stack.url}/examples/?user=u2")
        for name in ("react", "react-dom"):
            script = REACT / name / "umd" / f"{name}.development.js"
            self.driver.execute_script(script.read_text().replace("}(this,", "}(window,"))
        self.driver.execute_script(IMPORT_MAP)
        self.driver.set_script_timeout(WAIT_SECONDS)
        self.assertEqual(self.driver.execute_async_script(REACT_PAGE), "")
        wait_for("the page is connected", lambda: self.driver.find_elements("css selector", "[data-state=open]"))
        title = self.retitle("u2")
        wait_for("the page lists the row", lambda: any(title in t for t in self.browser.texts("main li")))
        count = self.sql("SELECT count(*) FROM assignments WHERE student_id = 'u2'")[0][0]
        self.assertEqual(len(self.browser.texts("main li")), count)
        self.browser.js("root.unmount()")
        self.assertEqual(self.browser.texts("main li"), [])
        # StrictMode mounts each component twice; neither mount may leak a client.
        wait_for("no connection remains", lambda: self.stack.relay.connections() == 0)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_the_node_consumer_processes_each_change_once_across_a_crash(self):
        folder = Path(tempfile.mkdtemp(prefix="clairon-consumer-"))
        self.addCleanup(shutil.rmtree, folder)
        file, log = folder / "changes.ndjson", folder / "log"
        titles = []
        for _ in range(3):
            consumer = self.start_consumer(file, log)
            wait_for("the consumer is connected", lambda: "open" in log.read_text())
            titles += [self.announce("s2"), self.announce("s2")]
            wait_for("the consumer has written the changes", lambda: set(titles) <= set(titles_in(file)))
            consumer.kill()
            consumer.wait()
            titles.append(self.announce("s2"))
        consumer = self.start_consumer(file, log)
        wait_for("the consumer has written all changes", lambda: set(titles) <= set(titles_in(file)))
        consumer.terminate()
        self.assertEqual(consumer.wait(timeout=WAIT_SECONDS), 0)
        written = [t for t in titles_in(file) if t in titles]
        self.assertEqual(sorted(written), sorted(titles))

    def start_consumer(self, file, log):
        relay = self.stack.relay
        command = ["node", ROOT / "client/examples/consumer.js", relay.url, relay.token("--sub", "u4"), file]
        with log.open("w") as out:
            child = subprocess.Popen(command, stdout=out)
        self.addCleanup(end, child)
        return child


def titles_in(file):
    if not file.exists():
        return []
    lines = file.read_text().split("\n")[:-1]
    return [(json.loads(line)["payload"].get("after") or {}).get("title") for line in lines]


if __name__ == "__main__":
    unittest.main()

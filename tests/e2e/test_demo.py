"""test_demo.py: a row reaches the panes of its audience, and acknowledgements reach the store."""

import os
import re
import subprocess
import unittest
import uuid

import psycopg2
from browser import BrowserCase
from selenium.webdriver.support.ui import Select
from stack import ROOT, wait_for


# Titles that overlap the next column.
CUT = """
return [...document.querySelectorAll('.pane.current .assignments span')]
  .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent);
"""

# Names of persons that are cut by their field, and the number of different heights of the forms.
CUT_NAMES = """
const pen = document.createElement('canvas').getContext('2d');
const isCut = (select) => {
  pen.font = getComputedStyle(select).font;
  return [...select.options].some(({ text }) => pen.measureText(text).width > select.clientWidth - 40);
};
const selects = document.querySelectorAll('.pane.current .who select, [name="user"], [name="from"], [name="to"]');
const heights = [...document.querySelectorAll('.forms .card')].map((card) => card.offsetHeight);
return [[...selects].filter(isCut).map((select) => select.name || 'pane'), new Set(heights).size];
"""

# Records the grades in the first pane after each change.
OBSERVE = """
window.states = [];
const list = document.querySelector('.assignments');
const grades = () => [...list.querySelectorAll('.grade')].map((e) => e.textContent);
new MutationObserver(() => window.states.push(grades())).observe(list, { childList: true, subtree: true });
"""


class DemoPage(BrowserCase):
    def setUp(self):
        self.browser.size(1440, 1000)
        self.browser.errors()  # drop the errors of the previous test

    def open(self, *users, **options):
        self.browser.open(self.stack.url, *users, **options)
        return [self.browser.pane(user) for user in users]

    def settle(self, *panes):
        """Waits for a last notification in each pane, after which all earlier notifications have arrived."""
        for pane in panes:
            pane.wait_words(self.retitle(pane.user))

    def test_the_page_shows_three_panes_with_their_rows(self):
        panes = self.open("u1", "u2", "u3")
        for pane in panes:
            pane.wait(".accounts li strong")
            pane.wait(".assignments li .status")
        self.assertIn("clairon", self.browser.driver.title)
        self.assertIn("psql", self.browser.find("#psql").text)
        self.assertEqual(self.browser.errors(), [])

    def test_the_doctor_has_no_findings(self):
        if not self.stack.relay:
            self.skipTest("needs the demo's folder")
        self.assertEqual(self.stack.relay.doctor("postgresql"), [])

    def test_an_update_reaches_only_its_student(self):
        u1, u2, u3 = self.open("u1", "u2", "u3")
        title = self.retitle("u1")
        u1.wait_words(title)
        self.settle(u2, u3)
        self.assertEqual(len([m for m in u1.feed() if title in m["words"]]), 1)
        for other in (u2, u3):
            self.assertEqual([m for m in other.feed() if title in m["words"]], [])
        wait_for("the pane shows the row", lambda: title in self.browser.texts(".assignments li span"))

    def test_the_printed_statements_for_an_own_table_notify_its_user(self):
        if not self.stack.demo:
            self.skipTest("needs the output of the demo")
        (u1,) = self.open("u1")
        (lines,) = re.findall(r"Your own table: +(CREATE TABLE tasks [^$]*?;)\n +The page", "".join(self.stack.output))
        self.addCleanup(self.sql, "DROP TABLE IF EXISTS tasks")
        for line in lines.splitlines():
            self.sql(line)
        u1.wait_words('"title":"try it"')

    def test_a_rolled_back_change_is_not_delivered(self):
        (u1,) = self.open("u1")
        connection = self.stack.connect()
        self.addCleanup(connection.close)
        connection.autocommit = False
        with connection.cursor() as cursor:
            cursor.execute("UPDATE assignments SET title = 'undone' WHERE student_id = 'u1'")
        connection.rollback()
        self.settle(u1)
        self.assertEqual([m for m in u1.feed() if "undone" in m["words"]], [])

    def test_a_role_change_is_a_system_notification_to_the_establishment(self):
        u1, u2, u3 = self.open("u1", "u2", "u3")
        (role,) = self.sql("SELECT role FROM members WHERE user_id = 'u2'")[0]
        new = "teacher" if role == "student" else "student"
        self.sql("UPDATE members SET role = %s WHERE user_id = 'u2'", new)
        for pane in (u1, u2):
            (message,) = pane.wait_words(f"Bruno Costa in Université du Port: {role} → {new}")
            self.assertIn("system", message["facts"])
            self.assertIn("high", message["facts"])
        self.settle(u3)
        self.assertEqual(u3.feed("members"), [])
        wait_for("u2's pane shows u2's role", lambda: f"{new} · Université du Port" in u2.texts(".chips li"))

    def test_a_former_member_is_notified_and_receives_no_announcement(self):
        u3, u4 = self.open("u3", "u4")
        self.addCleanup(
            self.sql, "INSERT INTO members VALUES ('s2', 'u4', 'student') ON CONFLICT DO NOTHING"
        )
        self.sql("DELETE FROM members WHERE user_id = 'u4'")
        for pane in (u3, u4):
            self.assertEqual(len(pane.wait_words("David Petit left Institut des Arts")), 1)
        title = self.announce("s2")
        u3.wait_words(title)
        self.settle(u4)
        self.assertEqual([m for m in u4.feed() if title in m["words"]], [])

    def test_the_rows_of_an_establishment_follow_its_members(self):
        u3, u4 = self.open("u3", "u4")
        for pane, other in ((u3, "David Petit"), (u4, "Chloé Martin")):
            wait_for("the pane shows the other member", lambda: pane.others() == f"with {other} (student), Irène Moreau (staff)")
        self.addCleanup(
            self.sql, "INSERT INTO members VALUES ('s2', 'u4', 'student') ON CONFLICT DO NOTHING"
        )
        self.sql("DELETE FROM members WHERE user_id = 'u4'")
        wait_for("the former member is no longer listed", lambda: u3.others() == "with Irène Moreau (staff)")
        wait_for("the former member has no rows", lambda: (u4.texts(".chips li"), u4.others()) == ([], ""))
        self.sql("INSERT INTO members VALUES ('s2', 'u4', 'teacher')")
        wait_for("the new member is listed", lambda: u3.others() == "with David Petit (teacher), Irène Moreau (staff)")
        # The rows of the other members did not change, so the new member's page has requested them.
        wait_for("the new member's pane lists the other members", lambda: u4.others() == "with Chloé Martin (student), Irène Moreau (staff)")
        self.assertEqual(u4.texts(".chips li"), ["teacher · Institut des Arts"])
        self.sql("UPDATE members SET role = 'student' WHERE user_id = 'u4'")

    def test_the_rows_of_a_transaction_change_together(self):
        (u1,) = self.open("u1")
        u1.wait(".assignments li .status")
        self.browser.js(OBSERVE)
        grades = range(1, 11)
        for grade in grades:
            self.sql("UPDATE assignments SET grade = %s WHERE student_id = 'u1'", grade)
            wait_for("both grades have changed", lambda: u1.texts(".assignments .grade") == [f"{grade}.0/20"] * 2)
        states = self.browser.js("return window.states")
        partial = [state for state in states if len(set(state)) > 1]
        # The browser may be suspended for longer than the client waits for the second row.
        self.assertLess(len(partial), len(grades) / 2, states)

    def test_a_truncated_table_is_empty_in_each_pane(self):
        if not self.stack.demo:
            self.skipTest("needs the demo's superuser")
        owner = psycopg2.connect(self.stack.dsn, user="postgres")
        self.addCleanup(owner.close)
        owner.autocommit = True
        u1, u2 = self.open("u1", "u2")
        rows = {pane: pane.wait(".assignments li") and pane.texts(".assignments li") for pane in (u1, u2)}
        with owner.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE kept AS TABLE assignments")
            cursor.execute("TRUNCATE assignments")
            try:
                for pane in rows:
                    wait_for("the pane has no rows", lambda: pane.texts(".assignments li") == [])
            finally:
                cursor.execute("INSERT INTO assignments OVERRIDING SYSTEM VALUE TABLE kept ORDER BY id")
        for pane, before in rows.items():
            wait_for("the pane has all rows again", lambda: pane.texts(".assignments li") == before)

    def acknowledge_all(self):
        """Acknowledges the notifications that other tests left pending."""
        panes = self.open("u1", "u2", "u3", "u4", "admin")

        def nothing_left():
            for pane in panes:
                pane.all(".pending button", "e.click()")
            return self.stack.store.pending() == 0

        wait_for("no notification is pending before the test", nothing_left)

    def test_a_notification_is_pending_until_each_member_has_acknowledged_it(self):
        if not self.stack.store:
            self.skipTest("needs the demo's store")
        store = self.stack.store
        self.acknowledge_all()
        panes = self.open("u3", "u4", "admin")
        title = self.announce("s2")
        for pane in panes:
            (message,) = pane.wait_words(title)
        notification_id = message["id"]
        row = f".pending [data-row='{notification_id}']"
        self.assertEqual(store.pending(), 1)
        expected = {"u3": False, "u4": False, "admin": False}
        self.assertEqual(store.acks_of(notification_id), expected)
        for pane in panes[:2]:
            pane.click(f"{row}[data-ack='pending'] button")
            pane.wait(f"{row}[data-ack='acked']")
            expected[pane.user] = True
            wait_for(f"{pane.user}'s ack is stored", lambda: store.acks_of(notification_id) == expected)
        self.assertEqual(store.pending(), 1)
        panes[2].click(f"{row} button")
        wait_for("no notification is pending", lambda: store.pending() == 0)
        self.assertEqual(store.acks_of(notification_id), {})

    def test_a_repeated_transfer_changes_nothing_and_is_reported(self):
        u1, u2 = self.open("u1", "u2")
        for pane in (u1, u2):
            pane.wait(".accounts li")
        before = float(u1.balance()), float(u2.balance())
        form = self.browser.find("form[data-post='transfer']")
        Select(form.find_element("name", "from")).select_by_value("acc-1")
        Select(form.find_element("name", "to")).select_by_value("acc-2")
        amount = form.find_element("name", "amount")
        amount.clear()
        amount.send_keys("12.50")
        form.find_element("css selector", "button").click()
        after = before[0] - 12.5, before[1] + 12.5
        wait_for("both balances have changed", lambda: (float(u1.balance()), float(u2.balance())) == after)
        messages = len(u1.feed("account")), len(u2.feed("account"))
        self.browser.find("#repeat-key").click()
        output = form.find_element("css selector", "output")
        wait_for("the page reports that nothing changed", lambda: "nothing changed" in output.text)
        self.settle(u1, u2)
        self.assertEqual((float(u1.balance()), float(u2.balance())), after)
        self.assertEqual((len(u1.feed("account")), len(u2.feed("account"))), messages)

    def test_a_page_that_returns_receives_missed_notifications(self):
        (u1,) = self.open("u1")
        self.settle(u1)
        self.browser.driver.get("about:blank")
        title = self.retitle("u1")
        (u1,) = self.open("u1", fresh=False)
        (message,) = u1.wait_words(title)
        self.assertIn("earlier", message["facts"])
        self.assertEqual(self.browser.find("#count-latency").text, "–")
        self.settle(u1)
        wait_for("the page shows the latency", lambda: "ms" in self.browser.find("#count-latency").text)

    def test_a_killed_relay_causes_no_loss_and_no_duplicates(self):
        if not self.stack.relay:
            self.skipTest("needs the demo's relay process")
        u1, u2 = self.open("u1", "u2")
        run = uuid.uuid4().hex[:6]
        titles = [f"{run} {i:02}" for i in range(60)]
        for title in titles[:20]:
            self.retitle("u1", title)
        again = self.stack.relay.kill()
        for title in titles[20:40]:
            self.retitle("u1", title)
        self.stack.relay.start(again)
        for title in titles[40:]:
            self.retitle("u1", title)
        u1.wait_words(titles[-1])
        wait_for("the pane shows the row", lambda: titles[-1] in u1.texts(".assignments li span"))
        self.settle(u1, u2)
        received = [m for m in u1.feed("assignments") if run in m["words"]]
        self.assertEqual([m["words"][: len(titles[0])] for m in received], titles)
        self.assertEqual(len({m["id"] for m in received}), len(titles))
        connections = self.browser.js("return document.querySelector('.pane').dataset.connections")
        self.assertGreaterEqual(int(connections), 2)

    def test_a_relay_killed_during_startup_is_restarted(self):
        if not self.stack.demo:
            self.skipTest("needs a demo that restarts its relay")
        for _ in range(3):
            self.stack.relay.kill()
        wait_for("the demo restarts the relay", self.stack.relay.pid)
        (u1,) = self.open("u1")
        u1.wait_words(self.retitle("u1"))
        self.assertIsNone(self.stack.demo.poll())

    def test_each_step_of_the_startup_is_printed(self):
        if not self.stack.demo:
            self.skipTest("needs the demo's output")
        start = "".join(self.stack.output).partition("ready")[0]
        steps = re.findall(r"^ *\d+\.\d s  (\w+ [\w ]*\w)", start, re.M)
        for step in (
            "creating a database cluster",
            "starting PostgreSQL",
            "starting the store",
            "loading sql",
            "starting the relay",
            "starting the page",
        ):
            self.assertTrue([s for s in steps if s.startswith(step)], f"{step}: {steps}")

    def test_a_second_demo_fails_with_the_address_of_the_first(self):
        if not self.stack.folder:
            self.skipTest("needs the demo's folder")
        environment = {**os.environ, "CLAIRON_DEMO_DIR": str(self.stack.folder)}
        second = subprocess.run(
            [ROOT / "docker" / "demo.sh"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"a demo is already running: {self.stack.url}", second.stderr)

    def test_people_and_establishments_have_names(self):
        (u1,) = self.open("u1")
        u1.wait(".chips li")
        for selector in ("form option", ".who option", ".chips li"):
            for words in self.browser.texts(selector):
                self.assertNotRegex(words, r"\b(u\d|s\d|acc-\d)\b", selector)

    def test_forms_have_equal_heights_and_no_name_is_cut(self):
        self.open("u1", "u2", "u3")
        for width in (1440, 1280, 1050, 720):
            self.browser.size(width, 900)
            self.assertEqual(self.browser.js(CUT_NAMES), [[], 1], width)

    def test_a_phone_shows_one_pane_without_horizontal_scrolling(self):
        self.browser.size(390, 844)
        u1, *_ = self.open("u1", "u2", "u3")
        visible = "return [...document.querySelectorAll('.pane')].map(p => p.offsetParent !== null)"
        title = "Internship" * 8
        self.retitle("u1", title)
        u1.wait_words(title)
        for width in (320, 390):
            self.browser.size(width, 844)
            self.assertEqual(self.browser.js("return document.documentElement.scrollWidth"), width)
            self.assertEqual(self.browser.js(CUT), [])
        self.assertEqual(self.browser.js(visible), [True, False, False])
        self.browser.find(".switch button:nth-child(2)").click()
        self.assertEqual(self.browser.js(visible), [False, True, False])


if __name__ == "__main__":
    unittest.main()

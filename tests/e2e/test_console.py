"""test_console.py: the console shows the relay's status to admins only."""

import json
import os
import signal
import unittest
import urllib.error
import urllib.request

from console import ConsoleCase
from selenium.webdriver.common.keys import Keys
from stack import WAIT_SECONDS, wait_for


class Console(ConsoleCase):
    def status(self, path, token=None):
        request = urllib.request.Request(self.relay + path)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
                return response.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    # ---- access

    def test_an_invalid_token_is_reported_and_not_stored(self):
        self.open()
        self.screenshot("sign-in")
        self.sign_in("not.a.token")
        wait_for("the page reports an error", lambda: self.text("#token-error"))
        self.assertEqual(self.focused(), "token")
        self.assertEqual(self.browser.js("return sessionStorage.length + localStorage.length"), 0)
        self.sign_in(self.token("--sub", "somebody", "--publish"))
        wait_for("the page reports the missing claim", lambda: "admin" in self.text("#token-error"))
        self.assertFalse(self.browser.find("#main").is_displayed())
        self.sign_in("two words")
        wait_for("the page reports an invalid token", lambda: "not a token" in self.text("#token-error"))

    def test_requests_without_an_admin_token_are_rejected(self):
        self.assertEqual(self.status("/v1/console"), 401)
        self.assertEqual(self.status("/v1/console", self.token("--sub", "u1", "--publish")), 403)
        self.assertEqual(self.status("/v1/console", self.token("--sub", "u1", "--admin")), 200)

    def test_the_token_stays_in_the_tab(self):
        self.sign_in_and_wait()
        self.assertEqual(self.browser.js("return localStorage.length + document.cookie.length"), 0)
        self.browser.driver.refresh()
        wait_for("the figures appear without a new sign-in", lambda: self.figure("Pending") not in ("", "–"))
        self.browser.find("#leave").click()
        wait_for("the sign-in form has the focus", lambda: self.focused() == "token")
        self.assertEqual(self.browser.js("return sessionStorage.length"), 0)
        self.assertEqual(self.text("#errors") + self.text("#figures"), "")
        self.browser.driver.refresh()
        wait_for("the sign-in form has the focus again", lambda: self.focused() == "token")

    # ---- contents

    def test_a_link_can_contain_the_token(self):
        self.open()
        self.browser.driver.get("about:blank")
        self.browser.driver.get(f"{self.relay}/console#token={self.token('--sub', 'op', '--admin')}")
        wait_for("the page shows the figures", lambda: self.browser.js("return !document.getElementById('main').hidden"))
        self.assertEqual(self.browser.driver.current_url, f"{self.relay}/console")

    def test_the_figures_are_updated(self):
        self.sign_in_and_wait()
        self.assertIn("ready", self.text("#state"))
        self.assertIn("feed streaming", self.text("#state"))
        self.assertEqual(self.figure("Denied"), "0")
        self.assertEqual(self.figure("Failures"), "0")
        self.assertRegex(self.figure("Slot lag"), r"^[0-9.,]+ (B|kB|MB)$")
        waiting = int(self.figure("Pending"))
        notification = str(self.sql("SELECT clairon.notify('USER', '{waits}', '{}', ack_required => true)")[0][0])
        self.notifications.append(notification)
        wait_for("another notification is pending", lambda: int(self.figure("Pending")) == waiting + 1)
        wait_for("the notification is listed", lambda: notification in self.browser.texts("#pending button"))
        self.browser.js("document.querySelector(`#pending button`).focus()")
        first = self.focused()
        wait_for("the page shows a rate", lambda: self.figure("Stored").endswith("/s"))
        self.assertEqual(self.focused(), first)  # a refresh keeps the focus
        wait_for("the page lists this relay", lambda: "this relay" in self.text("#relays"))
        self.browser.find("#pause").click()
        self.assertIn("paused", self.text("#state"))
        self.stack.store.execute("HSETNX", f"{self.stack.store.prefix}:pending", "not-a-message", "x")
        self.browser.find("#pause").click()
        wait_for("the figures are updated", lambda: int(self.figure("Pending")) == waiting + 2)
        self.stack.store.execute("HDEL", f"{self.stack.store.prefix}:pending", "not-a-message")
        self.assertEqual(self.browser.errors(), [])

    def test_missing_shards_are_named(self):
        self.sign_in_and_wait()
        self.browser.js(
            "const real = window.fetch; window.fetch = async (...request) => {"
            "  const response = await real(...request), body = await response.json();"
            "  Object.assign(body, { missing: [0, 7] });"
            "  for (const part of [body.store, body.user]) if (part) part.relays = null;"
            "  return new Response(JSON.stringify(body), { status: response.status }); }"
        )
        wait_for("the page names the shards", lambda: self.text("#notice").startswith("Shards 0, 7 do not reply:"))
        self.assertIn("store: 2 shards missing", self.text("#state"))
        self.assertEqual(self.text("#relays"), "Unknown: shard 0 does not reply.")
        self.assertNotIn("Nothing is pending.", self.text("#pending"))
        self.browser.find("#errors-refresh").click()
        wait_for("the error log names the shards", lambda: "Shards 0, 7 do not reply:" in self.text("#errors-status"))
        self.browser.find("#tail-watch").click()
        wait_for("the tail names the shards", lambda: "Shards 0, 7 do not reply:" in self.text("#tail-status"))
        self.browser.find("#user-id").send_keys("somebody", Keys.ENTER)
        wait_for("the user's page names the shards", lambda: "Shards 0, 7 do not reply:" in self.text("#user-status"))
        self.assertIn("relays unknown", self.text("#user-status"))
        self.screenshot("missing-shards")
        self.assertEqual(self.browser.errors(), [])

    def test_names_are_escaped(self):
        name = "<img src=x onerror=alert(1)>"
        self.expire(1, name)
        self.sign_in_and_wait()
        self.assertIn(name, self.text("#errors"))
        self.assertEqual(self.browser.js("return document.querySelectorAll('#errors img').length"), 0)
        self.assertEqual(self.browser.errors(), [])

    def test_foreign_scripts_do_not_run(self):
        self.open()
        self.browser.js(
            "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
            "document.body.append(s); document.body.setAttribute('onclick', 'window.ran = 2'); document.body.click();"
        )
        self.assertIsNone(self.browser.js("return window.ran ?? null"))
        self.assertTrue([e for e in self.browser.errors() if "Content Security Policy" in e])

    def test_a_relay_that_hangs_is_marked_stale(self):
        self.sign_in_and_wait()
        self.assertIn("live", self.text("#about"))
        self.assertRegex(self.text("#about"), r"^\d+\.\d+\.\d+ · up \d+")
        pid = self.stack.relay.pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for("stale figures are marked", lambda: "stale" in self.text("#state"))
            self.assertNotIn("ready", self.text("#state"))
            self.assertRegex(self.text("#about"), r"last response \d+ s ago")
            self.assertTrue(self.browser.js("return document.body.classList.contains('stale')"))
            self.assertIn("(stale)", self.browser.js("return document.title"))
            self.screenshot("stale")
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for("the relay responds again", lambda: "ready" in self.text("#state") and "stale" not in self.text("#state"))
        wait_for("the figures are no longer stale", lambda: not self.browser.js("return document.body.classList.contains('stale')"))
        wait_for("the notice is hidden", lambda: not self.browser.find("#notice").is_displayed())
        self.browser.errors()  # drop the errors of aborted requests

    def test_problems_are_explained(self):
        self.sign_in_and_wait()
        self.assertFalse(self.browser.find("#notice").is_displayed())
        self.browser.js(
            "const real = window.fetch; window.fetch = async (...request) => {"
            "  const response = await real(...request), body = await response.json();"
            "  Object.assign(body.relay ?? {}, window.changed);"
            "  Object.assign(body.stats ?? {}, window.counted);"
            "  return new Response(JSON.stringify(body), { status: response.status }); };"
            "window.changed = { feed: 'down', reason: 'slot is lost. run SELECT 1' };"
            "window.counted = { 'clairon_denied_total{reason=\"rows\"}': 2, 'clairon_rows_errors_total{kind=\"denied\"}': 7,"
            "  'clairon_rows_errors_total{kind=\"timeout\"}': 1, 'clairon_gate_tokens_rejected_total{reason=\"expired\"}': 9,"
            "  'clairon_gate_tokens_rejected_total{reason=\"signature\"}': 3 };"
        )
        wait_for("the page explains the feed", lambda: "the feed is down: slot is lost. run SELECT 1." in self.text("#notice"))
        self.assertEqual(self.figure("Denied"), "2")
        self.assertEqual(self.text("#figures [data-name='Denied'] .more"), "rows: 2")
        # Only what also sends an alert.
        self.assertEqual(self.figure("Failures"), "4")
        self.assertEqual(self.text("#figures [data-name='Failures'] .more"), "3 tokens of another key · 1 failed list")
        self.browser.js("window.changed = { feed: 'down', reason: null }")
        wait_for("the page names the command", lambda: "clairon doctor -c relay.conf" in self.text("#notice"))
        self.screenshot("problems")
        self.browser.js("window.changed = {}")
        wait_for("the notice is hidden", lambda: not self.browser.find("#notice").is_displayed())
        self.assertEqual(self.browser.errors(), [])

    def test_the_live_tail_shows_new_notifications(self):
        requests_since = (
            "return performance.getEntriesByType('resource')"
            ".filter((e) => e.name.includes('console/latest') && e.startTime > arguments[0]).length"
        )
        self.sign_in_and_wait()
        wait_for("the page has requested a second overview", lambda: self.figure("Stored").endswith("/s"))
        self.assertEqual(self.browser.js(requests_since, 0), 0)  # a hidden page sends no requests
        self.browser.find("#tail-watch").click()
        first, second = (
            str(self.sql("SELECT clairon.notify('USER', ARRAY[%s], '{}', topic => %s)", user, topic)[0][0])
            for user, topic in (("<b>x</b>", "demo.tail.one"), ("y", "demo.tail.two"))
        )
        ids = lambda: self.browser.texts("#tail button.id")
        wait_for("the tail lists both notifications", lambda: first in ids() and second in ids())
        self.assertLess(ids().index(second), ids().index(first))
        self.assertIn("demo.tail.one → USER <b>x</b>", self.text("#tail"))
        self.browser.find("#tail-filter").send_keys("tail.TWO")
        wait_for("the tail lists only matching notifications", lambda: ids() == [second])
        self.browser.find("#tail-filter").clear()
        self.browser.find("#tail-filter").send_keys(Keys.BACKSPACE)
        wait_for("the tail lists all notifications", lambda: first in ids())
        self.browser.find("#tail-pause").click()
        wait_for("the tail is paused", lambda: "paused" in self.text("#tail-status"))
        paused_at = self.browser.js("return performance.now()")  # a request in transit began before
        third = str(self.sql("SELECT clairon.notify('USER', '{z}', '{}', topic => 'demo.tail.three')")[0][0])
        waited = self.figure("Stored")
        wait_for("the page has requested another overview", lambda: self.figure("Stored") != waited)
        self.assertEqual(self.browser.js(requests_since, paused_at), 0)
        self.assertNotIn(third, ids())
        self.browser.find("#tail-pause").click()
        wait_for("the tail lists the notifications that were sent during the pause", lambda: third in ids())
        keys = self.browser.js("return [...document.querySelectorAll('#tail li')].map((e) => e.dataset.key)")
        self.assertEqual(len(keys), len(set(keys)))  # a retry is a separate entry
        self.screenshot("tail")
        self.browser.find("#tail-watch").click()
        self.assertFalse(self.browser.find("#tail").is_displayed())
        self.assertEqual(self.browser.errors(), [])

    def test_a_test_notification_appears_on_the_page_of_its_user(self):
        self.sign_in_and_wait()
        self.browser.find("#test-user").send_keys("tested")
        self.browser.find("#test-ack").click()
        self.browser.find("#test button").click()
        wait_for("the notification is sent", lambda: "Sent:" in self.text("#test-status"))
        notification = self.text("#test-status button")
        self.notifications.append(notification)
        wait_for("the notification is pending", lambda: "tested" in self.stack.store.acks_of(notification))
        self.browser.find("#user-id").send_keys("tested")
        self.browser.find("#user button").click()
        wait_for("the page lists the user's pending notification", lambda: "1 pending" in self.text("#user-status"))
        self.assertIn("not connected · 0 connections", self.text("#user-status"))
        self.assertEqual(self.browser.texts("#user-pending button"), [notification])
        self.assertRegex(self.text("#user-pending .facts"), r"^\S+ · for \d+ s")
        self.screenshot("user")
        self.browser.find("#test-status button").click()
        wait_for("the page shows its trace", lambda: "stored" in self.text("#life-events"))
        self.assertIn("Waits for tested", self.text("#life-waiting"))
        self.browser.find("#why-user").send_keys("tested", Keys.ENTER)
        wait_for("the page explains it", lambda: self.text("#why-answer").startswith("pending: It is pending for tested"))
        self.browser.find("#why-user").send_keys("2", Keys.ENTER)
        wait_for("the page names a user who is no target", lambda: self.text("#why-answer").startswith("not addressed: "))
        wait_for("the page lists its topic next to its id", lambda: notification in self.browser.texts("#pending button"))
        facts = self.browser.js(
            "return [...document.querySelectorAll('#pending li')].find((e) => e.textContent.includes(arguments[0]))"
            ".querySelector('.facts').textContent", notification)
        self.assertRegex(facts, r"^\S+ · waits for 1 user")
        self.browser.find("#life-drop").click()
        wait_for("the confirmation dialog opens", lambda: self.browser.find("#sure").is_displayed())
        self.assertEqual(self.text("#sure-title"), "Drop this notification?")
        self.browser.find("#sure .danger").click()
        wait_for("the page shows the drop", lambda: "dropped" in self.text("#life-events"))
        self.assertFalse(self.browser.find("#life-drop").is_displayed())
        self.assertEqual(self.browser.errors(), [])

    def test_a_user_is_kicked_and_the_act_is_listed(self):
        token, path = self.token("--sub", "k<b>1"), "/v1/poll?wait=0"
        self.assertEqual(self.status(path, token), 204)
        self.sign_in_and_wait()
        self.browser.find("#user-id").send_keys("k<b>1", Keys.ENTER)
        wait_for("the user is looked up", lambda: self.browser.find("#user-kick").is_displayed())
        self.tab_to("user-kick")
        self.keys(Keys.ENTER)
        wait_for("the confirmation dialog opens", lambda: self.browser.find("#sure").is_displayed())
        self.assertEqual(self.text("#sure-title"), "Kick this user?")
        self.assertEqual(self.browser.texts("#sure button"), ["Cancel", "Kick"])
        self.screenshot("kick")
        self.keys(Keys.ESCAPE)
        wait_for("the confirmation dialog closes", lambda: not self.browser.find("#sure").is_displayed())
        self.assertEqual(self.status(path, token), 204)
        self.browser.find("#user-kick").click()
        self.browser.find("#sure .danger").click()
        wait_for("the page confirms the kick", lambda: self.text("#user-status").startswith("k<b>1 kicked: "))
        self.assertEqual(self.status(path, token), 403)
        self.assertFalse(self.browser.find("#acts").is_displayed())
        self.browser.find("#acts-show").click()
        wait_for("the page lists the act", lambda: self.browser.texts("#acts li .what")[:1] == ["kick k<b>1"])
        self.assertRegex(self.browser.texts("#acts li .facts")[0], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* · root$")
        self.assertRegex(self.text("#acts-status"), r"^\d+ acts? in the last 7 days\.$")
        self.browser.find("#user-id").clear()
        self.browser.find("#user-id").send_keys("k2", Keys.ENTER)
        wait_for("another user is looked up", lambda: self.text("#user-status").startswith("k2: not connected"))
        self.browser.find("#user-kick").click()
        self.browser.find("#sure .danger").click()
        wait_for("the list of acts follows", lambda: self.browser.texts("#acts li .what")[:2] == ["kick k2", "kick k<b>1"])
        self.screenshot("acts")
        self.browser.find("#leave").click()
        self.assertEqual(self.text("#acts") + self.text("#acts-status"), "")
        self.assertEqual(self.browser.errors(), [])

    def send_message(self):
        """Sends a message of u1 to the other users; returns its id. Two of them acknowledge it."""
        notification = str(self.sql("SELECT send_message('u1', 'hello')")[0][0])
        self.notifications.append(notification)
        wait_for("the notification is stored", lambda: self.stack.store.acks_of(notification))
        for user in ("u2", "u3"):
            self.ack(user, [notification])
        self.addCleanup(self.ack, "u4", [notification])
        return notification

    def show_trace(self, notification):
        self.browser.js("document.getElementById('find-id').value = arguments[0]", notification)
        self.browser.find("#find button").click()
        wait_for("the page shows the receipts", lambda: self.text("#receipts-status"))

    def receipts(self):
        script = "return [...document.querySelectorAll('#receipts tbody tr')].map((row) => [row.cells[0].innerText, row.cells[1].innerText])"
        return self.browser.js(script)

    def test_the_receipts_of_a_notification_are_listed(self):
        notification = self.send_message()
        self.sign_in_and_wait()
        self.show_trace(notification)
        self.assertEqual(sorted(self.receipts()), [["u2", "acked"], ["u3", "acked"]])
        self.assertEqual(self.text("#receipts-status"), "2 receipts, oldest first.")
        self.ack("u4", [notification])
        wait_for("the notification has ended", lambda: not self.stack.store.acks_of(notification))
        self.show_trace(notification)
        wait_for("the page lists its receipt", lambda: self.receipts()[-1:] == [["all users", "acked 3 of 3 acknowledged"]])
        self.screenshot("receipts")
        (without,) = self.expire(1)
        self.show_trace(without)
        wait_for("the page explains that there are none", lambda: "the rule has no receipts" in self.text("#receipts-status"))
        self.assertFalse(self.browser.find("#receipts").is_displayed())
        self.assertEqual(self.browser.errors(), [])

    def test_many_receipts_are_read_in_pages(self):
        notification = self.send_message()
        self.sign_in_and_wait()
        store = self.stack.store
        added = [f"{notification}:many{i}:escalated:1" for i in range(150)]
        for name in added:
            user = name.split(":")[1]
            data = {"id": name, "notification": notification, "user_id": user, "outcome": "escalated", "round": 1,
                    "at": "2026-11-30T04:05:06.123456Z", "delivered_at": None, "attempts": 0, "emitter": "u1"}
            store.execute("XADD", f"{store.prefix}:receipts", "*", "id", name, "data", json.dumps(data))
        self.show_trace(notification)
        wait_for("the page lists the first receipts", lambda: len(self.receipts()) == 100)
        self.browser.find("#receipts-more").send_keys(Keys.ENTER)
        wait_for("the page lists all receipts", lambda: len(self.receipts()) == 152)
        self.assertEqual(self.focused(), "The notification")  # the button is hidden
        wait_for("the button is hidden", lambda: not self.browser.find("#receipts-more").is_displayed())
        self.assertEqual(self.browser.errors(), [])

    def test_the_sinks_are_listed_with_their_failures(self):
        self.sign_in_and_wait()
        wait_for("the page lists the table", lambda: "Table clairon.receipt\n0 receipts waiting" in self.text("#sinks"))
        self.assertRegex(self.text("#sinks"), r"Web Push\n.*\d+ sent since start")
        self.browser.js(
            "const real = window.fetch; window.fetch = async (...request) => {"
            "  const response = await real(...request), body = await response.json();"
            "  if (body.relay) window.change?.(body);"
            "  return new Response(JSON.stringify(body), { status: response.status }); };"
            "window.change = (body) => { body.sinks = [{ name: 'webhook', failing: true, failed_at: body.at - 3000, reason: 'status 500' },"
            "  { name: 'webpush', failed_at: body.at - 4000, reason: 'https://push.example: status 403' }];"
            "  body.store.sinks = [{ name: 'webhook', relay: 'r9', silent: 65000 }, { name: 'sql', relay: 'r8', silent: 1 }];"
            "  const push = (name, value) => { body.stats[`clairon_${name}`] = value; };"
            "  push('sink_backlog_receipts{sink=\"webpush\"}', 5); push('sink_oldest_seconds{sink=\"webpush\"}', 601e6);"
            "  push('sink_failures_total{sink=\"webpush\"}', 4); push('webpush_refused_total{status=\"403\"}', 3);"
            "  body.stats['clairon_sink_backlog_receipts{sink=\"webhook\"}'] = 7;"
            "  body.stats['clairon_sink_oldest_seconds{sink=\"webhook\"}'] = 61e6;"
            "  body.stats['clairon_sink_failures_total{sink=\"webhook\"}'] = 2; }"
        )
        wait_for("the page reports the webhook", lambda: "Webhook fails" in self.text("#sinks"))
        for words in ("7 receipts waiting, the oldest for 1 min", "no relay serves it: r9 stopped 1 min ago",
                      "2 failures since start, the last 3 s ago: status 500", "its figures are in the console of r8",
                      "Web Push fails\n5 Web Pushes waiting, the oldest for 10 min", "push services fail", "4 failed attempts",
                      "the last failure 4 s ago: https://push.example: status 403",
                      "rejected with status 403: 3"):
            self.assertIn(words, self.text("#sinks"))
        wait_for("the badge names it", lambda: "sink webhook fails" in self.text("#state"))
        self.screenshot("sinks")
        self.browser.js("window.change = (body) => { body.sinks = []; body.store.sinks = []; body.webpush = false; }")
        wait_for("the page explains that there is no sink", lambda: "No relay has the role sink" in self.text("#sinks"))
        self.assertIn("Web Push is off in this relay", self.text("#sinks"))
        self.assertEqual(self.browser.errors(), [])

    def test_the_browsers_of_a_user_are_listed(self):
        self.sign_in_and_wait()
        self.browser.find("#user-id").send_keys("u2", Keys.ENTER)
        wait_for("the page reports that there are none", lambda: "None: no page of this user" in self.text("#browsers"))
        self.browser.js(
            "const real = window.fetch; window.fetch = async (url, options) => (url.includes('subscriptions')"
            "  ? new Response(JSON.stringify({ at: 65000, subscriptions: [{ origin: 'https://push.example', renewed_at: 5000, failed_at: 0, reason: '' },"
            "    { origin: 'https://other.example', renewed_at: 5000, failed_at: 62000, reason: 'status 403' }] }))"
            "  : real(url, options));"
        )
        self.browser.find("#user button").click()
        wait_for("the page lists the browser", lambda: self.text("#browsers") == "https://push.example\nrenewed 1 min ago\n"
                 "https://other.example\nrenewed 1 min ago · the last Web Push that failed: 3 s ago, status 403")
        self.assertEqual(self.browser.errors(), [])

    def test_the_rules_are_listed(self):
        self.sign_in_and_wait()
        self.browser.find("#rules-show").click()
        wait_for("the page lists the rules", lambda: "rule" in self.text("#rules-status"))
        tables = self.browser.texts("#rules strong")
        self.assertIn("assignments", tables)
        self.assertEqual(self.text("#rules-status"), f"{len(tables)} rules")
        self.assertIn("→", self.text("#rules"))
        live = self.browser.js(
            "return [...document.querySelectorAll('#rules > li')].filter((e) => e.querySelector('.facts').textContent.startsWith('live · '))"
            ".map((e) => e.querySelector('strong').textContent)")
        self.assertIn("assignments", live)
        self.assertNotIn("announcements", live)
        self.screenshot("rules")
        self.assertEqual(self.browser.errors(), [])

    def test_a_test_notification_requires_the_publish_claim(self):
        self.sign_in(self.token("--sub", "root", "--admin"))
        wait_for("the page shows the figures", lambda: self.figure("Pending") not in ("", "–"))
        self.browser.find("#test-user").send_keys("tested")
        self.browser.find("#test button").click()
        wait_for("the page reports the missing claim", lambda: '"publish": true' in self.text("#test-status"))
        self.browser.errors()  # drop the error of the rejected request


if __name__ == "__main__":
    unittest.main()

"""test_console.py: does the console show how the relay stands, and can it be used without a mouse and on a phone?"""

import base64
import json
import os
import signal
import unittest
import urllib.error
import urllib.request

from browser import BrowserCase
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from stack import WAIT_SECONDS, wait_for

SHOTS = os.environ.get("CLAIRON_SHOTS")  # a folder for screenshots, to be looked at


class Console(BrowserCase):
    def setUp(self):
        self.relay = self.stack.relay.url
        self.token = self.stack.relay.token
        self.browser.size(1280, 1000)
        self.prefer("light")
        self.browser.errors()
        self.notes = []
        self.addCleanup(self.empty)

    def empty(self):
        """Nothing of this test waits for anybody any more."""
        store = self.stack.store
        for user in ("nobody-1", "nobody-2", "waits", "tested"):
            self.ack(user, self.notes)
        for note in self.notes:
            wait_for("nobody is waited for", lambda: not store.ask("EXISTS", f"{store.prefix}:ack:{note}"))
        for entry in store.ask("XRANGE", f"{store.prefix}:errors", "-", "+"):
            store.ask("XDEL", f"{store.prefix}:errors", entry[0])

    def ack(self, user, ids):
        if ids:
            request = urllib.request.Request(
                f"{self.relay}/v1/ack",
                json.dumps({"ids": ids}).encode(),
                {"Authorization": "Bearer " + self.token("--sub", user)},
            )
            urllib.request.urlopen(request, timeout=WAIT_SECONDS).close()

    def prefer(self, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def shoot(self, name):
        if SHOTS:
            shot = self.browser.driver.execute_cdp_cmd(
                "Page.captureScreenshot", {"captureBeyondViewport": True}
            )
            with open(f"{SHOTS}/{name}.png", "wb") as file:
                file.write(base64.b64decode(shot["data"]))

    def open(self):
        """The page of somebody who was never here."""
        self.browser.driver.get(f"{self.relay}/console")
        self.browser.js("sessionStorage.clear()")
        self.browser.driver.get("about:blank")
        self.browser.driver.get(f"{self.relay}/console")

    def keys(self, *keys):
        chain = ActionChains(self.browser.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def focused(self):
        return self.browser.js(
            "const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent"
        )

    def text(self, selector):
        return self.browser.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def figure(self, name):
        return self.text(f"#figures [data-name='{name}'] .value")

    def tab_to(self, name):
        for _ in range(60):
            if self.focused() == name:
                return
            self.keys(Keys.TAB)
        self.fail(f"no key leads to {name}; at {self.focused()}")

    def sign_in(self, token=None):
        self.open()
        wait_for("the form", lambda: self.focused() == "token")
        self.keys(token or self.token("--sub", "root", "--admin", "--publish"), Keys.ENTER)

    def sign_in_and_wait(self):
        self.sign_in()
        wait_for("the figures", lambda: self.figure("Pending") not in ("", "–"))
        wait_for("the error log", lambda: self.browser.js("return document.querySelector('#errors').children.length"))

    def given_up(self, count=1, users="nobody-1,nobody-2"):
        """Messages whose time is over before anybody acknowledged them: their ids."""
        ids = []
        for _ in range(count):
            answer = self.sql(
                "SELECT clairon.notify('USER', string_to_array(%s, ','), '{\"text\": \"for whom\"}',"
                " topic => 'demo.letters', ack_required => true, ttl => '1 day')",
                users,
            )
            ids.append(str(answer[0][0]))
        self.notes += ids
        store = self.stack.store
        for note in ids:
            key = f"{store.prefix}:due"
            wait_for("it is stored", lambda: store.ask("ZSCORE", key, f"{note}:"))
            store.ask("ZADD", key, "1", f"{note}:")
        wait_for("all are in the error log", lambda: store.ask("XLEN", f"{store.prefix}:errors") == count)
        return ids

    def errors(self):
        return self.browser.texts("#errors .what button.id")

    # ---- who gets in

    def test_a_wrong_token_is_told_and_not_kept(self):
        self.open()
        self.shoot("sign-in")
        self.sign_in("not.a.token")
        wait_for("why", lambda: self.text("#token-error"))
        self.assertEqual(self.focused(), "token")
        self.assertEqual(self.browser.js("return sessionStorage.length + localStorage.length"), 0)
        self.sign_in(self.token("--sub", "somebody", "--publish"))
        wait_for("why", lambda: "admin" in self.text("#token-error"))
        self.assertFalse(self.browser.find("#main").is_displayed())
        self.sign_in("two words")
        wait_for("why", lambda: "not a token" in self.text("#token-error"))

    def test_nothing_is_told_to_others(self):
        def status(path, token=None):
            request = urllib.request.Request(self.relay + path)
            if token:
                request.add_header("Authorization", f"Bearer {token}")
            try:
                with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        self.assertEqual(status("/v1/console"), 401)
        self.assertEqual(status("/v1/console", self.token("--sub", "u1", "--publish")), 403)
        self.assertEqual(status("/v1/console", self.token("--sub", "u1", "--admin")), 200)

    def test_the_token_stays_in_the_tab(self):
        self.sign_in_and_wait()
        self.assertEqual(self.browser.js("return localStorage.length + document.cookie.length"), 0)
        self.browser.driver.refresh()
        wait_for("the figures, without a new sign-in", lambda: self.figure("Pending") not in ("", "–"))
        self.browser.find("#leave").click()
        wait_for("the form", lambda: self.focused() == "token")
        self.assertEqual(self.browser.js("return sessionStorage.length"), 0)
        self.assertEqual(self.text("#errors") + self.text("#figures"), "")
        self.browser.driver.refresh()
        wait_for("the form again", lambda: self.focused() == "token")

    # ---- what is shown

    def test_a_link_may_carry_the_token(self):
        self.open()
        self.browser.driver.get("about:blank")
        self.browser.driver.get(f"{self.relay}/console#token={self.token('--sub', 'op', '--admin')}")
        wait_for("the figures", lambda: self.browser.js("return !document.getElementById('main').hidden"))
        self.assertEqual(self.browser.driver.current_url, f"{self.relay}/console")

    def test_the_figures_move(self):
        self.sign_in_and_wait()
        self.assertIn("ready", self.text("#state"))
        self.assertIn("feed streaming", self.text("#state"))
        self.assertRegex(self.figure("Slot lag"), r"^[0-9.,]+ (B|kB|MB)$")
        waiting = int(self.figure("Pending"))
        note = str(self.sql("SELECT clairon.notify('USER', '{waits}', '{}', ack_required => true)")[0][0])
        self.notes.append(note)
        wait_for("one more is pending", lambda: int(self.figure("Pending")) == waiting + 1)
        wait_for("it is listed", lambda: note in self.browser.texts("#pending button"))
        self.browser.js("document.querySelector(`#pending button`).focus()")
        first = self.focused()
        wait_for("a rate", lambda: self.figure("Stored").endswith("/s"))
        self.assertEqual(self.focused(), first)  # a refresh takes no focus away
        wait_for("this relay", lambda: "this one" in self.text("#relays"))
        self.browser.find("#pause").click()
        self.assertIn("paused", self.text("#state"))
        self.stack.store.ask("HSETNX", f"{self.stack.store.prefix}:pending", "not-a-message", "x")
        self.browser.find("#pause").click()
        wait_for("it goes on", lambda: int(self.figure("Pending")) == waiting + 2)
        self.stack.store.ask("HDEL", f"{self.stack.store.prefix}:pending", "not-a-message")
        self.assertEqual(self.browser.errors(), [])

    def test_names_are_text(self):
        name = "<img src=x onerror=alert(1)>"
        self.given_up(1, name)
        self.sign_in_and_wait()
        self.assertIn(name, self.text("#errors"))
        self.assertEqual(self.browser.js("return document.querySelectorAll('#errors img').length"), 0)
        self.assertEqual(self.browser.errors(), [])

    def test_no_script_but_its_own_runs(self):
        self.open()
        self.browser.js(
            "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
            "document.body.append(s); document.body.setAttribute('onclick', 'window.ran = 2'); document.body.click();"
        )
        self.assertIsNone(self.browser.js("return window.ran ?? null"))
        self.assertTrue([e for e in self.browser.errors() if "Content Security Policy" in e])

    def test_a_relay_that_hangs_is_shown_as_stale(self):
        self.sign_in_and_wait()
        self.assertIn("live", self.text("#about"))
        self.assertRegex(self.text("#about"), r"^\d+\.\d+\.\d+ · up \d+")
        pid = self.stack.relay.pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for("it is marked", lambda: "stale" in self.text("#state"))
            self.assertNotIn("ready", self.text("#state"))
            self.assertRegex(self.text("#about"), r"last answer \d+ s ago")
            self.assertTrue(self.browser.js("return document.body.classList.contains('stale')"))
            self.assertIn("(stale)", self.browser.js("return document.title"))
            self.shoot("stale")
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for("it is back", lambda: "ready" in self.text("#state") and "stale" not in self.text("#state"))
        wait_for("and unmarked", lambda: not self.browser.js("return document.body.classList.contains('stale')"))
        wait_for("without a notice", lambda: not self.browser.find("#notice").is_displayed())
        self.browser.errors()  # of requests that were given up

    def test_the_live_tail(self):
        asked = "return performance.getEntriesByType('resource').filter((e) => e.name.includes('console/latest')).length"
        self.sign_in_and_wait()
        wait_for("a second overview", lambda: self.figure("Stored").endswith("/s"))
        self.assertEqual(self.browser.js(asked), 0)  # it costs nothing while nobody watches
        self.browser.find("#tail-watch").click()
        first, second = (
            str(self.sql("SELECT clairon.notify('USER', ARRAY[%s], '{}', topic => %s)", user, topic)[0][0])
            for user, topic in (("<b>x</b>", "demo.tail.one"), ("y", "demo.tail.two"))
        )
        ids = lambda: self.browser.texts("#tail button.id")
        wait_for("both", lambda: first in ids() and second in ids())
        self.assertLess(ids().index(second), ids().index(first))
        self.assertIn("demo.tail.one → USER <b>x</b>", self.text("#tail"))
        self.browser.find("#tail-filter").send_keys("tail.TWO")
        wait_for("the filter", lambda: ids() == [second])
        self.browser.find("#tail-filter").clear()
        self.browser.find("#tail-filter").send_keys(Keys.BACKSPACE)
        wait_for("all", lambda: first in ids())
        self.browser.find("#tail-pause").click()
        wait_for("it says so", lambda: "paused" in self.text("#tail-said"))
        count = self.browser.js(asked)
        third = str(self.sql("SELECT clairon.notify('USER', '{z}', '{}', topic => 'demo.tail.three')")[0][0])
        waited = self.figure("Stored")
        wait_for("another overview", lambda: self.figure("Stored") != waited)
        self.assertEqual(self.browser.js(asked), count)
        self.assertNotIn(third, ids())
        self.browser.find("#tail-pause").click()
        wait_for("what came meanwhile", lambda: third in ids())
        keys = self.browser.js("return [...document.querySelectorAll('#tail li')].map((e) => e.dataset.key)")
        self.assertEqual(len(keys), len(set(keys)))  # a retry is an entry of its own
        self.shoot("tail")
        self.browser.find("#tail-watch").click()
        self.assertFalse(self.browser.find("#tail").is_displayed())
        self.assertEqual(self.browser.errors(), [])

    def test_a_user_and_a_test(self):
        self.sign_in_and_wait()
        self.browser.find("#test-user").send_keys("tested")
        self.browser.find("#test-ack").click()
        self.browser.find("#test button").click()
        wait_for("it is sent", lambda: "Sent:" in self.text("#test-said"))
        note = self.text("#test-said button")
        self.notes.append(note)
        wait_for("it is pending", lambda: "tested" in self.stack.store.who_acked(note))
        self.browser.find("#user-id").send_keys("tested")
        self.browser.find("#user button").click()
        wait_for("the user", lambda: "1 pending" in self.text("#user-said"))
        self.assertIn("not connected · 0 connections", self.text("#user-said"))
        self.assertEqual(self.browser.texts("#user-pending button"), [note])
        self.assertRegex(self.text("#user-pending .facts"), r"^\S+ · for \d+ s")
        self.shoot("user")
        self.browser.find("#test-said button").click()
        wait_for("its history", lambda: "stored" in self.text("#life-events"))
        self.assertIn("Waits for tested", self.text("#life-waiting"))
        wait_for("its topic beside its id", lambda: note in self.browser.texts("#pending button"))
        facts = self.browser.js(
            "return [...document.querySelectorAll('#pending li')].find((e) => e.textContent.includes(arguments[0]))"
            ".querySelector('.facts').textContent", note)
        self.assertRegex(facts, r"^\S+ · waits for 1 user")
        self.assertEqual(self.browser.errors(), [])

    def test_the_rules(self):
        self.sign_in_and_wait()
        self.browser.find("#rules-show").click()
        wait_for("the rules", lambda: "rule" in self.text("#rules-said"))
        tables = self.browser.texts("#rules strong")
        self.assertIn("assignments", tables)
        self.assertEqual(self.text("#rules-said"), f"{len(tables)} rules")
        self.assertIn("→", self.text("#rules"))
        self.shoot("rules")
        self.assertEqual(self.browser.errors(), [])

    def test_a_test_needs_the_right_to_publish(self):
        self.sign_in(self.token("--sub", "root", "--admin"))
        wait_for("the figures", lambda: self.figure("Pending") not in ("", "–"))
        self.browser.find("#test-user").send_keys("tested")
        self.browser.find("#test button").click()
        wait_for("why not", lambda: '"publish": true' in self.text("#test-said"))
        self.browser.errors()  # the refused request

    # ---- what is done, with keys alone

    def test_a_message_is_sent_again_by_keys(self):
        older, newer = self.given_up(2)
        self.sign_in_and_wait()
        wait_for("both", lambda: self.errors() == [newer, older])
        self.tab_to(f"Send again {older}")
        self.keys(Keys.ENTER)
        wait_for("it is gone", lambda: self.errors() == [newer])
        wait_for("it is said", lambda: "sent again to 2 users" in self.text("#errors-said"))
        self.assertEqual(self.focused(), f"Send again {newer}")
        self.assertEqual(
            self.stack.store.who_acked(older), {"nobody-1": False, "nobody-2": False}
        )
        self.tab_to("find-id")
        self.keys(older, Keys.ENTER)
        wait_for("its life", lambda: "errored" in self.text("#life-events"))
        self.assertIn("Waits for", self.text("#life-waiting"))
        stages = self.browser.texts("#life-events .stage")
        self.assertEqual(stages[:2], ["committed", "stored"])
        self.assertEqual(stages.count("errored"), 2)
        self.assertEqual(sorted(t.split()[0] for t in self.browser.texts("#life-events h3")), ["nobody-1", "nobody-2"])
        self.assertRegex(self.text("#life-events .errored time"), r"^\+[0-9.,]+ (ms|s|min)$")
        self.assertEqual(self.browser.errors(), [])

    def test_an_entry_is_dropped_after_a_question(self):
        (note,) = self.given_up(1)
        self.sign_in_and_wait()
        self.tab_to(f"Drop {note}")
        self.keys(Keys.ENTER)
        wait_for("the question", lambda: self.browser.find("#sure").is_displayed())
        self.shoot("drop")
        self.keys(Keys.ESCAPE)
        wait_for("it is closed", lambda: not self.browser.find("#sure").is_displayed())
        self.assertEqual(self.errors(), [note])
        self.tab_to(f"Drop {note}")
        self.keys(Keys.ENTER)
        wait_for("the question", lambda: self.browser.find("#sure").is_displayed())
        self.tab_to("Drop it")
        self.keys(Keys.ENTER)
        wait_for("it is gone", lambda: self.errors() == [] and "empty" in self.text("#errors"))
        self.assertEqual(self.stack.store.who_acked(note), {})
        self.assertEqual(self.focused(), "errors-refresh")

    def test_all_shown_are_sent_again(self):
        self.given_up(23)
        self.sign_in_and_wait()
        self.assertEqual(len(self.errors()), 20)
        self.browser.find("#errors-older").click()
        wait_for("the older ones", lambda: len(self.errors()) == 23)
        self.browser.find("#errors-redrive").click()
        wait_for("all are gone", lambda: self.errors() == [])
        wait_for("it is said", lambda: "23 messages sent again" in self.text("#errors-said"))

    # ---- how it looks

    def test_it_fits_phones_and_the_dark(self):
        ids = self.given_up(3)
        self.sign_in_and_wait()
        self.browser.find(f"#errors button[aria-label='Send again {ids[0]}']").click()
        wait_for("two are left", lambda: len(self.errors()) == 2)
        self.browser.js("document.querySelector('#find-id').value = arguments[0]", ids[0])
        self.browser.find("#find button").click()
        wait_for("its life", lambda: "errored" in self.text("#life-events"))
        wait_for("a rate", lambda: self.figure("Stored").endswith("/s"))
        self.browser.find("#tail-watch").click()
        wait_for("the tail", lambda: self.browser.texts("#tail button.id"))
        for name, width, height in (("desktop", 1280, 1000), ("phone", 360, 740)):
            self.browser.size(width, height)
            for scheme in ("light", "dark"):
                self.prefer(scheme)
                self.shoot(f"{name}-{scheme}")
                self.assertTrue(self.contrast_is_good(), f"{name} {scheme}")
            self.assertLessEqual(
                self.browser.js("return document.documentElement.scrollWidth"), width, name
            )
        small = self.browser.js(
            "return [...document.querySelectorAll('button:not(.id)')].filter((b) => b.offsetParent"
            " && b.offsetHeight < 36).map((b) => b.textContent)"
        )
        self.assertEqual(small, [])

    def contrast_is_good(self):
        """4.5 to 1, of the pale text on the paper too."""
        return self.browser.js("""
            const rgb = (text) => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
            const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
              .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
            const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
              if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
            return [...document.querySelectorAll('main *, header *')].filter((e) => e.offsetParent && [...e.childNodes]
              .some((n) => n.nodeType === 3 && n.data.trim())).every((e) => ratio(light(rgb(getComputedStyle(e).color)),
              light(rgb(behind(e)))) >= 4.5);
        """)


if __name__ == "__main__":
    unittest.main()

"""test_console_errors.py: the console's error log works with only the keyboard, and on a phone."""

import unittest

from console import ConsoleCase
from selenium.webdriver.common.keys import Keys
from stack import wait_for


class ErrorLog(ConsoleCase):
    # ---- actions with only the keyboard

    def test_a_notification_is_redriven_with_the_keyboard(self):
        older, newer = self.expire(2)
        self.sign_in_and_wait()
        wait_for("both", lambda: self.errors() == [newer, older])
        self.tab_to(f"Redrive {older}")
        self.keys(Keys.ENTER)
        wait_for("the redriven entry is deleted", lambda: self.errors() == [newer])
        wait_for("the page confirms the redrive", lambda: "redriven to 2 users" in self.text("#errors-status"))
        self.assertEqual(self.focused(), f"Redrive {newer}")
        self.assertEqual(
            self.stack.store.acks_of(older), {"nobody-1": False, "nobody-2": False}
        )
        self.tab_to("find-id")
        self.keys(older, Keys.ENTER)
        wait_for("the page shows its trace", lambda: "errored" in self.text("#life-events"))
        self.assertIn("Waits for", self.text("#life-waiting"))
        stages = self.browser.texts("#life-events .stage")
        self.assertEqual(stages[:2], ["committed", "stored"])
        self.assertEqual(stages.count("errored"), 2)
        self.assertEqual(sorted(t.split()[0] for t in self.browser.texts("#life-events h3")), ["nobody-1", "nobody-2"])
        self.assertRegex(self.text("#life-events .errored time"), r"^\+[0-9.,]+ (ms|s|min)$")
        self.assertEqual(self.browser.errors(), [])

    def test_an_entry_is_dropped_after_a_confirmation(self):
        (notification,) = self.expire(1)
        self.sign_in_and_wait()
        self.tab_to(f"Drop {notification}")
        self.keys(Keys.ENTER)
        wait_for("the confirmation dialog opens", lambda: self.browser.find("#sure").is_displayed())
        self.screenshot("drop")
        self.keys(Keys.ESCAPE)
        wait_for("the confirmation dialog closes", lambda: not self.browser.find("#sure").is_displayed())
        self.assertEqual(self.errors(), [notification])
        self.tab_to(f"Drop {notification}")
        self.keys(Keys.ENTER)
        wait_for("the confirmation dialog opens", lambda: self.browser.find("#sure").is_displayed())
        self.tab_to("Drop it")
        self.keys(Keys.ENTER)
        wait_for("the dropped entry is deleted", lambda: self.errors() == [] and "empty" in self.text("#errors"))
        self.assertEqual(self.stack.store.acks_of(notification), {})
        self.assertEqual(self.focused(), "errors-refresh")

    def test_all_listed_entries_are_redriven(self):
        self.expire(23)
        self.sign_in_and_wait()
        self.assertEqual(len(self.errors()), 20)
        wait_for("the page counts the entries", lambda: self.text("#errors-count").startswith("The newest 20 of 23."))
        self.browser.find("#errors-older").click()
        wait_for("the page lists older entries", lambda: len(self.errors()) == 23)
        self.assertEqual(self.text("#errors-count"), "")
        self.browser.js("document.querySelector('#errors-redrive').scrollIntoView()")  # WebDriver scrolls it below the bar
        self.browser.find("#errors-redrive").click()
        wait_for("all entries are deleted", lambda: self.errors() == [])
        wait_for("the page confirms the redrive", lambda: "23 notifications redriven" in self.text("#errors-status"))

    def test_figures_counted_before_a_redrive_do_not_hide_its_confirmation(self):
        (notification,) = self.expire(1)
        self.sign_in_and_wait()
        # Delays the next response with figures until after the redrive, and counts all responses after that.
        self.browser.js(
            "const fetched = window.fetch; window.figures = 0; window.held = null;"
            " window.fetch = async (url, options) => {"
            "   const response = await fetched(url, options);"
            "   if (!String(url).endsWith('/console')) return response;"
            "   if (window.held === null) await new Promise((go) => { window.held = go; });"
            "   window.figures++; return response; };"
        )
        wait_for("the figures were requested before the redrive", lambda: self.browser.js("return window.held !== null"))
        self.browser.find(f"#errors button[aria-label='Redrive {notification}']").click()
        wait_for("the page confirms the redrive", lambda: "redriven to 2 users" in self.text("#errors-status"))
        self.browser.js("window.held()")
        wait_for("later figures have arrived", lambda: self.browser.js("return window.figures >= 3"))
        self.assertIn("redriven to 2 users", self.text("#errors-status"))

    # ---- appearance

    def test_the_console_fits_phones_and_dark_mode(self):
        ids = self.expire(3)
        self.sign_in_and_wait()
        self.browser.find(f"#errors button[aria-label='Redrive {ids[0]}']").click()
        wait_for("two entries remain", lambda: len(self.errors()) == 2)
        self.browser.js("document.querySelector('#find-id').value = arguments[0]", ids[0])
        self.browser.find("#find button").click()
        wait_for("the page shows its trace", lambda: "errored" in self.text("#life-events"))
        wait_for("a rate", lambda: self.figure("Stored").endswith("/s"))
        self.browser.find("#tail-watch").click()
        wait_for("the tail lists notifications", lambda: self.browser.texts("#tail button.id"))
        for name, width, height in (("desktop", 1280, 1000), ("phone", 360, 740)):
            self.browser.size(width, height)
            for scheme in ("light", "dark"):
                self.prefer(scheme)
                self.screenshot(f"{name}-{scheme}")
                self.assertTrue(self.contrast_is_good(), f"{name} {scheme}")
            self.assertLessEqual(
                self.browser.js("return document.documentElement.scrollWidth"), width, name
            )
        small = self.browser.js(
            "return [...document.querySelectorAll('button:not(.id)')].filter((b) => b.offsetParent"
            " && b.offsetHeight < 36).map((b) => b.textContent)"
        )
        self.assertEqual(small, [])

    def test_the_state_stays_visible_on_a_phone(self):
        self.expire(6)
        self.browser.size(390, 844)
        self.browser.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        self.addCleanup(self.browser.driver.execute_cdp_cmd, "Emulation.setTouchEmulationEnabled", {"enabled": False})
        self.sign_in_and_wait()
        self.assertEqual(self.browser.js("return window.scrollY"), 0)
        box = "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight"
        for name in self.browser.texts("#jump a"):
            self.browser.js("[...document.querySelectorAll('#jump a')].find((a) => a.textContent === arguments[0]).click()", name)
            target = self.browser.js("return location.hash")
            wait_for(f"{name} is visible", lambda: self.browser.js(box, target))
            self.assertTrue(self.browser.js(box, "#state"), f"the state is visible at {name}")
            below = "const at = (s) => document.querySelector(s).getBoundingClientRect(); return at(arguments[0]).top >= at('#bar').bottom"
            self.assertTrue(self.browser.js(below, target), f"{name} is not covered")
        # All links are visible, and a long word does not widen the page.
        self.assertTrue(self.browser.js("const j = document.querySelector('#jump'); return j.scrollWidth <= j.clientWidth"))
        self.browser.js("const n = document.querySelector('#notice'); n.hidden = false; n.textContent = 'x'.repeat(200)")
        self.assertTrue(self.browser.js("const n = document.querySelector('#notice'); return n.scrollWidth <= n.clientWidth"))
        self.screenshot("phone-jump")
        small = self.browser.js(
            "return [...document.querySelectorAll('button:not(.id), #jump a')].filter((b) => b.offsetParent"
            " && b.offsetHeight < 44).map((b) => b.textContent)"
        )
        self.assertEqual(small, [])

    def contrast_is_good(self):
        """Whether the contrast ratio of each text is at least 4.5."""
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

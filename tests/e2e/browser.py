"""browser.py: a headless Chromium on the demo page, with accessors for its contents."""

import atexit
import functools
import os
import shutil
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from stack import WAIT_SECONDS, StackCase, wait_for

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1440,1000",
    # Software rendering of animations, and services that no test uses, cost more CPU time than the tests.
    "--force-prefers-reduced-motion",
    "--disable-software-rasterizer",
    "--in-process-gpu",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-breakpad",
    "--disable-features=PreloadTopChromeWebUI,WebUITabStrip,WebUIOmniboxPopup,WebUIOmniboxAimPopup,OptimizationHints,MediaRouter,Translate,SpareRendererForSitePerProcess",
)
# The new tab page is a separate application.
PREFERENCES = {"session.restore_on_startup": 4, "session.startup_urls": ["about:blank"]}


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="clairon-chromium-")
        options = Options()
        for flag in FLAGS:
            options.add_argument(flag)
        options.add_experimental_option("prefs", PREFERENCES)
        options.add_argument(f"--user-data-dir={self.profile}/profile")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # The user that runs the tests may have no writable home directory.
        env = {**os.environ, "HOME": self.profile}
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            env.pop(name, None)
        driver = shutil.which("chromedriver") or "/usr/bin/chromedriver"
        self.driver = webdriver.Chrome(options=options, service=Service(driver, env=env))
        self.driver.set_page_load_timeout(WAIT_SECONDS)

    def quit(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 720}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def get_fresh(self, page):
        """Opens the page without data stored in this tab."""
        clear = {"source": "sessionStorage.clear()"}
        added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", clear)
        self.driver.get(page)
        self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def open(self, url, *users, fresh=True):
        """Opens the page with panes for these users and waits until all panes are connected."""
        page = f"{url}/?users={','.join(users)}"
        if fresh:  # without a stored cursor, so that the test receives only new notifications
            self.get_fresh(page)
        else:
            self.driver.get(page)
        for user in users:
            self.pane(user).wait_state("open")

    def pane(self, user):
        return Pane(self.driver, user)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        """The text of each element, read in one script, because elements may be replaced between two driver calls."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return self.driver.execute_script(script, selector)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def errors(self):
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]


class Pane:
    """The pane of one user."""

    def __init__(self, driver, user):
        self.driver = driver
        self.user = user

    def all(self, selector, expression):
        """Evaluates `expression` for each element `e` that matches the selector in this pane."""
        script = (
            "return [...document.querySelectorAll(`.pane[data-user='${arguments[0]}'] `"
            f" + arguments[1])].map(e => {expression})"
        )
        return self.driver.execute_script(script, self.user, selector)

    def texts(self, selector):
        return self.all(selector, "e.textContent")

    def others(self):
        """The other members of the user's establishments."""
        return "".join(self.texts(".others"))

    def wait(self, selector):
        return wait_for(f"{self.user}'s pane has {selector}", lambda: self.all(selector, "true"))

    def wait_state(self, state):
        script = "return document.querySelector(`.pane[data-user='${arguments[0]}']`)?.dataset.state"
        wait_for(
            f"{self.user}'s pane is {state}",
            lambda: self.driver.execute_script(script, self.user) == state,
        )

    def feed(self, source=None):
        """The notifications, oldest first, each with id, source, operation, type, words and facts."""
        messages = self.all(
            ".feed > li",
            "({...e.dataset, words: e.querySelector('.words').textContent,"
            " facts: e.querySelector('.facts').textContent})",
        )
        return [m for m in reversed(messages) if source in (None, m["source"])]

    def wait_words(self, words):
        return wait_for(
            f"a notification with {words!r} in {self.user}'s pane",
            lambda: [m for m in self.feed() if words in m["words"]],
        )

    def balance(self):
        return self.all(".accounts li", "e.dataset.balance")[0]

    def click(self, selector):
        self.driver.find_element(
            By.CSS_SELECTOR, f".pane[data-user='{self.user}'] {selector}"
        ).click()


@functools.cache
def the_browser():
    browser = Browser()
    atexit.register(browser.quit)
    return browser


class BrowserCase(StackCase):
    """Test case with one browser for all tests of the process."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = the_browser()

"""show_page.py: opens a page in a headless browser and waits for its contents.

    show_page.py URL TITLE TEXT      prints "open" when the page has the title, and succeeds when its list shows the text
"""

import shutil
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.by import By

SECONDS = 120


def wait_for(what, condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"timeout: {what}")
        time.sleep(0.1)


def main(url, title, text):
    profile = tempfile.mkdtemp(prefix="clairon-page-")
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service(shutil.which("chromedriver")))
    try:
        driver.get(url)
        wait_for(f"the title is {title}", lambda: driver.title == title)
        print("open", flush=True)
        wait_for(f"the list shows {text}", lambda: driver.find_element(By.ID, "list").text == text)
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)


main(*sys.argv[1:])

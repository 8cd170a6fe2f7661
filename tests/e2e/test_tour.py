"""test_tour.py: every command of the README's five-minute tour works as printed.

To leave this machine unchanged, the test replaces the ports, PostgreSQL's directory, and the target of `sudo make
install`, so PostgreSQL loads the plugin from build/root. tests/release.sh runs the tour with the packages.
"""

import atexit
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from browser import Browser
from stack import ROOT, WAIT_SECONDS, wait_for

BIN = ROOT / "build" / "root" / "bin"
KINDS = ["sh", "sh", "sql", "sql", "sh", "ini", "sh", "sh", "sh", "sql"]  # the tour's code blocks, in order


def blocks():
    """The tour's code blocks. They must not be indented, because a copied here-document would not end."""
    text = (ROOT / "README.md").read_text()
    tour = text[text.index("## Five-minute tour") : text.index("## A notification")]
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", tour, re.M | re.S)
    assert [kind for kind, _ in found] == KINDS, "the tour has other blocks: update this test"
    return [block for _, block in found]


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_ports(count):
    """Free ports below the ephemeral range, because an outgoing connection could occupy an ephemeral port."""
    return list(itertools.islice(filter(is_free, random.sample(range(10000, 32768), 1000)), count))


class Tour(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="clairon-tour-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.checkout = self.folder / "clairon"
        made = shutil.ignore_patterns("build", ".git", ".demo", "node_modules", "__pycache__", "tmp_check")
        shutil.copytree(ROOT, self.checkout, ignore=made)
        self.copy_compiled()
        sudo = self.folder / "bin" / "sudo"
        sudo.parent.mkdir()
        sudo.write_text(f'#!/bin/sh\nexec env DESTDIR={self.folder}/installed "$@"\n')
        sudo.chmod(0o755)
        installed = self.folder / "installed" / "usr" / "local" / "bin"
        self.env = {**os.environ, "PATH": f"{sudo.parent}:{installed}:{BIN}:{os.environ['PATH']}"}
        self.ports = dict(zip(("postgresql", "6379", "8080", "3000"), free_ports(4)))
        self.began = time.monotonic()

    def copy_compiled(self):
        """Copies the compiled files with their timestamps, so that make compiles only changed sources."""
        for part in ("obj", "gen", "clairon"):
            source, target = ROOT / "build" / part, self.checkout / "build" / part
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copy2(source, target)

    def with_test_ports(self, text):
        """Returns the block with the test's ports."""
        text = re.sub(r"\b(6379|8080|3000)\b", lambda found: str(self.ports[found[1]]), text)
        return text.replace("host=127.0.0.1", f"host=127.0.0.1 port={self.ports['postgresql']}")

    def log(self, what):
        print(f"tour, {time.monotonic() - self.began:5.1f} s: {what}", file=sys.stderr)

    def run_block(self, text):
        subprocess.run(["bash", "-ec", self.with_test_ports(text)], cwd=self.checkout, env=self.env, check=True, stdout=subprocess.DEVNULL)

    def start(self, *command):
        """Starts a process that runs until the end of the test, with its output in a file."""
        log = open(self.folder / f"{len(list(self.folder.iterdir()))}.log", "w+b")
        child = subprocess.Popen(
            command, cwd=self.checkout, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        self.addCleanup(log.close)
        self.addCleanup(self.stop, child)
        atexit.register(self.stop, child)  # also runs after Ctrl-C, which skips cleanups
        return log.name

    def stop(self, child):
        """Sends SIGINT like a terminal, and SIGKILL if the process does not end."""
        if child.poll() is not None:
            return
        os.killpg(child.pid, signal.SIGINT)
        try:
            child.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise

    def psql(self, text, database="app", stop=1):
        subprocess.run(
            ["psql", "-XqAt", "-v", f"ON_ERROR_STOP={stop}", "-h", str(self.folder), "-p", str(self.ports["postgresql"]), database],
            input=text, text=True, env=self.env, check=True, stdout=subprocess.DEVNULL,
        )

    def start_postgresql(self, settings):
        """Creates a cluster as Debian does: peer authentication on the socket, passwords over TCP."""
        data = self.folder / "data"
        initdb = ["initdb", "-D", data, "--auth-local=peer", "--auth-host=scram-sha-256", "--no-sync"]
        subprocess.run(initdb, env=self.env, check=True, stdout=subprocess.DEVNULL)
        with open(data / "postgresql.conf", "a") as conf:
            conf.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.ports['postgresql']}\n"
                f"unix_socket_directories = '{self.folder}'\n"
            )
        pg_ctl = ["pg_ctl", "-D", str(data), "-w", "-l", str(self.folder / "postgresql.log")]
        self.addCleanup(subprocess.run, [*pg_ctl, "stop", "-m", "immediate"], env=self.env, stdout=subprocess.DEVNULL)
        atexit.register(subprocess.run, [*pg_ctl, "stop", "-m", "immediate"], env=self.env, capture_output=True)
        subprocess.run([*pg_ctl, "start"], env=self.env, check=True, stdout=subprocess.DEVNULL)
        self.psql(settings, "postgres", stop=0)  # an older minor release rejects one line, as the tour explains
        subprocess.run([*pg_ctl, "restart"], env=self.env, check=True, stdout=subprocess.DEVNULL)

    def untracked(self):
        """`git status` of the checkout, if git is installed."""
        if not shutil.which("git"):
            return ""
        git = ["git", "-C", self.checkout, "-c", "user.name=tour", "-c", "user.email=tour@example.org"]
        if not (self.checkout / ".git").exists():
            for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "checkout"]):
                subprocess.run([*git, *arguments], env=self.env, check=True)
        return subprocess.run([*git, "status", "--porcelain"], env=self.env, check=True, capture_output=True, text=True).stdout

    def test_each_step_of_the_tour_works(self):
        _, build, settings, rules, store, conf, relay, doctor, page, rows = blocks()
        self.untracked()

        self.run_block(build)
        self.log("built and installed")
        self.start_postgresql(settings)
        self.psql("CREATE DATABASE app", "postgres")
        self.psql(rules)
        self.start(os.environ["STORE_SERVER"], "--port", str(self.ports["6379"]), "--dir", str(self.folder))
        wait_for("the store listens", lambda: not is_free(self.ports["6379"]))
        self.run_block(store)
        self.log("PostgreSQL and the store are ready")

        (self.checkout / "relay.conf").write_text(self.with_test_ports(conf))
        log = self.start("bash", "-ec", self.with_test_ports(relay))
        wait_for("the relay streams", lambda: "streaming" in Path(log).read_text())
        self.assertNotIn("level=error", Path(log).read_text())
        self.assertEqual(os.stat(self.checkout / "relay.secret").st_mode & 0o077, 0)
        self.assertEqual(os.stat(self.checkout / "relay.conf").st_mode & 0o007, 0)
        command = ["bash", "-ec", self.with_test_ports(doctor)]
        results = []

        def passes():
            results.append(subprocess.run(command, cwd=self.checkout, env=self.env, capture_output=True, text=True))
            return results[-1].returncode == 0

        wait_for("clairon doctor finds no error", passes)  # the relay may not be ready yet
        self.assertNotIn("index of live rule", results[-1].stdout)
        self.log("the relay is running")

        self.start("bash", "-ec", self.with_test_ports(page))
        browser = Browser()
        self.addCleanup(browser.quit)
        url = self.with_test_ports("http://localhost:3000/tour.html")

        def opened():
            try:
                browser.driver.get(url)
            except Exception:  # not listening yet
                return False
            return browser.js("return document.getElementById('list') !== null")

        wait_for("the page loads", opened)
        wait_for("the page is connected", lambda: browser.driver.title == "open")
        self.log("the page is connected")

        self.psql(rows)
        listed = re.search(r'The page shows `(.*?)`', (ROOT / "README.md").read_text())[1]
        wait_for("the page lists the rows", lambda: browser.texts("#list") == [listed])
        self.assertEqual([e for e in browser.errors() if "favicon" not in e], [])
        self.log("the page lists the rows")
        self.assertEqual(self.untracked(), "")


if __name__ == "__main__":
    unittest.main()

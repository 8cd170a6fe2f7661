"""stack.py: the running demo for the end-to-end tests.

Without CLAIRON_DEMO_URL it starts docker/demo.sh in a new directory and stops it at the end. With
it, the tests use a running demo: CLAIRON_DEMO_DIR is its directory, or CLAIRON_DEMO_DSN its
database (without the directory, tests that need the store or the relay's process are skipped).
"""

import atexit
import configparser
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

import psycopg2

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300
WAIT_SECONDS = 100  # only a hang takes longer; less than Selenium's limit of 120 s for a command
_the_stack = None

# SIGTERM stops the started processes, as Ctrl-C does.
signal.signal(signal.SIGTERM, signal.default_int_handler)


def wait_for(what, predicate, seconds=WAIT_SECONDS):
    """Waits until `predicate()` is true and returns its value; fails with the last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what} (last: {value!r})")
        threading.Event().wait(0.05)


class Store:
    """A minimal client of the store."""

    def __init__(self, url, prefix):
        self.prefix = prefix
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(WAIT_SECONDS)
            self.socket.connect(parts.path)
        else:
            self.socket = socket.create_connection((parts.hostname, parts.port or 6379), WAIT_SECONDS)
        self.stream = self.socket.makefile("rb")
        if parts.password:
            self.execute("AUTH", *filter(None, (parts.username, parts.password)))

    def execute(self, *arguments):
        data = b"*%d\r\n" % len(arguments)
        for argument in arguments:
            raw = str(argument).encode()
            data += b"$%d\r\n%s\r\n" % (len(raw), raw)
        self.socket.sendall(data)
        return self._read_reply()

    def _read_reply(self):
        line = self.stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2].decode(errors="replace")
        if kind == b"*":
            return [self._read_reply() for _ in range(int(rest))]
        return rest.decode()

    def pending(self):
        return self.execute("XPENDING", f"{self.prefix}:stream", self.prefix)[0]

    def acks_of(self, notification_id):
        """Maps each user to whether the user has acked; empty when the notification is complete."""
        flat = self.execute("HGETALL", f"{self.prefix}:ack:{notification_id}")
        return {user: value != "0" for user, value in zip(flat[::2], flat[1::2])}

    def close(self):
        self.stream.close()
        self.socket.close()


class Relay:
    """The demo's relay process, found by its configuration file."""

    def __init__(self, config, url, is_supervised):
        self.config = str(config)
        self.url = url
        self.is_supervised = is_supervised

    def metric(self, name):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=WAIT_SECONDS) as response:
            lines = response.read().decode().splitlines()
        return next(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name} "))

    def connections(self):
        return self.metric("clairon_gate_connections")

    def token(self, *options):
        command = [ROOT / "build/clairon", "token", "-c", self.config, *options]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def doctor(self, area):
        """Returns the findings of `clairon doctor`."""
        command = [ROOT / "build/clairon", "doctor", "-c", self.config, "--json"]
        checks = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["checks"]
        found = [check for check in checks if check["area"] == area]
        assert found, f"the doctor has no check for {area}"
        return [f"{check['check']}: {check['detail']}" for check in found if not check["ok"]]

    def pid(self):
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if self.config.encode() in arguments and b"relay" in arguments:
                return int(entry.name)
        return None

    def kill(self):
        """Kills the relay with SIGKILL; returns the command line and directory to restart it with."""
        pid = wait_for("the relay is running", self.pid)
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        again = ([w.decode() for w in arguments], os.readlink(f"/proc/{pid}/cwd"))
        os.kill(pid, signal.SIGKILL)
        wait_for("the relay has exited", lambda: not alive(pid))
        return again

    def start(self, again):
        """Restarts the relay, unless the demo restarts it: two relays would compete for the port."""
        arguments, folder = again
        if self.is_supervised:
            wait_for("the relay is running", self.pid)
        elif self.pid() is None:
            with open(os.devnull, "r+b") as null:
                child = subprocess.Popen(arguments, cwd=folder, stdin=null, stdout=null, stderr=null)
            atexit.register(end, child)


def alive(pid):
    """Whether the process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def end(child):
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class Stack:
    def __init__(self):
        self.demo = None
        self.folder = None
        self.output = []
        self.store = None
        self.relay = None
        self.url = os.environ.get("CLAIRON_DEMO_URL")
        if self.url:
            folder = os.environ.get("CLAIRON_DEMO_DIR")
            self.folder = Path(folder) if folder else None
        else:
            self._start()
        self.url = self.url.rstrip("/")
        self.dsn = os.environ.get("CLAIRON_DEMO_DSN")
        if self.folder:
            self._read_config()

    def _start(self):
        self.folder = Path(tempfile.mkdtemp(prefix="clairon-e2e-"))
        self.demo = subprocess.Popen(
            [str(ROOT / "docker" / "demo.sh")],
            cwd=ROOT,
            env={
                **os.environ,
                "CLAIRON_DEMO_DIR": str(self.folder),
                # Demos of other test files start at the same time, so each searches for free ports from a random port on.
                "CLAIRON_DEMO_RELAY_PORT": str(random.randrange(10000, 32000)),
                "CLAIRON_DEMO_PAGE_PORT": str(random.randrange(10000, 32000)),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the demo once, through stop()
        )
        atexit.register(self.stop)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = wait_for("the demo prints its address", self._address, START_SECONDS)

    def _read(self):
        for line in self.demo.stdout:
            self.output.append(line)

    def _address(self):
        if self.demo.poll() is not None:
            raise AssertionError("docker/demo.sh exited:\n" + "".join(self.output[-40:]))
        text = "".join(self.output)
        found = re.search(r"https?://(?:127\.0\.0\.1|localhost):\d+", text)
        return found and found.group()

    def _read_config(self):
        path = self.folder / "relay.conf"
        conf = configparser.ConfigParser(interpolation=None, comment_prefixes=("#", ";"))
        conf.read_string(path.read_text())
        self.store = Store(conf["store"]["url"], conf["store"].get("prefix", "clairon"))
        url = "http://" + conf["gate"]["listen"]
        self.relay = Relay(path, url, is_supervised=self.demo is not None)
        if not self.dsn:
            self.dsn = (self.folder / "dsn").read_text().strip()

    def connect(self):
        connection = psycopg2.connect(self.dsn)
        connection.autocommit = True
        return connection

    def stop(self):
        if self.store:
            self.store.close()
        if self.demo:
            if self.demo.poll() is not None:
                print("docker/demo.sh exited:\n" + "".join(self.output[-40:]), file=sys.stderr)
            end(self.demo)
            self.reader.join(WAIT_SECONDS)  # reads the remaining output
            self.demo.stdout.close()
            self.demo = None
            shutil.rmtree(self.folder, ignore_errors=True)


def the_stack():
    global _the_stack
    if _the_stack is None:
        _the_stack = Stack()
    return _the_stack


class StackCase(unittest.TestCase):
    """Test case on the running demo, with helpers that change its tables."""

    @classmethod
    def setUpClass(cls):
        cls.stack = the_stack()
        cls.db = cls.stack.connect()
        cls.addClassCleanup(lambda: cls.db.close())  # a test may replace it

    @classmethod
    def sql(cls, statement, *arguments):
        with cls.db.cursor() as cursor:
            cursor.execute(statement, arguments)
            return cursor.fetchall() if cursor.description else []

    def retitle(self, user="u1", title=None):
        """Changes an assignment of this user; returns its new title."""
        title = title or f"title {uuid.uuid4().hex[:8]}"
        self.sql(
            "UPDATE assignments SET title = %s WHERE id ="
            " (SELECT min(id) FROM assignments WHERE student_id = %s)",
            title,
            user,
        )
        return title

    def announce(self, establishment="s1"):
        """Creates an announcement that each member of the establishment must acknowledge; returns its title."""
        title = f"news {uuid.uuid4().hex[:8]}"
        self.sql(
            "INSERT INTO announcements (establishment_id, author, title) VALUES (%s, 'test', %s)",
            establishment,
            title,
        )
        return title

"""helpers.py: what the tests of the images share: results in TAP, commands, tokens, requests and a client."""

import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

DEADLINE = 300
number = 0


def ok(passed, what, detail=""):
    """Prints one line of TAP."""
    global number
    number += 1
    print(f"{'ok' if passed else 'not ok'} {number} - {what}", flush=True)
    if not passed and detail:
        print("".join(f"#   {line}\n" for line in str(detail).splitlines()), end="", flush=True)
    return passed


def wait_until(what, condition, seconds=DEADLINE):
    """Polls until the result is true and returns it."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def token(key, user):
    """An HS256 token, valid for an hour."""
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    text = b".".join([part(b'{"alg":"HS256","typ":"JWT"}'),
                      part(json.dumps({"sub": user, "exp": int(time.time()) + 3600}).encode())])
    return (text + b"." + part(hmac.new(key, text, hashlib.sha256).digest())).decode()


def get(port, path, **headers):
    """The response; its body is not read yet."""
    connection = http.client.HTTPConnection("localhost", port, timeout=DEADLINE)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def run(command, **settings):
    """Status and output of a shell command."""
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          stdin=None if "input" in settings else subprocess.DEVNULL, **settings)
    return done.returncode, done.stdout.strip()


def must(what, command, **settings):
    """One test: the command succeeds. Otherwise the others are not tried."""
    status, output = run(command, **settings)
    if not ok(status == 0, what, "\n".join(output.splitlines()[-40:])):
        raise RuntimeError(f"status {status}: {command}")
    return output


def written(path, pattern):
    """The command lines of a page or a comment that match."""
    lines = [m.strip("# ") for m in re.findall(pattern, Path(path).read_text(), re.M)]
    if not lines:
        raise RuntimeError(f"{path} has no line {pattern}")
    return "\n".join(lines)


class Client:
    """The JavaScript client, connected as a user."""

    def __init__(self, user, url):
        key = Path("docker/secrets/token_key").read_bytes()
        self.events = []
        self.process = subprocess.Popen(
            ["node", "--experimental-websocket", "--no-warnings", "tests/images/client.mjs", url],
            env={**os.environ, "TOKEN": token(key, user)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Collects its lines."""
        for line in self.process.stdout:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.events.append({"kind": "output", "value": line})

    def of(self, kind):
        """The values of one kind of event."""
        return [event["value"] for event in list(self.events) if event["kind"] == kind]

    def is_open(self):
        """True if the last state is that of a connected client."""
        return (self.of("state") or [{}])[-1].get("state") == "open"

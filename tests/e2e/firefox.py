"""firefox.py: a headless Firefox, driven by its Marionette protocol, because Debian has no geckodriver."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from stack import WAIT_SECONDS, end, wait_for

NAMES = ("firefox-esr", "firefox")
PREFERENCES = {
    "app.normandy.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.enabled": False,
}


def program():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Firefox:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="clairon-firefox-"))
        lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in PREFERENCES.items())
        # Port 0: Firefox chooses a free port and writes it to a file.
        (self.folder / "user.js").write_text("".join(lines) + 'user_pref("marionette.port", 0);\n')
        self.process = subprocess.Popen(
            [program(), "--headless", "--no-remote", "--marionette", "--profile", str(self.folder)],
            env={**os.environ, "HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(end, self.process)
        self.count = 0
        port = wait_for("Firefox has written its port", self._port)
        self.link = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        self.stream = self.link.makefile("rb")
        self._read()  # the server's greeting
        self.execute("NewSession", capabilities={})
        self.start = self.execute("GetWindowHandle")["value"]

    def _port(self):
        assert self.process.poll() is None, "Firefox has ended"
        file = self.folder / "MarionetteActivePort"
        return file.exists() and int(file.read_text() or 0)

    def _read(self):
        digits = b""
        while (byte := self.stream.read(1)) != b":":
            assert byte, "Firefox has closed the connection"
            digits += byte
        return json.loads(self.stream.read(int(digits)))

    def execute(self, command, **arguments):
        self.count += 1
        data = json.dumps([0, self.count, f"WebDriver:{command}", arguments]).encode()
        self.link.sendall(b"%d:%s" % (len(data), data))
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def open_tab(self, url):
        handle = self.execute("NewWindow", type="tab", focus=True)["handle"]
        self.execute("SwitchToWindow", handle=handle)
        self.execute("Navigate", url=url)
        return handle

    def js(self, handle, script):
        self.execute("SwitchToWindow", handle=handle)
        return self.execute("ExecuteScript", script=script, args=[])["value"]

    def wait_js(self, handle, script, *arguments):
        """Like js(), for a script that passes its result to its last argument, a callback."""
        self.execute("SwitchToWindow", handle=handle)
        return self.execute("ExecuteAsyncScript", script=script, args=list(arguments), scriptTimeout=20_000)["value"]

    def close_tab(self, handle):
        self.execute("SwitchToWindow", handle=handle)
        self.execute("CloseWindow")
        self.execute("SwitchToWindow", handle=self.start)

    def quit(self):
        self.stream.close()
        self.link.close()
        end(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)

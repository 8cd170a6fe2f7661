"""notifications.py: a desktop whose notifications a test can click.

Chromium shows notifications through the D-Bus service org.freedesktop.Notifications, as a desktop provides it. This
module runs a bus, and a server of this service that keeps the notifications. A click is the signal ActionInvoked of this
service, as a desktop sends it: for Chromium it is a click of the user, after which a service worker may open and focus pages.
"""

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading

NAME, PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
BUS, BUS_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"
CALL, REPLY, SIGNAL = 1, 2, 4
# Without the session's services, such as those for accessibility.
BUS_CONFIG = """<busconfig>
  <type>session</type>
  <listen>unix:dir={folder}</listen>
  <policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>
"""
FIELDS = {"path": (1, "o"), "interface": (2, "s"), "member": (3, "s"), "reply": (5, "u"), "destination": (6, "s"),
          "sender": (7, "s"), "signature": (8, "g")}
NAMES = {number: name for name, (number, _) in FIELDS.items()}


def is_available():
    return shutil.which("dbus-daemon") is not None


class Writer:
    """Encodes values of D-Bus types: strings, numbers, and arrays of strings."""

    def __init__(self):
        self.data = bytearray()

    def align(self, size):
        self.data += bytes(-len(self.data) % size)

    def number(self, value):
        self.align(4)
        self.data += struct.pack("<I", value)

    def value(self, kind, value):
        if kind == "u":
            self.number(value)
        elif kind == "g":
            self.data += bytes([len(value)]) + value.encode() + b"\0"
        elif kind == "as":
            self.number(0)
            start = len(self.data)
            for each in value:
                self.value("s", each)
            struct.pack_into("<I", self.data, start - 4, len(self.data) - start)
        else:
            raw = value.encode()
            self.number(len(raw))
            self.data += raw + b"\0"


class Reader:
    """Decodes little-endian values."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def align(self, size):
        self.at += -self.at % size

    def number(self):
        self.align(4)
        self.at += 4
        return struct.unpack_from("<I", self.data, self.at - 4)[0]

    def text(self, kind="s"):
        if kind == "g":
            length, self.at = self.data[self.at], self.at + 1
        else:
            length = self.number()
        self.at += length + 1
        return self.data[self.at - length - 1 : self.at - 1].decode()

    def texts(self):
        end = self.number() + self.at
        found = []
        while self.at < end:
            found.append(self.text())
        return found


class Desktop:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="clairon-desktop-")
        config = f"{self.folder}/bus.conf"
        with open(config, "w", encoding="utf-8") as file:
            file.write(BUS_CONFIG.format(folder=self.folder))
        command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address"]
        self.bus = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.bus.stdout.readline().strip()
        self.notifications = {}  # id: its title and body
        self.serial = 0
        self.lock = threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.address.split("path=")[1].split(",")[0])
        self.socket.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
        self.stream = self.socket.makefile("rb")
        assert self.stream.readline().startswith(b"OK"), "the bus rejects this user"
        self.socket.sendall(b"BEGIN\r\n")
        self.call_bus("Hello")
        self.call_bus("RequestName", ("s", NAME), ("u", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        self.bus.terminate()
        self.bus.wait()
        self.bus.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def titles(self):
        return [title for title, _ in self.notifications.values()]

    def click(self, title):
        """A click on the notification with this title."""
        number = next(number for number, (each, _) in self.notifications.items() if each == title)
        self.send(SIGNAL, [("u", number), ("s", "default")], path=PATH, interface=NAME, member="ActionInvoked")

    # ---- messages

    def call_bus(self, member, *values):
        self.send(CALL, values, path=BUS_PATH, interface=BUS, member=member, destination=BUS)

    def send(self, kind, values, **fields):
        body, head = Writer(), Writer()
        for each in values:
            body.value(*each)
        fields["signature"] = "".join(each[0] for each in values)
        with self.lock:
            self.serial += 1
            head.data += struct.pack("<cBBBII", b"l", kind, 0, 1, len(body.data), self.serial)
            head.number(0)
            for name, value in fields.items():
                number, signature = FIELDS[name]
                head.align(8)
                head.data += bytes([number])
                head.value("g", signature)
                head.value(signature, value)
            struct.pack_into("<I", head.data, 12, len(head.data) - 16)
            head.align(8)
            self.socket.sendall(head.data + body.data)

    def receive(self):
        """The fields of the next message, and its body."""
        fixed = self.stream.read(16)
        if len(fixed) < 16:
            return None, None
        _, kind, _, _, length, serial, fields_length = struct.unpack("<cBBBIII", fixed)
        head = Reader(fixed + self.stream.read(fields_length + -fields_length % 8))
        head.at = 16
        fields = {"kind": kind, "serial": serial}
        while head.at < 16 + fields_length:
            head.align(8)
            number, head.at = head.data[head.at], head.at + 1
            signature = head.text("g")
            fields[NAMES.get(number, "")] = head.number() if signature == "u" else head.text(signature)
        return fields, Reader(self.stream.read(length))

    def serve(self):
        while True:
            fields, body = self.receive()
            if fields is None:
                return
            if fields["kind"] == CALL:
                values = getattr(self, "on_" + fields["member"], lambda _: [])(body)
                self.send(REPLY, values, reply=fields["serial"], destination=fields["sender"])

    # ---- methods of the service

    def on_GetCapabilities(self, _):
        return [("as", ["actions", "body", "persistence"])]

    def on_GetServerInformation(self, _):
        return [("s", "test"), ("s", "clairon"), ("s", "1"), ("s", "1.2")]

    def on_Notify(self, body):
        body.text()
        replaced = body.number()
        body.text()
        title, text = body.text(), body.text()
        number = replaced or len(self.notifications) + 1
        self.notifications[number] = (title, text)
        return [("u", number)]

    def on_CloseNotification(self, body):
        number = body.number()
        self.notifications.pop(number, None)
        self.send(SIGNAL, [("u", number), ("u", 3)], path=PATH, interface=NAME, member="NotificationClosed")
        return []

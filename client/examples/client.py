#!/usr/bin/env python3
"""client.py: a client of clairon in Python, to read and to copy.

    client = Client("wss://relay.example.org/v1/ws", token)     # token(): returns a JWT, or is a coroutine function
    client.on_notification = handle                             # an exception requests a retry
    client.on_gap = reload                                      # notifications were lost: load the data again
    tasks = client.live("tasks")                                # tasks.rows follows the rows of a live rule
    await client.run()                                          # until close(), or until the relay rejects the user

It follows PROTOCOL.md over a WebSocket: acknowledgements, duplicates, gaps, backoff, renewal of the token, topics, and
live lists. It passes the scenarios of conformance/. It needs Python 3.11 and the module websockets (Debian:
python3-websockets).

    client.py URL TOKEN [SOURCE]    prints the notifications of the token's user, or the rows of a live rule; URL such
                                    as ws://127.0.0.1:8080/v1/ws
"""
import asyncio
import collections
import inspect
import json
import random
import sys
import time

import websockets

PROTOCOL = "clairon.v1.json"
CONNECT_SECONDS = 10  # for the reply to connect
STABLE_SECONDS = 5  # a connection that lasted longer resets the backoff
FAILURES_MAX = 16  # of the backoff
IDS_KEPT = 4096
HELD_MAX = 10_000  # changes of a list without the end of their transaction
RENEWAL_SECONDS = 30  # before the token expires
TIMER_SECONDS_MAX = 86400


def contains(snapshot, x):
    """Whether a snapshot "xmin:xmax:xip,.." contains the changes of transaction x."""
    xmin, xmax, running = snapshot.split(":")
    return int(x) < int(xmin) or (int(x) < int(xmax) and str(x) not in running.split(","))


class Ids:
    """The newest ids, to recognize duplicates."""

    def __init__(self):
        self.ids = collections.OrderedDict()

    def __contains__(self, id):
        return id in self.ids

    def add(self, id):
        self.ids[id] = True
        if len(self.ids) > IDS_KEPT:
            self.ids.popitem(last=False)


class Live:
    """The rows of a live rule. Changes are shown together at the end of their transaction."""

    def __init__(self, client, source, rule="default", on_change=None, **conditions):
        self.client = client
        self.source = source
        self.rule = rule
        self.conditions = conditions  # where, order, limit
        self.on_change = on_change
        self.key = []
        self.rows = []
        self.snapshot = None
        self.request = None  # number of the pending request
        self.pages = []
        self.held = []  # changes of transactions whose end has not arrived, or that arrived during a request
        self.ended = set()  # their transactions that have ended

    async def load(self):
        self.pages = []
        self.request = self.client.next_request()
        await self.client.send(t="rows", r=self.request, source=self.source, rule=self.rule, **self.conditions)

    async def page(self, frame):
        self.pages += frame["rows"]
        if frame["more"]:
            return
        self.request = None
        self.key, self.rows, self.snapshot = frame["key"], self.pages, frame["snapshot"]
        self.held = [change for change in self.held if not contains(self.snapshot, change[0])]
        self.notify()
        await self.show(self.ended)

    async def failed(self, frame):
        """111: the relay is busy. Other errors end the list, until reload or a new connection."""
        self.request = None
        if frame["code"] == 111:
            asyncio.get_running_loop().call_later(frame.get("after", 1000) / 1000, lambda: asyncio.ensure_future(self.load()))

    async def change(self, x, rule, notification):
        """A late change may arrive behind the end of its transaction, or behind a newer change of its row."""
        is_ours = notification["metadata"]["source"] == self.source and rule == self.rule
        if not is_ours or (self.snapshot and contains(self.snapshot, x)):
            return
        self.held.append((x, notification))
        if notification["routing"]["retry"]["attempts"] > 0 or len(self.held) > HELD_MAX:
            self.held, self.ended = [], set()
            await self.load()

    async def end(self, x):
        """The transaction x is complete."""
        self.ended.add(x)
        if self.request is None and self.snapshot:
            await self.show({x})

    async def show(self, ended):
        changes = [notification for x, notification in self.held if x in ended]
        self.held = [(x, notification) for x, notification in self.held if x not in ended]
        self.ended -= ended
        # Only the relay knows which rows meet conditions; an incomplete change is not applied.
        if changes and (self.conditions or any(map(self.is_incomplete, changes))):
            await self.load()
            return
        for notification in changes:
            self.apply(notification["payload"], notification["metadata"]["operation"])
        if changes:
            self.notify()

    @staticmethod
    def is_incomplete(notification):
        return notification["payload"].get("unchanged") or notification["payload"].get("truncated")

    def apply(self, payload, operation):
        if operation == "truncate":
            self.rows = []
            return
        known = {self.key_of(row): row for row in self.rows}
        for image in (payload["before"], payload["after"]):
            if image is not None and operation != "create":
                known.pop(self.key_of(image), None)
        if payload["after"] is not None and operation != "delete":
            known[self.key_of(payload["after"])] = payload["after"]
        self.rows = list(known.values())

    def key_of(self, row):
        return json.dumps([row.get(column) for column in self.key])

    def notify(self):
        if self.on_change:
            self.on_change(self.rows)


class Client:
    def __init__(self, url, token, *, pos=None, window=None, topics=(), manual=False, base=0.5, cap=30):
        self.url = url
        self.token = token
        self.pos = pos  # cursor: how far this client has read; store it to resume after a restart
        self.window = window
        self.topics = list(topics)
        self.manual = manual  # True: the application calls ack()
        self.base, self.cap = base, cap  # seconds of the backoff
        self.on_notification = self.on_gap = self.on_state = lambda *_: None
        self.socket = None  # set while a connection exists
        self.is_open = False  # `connected` has arrived
        self.user = None
        self.last_request = 0
        self.seen = Ids()
        self.acknowledged = Ids()
        self.lists = []
        self.renewal = None
        self.clock = None  # the relay's clock minus that of the loop
        self.is_closed = False

    def next_request(self):
        self.last_request += 1
        return self.last_request

    async def send(self, **frame):
        """Without a connection the frame is lost: connect, rows and acknowledgements are repeated."""
        if self.socket:
            try:
                await self.socket.send(json.dumps({key: value for key, value in frame.items() if value is not None}))
            except websockets.ConnectionClosed:
                pass

    # ---- what an application calls

    async def ack(self, *ids):
        for id in ids:
            self.acknowledged.add(id)
        await self.send(t="ack", ids=list(ids))

    async def nack(self, id, delay=None):
        await self.send(t="nack", ids=[id], delay=delay)

    async def subscribe(self, topics):
        self.topics += [topic for topic in topics if topic not in self.topics]
        await self.send(t="subscribe", r=self.next_request(), topics=topics)

    async def unsubscribe(self, topics):
        self.topics = [topic for topic in self.topics if topic not in topics]
        await self.send(t="unsubscribe", r=self.next_request(), topics=topics)

    def live(self, source, rule="default", on_change=None, **conditions):
        rows = Live(self, source, rule, on_change, **conditions)
        self.lists.append(rows)
        if self.is_open:  # otherwise `connected` loads it
            asyncio.ensure_future(rows.load())
        return rows

    async def close(self):
        self.is_closed = True
        if self.socket:
            await self.socket.close()

    async def run(self):
        failures = 0
        loop = asyncio.get_running_loop()
        while not self.is_closed:
            begin = loop.time()
            self.bye = {}
            code = await self.connection()
            if self.is_closed or code // 100 == 40:
                break
            failures = 0 if loop.time() - begin > STABLE_SECONDS else min(failures + 1, FAILURES_MAX)
            delay = random.uniform(0, min(self.cap, self.base * 2**failures))
            if code // 100 == 42 and failures <= 1:
                delay = 0  # a restart is no failure, unless the next connection ends soon too
            self.on_state("waiting", code)
            await asyncio.sleep(max(delay, self.bye.get("in", 0) / 1000))
        self.on_state("closed", code)

    # ---- one connection

    async def current_token(self):
        token = self.token()
        return await token if inspect.isawaitable(token) else token

    async def connection(self):
        """Returns the close code."""
        try:
            async with websockets.connect(
                self.url, subprotocols=[PROTOCOL], open_timeout=CONNECT_SECONDS, ping_interval=None, max_size=None
            ) as socket:
                self.socket = socket
                await self.send(t="connect", r=self.next_request(), token=await self.current_token(), pos=self.pos,
                                win=self.window, topics=self.topics or None, ends=True)
                await self.read(socket)
        except (OSError, asyncio.TimeoutError, websockets.WebSocketException):
            pass
        finally:
            was, self.socket, self.is_open = self.socket, None, False
            if self.renewal:
                self.renewal.cancel()
        return self.bye.get("code") or (was and was.close_code) or 1006

    async def read(self, socket):
        silence = CONNECT_SECONDS  # then twice the ping interval
        while True:
            message = await asyncio.wait_for(socket.recv(), silence)
            for line in message.split("\n"):
                frame = json.loads(line)
                handle = getattr(self, f"on_{frame['t']}_frame", None)  # other types belong to later relays
                if handle:
                    await handle(frame)
                if frame["t"] == "connected":
                    silence = 2 * frame["ping"]

    async def on_connected_frame(self, frame):
        if self.user not in (None, frame["user"]):
            self.is_closed = True  # the state belongs to the previous user
            await self.socket.close()
            return
        self.user = frame["user"]
        if not frame["resumed"] or self.pos is None:
            self.pos = frame["pos"]
        self.renew_before(frame.get("exp"), frame.get("now"))
        self.is_open = True
        self.on_state("open", None)
        for rows in self.lists:
            rows.held, rows.ended = [], set()  # the rows that follow contain these changes
            await rows.load()

    async def on_msg_frame(self, frame):
        notification = frame["n"]
        id = notification["metadata"]["id"]
        self.pos = frame["pos"]
        if id in self.seen:
            if id in self.acknowledged:  # the acknowledgement was lost
                await self.ack(id)
            return
        needs_ack = notification["routing"]["retry"]["ack_required"]
        for rows in self.lists:
            await rows.change(frame.get("x"), frame.get("rule"), notification)
        try:
            result = self.on_notification(notification)
            if inspect.isawaitable(result):
                await result
        except Exception:  # the retry will be handled
            if needs_ack:
                await self.nack(id)
            return
        self.seen.add(id)
        if needs_ack and not self.manual:
            await self.ack(id)

    async def on_gap_frame(self, frame):
        self.pos = frame["to"]
        self.on_gap(frame)
        for rows in self.lists:
            await rows.load()

    async def on_end_frame(self, frame):
        self.pos = frame["pos"]
        for rows in self.lists:
            await rows.end(frame["x"])

    async def on_rows_frame(self, frame):
        for rows in self.lists:
            if rows.request == frame["r"]:
                await rows.page(frame)

    async def on_reload_frame(self, frame):
        for rows in self.lists:
            if (rows.source, rows.rule) == (frame["source"], frame["rule"]):
                await rows.load()

    async def on_err_frame(self, frame):
        for rows in self.lists:
            if rows.request is not None and rows.request == frame.get("r"):
                await rows.failed(frame)

    async def on_ping_frame(self, _):
        await self.send(t="pong")

    async def on_bye_frame(self, frame):
        self.bye = frame

    async def on_expiring_frame(self, _):
        await self.refresh()

    async def on_refreshed_frame(self, frame):
        self.renew_before(frame["exp"], None)

    async def refresh(self):
        await self.send(t="refresh", r=self.next_request(), token=await self.current_token())

    def renew_before(self, exp, now_ms):
        """`now_ms` is the relay's clock: the clock of this device may be wrong."""
        if now_ms:
            self.clock = now_ms / 1000 - asyncio.get_running_loop().time()
        elif self.clock is None:
            self.clock = time.time() - asyncio.get_running_loop().time()
        if self.renewal:
            self.renewal.cancel()
        left = exp - self.clock - asyncio.get_running_loop().time() if exp else TIMER_SECONDS_MAX
        wait = max(left * 4 / 5, left - RENEWAL_SECONDS)
        if 0 < wait < TIMER_SECONDS_MAX:  # otherwise `expiring` triggers the renewal
            self.renewal = asyncio.get_running_loop().call_later(wait, lambda: asyncio.ensure_future(self.refresh()))


async def main(url, token, source=None):
    client = Client(url, lambda: token)
    client.on_state = lambda state, code: print(state, code or "", file=sys.stderr)
    client.on_gap = lambda gap: print(json.dumps(gap))
    client.on_notification = lambda notification: print(json.dumps(notification))
    if source:
        client.on_notification = lambda notification: None
        client.live(source, on_change=lambda rows: print(json.dumps(rows)))
    await client.run()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))

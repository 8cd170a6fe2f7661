#!/usr/bin/env python3
"""client_driver.py: lets conformance/play.py control client.py.

It reads the steps of an application from stdin, and writes events to stdout, one JSON object a line. A client in
another language needs such a program too: see conformance/README.md.
"""
import asyncio
import json
import sys

sys.dont_write_bytecode = True
from client import Client  # noqa: E402

client = None
token = None


def emit(**event):
    print(json.dumps(event), flush=True)


def start(step):
    global client, token
    token = step["token"]
    client = Client(step["url"], lambda: token, pos=step.get("pos"), window=step.get("window"), topics=step.get("topics", []),
                    manual=step.get("ack") == "manual", base=0.01, cap=0.01)
    client.on_notification = lambda notification: emit(event="notification", id=notification["metadata"]["id"])
    client.on_gap = lambda gap: emit(event="gap", why=gap["why"])
    client.on_state = lambda state, code: emit(event="state", state=state, code=code)
    asyncio.ensure_future(client.run())


def live(step):
    name, source = step.pop("list"), step.pop("source")
    client.live(source, on_change=lambda rows: emit(event="rows", list=name, rows=rows), **step)


async def perform(step):
    global token
    app = step.pop("app")
    if app == "start":
        start(step)
    elif app == "token":
        token = step["token"]
        emit(event="token")
    elif app == "ack":
        await client.ack(step["id"])
    elif app == "nack":
        await client.nack(step["id"], step.get("delay"))
    elif app in ("subscribe", "unsubscribe"):
        await getattr(client, app)(step["topics"])
    elif app == "live":
        live(step)


async def main():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        await perform(json.loads(line))


asyncio.run(main())

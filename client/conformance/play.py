#!/usr/bin/env python3
"""play.py: plays the scenarios of this folder against a relay, or against a client.

    play.py relay URL [SCENARIO..]                plays the client; URL such as http://127.0.0.1:8080
    play.py client [SCENARIO..] -- COMMAND..      plays the relay for a client that COMMAND starts (see README.md)

Environment: CLAIRON_SECRET, the HS256 secret of the relay; CLAIRON_DATABASE, a connection string of psql for a database
with setup.sql; CLAIRON_SECONDS, the limit of a step; CLAIRON_RECORD, a file to which it adds what it receives.
Needs Python 3.11 and the module websockets (Debian: python3-websockets). Prints one line for each scenario, as TAP,
and exits with 1 after a failure.
"""
import asyncio
import base64
import hashlib
import hmac
import json
import os
import pathlib
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

try:
    import websockets
except ModuleNotFoundError:
    sys.exit(f"play.py: {sys.executable} has no module websockets (Debian: python3-websockets)")

SECONDS = float(os.environ.get("CLAIRON_SECONDS", 60))  # for each step: longer than the ack timeout of a relay
PROTOCOL = "clairon.v1.json"
FOLDER = pathlib.Path(__file__).parent


class Failure(Exception):
    pass


# ---- variables and patterns


def merge(base, more):
    if isinstance(base, dict) and isinstance(more, dict):
        return {**base, **{key: merge(base.get(key), value) for key, value in more.items()}}
    return more


class Variables:
    def __init__(self, values):
        self.values = values  # of variables that are not bound yet
        self.bound = {}

    def get(self, text):
        name, *path = text[1:].split(".")
        value = self.bound[name]
        for each in path:
            value = value[each]
        return value

    def fill(self, pattern):
        """Returns the value to send. An unbound variable takes its value from the scenario."""
        if isinstance(pattern, str) and pattern.startswith("$"):
            name = pattern[1:].split(".")[0]
            if name not in self.bound:
                if name not in self.values:
                    raise Failure(f"{pattern} has no value")
                self.bound[name] = self.values[name]
            return self.fill(self.get(pattern))
        if isinstance(pattern, list):
            return [self.fill(each) for each in pattern]
        if isinstance(pattern, dict):
            filled = {key: self.fill(value) for key, value in pattern.items() if key != "$like"}
            return merge(self.fill(pattern["$like"]), filled) if "$like" in pattern else filled
        return pattern

    def match(self, pattern, actual):
        """True if `actual` has all of the pattern. Binds unbound variables."""
        if isinstance(pattern, str) and pattern.startswith("$"):
            if "." not in pattern and pattern[1:] not in self.bound:
                self.bound[pattern[1:]] = actual
                return True
            return self.match(self.get(pattern), actual)
        if isinstance(pattern, dict):
            if "$like" in pattern:
                pattern = merge(self.get(pattern["$like"]), {key: value for key, value in pattern.items() if key != "$like"})
            return isinstance(actual, dict) and all(key in actual and self.match(each, actual[key]) for key, each in pattern.items())
        if isinstance(pattern, list):
            return isinstance(actual, list) and len(actual) == len(pattern) and all(map(self.match, pattern, actual))
        return type(pattern) is type(actual) and pattern == actual

    def matches(self, pattern, actual):
        """Like match(), but binds nothing if it returns False."""
        before = dict(self.bound)
        if self.match(pattern, actual):
            return True
        self.bound = before
        return False

    def expect(self, pattern, actual):
        if not self.matches(pattern, actual):
            raise Failure(f"expected {json.dumps(pattern)}, got {json.dumps(actual)}")


def part(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def token(claims, user, secret):
    """A token with these claims: `exp` is relative, `signature` replaces the secret."""
    claims = {"sub": user, **claims}
    claims["exp"] = int(time.time()) + claims.get("exp", 3600)
    secret = (claims.pop("signature", "") or secret).encode()
    text = b".".join(part(json.dumps(each).encode()) for each in ({"alg": "HS256", "typ": "JWT"}, claims))
    return b".".join((text, part(hmac.digest(secret, text, hashlib.sha256)))).decode()


async def within(what, awaitable):
    try:
        return await asyncio.wait_for(awaitable, SECONDS)
    except asyncio.TimeoutError:
        raise Failure(f"no {what} within {SECONDS} s") from None


def record(**what):
    """Adds what the relay or the client under test sent to the file CLAIRON_RECORD, one JSON object a line."""
    if os.environ.get("CLAIRON_RECORD"):
        with open(os.environ["CLAIRON_RECORD"], "a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


class Player:
    """Plays one scenario: step_NAME() for each kind of step."""

    kind = ""

    def __init__(self, scenario, user, secret):
        self.scenario = scenario
        self.user = user
        self.vars = Variables(scenario.get("values", {}))
        self.vars.bound["user"] = user
        for name, claims in scenario["tokens"].items():
            self.vars.bound[name] = token(self.vars.fill(claims), user, secret)

    async def play(self):
        for number, step in enumerate(self.scenario["steps"], 1):
            if self.kind not in step.get("tests", [self.kind]):
                continue
            name = next(iter(step))
            try:
                await getattr(self, f"step_{name}")(step)
            except (Failure, KeyError, OSError, websockets.WebSocketException) as error:
                raise Failure(f"step {number} ({name}): {error}") from error

    def notification(self, step):
        return merge({"routing": {"audience": {"type": "USER", "targets": [self.user]}}}, self.vars.fill(step["notification"]))


# ---- plays the client


class WebSocketLink:
    def __init__(self):
        self.incoming = asyncio.Queue()
        self.wants_ends = False

    async def open(self, url):
        self.socket = await websockets.connect(url, subprotocols=[PROTOCOL], max_size=None)
        self.reader = asyncio.ensure_future(self.read())

    async def read(self):
        try:
            async for message in self.socket:
                for line in message.split("\n"):
                    record(side="relay", frame=json.loads(line))
                    if json.loads(line) == {"t": "ping"}:
                        await self.socket.send('{"t":"pong"}')
                    else:
                        self.incoming.put_nowait(json.loads(line))
        except websockets.ConnectionClosed:
            pass
        self.incoming.put_nowait({"closed": self.socket.close_code})

    async def receive(self):
        return await within("frame", self.incoming.get())

    def abort(self):
        self.socket.transport.abort()

    async def close(self):
        self.reader.cancel()
        await self.socket.close()


class StreamLink:
    """An event stream: the id of an event is its cursor."""

    def __init__(self):
        self.incoming = asyncio.Queue()

    async def open(self, url, headers):
        where = urllib.parse.urlsplit(url)
        tls = ssl.create_default_context() if where.scheme == "https" else None
        self.reader, self.writer = await asyncio.open_connection(where.hostname, where.port or (443 if tls else 80), ssl=tls)
        lines = [f"GET {where.path}?{where.query} HTTP/1.1", f"Host: {where.netloc}", *(f"{key}: {value}" for key, value in headers.items())]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = await self.reader.readline()
        if b" 200 " not in status:
            raise Failure(f"event stream: {status.decode().strip()}")
        self.task = asyncio.ensure_future(self.read())

    async def read(self):
        while line := await self.reader.readline():
            if line.startswith(b"data: "):
                self.incoming.put_nowait(json.loads(line[6:]))
        self.incoming.put_nowait({"closed": None})

    async def receive(self):
        return await within("event", self.incoming.get())

    def abort(self):
        self.task.cancel()
        self.writer.transport.abort()

    async def close(self):
        self.abort()


def is_retry(frame):
    return frame.get("t") == "msg" and frame["n"]["routing"]["retry"]["attempts"] > 0


class ClientPlayer(Player):
    kind = "relay"  # what it tests

    def __init__(self, scenario, user, secret, url, database):
        super().__init__(scenario, user, secret)
        self.url = url.rstrip("/")
        self.database = database
        self.links = {}
        self.poll = None
        self.publisher = token({"sub": "conformance", "publish": True}, user, secret)

    def link(self, step):
        return self.links[step.get("on", "a")]

    def http(self, method, path, bearer=None, body=None, headers=None):
        """Returns status, headers and the body, decoded if it is JSON."""
        request = urllib.request.Request(self.url + path, method=method, headers=headers or {})
        if bearer:
            request.add_header("Authorization", f"Bearer {bearer}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                status, received, text = response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            status, received, text = error.code, error.headers, error.read().decode()
        lower = {key.lower(): value for key, value in received.items()}
        record(method=method, path=path, status=status, headers=lower, body=text)
        return status, received, text

    async def step_connect(self, step):
        kind = step["connect"]
        await asyncio.sleep(step.get("after", 0) / 1000)
        query = {"pos": self.vars.fill(step["pos"])} if "pos" in step else {}
        bearer = self.vars.bound["token"]
        if "ticket" in step:
            query["ticket"] = self.vars.fill(step["ticket"])
        target = f"{self.url}/v1/{kind}?{urllib.parse.urlencode(query)}"
        if kind == "poll":
            path = f"/v1/poll?{urllib.parse.urlencode({**query, 'wait': 2})}"
            self.poll = asyncio.ensure_future(asyncio.to_thread(self.http, "GET", path, bearer))
            return
        link = WebSocketLink() if kind == "ws" else StreamLink()
        if kind == "ws":
            await link.open(target.replace("http", "ws", 1).rstrip("?"))
        else:
            await link.open(target, {"Authorization": f"Bearer {bearer}"})
        self.links[step.get("on", "a")] = link

    async def step_client(self, step):
        frame = self.vars.fill(step["client"])
        link = self.links.get(step.get("on", "a"))
        if isinstance(link, WebSocketLink):
            link.wants_ends |= frame.get("ends", False)
            await link.socket.send(json.dumps(frame))
            return
        body = {key: value for key, value in frame.items() if key != "t"}
        status, _, text = await asyncio.to_thread(self.http, "POST", f"/v1/{frame['t']}", self.vars.bound["token"], body)
        if status != 204:
            raise Failure(f"POST /v1/{frame['t']}: {status} {text}")

    async def step_text(self, step):
        await self.link(step).socket.send(step["text"])

    async def step_relay(self, step):
        if self.poll:
            await self.polled(step)
            return
        if step.get("if") == "ends" and not getattr(self.link(step), "wants_ends", False):
            return
        for pattern in step["relay"] if isinstance(step["relay"], list) else [step["relay"]]:
            frame = await self.link(step).receive()
            while is_retry(frame) and not self.vars.matches(pattern, frame):
                frame = await self.link(step).receive()  # a retry may arrive at any time
            self.vars.expect(pattern, frame)

    async def polled(self, step):
        status, headers, text = await within("response", self.poll)
        self.poll = None
        frames = [json.loads(line) for line in text.splitlines()]
        if status != (200 if step["relay"] else 204):
            raise Failure(f"GET /v1/poll: {status} {text}")
        self.vars.expect(step["relay"], frames)
        self.vars.expect(step["pos"], headers["Clairon-Pos"])

    async def step_close(self, step):
        self.vars.expect({"closed": step["close"]}, await self.link(step).receive())

    async def step_break(self, step):
        self.link(step).abort()

    async def step_publish(self, step):
        notification = self.notification(step)
        status, _, text = await asyncio.to_thread(self.http, "POST", "/v1/notifications", self.publisher, notification)
        if status != 201:
            raise Failure(f"POST /v1/notifications: {status} {text}")
        del notification["routing"]  # a recipient receives it in another form
        self.vars.bound[step["publish"]] = merge(notification, {"metadata": {"id": json.loads(text)["id"]}})

    async def step_sql(self, step):
        await self.execute(step["sql"])
        status, _, text = await asyncio.to_thread(self.http, "GET", "/v1/barrier", self.publisher)
        if status != 200:  # otherwise the relay has the notifications
            raise Failure(f"GET /v1/barrier: {status} {text}")

    async def execute(self, sql):
        sql = sql.replace("$user", self.user)
        psql = await asyncio.create_subprocess_exec("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", self.database, "-c", sql)
        if await psql.wait() != 0:
            raise Failure(f"psql failed: {sql}")

    async def step_change(self, step):
        self.vars.bound[step["change"]] = self.vars.fill(step["notification"])
        del self.vars.bound[step["change"]]["metadata"]["topic"]  # a setting of the relay
        await self.execute(step["sql"])

    async def step_request(self, step):
        request, expected = self.vars.fill(step["request"]), step["response"]
        status, headers, text = await asyncio.to_thread(
            self.http, request["method"], request["path"].replace("$user", self.user), request.get("token"), request.get("body"), request.get("headers")
        )
        self.vars.expect(expected["status"], status)
        for name, value in expected.get("headers", {}).items():
            self.vars.expect(value, headers[name])
        if "body" in expected:
            self.vars.expect(expected["body"], json.loads(text))

    async def step_app(self, step):
        pass  # of a client under test

    async def end(self):
        for link in self.links.values():
            await link.close()
        if self.database:
            await self.execute("DELETE FROM conformance_tasks WHERE owner = '$user'")


# ---- plays the relay


class RelayPlayer(Player):
    kind = "client"  # what it tests

    def __init__(self, scenario, user, secret, command):
        super().__init__(scenario, user, secret)
        self.command = command
        self.opened = asyncio.Queue()  # WebSockets that the client has opened
        self.socket = None
        self.connect = {}
        self.times = 0
        self.ended = 0.0  # time at which the last connection ended
        self.events = {"notification": asyncio.Queue(), "gap": asyncio.Queue(), "token": asyncio.Queue()}
        self.state = {}
        self.rows = {}
        self.changed = asyncio.Event()

    async def begin(self):
        self.server = await websockets.serve(self.serve, "127.0.0.1", 0, subprotocols=[PROTOCOL])
        self.port = next(iter(self.server.sockets)).getsockname()[1]
        self.driver = await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        self.reader = asyncio.ensure_future(self.read_events())

    async def serve(self, socket, *_):
        frames = asyncio.Queue()
        socket.frames = frames
        self.opened.put_nowait((socket, time.monotonic()))
        try:
            async for message in socket:
                for line in message.split("\n"):
                    record(side="client", frame=json.loads(line))
                    frames.put_nowait(json.loads(line))
        except websockets.ConnectionClosed:
            pass

    async def read_events(self):
        while line := await self.driver.stdout.readline():
            event = json.loads(line)
            if event["event"] == "state":
                self.state = event
            elif event["event"] == "rows":
                self.rows[event["list"]] = event["rows"]
            else:
                self.events[event["event"]].put_nowait(event)
            self.changed.set()

    async def step_connect(self, step):
        socket, at = await within("connection", self.opened.get())
        if "after" in step and (at - self.ended) * 1000 < step["after"]:
            raise Failure(f"the client reconnected after {(at - self.ended) * 1000:.0f} ms")
        if step.get("reject"):
            socket.transport.abort()
        else:
            self.socket = socket

    async def frame(self):
        """The next frame of the client. Pings are answered, whenever they arrive."""
        while True:
            frame = await within("frame", self.socket.frames.get())
            if frame["t"] != "ping":
                return frame
            await self.socket.send('{"t":"pong"}')

    async def step_client(self, step):
        pattern = step["client"]
        if pattern["t"] == "ack":
            await self.acknowledged({self.vars.fill(each) for each in pattern["ids"]})
            return
        frame = await self.frame()
        self.vars.expect(pattern, frame)
        if frame["t"] == "connect":
            self.connect = frame

    async def acknowledged(self, ids):
        """A client may acknowledge in several frames, and in any order."""
        while ids:
            frame = await self.frame()
            if frame["t"] != "ack" or not set(frame["ids"]) <= ids:
                raise Failure(f"expected acks of {sorted(ids)}, got {json.dumps(frame)}")
            ids -= set(frame["ids"])

    async def step_relay(self, step):
        if step.get("if") == "ends" and not self.connect.get("ends"):
            return
        frames = step["relay"] if isinstance(step["relay"], list) else [step["relay"]]
        await self.socket.send("\n".join(json.dumps(self.vars.fill(each)) for each in frames))

    async def step_close(self, step):
        self.ended = time.monotonic()
        await self.socket.close(step["close"])

    async def step_break(self, _):
        self.ended = time.monotonic()
        self.socket.transport.abort()

    def bind(self, name, notification):
        self.times += 1
        needs_ack = notification["routing"].get("retry", {}).get("ack_required", False)
        default = {
            "metadata": {
                "id": str(uuid.uuid4()), "priority": "NORMAL", "type": "NOTIFICATION", "emitter": "conformance",
                "source": "notify", "topic": "notify", "operation": "notify",
                "timestamp": f"2026-03-05T12:00:{self.times:02}.000000Z",
            },
            "routing": {"retry": {"ack_required": needs_ack, "enabled": needs_ack, "attempts": 0, "limit": 5, "backoff": "EXPONENTIAL"}},
        }
        self.vars.bound[name] = merge(default, notification)

    async def step_publish(self, step):
        self.bind(step["publish"], self.notification(step))

    async def step_change(self, step):
        self.bind(step["change"], self.notification(step))

    async def step_sql(self, step):
        pass  # the rows are in the frames

    async def step_app(self, step):
        step = {"app": step["app"], **self.vars.fill({key: value for key, value in step.items() if key != "app"})}
        expect = getattr(self, f"expect_{step['app']}", None)
        if expect:
            await expect(step)
            return
        if step["app"] == "start":
            step = {"token": self.vars.bound["token"], "url": f"ws://127.0.0.1:{self.port}/v1/ws", **step}
        self.driver.stdin.write((json.dumps(step) + "\n").encode())
        await self.driver.stdin.drain()
        if step["app"] == "token":  # the next step may make the client request it
            await within("event of the token", self.events["token"].get())

    async def expect_receive(self, step):
        event = await within("notification", self.events["notification"].get())
        self.vars.expect({"id": step["id"]}, event)

    async def expect_gap(self, step):
        event = await within("gap", self.events["gap"].get())
        self.vars.expect({"why": step["why"]}, event)

    async def until(self, what, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), end - time.monotonic())
            except asyncio.TimeoutError:
                raise Failure(f"{what}; the client has {json.dumps([self.state, self.rows])}") from None

    async def expect_state(self, step):
        pattern = {key: value for key, value in step.items() if key != "app"}
        await self.until(f"expected {json.dumps(pattern)}", lambda: self.vars.matches(pattern, self.state))

    async def expect_rows(self, step):
        def listed(rows):
            return rows if step.get("ordered") else sorted(rows, key=json.dumps)

        name, rows = step["list"], listed(step["rows"])
        await self.until(f"expected rows {json.dumps(rows)}", lambda: listed(self.rows.get(name, [])) == rows)

    async def end(self):
        self.reader.cancel()
        if self.driver.returncode is None:
            self.driver.kill()
        await self.driver.wait()
        self.server.close()
        await self.server.wait_closed()


# ---- scenarios


def scenarios(kind, names, available):
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        scenario = json.loads(path.read_text(encoding="utf-8"))
        if kind in scenario["tests"] and (not names or path.stem in names):
            missing = sorted(set(scenario.get("needs", [])) - available)
            found.append((path.stem, scenario, missing))
    unknown = set(names) - {name for name, _, _ in found}
    if unknown:
        sys.exit(f"play.py: no such scenario: {', '.join(sorted(unknown))}")
    return found


async def run(kind, names, available, make):
    listed = scenarios(kind, names, available)
    failures = 0
    print(f"1..{len(listed)}", flush=True)
    for number, (name, scenario, missing) in enumerate(listed, 1):
        label = f"{number} - {name}: {scenario['name']}"
        if missing:
            print(f"ok {label} # SKIP needs {', '.join(missing)}", flush=True)
            continue
        player = make(scenario)
        try:
            if isinstance(player, RelayPlayer):
                await player.begin()
            await player.play()
            print(f"ok {label}", flush=True)
        except Failure as error:
            failures += 1
            print(f"not ok {label}\n# {error}", flush=True)
        finally:
            await player.end()
    return failures


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("relay", "client"):
        sys.exit(__doc__)
    if sys.argv[1] == "relay":
        secret, database = os.environ.get("CLAIRON_SECRET"), os.environ.get("CLAIRON_DATABASE")
        if not secret:
            sys.exit("play.py: set CLAIRON_SECRET to the HS256 secret of the relay")
        available = {"publish", "sse", "poll"} | ({"database", "rows", "conditions"} if database else set())
        failures = asyncio.run(run("relay", sys.argv[3:], available, lambda scenario: ClientPlayer(
            scenario, f"conformance-{secrets.token_hex(6)}", secret, sys.argv[2], database)))
    else:
        at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
        if at + 1 >= len(sys.argv):
            sys.exit("play.py: the command of the client follows --")
        available = {"publish", "database", "rows"} | set(os.environ.get("CLAIRON_CLIENT", "").split(","))
        failures = asyncio.run(run("client", sys.argv[2:at], available, lambda scenario: RelayPlayer(
            scenario, "u1", "secret", sys.argv[at + 1:])))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

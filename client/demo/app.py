#!/usr/bin/python3
"""app.py: the demo's application server: serves the page, signs tokens and writes to tables."""

import argparse
import base64
import hashlib
import hmac
import json
import mimetypes
import sys
import time
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import psycopg2.extensions
import psycopg2.extras

FOLDER = Path(__file__).resolve().parent
CLIENT = FOLDER.parent
ROOTS = {
    "/client/": CLIENT / "dist",
    "/dist/": CLIENT / "dist",
    "/examples/": CLIENT / "examples",
    "/": FOLDER,
}
FILES = {"index.html", "demo.js", "pane.js", "items.js", "world.js", "format.js", "style.css", "icon.svg"}
TOKEN_SECONDS = 600
MAX_BODY_BYTES = 16 * 1024
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class BadRequest(Exception):
    """An invalid request; the page displays the message."""


# --- tokens --------------------------------------------------------------------------------------


def mint(secret, user, now):
    """Signs a JWT with HS256: three parts of unpadded base64url."""

    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    exp = int(now) + TOKEN_SECONDS
    head = part(b'{"alg":"HS256","typ":"JWT"}')
    body = part(json.dumps({"sub": user, "iat": int(now), "exp": exp}).encode())
    signature = part(hmac.new(secret, head + b"." + body, hashlib.sha256).digest())
    return {"token": b".".join((head, body, signature)).decode(), "exp": exp}


def read_secret(path):
    data = Path(path).read_bytes()
    return data[:-1] if data.endswith(b"\n") else data


# --- the tables ----------------------------------------------------------------------------------


class Tables:
    """Each method is one transaction; the code does not depend on clairon."""

    def __init__(self, dsn):
        self.dsn = dsn

    @contextmanager
    def cursor(self):
        # Uses one connection per request, which is slow, but survives a restart of the database without a pool.
        connection = psycopg2.connect(self.dsn, connect_timeout=5)
        try:
            with connection, connection.cursor(
                cursor_factory=psycopg2.extras.RealDictCursor
            ) as cursor:
                yield cursor
        finally:
            connection.close()

    def people(self):
        with self.cursor() as c:
            c.execute("SELECT id, name FROM person ORDER BY id = 'admin', id")
            return c.fetchall()

    def choices(self):
        """The options for the page's forms."""
        with self.cursor() as c:
            c.execute("SELECT id, name FROM establishments ORDER BY id")
            establishments = c.fetchall()
            c.execute("SELECT id, student_id, title FROM assignments ORDER BY student_id, id")
            assignments = c.fetchall()
            c.execute("SELECT id, owner FROM account ORDER BY id")
            accounts = c.fetchall()
        return {
            "establishments": establishments,
            "assignments": assignments,
            "accounts": accounts,
        }

    def name(self, c, key):
        """The name of a person or an establishment, or the key itself if it is unknown."""
        c.execute(
            "SELECT name FROM person WHERE id = %s UNION ALL SELECT name FROM establishments WHERE id = %s",
            (key, key),
        )
        found = c.fetchone()
        return found["name"] if found else key

    def assignment(self, assignment_id, status, grade):
        if grade is not None and not 0 <= grade <= 20:
            raise BadRequest("the grade must be 0 to 20")
        with self.cursor() as c:
            c.execute(
                "UPDATE assignments SET status = %s, grade = %s WHERE id = %s",
                (status, grade, assignment_id),
            )
            if c.rowcount == 0:
                raise BadRequest(f"assignment {assignment_id} does not exist")
        return {"done": f"assignment {assignment_id} is now {status}"}

    def member(self, establishment, user, role):
        with self.cursor() as c:
            if role == "none":
                c.execute(
                    "DELETE FROM members WHERE establishment_id = %s AND user_id = %s",
                    (establishment, user),
                )
                return {"done": f"{self.name(c, user)} has left {self.name(c, establishment)}"}
            c.execute(
                "INSERT INTO members (establishment_id, user_id, role) VALUES (%s, %s, %s)"
                " ON CONFLICT (establishment_id, user_id) DO UPDATE SET role = excluded.role",
                (establishment, user, role),
            )
            return {"done": f"{self.name(c, user)} is now {role} in {self.name(c, establishment)}"}

    def announcement(self, establishment, title):
        with self.cursor() as c:
            c.execute(
                "INSERT INTO announcements (establishment_id, author, title)"
                " VALUES (%s, 'admin', %s)",
                (establishment, title),
            )
            return {"done": f"announced to {self.name(c, establishment)}"}

    def message(self, user, text):
        with self.cursor() as c:
            c.execute("SELECT send_message(%s, %s)", (user, text))
        return {"done": "sent"}

    def read(self, user, last):
        with self.cursor() as c:
            c.execute(
                "UPDATE inbox SET read_at = now() WHERE user_id = %s AND id <= %s AND read_at IS NULL",
                (user, last),
            )
            return {"done": f"{c.rowcount} entries read"}

    def mute(self, user, kind, is_muted):
        with self.cursor() as c:
            if is_muted:
                c.execute("INSERT INTO muted VALUES (%s, %s) ON CONFLICT DO NOTHING", (user, kind))
            else:
                c.execute("DELETE FROM muted WHERE user_id = %s AND kind = %s", (user, kind))
            return {"done": f"{kind} {'muted' if is_muted else 'not muted'}"}

    def transfer(self, key, debtor, creditor, amount):
        with self.cursor() as c:
            c.execute(
                "SELECT transfer(%s, %s, %s, %s) AS moved", (key, debtor, creditor, amount)
            )
            moved = c.fetchone()["moved"]
            notices = [n.strip().removeprefix("NOTICE:").strip() for n in c.connection.notices]
        text = f"{amount} moved from {debtor} to {creditor}"
        return {"done": text if moved else notices[-1], "moved": moved}


# --- requests ------------------------------------------------------------------------------------


def field(body, name, kind=str):
    value = body.get(name)
    if kind is str and isinstance(value, str) and 0 < len(value) <= 200:
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is bool and isinstance(value, bool):
        return value
    raise BadRequest(f'"{name}" is missing or invalid')


def decimal_field(body, name, optional=False):
    value = body.get(name)
    if optional and value in (None, ""):
        return None
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        raise BadRequest(f'"{name}" is not a number')
    return number


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "clairon-demo"
    timeout = 60

    # Accepts only requests of the demo page. Other pages cannot send JSON without a CORS preflight. is_own_host()
    # rejects foreign names that resolve to this machine.
    def do_POST(self):
        body = self.body()
        if body is None:
            return
        routes = {
            "/api/token": lambda: self.token(field(body, "user")),
            "/api/assignment": lambda: self.server.tables.assignment(
                field(body, "id", int), field(body, "status"), decimal_field(body, "grade", True)
            ),
            "/api/member": lambda: self.server.tables.member(
                field(body, "establishment"), field(body, "user"), field(body, "role")
            ),
            "/api/announcement": lambda: self.server.tables.announcement(
                field(body, "establishment"), field(body, "title")
            ),
            "/api/message": lambda: self.server.tables.message(field(body, "user"), field(body, "text")),
            "/api/read": lambda: self.server.tables.read(field(body, "user"), field(body, "last", int)),
            "/api/mute": lambda: self.server.tables.mute(
                field(body, "user"), field(body, "kind"), field(body, "isMuted", bool)
            ),
            "/api/transfer": lambda: self.server.tables.transfer(
                field(body, "key"),
                field(body, "from"),
                field(body, "to"),
                decimal_field(body, "amount"),
            ),
        }
        self.respond(routes.get(urlsplit(self.path).path))

    def do_GET(self):
        if not self.is_own_host():
            return
        path = urlsplit(self.path).path
        if path == "/api/config":
            self.respond(self.config)
        else:
            self.file(path)

    def config(self):
        return {
            "relay": self.server.relay,
            "psql": self.server.psql,
            "people": self.server.tables.people(),
            **self.server.tables.choices(),
        }

    def token(self, user):
        if user not in {p["id"] for p in self.server.tables.people()}:
            raise BadRequest(f"user {user} does not exist")
        return mint(self.server.secret, user, time.time())

    def is_own_host(self):
        if self.headers.get("Host", "").lower() in self.server.hosts:
            return True
        self.reply(421, {"error": "host not allowed"})
        return False

    def body(self):
        """The JSON object of the request body, or None after an error response."""
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_BODY_BYTES:
            self.close_connection = True  # the body is not read
            self.reply(413, {"error": f"the body is larger than {MAX_BODY_BYTES} bytes"})
            return None
        data = self.rfile.read(length)
        if not self.is_own_host():
            return None
        if self.headers.get_content_type() != "application/json":
            self.reply(415, {"error": "the content type must be application/json"})
            return None
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.reply(400, {"error": "the body is not a JSON object"})
            return None
        return body

    def respond(self, action):
        if action is None:
            self.reply(404, {"error": "not found"})
            return
        try:
            self.reply(200, action())
        except BadRequest as error:
            self.reply(400, {"error": str(error)})
        except psycopg2.OperationalError as error:
            self.log_error("database: %s", str(error).strip())
            self.reply(503, {"error": "the database is unavailable"})
        except psycopg2.Error as error:
            self.reply(400, {"error": error.diag.message_primary or str(error).strip()})

    def file(self, path):
        if path == "/":
            path = "/index.html"
        if path == "/clairon-worker.js":
            path = "/dist/worker.js"  # a service worker controls only the pages below its own path
        for prefix, root in ROOTS.items():
            name = path.removeprefix(prefix)
            known = FILES if root == FOLDER else {p.name for p in root.iterdir() if p.suffix in (".js", ".html")}
            if path.startswith(prefix) and name in known:
                kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
                if name.endswith(".js"):
                    kind = "text/javascript"
                self.send(200, (root / name).read_bytes(), f"{kind}; charset=utf-8")
                return
        self.reply(404, {"error": "not found"})

    def reply(self, status, value):
        data = json.dumps(value, ensure_ascii=False).encode()
        self.send(status, data, "application/json")

    def send(self, status, data, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in SECURITY_HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", self.server.policy)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format, *args):
        if self.server.verbose:
            super().log_message(format, *args)

    def log_error(self, format, *args):
        sys.stderr.write("app: " + format % args + "\n")


class App(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, options):
        host, _, port = options.listen.rpartition(":")
        super().__init__((host, int(port)), Handler)
        # With port 0 the system chooses the port.
        host, port = host, self.server_address[1]
        self.hosts = {f"{name}:{port}" for name in {host, "localhost"}}
        self.relay = options.relay
        self.secret = read_secret(options.secret_file)
        self.tables = Tables(options.dsn)
        self.psql = psql_line(options.dsn)
        self.verbose = options.verbose
        socket_url = options.relay.replace("http", "ws", 1)
        reachable = f"'self' {socket_url} {options.relay}"
        self.policy = f"default-src 'self'; connect-src {reachable}; frame-ancestors 'none'"


def psql_line(dsn):
    """The psql command for the same database, without the password."""
    parts = psycopg2.extensions.parse_dsn(dsn)
    parts.pop("password", None)
    return f'psql "{psycopg2.extensions.make_dsn(**parts)}"'


def main():
    parser = argparse.ArgumentParser(description="The demo's application server.")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--relay", required=True, metavar="URL", help="http://HOST:PORT of the relay")
    parser.add_argument("--dsn", required=True, help="connection string of the demo's database")
    parser.add_argument("--secret-file", required=True, help="the relay's HS256 secret")
    parser.add_argument("--verbose", action="store_true", help="log every request")
    try:
        app = App(parser.parse_args())
    except (OSError, ValueError, psycopg2.Error) as error:
        sys.exit(f"app: could not start: {str(error).strip()}")
    host, port = app.server_address[:2]
    print(f"app: serving http://{host}:{port}/", flush=True)
    try:
        app.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

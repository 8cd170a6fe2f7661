"""test_storm.py: a program whose connections break at random bytes receives each notification once, in order."""

import itertools
import random
import subprocess
import tempfile
import unittest
import urllib.parse
import uuid
from pathlib import Path

from proxy import Proxy
from stack import ROOT, StackCase, end, wait_for

ROUNDS = 40  # minimum number of notifications
BROKEN = 6  # minimum number of connections that the proxy closes

# Prints each notification that its handlers receive, and each connection, as a line.
PROGRAM = """
import { connect } from 'CLIENT';
const [url, token, way] = process.argv.slice(1);
const client = connect({ url, token, transports: [way], backoff: { base: 10, cap: 100 } });
const next = () => new Promise((resolve) => { ['message', 'state'].forEach((name) => client.on(name, resolve)); });
client.on('*', async (n) => {
  console.log(n.payload.after?.title ?? n.payload.title);
  await next(); // the connection may break before the ack
});
client.on('state', ({ state }) => { if (state === 'open') console.log('open'); });
client.on('gap', () => { console.log('gap'); });
process.on('SIGINT', () => client.close());
"""


class Storm(StackCase):
    def setUp(self):
        address = urllib.parse.urlsplit(self.stack.relay.url)
        self.proxy = Proxy(address.hostname, address.port)
        self.addCleanup(self.proxy.close)

    def start(self, user, way):
        """Starts the program; returns a function that returns the lines that it has written."""
        out = tempfile.NamedTemporaryFile(prefix="clairon-storm-")
        self.addCleanup(out.close)
        program = PROGRAM.replace("CLIENT", (ROOT / "client/dist/index.js").as_uri())
        token = self.stack.relay.token("--sub", user)
        command = ["node", "--input-type=module", "-e", program, self.proxy.url, token, way]
        self.addCleanup(end, subprocess.Popen(command, stdout=out))
        return lambda: Path(out.name).read_text().splitlines()

    def lose_connections(self, way, life):
        """Limits every connection, because one without a limit would last until the end of the test."""
        lines = self.start("u2", way)
        wait_for("the program is connected", lambda: "open" in lines())
        wanted = {True: [], False: []}  # key: whether an ack is required
        self.proxy.limit = life
        self.proxy.cut()
        self.proxy.restore()
        for number in itertools.count():
            if number >= ROUNDS and self.proxy.broken >= BROKEN:
                break
            needs_ack = number % 4 == 0
            title = f"storm {uuid.uuid4().hex[:8]}"
            self.sql(
                "SELECT clairon.notify('USER', '{u2}', jsonb_build_object('title', %s::text, 'pad', repeat('x', 400)),"
                " ack_required => %s)",
                title,
                needs_ack,
            )
            wanted[needs_ack].append(title)
            if number % 8 == 7:
                wait_for("the notification arrives", lambda last=title: last in lines())
        self.proxy.limit = lambda: None
        self.proxy.cut()
        self.proxy.restore()
        titles = wanted[True] + wanted[False]
        wait_for("each message is printed", lambda: set(titles) <= set(lines()))
        self.assertEqual([line for line in lines() if line in wanted[False]], wanted[False])
        self.assertEqual(sorted(line for line in lines() if line in wanted[True]), sorted(wanted[True]))
        self.assertNotIn("gap", lines())

    def test_sse_survives_cut_streams(self):
        dice = random.Random(1)
        self.lose_connections("sse", lambda: dice.randrange(1, 6000))

    def test_polls_survive_cut_responses(self):
        dice = random.Random(2)
        self.lose_connections("poll", lambda: dice.randrange(1, 12000))


if __name__ == "__main__":
    unittest.main()

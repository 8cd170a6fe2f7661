"""test_eportfolio.py: an announcement for a role reaches exactly the members of the establishment with that role."""

import json
import unittest
import urllib.parse
import urllib.request
import uuid

from stack import StackCase, wait_for


class Reader:
    """A user that polls for new notifications."""

    def __init__(self, relay, user):
        self.relay = relay
        self.user = user
        self.token = relay.token("--sub", user)
        self.position = self.notes = None
        self.poll()
        self.notes = []

    def request(self, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.relay.url}{path}", data, headers)
        return urllib.request.urlopen(request, timeout=20)

    def poll(self):
        position = f"&pos={urllib.parse.quote(self.position)}" if self.position else ""
        with self.request(f"/v1/poll?wait=0{position}") as answer:
            lines = [json.loads(line) for line in answer.read().splitlines()]
            self.position = answer.headers["Clairon-Pos"]
        if self.notes is not None:
            self.notes += [line["n"] for line in lines if line["t"] == "msg"]

    def titled(self, title):
        return [note for note in self.notes if (note["payload"].get("after") or {}).get("title") == title]

    def wait(self, title):
        def found():
            self.poll()
            return self.titled(title)

        return wait_for(f"{title} for {self.user}", found)


class EPortfolio(StackCase):
    def setUp(self):
        self.relay = self.stack.relay
        if not self.relay:
            self.skipTest("the folder of the demo is not known")

    def new_person(self, role, *establishments):
        user = f"p{uuid.uuid4().hex[:8]}"
        self.sql("INSERT INTO person (id, name, role) VALUES (%s, %s, %s)", user, user, role)
        self.addCleanup(self.sql, "DELETE FROM person WHERE id = %s", user)
        for establishment in establishments:
            self.sql("INSERT INTO members VALUES (%s, %s, 'staff')", establishment, user)
        self.addCleanup(self.sql, "DELETE FROM members WHERE user_id = %s", user)
        return user

    def announce_for(self, role, establishment):
        title = f"news {uuid.uuid4().hex[:8]}"
        self.sql(
            "INSERT INTO announcements (establishment_id, for_role, author, title)"
            " VALUES (%s, %s, 'admin', %s)",
            establishment,
            role,
            title,
        )
        return title

    def settle(self, *readers):
        """Waits for a later notification, so that all earlier ones have arrived."""
        title = f"end {uuid.uuid4().hex[:8]}"
        self.sql(
            "SELECT clairon.notify('USER', %s, jsonb_build_object('after', jsonb_build_object('title', %s)))",
            [reader.user for reader in readers],
            title,
        )
        for reader in readers:
            reader.wait(title)

    def readers(self, *users):
        return [Reader(self.relay, user) for user in users]

    def test_administrators_have_the_role_and_the_membership(self):
        administrator = self.new_person("admin", "s1")
        elsewhere = self.new_person("admin", "s2")
        nowhere = self.new_person("admin")
        member = self.new_person("user", "s1")
        readers = self.readers(administrator, "admin", elsewhere, nowhere, member, "u1", "u3")
        title = self.announce_for("admin", "s1")
        (note,) = readers[0].wait(title)
        self.settle(*readers)
        self.assertEqual([len(reader.titled(title)) for reader in readers], [1, 1, 0, 0, 0, 0, 0])
        self.assertEqual(note["routing"]["audience"], {"type": "STRUCTURE+ROLE", "targets": ["s1+admin"]})
        self.assertEqual(note["metadata"]["emitter"], "admin")
        note_id = note["metadata"]["id"]
        expected = {administrator: False, "admin": False}
        self.assertEqual(self.stack.store.who_acked(note_id), expected)
        for reader in readers[:2]:
            self.assertEqual(reader.request("/v1/ack", {"ids": [note_id]}).status, 204)
        wait_for("no pending acks", lambda: self.stack.store.who_acked(note_id) == {})

    def test_administrators_follow_changes_of_role_and_establishment(self):
        demoted = self.new_person("admin", "s1")
        moved = self.new_person("admin", "s1")
        promoted = self.new_person("user", "s1")
        readers = self.readers("admin", demoted, moved, promoted)
        self.sql("UPDATE person SET role = 'user' WHERE id = %s", demoted)
        self.sql("UPDATE members SET establishment_id = 's2' WHERE user_id = %s", moved)
        self.sql("UPDATE person SET role = 'admin' WHERE id = %s", promoted)
        title = self.announce_for("admin", "s1")
        (note,) = readers[0].wait(title)
        self.settle(*readers)
        self.assertEqual([len(reader.titled(title)) for reader in readers], [1, 0, 0, 1])
        for reader in (readers[0], readers[3]):
            reader.request("/v1/ack", {"ids": [note["metadata"]["id"]]})

    def test_an_announcement_without_a_role_reaches_each_member_once(self):
        elsewhere = self.new_person("admin", "s2")
        readers = self.readers("admin", "u1", "u2", elsewhere)
        title = self.announce_for(None, "s1")
        (note,) = readers[0].wait(title)
        self.settle(*readers)
        self.assertEqual([len(reader.titled(title)) for reader in readers], [1, 1, 1, 0])
        self.assertEqual(note["routing"]["audience"], {"type": "STRUCTURE", "targets": ["s1"]})
        for reader in readers[:3]:
            reader.request("/v1/ack", {"ids": [note["metadata"]["id"]]})


if __name__ == "__main__":
    unittest.main()

"""test_eportfolio.py: an announcement for a role reaches exactly the members of the establishment with that role."""

import json
import unittest
import urllib.parse
import urllib.request
import uuid

from stack import WAIT_SECONDS, StackCase, wait_for


class PollingUser:
    """A user that polls for new notifications."""

    def __init__(self, relay, user):
        self.relay = relay
        self.user = user
        self.token = relay.token("--sub", user)
        self.cursor = self.notifications = None
        self.poll()
        self.notifications = []

    def request(self, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.relay.url}{path}", data, headers)
        return urllib.request.urlopen(request, timeout=WAIT_SECONDS)

    def poll(self):
        position = f"&pos={urllib.parse.quote(self.cursor)}" if self.cursor else ""
        with self.request(f"/v1/poll?wait=0{position}") as response:
            lines = [json.loads(line) for line in response.read().splitlines()]
            self.cursor = response.headers["Clairon-Pos"]
        if self.notifications is not None:
            self.notifications += [line["n"] for line in lines if line["t"] == "msg"]

    def titled(self, title):
        return [n for n in self.notifications if (n["payload"].get("after") or {}).get("title") == title]

    def wait(self, title):
        def found():
            self.poll()
            return self.titled(title)

        return wait_for(f"{self.user} receives {title}", found)


class EPortfolio(StackCase):
    def setUp(self):
        self.relay = self.stack.relay
        if not self.relay:
            self.skipTest("needs the demo's folder")

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

    def settle(self, *users):
        """Waits for a later notification, after which all earlier notifications have arrived."""
        title = f"end {uuid.uuid4().hex[:8]}"
        self.sql(
            "SELECT clairon.notify('USER', %s, jsonb_build_object('after', jsonb_build_object('title', %s)))",
            [user.user for user in users],
            title,
        )
        for user in users:
            user.wait(title)

    def users(self, *users):
        return [PollingUser(self.relay, user) for user in users]

    def test_administrators_have_the_role_and_the_membership(self):
        administrator = self.new_person("admin", "s1")
        elsewhere = self.new_person("admin", "s2")
        nowhere = self.new_person("admin")
        member = self.new_person("user", "s1")
        users = self.users(administrator, "admin", elsewhere, nowhere, member, "u1", "u3")
        title = self.announce_for("admin", "s1")
        (notification,) = users[0].wait(title)
        self.settle(*users)
        self.assertEqual([len(user.titled(title)) for user in users], [1, 1, 0, 0, 0, 0, 0])
        self.assertEqual(notification["routing"]["audience"], {"type": "STRUCTURE+ROLE", "targets": ["s1+admin"]})
        self.assertEqual(notification["metadata"]["emitter"], "admin")
        notification_id = notification["metadata"]["id"]
        expected = {administrator: False, "admin": False}
        self.assertEqual(self.stack.store.acks_of(notification_id), expected)
        for user in users[:2]:
            self.assertEqual(user.request("/v1/ack", {"ids": [notification_id]}).status, 204)
        wait_for("the notification has no pending acks", lambda: self.stack.store.acks_of(notification_id) == {})

    def test_administrators_follow_changes_of_role_and_establishment(self):
        demoted = self.new_person("admin", "s1")
        moved = self.new_person("admin", "s1")
        promoted = self.new_person("user", "s1")
        users = self.users("admin", demoted, moved, promoted)
        self.sql("UPDATE person SET role = 'user' WHERE id = %s", demoted)
        self.sql("UPDATE members SET establishment_id = 's2' WHERE user_id = %s", moved)
        self.sql("UPDATE person SET role = 'admin' WHERE id = %s", promoted)
        title = self.announce_for("admin", "s1")
        (notification,) = users[0].wait(title)
        self.settle(*users)
        self.assertEqual([len(user.titled(title)) for user in users], [1, 0, 0, 1])
        for user in (users[0], users[3]):
            user.request("/v1/ack", {"ids": [notification["metadata"]["id"]]})

    def test_an_announcement_without_a_role_reaches_each_member_once(self):
        elsewhere = self.new_person("admin", "s2")
        users = self.users("admin", "u1", "u2", elsewhere)
        title = self.announce_for(None, "s1")
        (notification,) = users[0].wait(title)
        self.settle(*users)
        self.assertEqual([len(user.titled(title)) for user in users], [1, 1, 1, 0])
        self.assertEqual(notification["routing"]["audience"], {"type": "STRUCTURE", "targets": ["s1"]})
        for user in users[:3]:
            user.request("/v1/ack", {"ids": [notification["metadata"]["id"]]})


if __name__ == "__main__":
    unittest.main()

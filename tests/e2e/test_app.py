"""test_app.py: the demo's application server is safe to run on a developer's machine."""

import http.client
import json
import unittest
import urllib.parse

from stack import WAIT_SECONDS, the_stack


class App(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.address = urllib.parse.urlsplit(the_stack().url).netloc

    def request(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(self.address, timeout=WAIT_SECONDS)
        self.addCleanup(connection.close)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()

    def post(self, path, value):
        body = json.dumps(value)
        status, response = self.request("POST", path, body, Content_Type="application/json")
        return status, json.loads(response)

    def test_a_token_is_issued_only_to_a_demo_user(self):
        status, response = self.post("/api/token", {"user": "u1"})
        self.assertEqual((status, response["token"].count(".")), (200, 2))
        self.assertEqual(self.post("/api/token", {"user": "root"})[0], 400)

    def test_a_foreign_page_cannot_write(self):
        body = json.dumps({"user": "u1"})
        self.assertEqual(self.request("POST", "/api/token", body, Content_Type="text/plain")[0], 415)
        self.assertEqual(self.request("GET", "/api/config", Host="evil.test")[0], 421)
        foreign = {"Content_Type": "application/json", "Host": "evil.test"}
        self.assertEqual(self.request("POST", "/api/token", body, **foreign)[0], 421)

    def test_only_the_files_of_the_page_are_served(self):
        self.assertEqual(self.request("GET", "/")[0], 200)
        self.assertEqual(self.request("GET", "/client/index.js")[0], 200)
        for path in ("/app.py", "/../app.py", "/client/../demo/app.py", "/client/%2e%2e/package.json"):
            self.assertEqual(self.request("GET", path)[0], 404, path)

    def test_invalid_input_is_rejected_with_a_message(self):
        for path, value, error in (
            ("/api/assignment", {"id": 1, "status": "burnt"}, "status"),
            ("/api/assignment", {"id": "1", "status": "draft"}, '"id"'),
            ("/api/assignment", {"id": 1, "status": "graded", "grade": 21}, "grade must be 0 to 20"),
            ("/api/assignment", {"id": 99999, "status": "draft"}, "does not exist"),
            ("/api/transfer", {"key": "k", "from": "acc-1", "to": "acc-2", "amount": "x"}, '"amount"'),
            ("/api/transfer", {"key": "", "from": "acc-1", "to": "acc-2", "amount": 1}, '"key"'),
            ("/api/transfer", {"key": "k", "from": "acc-1", "to": "none", "amount": 1}, "none"),
            ("/api/announcement", {"establishment": "s1", "title": "x" * 300}, '"title"'),
        ):
            status, response = self.post(path, value)
            self.assertEqual(status, 400, (path, value, response))
            self.assertIn(error, response["error"])
        self.assertEqual(self.post("/api/nothing", {})[0], 404)
        headers = {"Content_Type": "application/json", "Content_Length": "99999999"}
        self.assertEqual(self.request("POST", "/api/token", "{}", **headers)[0], 413)
        self.assertEqual(self.request("POST", "/api/token", "[", Content_Type="application/json")[0], 400)


if __name__ == "__main__":
    unittest.main()

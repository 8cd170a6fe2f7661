#!/usr/bin/env python3
"""validate.py: compares requests, responses and frames with the documents of a relay.

    validate.py OPENAPI ASYNCAPI <records      one JSON object a line:
        {"method": .., "path": .., "status": .., "headers": {..}, "body": ..}     a response; body: text, or null
        {"method": .., "path": .., "request": ..}                                 a valid body of a request
        {"side": "client" | "relay", "frame": {..}}

Prints a line for each record that differs, then, as "seen ..", each response and frame type that occurred. Members that
a schema does not list are errors, unless it allows them: the documents must be complete.
"""
import json
import re
import sys

import jsonschema

PROTOCOL_STATUS = {400, 405, 408, 411, 431, 500}  # the response "default" stands for these


def close(schema):
    """Forbids unlisted members where the schema neither allows nor forbids them."""
    if isinstance(schema, list):
        return [close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: each if key in ("if", "then", "else", "enum", "const") else close(each) for key, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


class Documents:
    def __init__(self, openapi, asyncapi):
        self.openapi = openapi
        self.seen = set()
        self.validators = {}
        for name, document in (("openapi", openapi), ("asyncapi", asyncapi)):
            root = {"components": {"schemas": close(document["components"]["schemas"])}}
            for each in root["components"]["schemas"].values():
                jsonschema.Draft202012Validator.check_schema(each)
            self.validators[name] = root
        self.paths = [
            (re.compile("^" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)) + "$"), path, operations)
            for path, operations in openapi["paths"].items()
        ]

    def validate(self, document, schema, value):
        root = {**self.validators[document], **close(schema)}
        validator = jsonschema.Draft202012Validator(root, format_checker=jsonschema.FormatChecker())
        return [f"{'/'.join(map(str, each.absolute_path))}: {each.message[:300]}" for each in validator.iter_errors(value)]

    def operation(self, method, target):
        found = [(path, operations) for pattern, path, operations in self.paths if pattern.match(target.split("?")[0])]
        if not found:
            return None, None
        path, operations = min(found, key=lambda each: "{" in each[0])
        return path, operations.get(method.lower())

    def response(self, record):
        status = record["status"]
        path, operation = self.operation(record["method"], record["path"])
        if operation is None:
            return [] if status in (204, 404, 405) else ["no such operation"]
        self.seen.add(f"{record['method']} {path} {status}")
        response = operation["responses"].get(str(status))
        if response is None:
            if status not in PROTOCOL_STATUS:
                return [f"status {status} is not described"]
            response = operation["responses"]["default"]
        missing = [f"no header {name}" for name in response.get("headers", {}) if name in ("ETag", "Clairon-Pos", "Retry-After")
                   and name.lower() not in record["headers"]]
        return missing + self.content(response.get("content"), record)

    def content(self, content, record):
        body = record.get("body") or ""
        if record["method"] == "HEAD" or content is None:
            return [] if body == "" or record["method"] == "HEAD" else ["a body is not described"]
        kind = record["headers"].get("content-type", "")
        if kind not in content:
            return [f"Content-Type {kind} is not described"]
        schema = content[kind]["schema"]
        if "contentSchema" in schema:
            lines = [line.removeprefix("data: ") for line in body.split("\n") if line.startswith(("data: ", "{"))]
            for line in lines:
                self.seen.add(f"relay {json.loads(line)['t']}")
            return [error for line in lines for error in self.validate("openapi", schema["contentSchema"], json.loads(line))]
        if "json" not in kind:
            return []
        return self.validate("openapi", schema, json.loads(body))

    def request(self, record):
        path, operation = self.operation(record["method"], record["path"])
        if operation is None or "requestBody" not in operation:
            return []
        return self.validate("openapi", operation["requestBody"]["content"]["application/json"]["schema"], record["request"])

    def frame(self, record):
        frame = record["frame"]
        name = f"{record['side']}.{frame['t']}"
        if name not in self.validators["asyncapi"]["components"]["schemas"]:
            return [f"no such frame: {name}"]
        self.seen.add(name.replace(".", " "))
        return self.validate("asyncapi", {"$ref": f"#/components/schemas/{name}"}, frame)

    def record(self, record):
        if "frame" in record:
            return self.frame(record)
        return self.request(record) if "request" in record else self.response(record)


def main():
    with open(sys.argv[1], encoding="utf-8") as openapi, open(sys.argv[2], encoding="utf-8") as asyncapi:
        documents = Documents(json.load(openapi), json.load(asyncapi))
    for line in sys.stdin:
        record = json.loads(line)
        for error in documents.record(record):
            print(f"{error} in {line.strip()[:600]}")
    for each in sorted(documents.seen):
        print("seen", each)


main()

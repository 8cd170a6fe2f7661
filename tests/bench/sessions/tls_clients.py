#!/usr/bin/env python3
"""Opens WebSockets over TLS 1.3 and keeps them: tls_clients.py PORT TOKEN COUNT. Prints a line when all are connected."""

import json
import signal
import socket
import ssl
import struct
import sys

UPGRADE = (
    "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: clairon.v1.json\r\n\r\n"
)


def connect(context, port, token):
    link = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
    link.sendall(UPGRADE.encode())
    received = b""
    while b"\r\n\r\n" not in received:
        received += link.recv(4096)
    text = json.dumps({"t": "connect", "r": 1, "token": token}).encode()
    # The mask is 0, so the bytes are unchanged.
    link.sendall(b"\x81" + struct.pack("!BHI", 0x80 | 126, len(text), 0) + text)
    while b'"connected"' not in received:
        received += link.recv(4096)
    return link


def main():
    port, token, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    links = [connect(context, port, token) for _ in range(count)]
    print(len(links), flush=True)
    signal.pause()


main()

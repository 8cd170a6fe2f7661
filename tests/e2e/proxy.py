"""proxy.py: a TCP proxy between a page and the relay, with faults controlled by the test."""

import socket
import threading


class Proxy:
    """
    `reject`: requests whose head contains one of these strings receive a 503. cut() simulates a lost network.
    `limit()` returns the number of response bytes after which a connection is closed, None for no limit.
    `websocket_seconds`: the proxy admits a WebSocket, and closes it after this time.
    """

    def __init__(self, host, port):
        self.target = (host, port)
        self.reject = ()
        self.limit = lambda: None
        self.websocket_seconds = None
        self.broken = 0  # connections closed by the limit
        self.is_cut = False
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self.is_cut = True
        for end in list(self.open):
            _shut(end)

    def restore(self):
        self.is_cut = False

    def close(self):
        self.cut()
        _shut(self.listener)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            head = b"" if self.is_cut else _head_of(client)
            if not head:
                return
            if any(part.encode().lower() in head.lower() for part in self.reject):
                client.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            with socket.create_connection(self.target) as relay:
                self.open |= {client, relay}
                relay.sendall(head)
                thread = threading.Thread(target=self._copy_back, args=(relay, client), daemon=True)
                thread.start()
                if self.websocket_seconds and b"upgrade: websocket" in head.lower():
                    threading.Timer(self.websocket_seconds, _shut, (client,)).start()
                _copy(client, relay)
                thread.join()
                self.open -= {client, relay}

    def _copy_back(self, relay, client):
        self.broken += _copy(relay, client, self.limit())


def _head_of(client):
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            more = client.recv(65536)
        except OSError:
            return b""
        if not more:
            return b""
        data += more
    return data


def _copy(source, sink, limit=None):
    """Returns True if the connection was closed at the limit. With a limit, lines may be split."""
    try:
        while limit != 0 and (data := source.recv(min(limit, 300) if limit else 65536)):
            sink.sendall(data)
            limit = limit and limit - len(data)
    except OSError:
        pass
    _shut(sink)
    return limit == 0


def _shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass

# SPDX-License-Identifier: Apache-2.0
"""A small document server, one thread for each connection: keeps what is put, squeezed, and answers with pages of it.

Usage: document_server.py PORT                    serves until SIGTERM
       document_server.py PORT load [CLIENTS [REQUESTS]]   puts and gets documents, each client on a connection of its own
       document_server.py PORT steady SECONDS RATE         the same at a fixed rate of requests; connections come and go
"""

from __future__ import annotations

import collections
import http.client
import http.server
import json
import random
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable

KEPT = 3000
WORDS = "acorn birch cedar daisy elder fern gorse hazel iris jasmine kelp larch moss nettle oak poppy reed sage thyme".split()

_kept: collections.OrderedDict[str, bytes] = collections.OrderedDict()
_lock = threading.Lock()


class Documents(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        squeezed = zlib.compress(json.dumps([{**row, "words": row["text"].split()} for row in rows]).encode(), 1)
        with _lock:
            _kept[self.path] = squeezed
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
        self._answer(b"kept")

    def do_GET(self) -> None:
        with _lock:
            found = list(_kept.values())[-8:]
        pages = [row for squeezed in found for row in json.loads(zlib.decompress(squeezed))]
        self._answer(json.dumps(sorted(pages, key=lambda row: str(row["text"]))).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def serve(port: int) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Documents)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()


def use(port: int, client: int, requests: int, wait: Callable[[], None] = lambda: None) -> None:
    draw = random.Random(client)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for i in range(requests):
        wait()
        rows = [{"id": i, "text": " ".join(draw.choices(WORDS, k=draw.randrange(2, 60)))} for i in range(draw.randrange(1, 400))]
        connection.request("PUT", f"/{client}/{draw.randrange(requests)}", json.dumps(rows))
        connection.getresponse().read()
        if i % 6 == 5:
            connection.request("GET", "/")
            connection.getresponse().read()
    connection.close()


def use_steadily(port: int, worker: int, workers: int, seconds: float, rate: float) -> None:
    """One of the workers: its share of the rate, in connections of 10 to 60 requests."""
    draw, begun, sent = random.Random(-1 - worker), time.monotonic(), 0

    def wait() -> None:
        nonlocal sent
        time.sleep(max(0.0, sent * workers / rate - (time.monotonic() - begun)))
        sent += 1

    while time.monotonic() - begun < seconds:
        use(port, draw.randrange(1 << 30), draw.randrange(10, 60), wait)


def main() -> None:
    port = int(sys.argv[1])
    if sys.argv[2:3] == ["steady"]:
        seconds, rate = (float(word) for word in sys.argv[3:5])
        steady = [threading.Thread(target=use_steadily, args=(port, worker, 4, seconds, rate)) for worker in range(4)]
        for thread in steady:
            thread.start()
        return
    if sys.argv[2:3] != ["load"]:
        serve(port)
        return
    clients, requests = (int(word) for word in [*sys.argv[3:], "12", "250"][:2])
    threads = [threading.Thread(target=use, args=(port, client, requests)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()

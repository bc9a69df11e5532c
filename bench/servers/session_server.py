# SPDX-License-Identifier: Apache-2.0
"""A web application in Python, a thread for each connection: sessions that expire, and orders in SQLite of which the last are kept.

Usage: session_server.py PORT                    serves until SIGTERM
       session_server.py PORT steady SECONDS RATE    requests at a fixed rate; connections and users come and go
"""

from __future__ import annotations

import http.client
import json
import random
import signal
import socketserver
import sqlite3
import sys
import threading
import time
import wsgiref.simple_server
from collections.abc import Callable, Iterable
from typing import Any

SESSION_LIVES_S = 60
ORDERS_KEPT = 1000
WORDS = "amber brass cobalt denim ebony flint garnet hemp indigo jade khaki linen marble nylon onyx pewter quartz rust".split()


class Store:
    """Sessions in a dict, orders in a database in memory."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, user TEXT, lines TEXT)")
        self.database.execute("CREATE INDEX by_user ON orders (user)")
        self.seen = 0

    def session(self, user: str) -> dict[str, Any]:
        now = time.monotonic()
        self.seen += 1
        if self.seen % 100 == 0:
            self.sessions = {name: kept for name, kept in self.sessions.items() if kept["seen"] > now - SESSION_LIVES_S}
        session = self.sessions.setdefault(user, {"seen": now, "pages": [], "token": f"{user}:{now}"})
        session["seen"] = now
        return session

    def order(self, user: str, lines: list[dict[str, Any]]) -> int:
        made = self.database.execute("INSERT INTO orders (user, lines) VALUES (?, ?)", (user, json.dumps(lines))).lastrowid or 0
        self.database.execute("DELETE FROM orders WHERE id <= ?", (made - ORDERS_KEPT,))
        return made

    def orders(self, user: str) -> list[dict[str, Any]]:
        rows = self.database.execute("SELECT id, lines FROM orders WHERE user >= ? ORDER BY user, id LIMIT 20", (user,))
        return [{"id": number, "lines": json.loads(lines)} for number, lines in rows]


STORE = Store()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    user = environ["PATH_INFO"].strip("/")
    with STORE.lock:
        session = STORE.session(user)
        session["pages"] = [*session["pages"], environ.get("HTTP_USER_AGENT", "") + environ["PATH_INFO"]][-30:]
        if environ["REQUEST_METHOD"] == "POST":
            lines = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            answer: Any = {"order": STORE.order(user, lines)}
        else:
            answer = {"orders": STORE.orders(user), "pages": session["pages"]}
    body = json.dumps(answer, indent=1).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


def serve(port: int) -> None:
    server = wsgiref.simple_server.make_server("127.0.0.1", port, application, Server, Quiet)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()


def use_steadily(port: int, seconds: float, rate: float) -> None:
    draw, begun, sent = random.Random(11), time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        user = f"/{draw.randrange(4000)}"
        if draw.random() < 0.4:
            lines = [{"article": " ".join(draw.choices(WORDS, k=draw.randrange(2, 40))), "count": i} for i in range(draw.randrange(1, 30))]
            connection.request("POST", user, json.dumps(lines))
        else:
            connection.request("GET", user, headers={"User-Agent": " ".join(draw.choices(WORDS, k=draw.randrange(4, 20)))})
        connection.getresponse().read()
        connection.close()
        sent += 1
        time.sleep(max(0.0, sent / rate - now))
    print(f"{sent} requests in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    if sys.argv[2:3] == ["steady"]:
        use_steadily(int(sys.argv[1]), *(float(word) for word in sys.argv[3:5]))
    else:
        serve(int(sys.argv[1]))

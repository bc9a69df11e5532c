# SPDX-License-Identifier: Apache-2.0
"""Clients of a small document server, each in a thread with connections of its own.

Usage: web_load.py PORT CLIENTS REQUESTS    or: web_load.py PORT quit
"""

from __future__ import annotations

import http.client
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor

WORDS = "ash birch cedar elm fir hazel ivy larch maple oak pine rowan spruce teak willow yew".split()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> None:
    connection.request(method, path, body)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, (answer.status, path)


def document(rng: random.Random) -> bytes:
    return json.dumps({"owner": rng.choice(WORDS), "rows": [
        {"id": i, "rate": rng.random(), "text": " ".join(rng.choices(WORDS, k=rng.randrange(2, 30)))}
        for i in range(int(rng.paretovariate(1.1) * 6) % 400 + 1)]}).encode()


def client(port: int, number: int, requests: int) -> None:
    rng = random.Random(number)
    for _ in range(max(1, requests // 15)):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(min(15, requests)):
            path = f"/{rng.randrange(300)}"
            match rng.randrange(6):
                case 0 | 1:
                    ask(connection, "POST", path, document(rng))
                case 2:
                    ask(connection, "GET", f"{path}?find={rng.choice(WORDS)[:2]}")
                case 3:
                    ask(connection, "GET", f"{path}?xml")
                case _:
                    ask(connection, "GET", path)
        connection.close()


def main() -> None:
    port = int(sys.argv[1])
    if sys.argv[2] == "quit":
        ask(http.client.HTTPConnection("127.0.0.1", port, timeout=60), "POST", "/quit", b"")
        return
    with ThreadPoolExecutor(int(sys.argv[2])) as pool:
        for done in [pool.submit(client, port, number, int(sys.argv[3])) for number in range(int(sys.argv[2]))]:
            done.result()


main()

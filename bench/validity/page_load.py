# SPDX-License-Identifier: Apache-2.0
"""A steady load for a web server: pages of 400, most of them compressed, at a fixed rate.

Usage: page_load.py make FOLDER                 writes the pages
       page_load.py run PORT SECONDS RATE [SEED [PAGES]]    RATE: requests a second; PAGES: of how many (default: 400)
"""

from __future__ import annotations

import http.client
import random
import sys
import time
from pathlib import Path

PAGES = 400
CONNECTIONS = 24
WORDS = b"arena bin block cache chunk page pool region run segment slab span thread zone".split()


def make(folder: Path) -> None:
    chance = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(PAGES):
        words = min(40_000, int(chance.lognormvariate(7, 1.2)) + 10)
        (folder / f"{number}.html").write_bytes(b" ".join(chance.choice(WORDS) for _ in range(words)))


def ask(connection: http.client.HTTPConnection, chance: random.Random, pages: int) -> None:
    # A few requests for pages that there are not, and a few for a part of one.
    page = chance.randrange(pages + 8)
    headers = {"Accept-Encoding": "gzip"} if chance.random() < 0.8 else {}
    if chance.random() < 0.05:
        headers["Range"] = "bytes=0-99"
    connection.request("GET", f"/{page}.html", headers=headers)
    connection.getresponse().read()


def run(port: int, seconds: float, rate: float, seed: int = 1, pages: int = PAGES) -> None:
    chance = random.Random(seed)
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(CONNECTIONS)]
    begun, sent = time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        connection = chance.choice(connections)
        ask(connection, chance, pages)
        if chance.random() < 0.01:
            connection.close()  # the next request opens it again
        sent += 1
        time.sleep(max(0.0, sent / rate - now))
    print(f"{sent} requests in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        run(int(sys.argv[2]), *(float(word) for word in sys.argv[3:5]), *(int(word) for word in sys.argv[5:]))

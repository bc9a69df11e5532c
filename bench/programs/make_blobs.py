# SPDX-License-Identifier: Apache-2.0
"""Requests for a cache of pages of 1 to 600 kB, with expiry and eviction, whose limit is lowered halfway: for redis-cli --pipe.

Usage: make_blobs.py [REQUESTS] >requests.resp
"""

from __future__ import annotations

import random
import sys


def request(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


def main() -> None:
    requests, draw, out = int((*sys.argv[1:], "12000")[0]), random.Random(1), sys.stdout.buffer
    out.write(request("CONFIG", "SET", "maxmemory-policy", "allkeys-lru") + request("CONFIG", "SET", "maxmemory", "100mb"))
    for i in range(requests):
        page, seconds = f"page:{draw.randrange(5000)}", str(draw.randrange(60, 3600))
        out.write(request("SETEX", page, seconds, "x" * int(draw.lognormvariate(9.8, 1.1))))
        if i % 3 == 0:
            out.write(request("GET", f"page:{draw.randrange(5000)}"))
        if i == requests // 2:
            out.write(request("CONFIG", "SET", "maxmemory", "60mb"))


if __name__ == "__main__":
    main()

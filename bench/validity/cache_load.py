# SPDX-License-Identifier: Apache-2.0
"""A steady load for a redis server: sets, hashes, lists, appends and gets of 400,000 keys, at a fixed rate.

Usage: cache_load.py SOCKET SECONDS RATE [SEED [EXPIRE [all]]]    RATE: requests a second; EXPIRE: seconds that a set key lives
       (default: for ever; the server's maxmemory evicts); all: hashes and lists live so long as well
"""

from __future__ import annotations

import random
import socket
import sys
import time

KEYS = 400_000
BATCH = 20
BLOB = b"x" * 60_000


def command(*words: str | bytes | int) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def request(chance: random.Random, expire: int, all_expire: bool) -> bytes:
    key, kind = chance.randrange(KEYS), chance.random()

    def lives(name: str) -> bytes:
        return command("PEXPIRE", name, int(expire * 1000 * chance.uniform(0.8, 1.2)), "NX") if all_expire else b""

    if kind < 0.70:
        value = BLOB[:min(len(BLOB), int(chance.lognormvariate(4.8, 1.3)) + 1)]
        # A fifth around the mean, so that keys do not all go at the same moment of each period.
        until = ("PX", int(expire * 1000 * chance.uniform(0.8, 1.2))) if expire else ()
        return command("SET", f"k:{key}", value, *until)
    if kind < 0.80:
        name = f"h:{key % 20_000}"
        return command("HSET", name, f"f{chance.randrange(30)}", BLOB[:chance.randrange(10, 300)]) + lives(name)
    if kind < 0.86:
        name = f"l:{key % 5_000}"
        return command("RPUSH", name, BLOB[:chance.randrange(10, 100)]) + lives(name)
    if kind < 0.88:
        return command("DEL", f"l:{key % 5_000}")
    if kind < 0.90:
        name = f"k:{key}"
        return command("APPEND", name, BLOB[:chance.randrange(1, 200)]) + lives(name)
    return command("GET", f"k:{key}")


def main(path: str, seconds: float, rate: float, seed: int = 1, expire: int = 0,
         all_expire: bool = False) -> None:
    chance = random.Random(seed)
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    begun, sent = time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        server.sendall(b"".join(request(chance, expire, all_expire) for _ in range(BATCH)))
        sent += BATCH
        # What has come of the answers is read and dropped: the server must never wait for room to answer.
        server.setblocking(False)
        try:
            while server.recv(1 << 20):
                pass
        except BlockingIOError:
            pass
        server.setblocking(True)
        time.sleep(max(0.0, sent / rate - now))
    print(f"{sent} requests in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *(int(word) for word in sys.argv[4:6]), "all" in sys.argv[6:])

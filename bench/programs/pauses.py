# SPDX-License-Identifier: Apache-2.0
"""A program with pauses: reads what fills eighty megabytes, drops it, and then mostly waits.

Usage: pauses.py [SCALE]    (1: 24 seconds of pauses)
"""

import json
import sys
import time


def work(items: int) -> int:
    text = json.dumps([{"number": i, "text": "x" * (i * 37 % 3000), "parts": list(range(i % 10))}
                       for i in range(items)])
    return len(json.loads(text))


def little_work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.2)
        work(20)


scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
for _ in range(2):
    work(25_000)
    little_work(4 * scale)
    time.sleep(2 * scale)
little_work(12 * scale)

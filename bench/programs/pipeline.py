# SPDX-License-Identifier: Apache-2.0
"""Worker threads that read, change and index documents which other threads have made, as in a small search service.

A producer thread fills a queue with documents as JSON, four workers read and index them, a writer squeezes and keeps the
results: most objects are freed by another thread than made them. Run it with PYTHONMALLOC=malloc.

Usage: pipeline.py [DOCUMENTS]
"""

from __future__ import annotations

import collections
import json
import queue
import random
import sys
import threading
import zlib
from typing import Any

WORDS = "acorn birch cedar daisy elder fern gorse hazel iris jasmine kelp larch moss nettle oak poppy reed sage thyme".split()
WORKERS = 4
Done = None


def make(documents: int, made: queue.Queue[str | None]) -> None:
    rng = random.Random(77)
    for number in range(documents):
        rows = [{"id": i, "text": " ".join(rng.choices(WORDS, k=rng.randrange(2, 25))), "rate": rng.random()}
                for i in range(int(rng.paretovariate(1.2) * 5) % 120 + 1)]
        made.put(json.dumps({"number": number, "owner": rng.choice(WORDS), "rows": rows}))
    for _ in range(WORKERS):
        made.put(Done)


def index(made: queue.Queue[str | None], ready: queue.Queue[Any]) -> None:
    while (text := made.get()) is not None:
        document = json.loads(text)
        words: dict[str, list[int]] = {}
        for row in document["rows"]:
            for word in row["text"].split():
                words.setdefault(word, []).append(row["id"])
        document["words"] = words
        ready.put(document)
    ready.put(Done)


def keep(ready: queue.Queue[Any]) -> tuple[int, int]:
    kept: collections.OrderedDict[int, dict[str, Any]] = collections.OrderedDict()
    packed: collections.OrderedDict[int, bytes] = collections.OrderedDict()
    ended = total = 0
    while ended < WORKERS:
        document = ready.get()
        if document is None:
            ended += 1
            continue
        kept[document["number"]] = document
        packed[document["number"]] = zlib.compress(json.dumps(document["words"]).encode(), 1)
        while len(kept) > 500:
            total += len(kept.popitem(last=False)[1]["rows"])
        while len(packed) > 2_000:
            packed.popitem(last=False)
    return total + sum(len(document["rows"]) for document in kept.values()), len(packed)


def main() -> None:
    made: queue.Queue[str | None] = queue.Queue(8)
    ready: queue.Queue[Any] = queue.Queue(8)
    documents = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
    threads = [threading.Thread(target=make, args=(documents, made)),
               *(threading.Thread(target=index, args=(made, ready)) for _ in range(WORKERS))]
    for thread in threads:
        thread.start()
    print(*keep(ready))
    for thread in threads:
        thread.join()


main()

# SPDX-License-Identifier: Apache-2.0
"""JSON-heavy work with the standard library alone: the program that demo.sh records.

Builds documents like those of a web shop, writes them out as JSON, reads them back, groups and
filters them, and keeps a changing part of them alive, as a service with a cache would. Run it with
PYTHONMALLOC=malloc, or Python's own arenas stand between the program and malloc.

Usage: json_work.py [SCALE]    (1: under half a second and about 7 million calls of malloc and its kin)
"""

from __future__ import annotations

import json
import random
import sys
from collections import OrderedDict

WORDS = ("alder birch cedar dogwood elm fir ginkgo hazel ivy juniper kapok larch maple nutmeg oak "
         "pine quince rowan spruce teak ulmus viburnum willow yew zelkova").split()


def make_order(number: int, rng: random.Random) -> dict:
    lines = [{"sku": f"{rng.choice(WORDS)}-{rng.randrange(10_000):04d}",
              "quantity": rng.randrange(1, 9),
              "price": rng.randrange(100, 100_000) / 100,
              "tags": rng.sample(WORDS, 3)}
             for _ in range(rng.randrange(1, 8))]
    return {"order": number, "customer": {"id": rng.randrange(5_000), "name": rng.choice(WORDS).title()},
            "note": " ".join(rng.choices(WORDS, k=rng.randrange(30))), "lines": lines}


def total(order: dict) -> float:
    return sum(line["quantity"] * line["price"] for line in order["lines"])


def run(scale: float) -> tuple[int, int, float]:
    rng = random.Random(20817)
    cache: OrderedDict[int, dict] = OrderedDict()
    seen, text_bytes, revenue = 0, 0, 0.0
    for batch in range(max(1, round(12 * scale))):
        orders = [make_order(batch * 1000 + i, rng) for i in range(400)]
        text = json.dumps(orders)
        text_bytes += len(text)
        for _ in range(3):
            parsed = json.loads(text)
            revenue += sum(map(total, parsed))
            seen += len(parsed)
        for order in parsed:
            if rng.random() < 0.5:
                cache[order["order"]] = order
        while len(cache) > 3_000:  # the oldest half goes, as when a cache is trimmed
            for _ in range(1_500):
                cache.popitem(last=False)
        by_customer: dict[int, list[str]] = {}
        for order in cache.values():
            by_customer.setdefault(order["customer"]["id"], []).append(json.dumps(order["lines"]))
        text_bytes += max(len(part) for parts in by_customer.values() for part in parts)
    return seen, text_bytes, round(revenue, 2)


if __name__ == "__main__":
    print(*run(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0))

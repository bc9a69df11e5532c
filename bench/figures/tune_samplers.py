#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which of Optuna's samplers finds more in 60 trials: `heaptape tune`'s search on a made-up landscape.

    bench/figures/tune_samplers.py [--seeds 6]

Nothing is replayed. Seven knobs have effects of the sort that those of jemalloc have (decay trades time for memory, caches
the other way round, some values are ruinous), further ones have none or only harm; measurements have noise of 3 % in time and 1 %
in memory. Printed is the volume that the true figures of what was tried dominate, in logarithms of both ratios within a
factor of 2 of the default, the mean over the seeds, after 20, 40 and 60 trials; and the mean number of knobs in the
settings on the front. Needs the Python package. Takes some minutes.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))

import optuna

from heaptape.tune.front import hypervolume
from heaptape.tune.space import Config, searched_knobs
from heaptape.tune.study import SCREENED_SHARE, Study, make_sampler

TRIALS, LOOKS, WITHIN = 60, (20, 40, 60), 0.7


def whole(name: str, lowest: int, highest: int, value: int) -> dict[str, Any]:
    return {"name": name, "type": "integer", "lowest": lowest, "highest": highest, "value": str(value)}


def knobs(others: int) -> list[dict[str, Any]]:
    made = [whole("decay", -1, 10**6, 10_000), whole("arenas", 1, 64, 8), whole("largest", 8, 8 << 20, 32_768),
            whole("slots", 1, 2_000, 20), {"name": "cache", "type": "boolean", "value": "1"},
            {"name": "thread", "type": "boolean", "value": "0"},
            {"name": "pages", "type": "word", "words": ["some", "always", "never"], "value": "some"}]
    return made + [whole(f"other{i}", 1, 1 << 20, 1_024) if i % 2 else
                   {"name": f"other{i}", "type": "boolean", "value": "0"} for i in range(others)]


def landscape(config: Config) -> tuple[float, float]:
    """Logarithms of the ratios of time and memory."""
    decay, slots = int(config.get("decay", 10_000)), int(config.get("slots", 20))
    arenas, largest = int(config.get("arenas", 8)), int(config.get("largest", 32_768))
    magnitude = math.log10(decay + 1) if decay >= 0 else 7
    took = -0.02 * (magnitude - 4) if magnitude >= 2 else 0.04 + 0.25 * (2 - magnitude)
    took += 0.02 * (abs(math.log2(arenas / 4)) - 1 + abs(math.log2(largest / 131_072)) - 2)
    took -= 0.03 * math.log(min(slots, 200) / 20)
    memory = 0.18 * (magnitude - 4) + 0.06 * math.log2(arenas / 8) + 0.03 * math.log(slots / 20)
    for is_set, more_time, more_memory in ((config.get("cache") == "0", 0.7, -0.08), (config.get("thread") == "1", 0.01, -0.1),
                                           (config.get("pages") == "always", -0.1, 0.5)):
        took, memory = took + is_set * more_time, memory + is_set * more_memory
    harmful = sum(name.startswith("other") and int(name[5:]) % 3 == 0 for name in config)
    return took + 0.15 * harmful, memory + 0.1 * harmful


def search(sampler: str, seed: int, others: int) -> tuple[list[float], float]:
    """Volumes at the looks, and the mean number of knobs on the front."""
    rng, space = random.Random(seed), searched_knobs(knobs(others), None)
    inner = optuna.create_study(directions=["minimize"] * 2)
    inner.sampler = make_sampler(sampler, seed, TRIALS // SCREENED_SHARE)
    study = Study(inner, space, TRIALS)
    study.begin(seed)
    true = [(0.0, 0.0)]
    while len(true) <= TRIALS and (asked := study.next()):
        trial, config = asked
        took, memory = landscape(config)
        true.append((took, memory))
        study.tell(trial, config, {"time": math.exp(took + rng.gauss(0, 0.03)), "rss": math.exp(memory + rng.gauss(0, 0.01))})
    sizes = [len(trial.config) for trial in study.front()]
    return [hypervolume(true[: look + 1], (WITHIN, WITHIN)) for look in LOOKS], statistics.mean(sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    seeds = parser.parse_args().seeds
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"{'knobs':>5}  sampler  " + "  ".join(f"after {look}" for look in LOOKS) + "  knobs set")
    for others in (1, 20):
        for sampler in ("tpe", "nsga2"):
            found = [search(sampler, seed, others) for seed in range(seeds)]
            volumes = "  ".join(f"{statistics.mean(volume[i] for volume, _ in found):8.2f}" for i in range(len(LOOKS)))
            print(f"{7 + others:5}  {sampler:7}  {volumes}  {statistics.mean(size for _, size in found):9.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

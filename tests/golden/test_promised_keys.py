# SPDX-License-Identifier: Apache-2.0
"""JSON keys of 1.0 stay throughout 1.x (docs/README.md): what is printed of fixed files must have every key of promised_keys.txt.

New keys may come: `tests/golden/test_promised_keys.py BUILD/heaptape` prints the list as it is now, for the next release.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).resolve().parent
TRACE, LOG = GOLDEN / "sqlite3.bin", GOLDEN / "sqlite3.mraw"
WITH_SITES = GOLDEN.parents[1] / "bench" / "figures" / "pictures" / "log_report.bin"
PROMISED = GOLDEN / "promised_keys.txt"
MAPS = {"ops", "context", "functions", "options", "counts", "changes", "latency_ns", "allocator_stats", "syscalls", "repairs", "knobs", "sha256"}
"""Objects whose keys are data, such as names of functions, or the system's."""


def commands(folder: Path) -> dict[str, list[Any]]:
    """By verb. Results are of one round."""
    logs, results = folder / "logs", folder / "results.jsonl"
    logs.mkdir()
    shutil.copy(LOG, logs / "malloc-footprint.15123.mraw")
    replay = ["--alloc", "glibc,jemalloc", "--rounds", "2", "--seed", "1"]
    return {
        "info": ["info", "--json", TRACE], "stats": ["stats", "--json", "--points", "2", TRACE], "lint": ["lint", "--json", TRACE],
        "replay": ["replay", "-q", "--json", *replay, "-o", results, TRACE], "compare": ["compare", "--json", results],
        "explain": ["explain", "-q", "--json", "--budget", "0", "--alloc", "glibc", TRACE],
        "sites": ["sites", "--json", WITH_SITES], "diff": ["diff", "--json", WITH_SITES, WITH_SITES],
        "try": ["try", "-q", "--json", "--alloc", "glibc,jemalloc", "--budget", "1s", "--logs", logs, "-o", folder / "tried"],
    }


def keys_of(value: Any, path: str = "") -> Iterator[str]:
    """Such as allocators[].time_ns. An empty list promises nothing of what would be in it."""
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item, f"{path}[]")
    elif isinstance(value, dict):
        for key, item in value.items() if path.rpartition(".")[2].removesuffix("[]") not in MAPS else ():
            yield f"{path}.{key}".lstrip(".")
            yield from keys_of(item, f"{path}.{key}".lstrip("."))


def printed_keys(heaptape: Path) -> dict[str, set[str]]:
    """By verb; of the lines of results, too."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for verb, words in commands(folder).items():
            done = subprocess.run([heaptape, *words], capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == 0, f"{verb}: {done.stderr}"
            found[verb] = set(keys_of(json.loads(done.stdout)))
        lines = (folder / "results.jsonl").read_text().splitlines()
    return found | {"results": {key for line in lines for key in keys_of(json.loads(line))}}


@pytest.mark.timeout(180)
def test_promised_keys_are_there(heaptape_binary: Path) -> None:
    promised: dict[str, set[str]] = {}
    for line in PROMISED.read_text().splitlines():
        verb, _, key = line.partition(" ")
        promised.setdefault(verb, set()).add(key)
    printed = printed_keys(heaptape_binary)
    assert set(promised) == set(printed) and sum(map(len, promised.values())) > 500
    assert {verb: sorted(keys - printed[verb]) for verb, keys in promised.items() if keys - printed[verb]} == {}


if __name__ == "__main__":
    for printed_verb, keys in printed_keys(Path(sys.argv[1])).items():
        for one in sorted(keys):
            print(printed_verb, one)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds modelled times of replays, alone and with the program's accesses, against those of the real programs of splice.toml.

    bench/validity/splice.py [--build B] [--only NAME,...] [-o docs/method/validity/splice.jsonl] [--again [--replays]] [--no-run]

By `heaptape validate --count` the real program under each allocator, then one recording with accesses for `heaptape replay --pass
count --splice`, and an ordinary one, which has the C++ operators too, for the same without: all counts under simulation, so that a busy
machine changes nothing. Appends a line of JSON for each program; one
that is there already is passed over, unless --again. Then prints the tables that validate.py --page puts into docs/method/validity.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.resumed import read_results, run_all  # noqa: E402
from bench.validity.run import (  # noqa: E402
    LIMIT_S,
    Failed,
    Prepared,
    chosen,
    last_line,
    prepare,
    run_json,
    run_to_end,
    validated,
)
from bench.validity.splice_page import SPLICED, splice_section  # noqa: E402

PROGRAMS = ROOT / "bench" / "validity" / "splice.toml"
PARTS = ("allocator", "program")

Times = dict[str, dict[str, float]]
"""By part and kind of event, in ns."""

Result = dict[str, Any]


def _run(command: list[Any], prepared: Prepared) -> None:
    status, _, said = run_to_end(command, LIMIT_S, prepared.who)
    if status:
        raise Failed(last_line(said))


def _recorded(prepared: Prepared, options: argparse.Namespace, name: str, *how: str) -> tuple[Path, Path]:
    """The largest file of a recording, and the trace of it."""
    heaptape, folder, trace = options.build / "heaptape", prepared.folder / name, prepared.folder / f"{name}.bin"
    _run([heaptape, "record", "-q", *how, "-o", folder, *prepared.words], prepared)
    found = max((path for suffix in ("*.acc", "*.mraw") for path in folder.glob(suffix)), key=lambda path: path.stat().st_size)
    _run([heaptape, "convert", "-q", found, "-o", trace], prepared)
    return found, trace


def _replayed(prepared: Prepared, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any], int]:
    """By allocator what replay counts with accesses and without, and how many bytes the accesses take."""
    command = [options.build / "replay", "-q", "--json", "--pass", "count", "--alloc", options.alloc]
    accesses, trace = _recorded(prepared, options, "accesses", "--accesses")
    _, calls = _recorded(prepared, options, "calls")
    spliced, bare = (run_json([*command, *more], prepared.who)["counts"] for more in (["--splice", accesses, trace], [calls]))
    return spliced, bare, accesses.stat().st_size


def _times(parts: dict[str, Any]) -> Times:
    return {part: {key: round(value) for key, value in parts[part]["modelled_ns"].items()} for part in PARTS}


def _less(one: Times, other: Times) -> Times:
    return {part: {key: value - other[part][key] for key, value in one[part].items()} for part in PARTS}


def _total(times: Times) -> float:
    return sum(times[part]["total"] for part in PARTS)


def _counted(prepared: Prepared, options: argparse.Namespace) -> Result:
    """Of the real program: what it is, and by allocator the difference to the baseline of its modelled time."""
    found = validated(prepared, options, ["--count"])
    items = {item["name"]: item for item in found["allocators"]}
    base = items.pop(found["baseline"])
    if base["problem"]:
        raise Failed(f"{base['name']}: {base['problem']}")
    return {"calls": found["recorded"]["calls"], "threads": found["recorded"]["threads"], "baseline": base["name"],
            "baseline_ns": _total(_times(base["counts"])), "warnings": found["warnings"],
            "allocators": [{"name": name, "problem": item["problem"], "real": None if item["problem"] else _times(item["count_differences"])}
                           for name, item in items.items()]}


def splice_one(name: str, program: dict[str, Any], scratch: Path, options: argparse.Namespace) -> tuple[Result, list[Result]]:
    """Differences to the baseline of the modelled time, in ns. Raises PassedOver and Failed."""
    prepared = prepare(name, program, scratch, options.build)
    result = options.counted.get(name) or _counted(prepared, options)
    base = result["baseline"]
    spliced, bare, result["accesses_bytes"] = _replayed(prepared, options)
    for item in result["allocators"]:
        item["problem"] = item["problem"] or (None if item["name"] in spliced.keys() & bare else "not replayed")
        if not item["problem"]:
            item["splice"] = _less(_times(spliced[item["name"]]), _times(spliced[base]))
            bare_ns, base_ns = (bare[allocator]["time"]["modelled_ns"]["total"] for allocator in (item["name"], base))
            item |= {"real_ns": _total(item["real"]), "splice_ns": _total(item["splice"]), "bare_ns": round(bare_ns - base_ns)}
    return result, result["allocators"]


def main() -> int:
    programs: dict[str, dict[str, Any]] = tomllib.loads(PROGRAMS.read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(programs)}")
    parser.add_argument("--alloc", default="glibc,jemalloc,tcmalloc,mimalloc", metavar="LIST")
    parser.add_argument("-o", "--output", type=Path, default=SPLICED, metavar="FILE")
    parser.add_argument("--again", action="store_true", help="measure also what the results have already")
    parser.add_argument("--replays", action="store_true", help="with --again, the recording and the replays alone: counts of real programs stay")
    parser.add_argument("--no-run", action="store_true", help="only print what the results hold")
    options = parser.parse_args()
    options.names = chosen(parser, options.only, programs)
    options.build = options.build.resolve()
    options.counted = read_results(options.output) if options.replays else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the scratch folders go on the way out
    fine = options.no_run or run_all(options, programs, options.output, splice_one)
    found = read_results(options.output)
    if not found:
        print("splice: there are no results", file=sys.stderr)
        return 1
    print(splice_section([found[name] for name in programs if name in found]))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes per event: of traces as they are, column by column, and of candidate encodings.

    bench/figures/encoding.py columns TRACE...      what each column of each trace takes
    bench/figures/encoding.py settings LOG...       levels and time units: raw logs converted with each
    bench/figures/encoding.py candidates TRACE...   other ways to encode the same events, block by block

bench/corpus/record_corpus.py records what docs/method/encoding.md is made of. The tables are Markdown.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "analysis"))

import encoding_candidates as ways  # noqa: E402
from encoding_blocks import WAYS, Block, code_slots, read_blocks  # noqa: E402

from heaptape import read_trace  # noqa: E402
from heaptape.trace.sections import DIRECTORY, SECTION, Kind  # noqa: E402

GROUPS = {
    "tokens": (1, 6, 7, 8, 9, 15),
    "named": (10, 14),
    "slots": (11,),
    "sizes": (12, 13),
    "threads": (2, 3),
    "time": (4, 5),
}
GROUP_OF = {column: group for group, columns in GROUPS.items() for column in columns}
BLOCK = 65_536
ALL = ("birth", "named", "size", "extra")


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def row(cells: Iterable[object]) -> str:
    return (
        "| "
        + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells)
        + " |"
    )


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(row(head), "|" + " --- |" * len(head), sep="\n")
    for cells in rows:
        print(row(cells), flush=True)


def bytes_by_group(path: Path) -> tuple[int, Counter[str]]:
    """Records, and the bytes of each group of columns; `rest` is whatever is none of events."""
    with read_trace(path) as trace:
        groups: Counter[str] = Counter(dict.fromkeys(GROUPS, 0))
        with path.open("rb") as file:
            for place in trace.sections:
                if place.kind != Kind.EVENTS:
                    continue
                file.seek(place.offset)
                columns = SECTION.unpack(file.read(SECTION.size))[2]
                for _ in range(columns):
                    id_, *_, stored, _ = DIRECTORY.unpack(file.read(DIRECTORY.size))
                    groups[GROUP_OF[id_]] += stored
        groups["rest"] = path.stat().st_size - sum(groups.values())
        return trace.records, groups


def show_columns(paths: Sequence[Path]) -> None:
    rows, whole, timeless = [], [], []
    for path in paths:
        events, groups = bytes_by_group(path)
        whole.append(sum(groups.values()) / events)
        timeless.append(whole[-1] - groups["time"] / events)
        rows.append(
            [
                path.stem,
                f"{events:,}",
                whole[-1],
                timeless[-1],
                *(groups[name] / events for name in (*GROUPS, "rest")),
            ]
        )
    print_table(["program", "events", "all", "without time", *GROUPS, "rest"], rows)
    print(
        f"\nGeometric mean of {len(paths)} programs: {geometric_mean(whole):.3f} bytes per event, "
        f"{geometric_mean(timeless):.3f} without the time column."
    )


def show_settings(logs: Sequence[Path], heaptape: Path) -> None:
    """Levels and units, each log converted with each."""
    settings = {f"--level {level}": ["--level", level] for level in ("fast", "default", "max")}
    settings |= {
        f"--time-unit {unit}": ["--time-unit", str(unit)] for unit in (1, 8, 16, 64, 128, 1024)
    }
    rows = []
    with tempfile.TemporaryDirectory(prefix="encoding-") as folder:
        trace = Path(folder) / "trace.bin"
        for name, options in settings.items():
            whole, timeless = [], []
            for log in logs:
                subprocess.run([heaptape, "convert", "-q", *options, log, "-o", trace], check=True)
                events, groups = bytes_by_group(trace)
                whole.append(sum(groups.values()) / events)
                timeless.append(whole[-1] - groups["time"] / events)
            rows.append([name, geometric_mean(whole), geometric_mean(timeless), max(whole)])
    print_table(["setting", "all", "without time", "the largest program's"], rows)


Measure = Callable[[Block], int]


def naming(way: str) -> tuple[Measure, Measure]:
    """One way to name: its column alone, and everything but thread, time and slot in tokens."""

    def alone(block: Block) -> int:
        parts = ways.parts_of(block, code_slots(block), way)
        return ways.planes(parts.named[parts.names], SQUEEZE) + ways.planes(parts.across, SQUEEZE)

    # Counting births of a size needs the sizes of named blocks: about the sizes once more.
    def in_tokens(block: Block) -> int:
        parts = ways.parts_of(block, code_slots(block), way)
        named_size = (
            ways.planes(parts.size[parts.sized], SQUEEZE) if way == "births of the size" else 0
        )
        return ways.tokens(parts, ALL, SQUEEZE) + named_size

    return alone, in_tokens


SQUEEZE = ways.zstd()


def event_candidates() -> dict[str, Measure]:
    """Op, birth, named, size and extra together."""

    def with_parts(encode: Callable[[ways.Parts], int]) -> Measure:
        return lambda block: encode(ways.parts_of(block, code_slots(block)))

    found = {
        "a column each": with_parts(partial(ways.separate, squeeze=SQUEEZE)),
        "the same, sizes by number": with_parts(partial(ways.size_dictionary, squeeze=SQUEEZE)),
    }
    for fields in (("size",), ("size", "extra"), ("birth", "size", "extra"), ALL):
        found[f"tokens of op, {', '.join(fields)}"] = with_parts(
            partial(ways.tokens, fields=fields, squeeze=SQUEEZE)
        )
    for least in (4, 64):
        found[f"the last, from {least} events on"] = with_parts(
            partial(ways.tokens, fields=ALL, squeeze=SQUEEZE, least=least)
        )
    found["the last, at most 128 tokens"] = with_parts(
        partial(ways.tokens, fields=ALL, squeeze=SQUEEZE, most=128)
    )
    for name, squeeze in (
        ("level 1", ways.zstd(1)),
        ("level 6", ways.zstd(6)),
        ("level 19", ways.zstd(19)),
        ("strategy btopt", ways.zstd(3, strategy=7)),
        ("window of 32 KiB", ways.zstd(3, window_log=15)),
        ("matches from 3 bytes", ways.zstd(3, min_match=3)),
        ("target length 64", ways.zstd(3, target_length=64)),
    ):
        found[f"the last, {name}"] = with_parts(partial(ways.tokens, fields=ALL, squeeze=squeeze))
    return found


def time_candidates() -> dict[str, Measure]:
    def each(encode: Callable[[ways.Ints], int]) -> Measure:
        return lambda block: encode(block.gap)

    half = partial(ways.packed, bits=4, squeeze=SQUEEZE)
    return {
        "byte planes": each(partial(ways.planes, squeeze=SQUEEZE)),
        "varints": each(partial(ways.varints, squeeze=SQUEEZE)),
        "half a byte, longer ones apart": each(half),
        "a quarter of a byte, longer ones apart": each(
            partial(ways.packed, bits=2, squeeze=SQUEEZE)
        ),
        "three in a byte, longer ones apart": each(partial(ways.three_in_a_byte, squeeze=SQUEEZE)),
        "half a byte, before frees and others apart": lambda block: ways.by_effect(block, half),
        "half a byte, less the least of its two ops": lambda block: ways.less_the_least(
            block, half
        ),
        "half a byte, level 1": each(partial(ways.packed, bits=4, squeeze=ways.zstd(1))),
        "half a byte, level 19": each(partial(ways.packed, bits=4, squeeze=ways.zstd(19))),
        "logarithmic, 4 buckets an octave (lossy)": each(
            partial(ways.buckets, steps=2, squeeze=SQUEEZE)
        ),
        "logarithmic, 2 buckets an octave (lossy)": each(
            partial(ways.buckets, steps=1, squeeze=SQUEEZE)
        ),
    }


def measure(candidates: dict[str, Measure], blocks: dict[str, list[Block]]) -> list[list[object]]:
    """Per candidate the geometric and the arithmetic mean over the programs, and the largest."""
    rows: list[list[object]] = []
    for name, encode in candidates.items():
        each = [
            sum(encode(block) for block in found) / sum(block.rows for block in found)
            for found in blocks.values()
        ]
        rows.append(
            [
                name,
                geometric_mean(max(value, 1e-4) for value in each),
                sum(each) / len(each),
                max(each),
            ]
        )
    return rows


def show_blocks(paths: Sequence[Path]) -> None:
    """Everything but threads at several block sizes, on the same events of the longer programs."""
    longest, rows = 4 * BLOCK, []
    found = {path: read_blocks(path, longest, 1)[0] for path in paths}
    long_enough = {path: block for path, block in found.items() if block.rows == longest}
    for size in (BLOCK // 4, BLOCK, longest):
        each = []
        for block in long_enough.values():
            pieces = [
                Block(
                    **{
                        name: getattr(block, name)[at : at + size]
                        for name in Block.__dataclass_fields__
                    }
                )
                for at in range(0, longest, size)
            ]
            each.append(sum(whole_block(piece) for piece in pieces) / longest)
        rows.append([f"{size:,} events", geometric_mean(each), sum(each) / len(each), max(each)])
    print_table([f"block ({len(long_enough)} programs)", *MEANS], rows)


def whole_block(block: Block) -> int:
    codes = code_slots(block)
    return (
        ways.tokens(ways.parts_of(block, codes), ALL, SQUEEZE)
        + ways.differences(codes.slot, SQUEEZE)
        + ways.packed(block.gap, 4, SQUEEZE)
        + SECTION.size
        + 9 * DIRECTORY.size
    )


MEANS = ("geometric mean", "mean", "largest")


def show_candidates(paths: Sequence[Path], blocks_each: int) -> None:
    blocks = {path.stem: read_blocks(path, BLOCK, blocks_each) for path in paths}
    print(
        f"On {sum(map(len, blocks.values()))} blocks of {len(blocks)} programs, "
        f"up to {blocks_each} of each. Bytes per event.\n"
    )
    rows = []
    for way in WAYS:
        alone, in_tokens = naming(way)
        cells = measure({"alone": alone, "in tokens": in_tokens}, blocks)
        rows.append([way, cells[0][1], cells[0][2], cells[1][1], cells[1][2]])
    by_slot = {
        "by slot": lambda block: ways.differences(
            block.slot[ways.parts_of(block, code_slots(block)).names], SQUEEZE
        )
    }
    rows.append(["the slot itself", *measure(by_slot, blocks)[0][1:3], "–", "–"])
    print_table(
        [
            "an object is named by",
            "its column alone, geometric mean",
            "mean",
            "in tokens, geometric mean",
            "mean",
        ],
        rows,
    )
    print()
    print_table(["op, codes, sizes", *MEANS], measure(event_candidates(), blocks))
    print()
    print_table(["time, units of the trace", *MEANS], measure(time_candidates(), blocks))
    print()
    show_blocks(paths)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Bytes per event, of traces and of candidate encodings."
    )
    parser.add_argument("what", choices=("columns", "settings", "candidates"))
    parser.add_argument("paths", nargs="+", type=Path, help="traces, or raw logs for settings")
    parser.add_argument(
        "--build",
        type=Path,
        default=REPOSITORY / "build",
        help="whose heaptape converts (settings)",
    )
    parser.add_argument("--blocks", type=int, default=3, help="blocks of each trace (candidates)")
    options = parser.parse_args()
    if options.what == "columns":
        show_columns(options.paths)
    elif options.what == "settings":
        show_settings(options.paths, options.build.resolve() / "heaptape")
    else:
        show_candidates(options.paths, options.blocks)


if __name__ == "__main__":
    main()

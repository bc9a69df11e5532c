# SPDX-License-Identifier: Apache-2.0
"""Two readers written from one specification, in C and in Python, must see the same events: each of ours is formatted as
`heaptape dump` formats its own and compared line for line."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import naive_writer
import pytest
from heaptape import live_bytes_curve, ops, read_trace
from heaptape.trace.ops import Variant
from naive_writer import CARRIES, Event, TraceSpec

TRACES = Path(__file__).resolve().parents[2] / "traces"
_REALLOCS = {3, 4}
_FREES = {5, 11, 12, 13, *range(18, 26), 30}
_QUERY = 26


def _call(function: int, variant: int, slot: int, size: int, extra: int) -> str:
    name, carried = ops.FUNCTIONS[function], CARRIES[function, Variant.PLAIN]
    first = {Variant.NULL: "NULL", Variant.PLAIN: f"#{slot}", Variant.RELEASED: f"#{slot}"}.get(Variant(variant), "?")
    if function in _REALLOCS:
        count = f", {extra}" if "X" in carried else ""
        result = {Variant.FAILED: "NULL (failed)", Variant.RELEASED: "NULL (released)",
                  Variant.FOREIGN: f"#{slot} (foreign)"}.get(Variant(variant), f"#{slot}")
        return f"{name}({first}{count}, {size}) = {result}"
    if function in _FREES or function == _QUERY:
        more = (f", {size}" if "Z" in carried else "") + (f", align {extra}" if "X" in carried else "")
        return f"{name}({first}{more})" + (" (foreign)" if variant == Variant.FOREIGN else "")
    first = f"{extra}, " if "X" in carried else ""
    return f"{name}({first}{size}) = " + ("NULL (failed)" if variant == Variant.FAILED else f"#{slot}")


def _lines(path: Path) -> Iterator[str]:
    with read_trace(path) as trace:
        for chunk in trace.events():
            for row in chunk.itertuples(index=False):
                call = _call(row.function, row.variant, row.slot, row.size, row.extra)
                yield f"{row.event} {row.time_ns} t{row.thread} {call}"


def _compare(binary: Path, path: Path) -> int:
    """Events compared."""
    count = 0
    with subprocess.Popen([binary, "dump", path], stdout=subprocess.PIPE, text=True) as dump:
        assert dump.stdout
        for count, line in enumerate(_lines(path), start=1):
            assert dump.stdout.readline().rstrip("\n") == line
        assert dump.stdout.readline() == ""
    assert dump.returncode == 0
    return count


def _sound_events(count: int) -> list[Event]:
    """Random calls of every function and variant that a program could make: no free of an empty slot, and so on."""
    source, live = random.Random(5), [count + 1, count + 2]
    events = [Event(31, 0, 0, 0, slot, 40) for slot in live]
    kinds = sorted(key for key in CARRIES if key[0] not in (28, 29, 31))  # a dump names control calls by their operands
    for number in range(count):
        function, variant = source.choice(kinds)
        needs = (function in (*_FREES, _QUERY) and variant == 0) or (function in _REALLOCS and variant in (0, 3))
        if needs and not live:
            continue
        ends = (function in _FREES and variant == 0) or variant == 3
        slot = live[source.randrange(len(live))] if needs else number + 1
        if ends:
            live.remove(slot)
        elif not needs and "S" in CARRIES[function, variant]:
            live.append(slot)
        extra = source.randrange(1, 20) if function in (2, 4) else 1 << source.randrange(3, 12)
        events.append(Event(function, variant, source.randrange(3), number * 7, slot, source.randrange(5_000), extra))
    return events


@pytest.mark.parametrize("compress", [False, True])
def test_every_op_is_dumped_as_it_is_read(heaptape_binary: Path, tmp_path: Path, compress: bool) -> None:
    path = tmp_path / "t.bin"
    spec = TraceSpec(_sound_events(3_000), block=700, compress=compress, difference=compress, unit_ns=3)
    path.write_bytes(naive_writer.build(spec)[0])
    assert _compare(heaptape_binary, path) == len(spec.events)


def test_recorded_traces_are_dumped_as_they_are_read(heaptape_binary: Path, recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        assert _compare(heaptape_binary, path) == read_trace(path).records


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in TRACES.glob("*.bin")))
def test_every_shipped_trace_is_dumped_as_it_is_read(heaptape_binary: Path, name: str) -> None:
    assert _compare(heaptape_binary, TRACES / name) == read_trace(TRACES / name).records


def test_counts_of_the_converter_agree_with_the_events(recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        trace = read_trace(path)
        counts = dict.fromkeys(ops.FUNCTIONS.values(), 0)
        threads = slots = 0
        for chunk in trace.events(["function", "thread", "slot"]):
            for function, number in chunk["function"].value_counts().items():
                counts[ops.FUNCTIONS[function]] += int(number)
            threads, slots = max(threads, int(chunk["thread"].max()) + 1), max(slots, int(chunk["slot"].max()))
        totals, curve = trace.totals or {}, live_bytes_curve(trace, 2_000)
        calls = sum(number for name, number in counts.items() if name not in ("drop", "inherit"))
        assert (totals["events"], totals["records"], totals["threads"]) == (calls, trace.records, threads)
        assert {k: v for k, v in totals["ops"].items() if v} == {
            k: v for k, v in counts.items() if v and k not in ("drop", "inherit")}
        assert totals["peak_live_bytes"] == curve["live_bytes"].max()
        assert totals["end_live_bytes"] == curve["live_bytes"].iloc[-1]
        assert totals["end_live_objects"] == curve["live_objects"].iloc[-1]
        assert slots <= totals["slots"]


def test_info_says_what_the_totals_say(heaptape_binary: Path, recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        info = json.loads(subprocess.run([heaptape_binary, "info", "--json", path], capture_output=True, check=True, timeout=60).stdout)
        totals = read_trace(path).totals or {}
        for key in ("events", "threads", "slots", "peak_live_bytes", "peak_live_objects", "anomalies", "duration_ns"):
            assert info[key] == totals[key], key

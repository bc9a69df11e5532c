"""heaptape forecast: what RSS is at a later time, under each allocator."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from ..base.errors import EXIT_BAD_INPUT, EXIT_UNDECIDED, EXIT_USAGE, HeaptapeError, UsageError
from ..base.printable import printable
from ..base.programs import ToolFailed, find_heaptape, find_replay, run_tool
from ..base.progress import ProgressLine
from ..base.text_table import table_lines
from .estimates import Estimate, estimate, rss_and_slope

_HOUR_NS = 3600e9


class BadTrace(HeaptapeError):
    exit_status = EXIT_BAD_INPUT


class Undecided(HeaptapeError):
    exit_status = EXIT_UNDECIDED


_ERRORS: dict[int, type[HeaptapeError]] = {EXIT_USAGE: UsageError, EXIT_BAD_INPUT: BadTrace, EXIT_UNDECIDED: Undecided}


def _own_words(error: ToolFailed) -> HeaptapeError:
    words = str(error)
    for verb in ("heaptape extend: ", "heaptape replay: "):
        words = words.removeprefix(verb)
    return _ERRORS.get(error.exit_status, HeaptapeError)(words)


def _stretch(heaptape: str, options: argparse.Namespace) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(run_tool([heaptape, "extend", "--json", "--to", f"{options.to:.9f}s", "--", options.trace]))
    except ToolFailed as error:
        raise _own_words(error) from error
    return said


def _replay_part(replay: str, options: argparse.Namespace, from_ns: int, until_ns: int, results: Path) -> list[dict[str, Any]]:
    """Lines of the part's runs. Raises Undecided where the part by itself is not steady."""
    how = f"{options.to:.9f}s,from={from_ns}ns,until={until_ns}ns"
    try:
        run_tool([replay, "-q", "--pass", "memory", "--rounds", "1", "--alloc", options.alloc, "--extend", how, "-o", str(results), "--", options.trace])
    except ToolFailed as error:
        raise _own_words(error) from error
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return [line for line in lines if not line["control"] and line["timeline"] and line["allocator"]["name"] != "null"]


def _replay_all(replay: str, options: argparse.Namespace, said: dict[str, Any], progress: ProgressLine) -> tuple[dict[str, list[tuple[float, float]]], int]:
    """RSS and slope of each part, by allocator; and of how many parts."""
    found: dict[str, list[tuple[float, float]]] = {}
    steady, last = 0, None
    length = (said["until_ns"] - said["from_ns"]) // options.parts
    with tempfile.TemporaryDirectory() as folder:
        for part in range(options.parts):
            progress.show(f"part {part + 1} of {options.parts}", progress.left_s(part, options.parts))
            from_ns = said["from_ns"] + part * length
            try:
                lines = _replay_part(replay, options, from_ns, from_ns + length, Path(folder) / f"{part}.jsonl")
            except Undecided as error:
                last = error
                continue
            steady += 1
            for line in lines:
                found.setdefault(line["allocator"]["name"], []).append(rss_and_slope(line))
    progress.end()
    if steady < 2:
        raise Undecided(f"fewer than two of {options.parts} parts of the steady stretch are steady by themselves, which leaves no interval; the last: {last}")
    return found, steady


def _forecasts(said: dict[str, Any], found: dict[str, list[tuple[float, float]]]) -> dict[str, tuple[Estimate, Estimate]]:
    """RSS and slope, by allocator. Live bytes may grow by any slope that the recording does not exclude."""
    half = (said["live_slope_high"] - said["live_slope_low"]) / 2
    hours = (said["to_ns"] - said["until_ns"]) / _HOUR_NS
    return {name: (estimate([rss for rss, _ in parts], half * hours), estimate([slope for _, slope in parts], half)) for name, parts in found.items()}


def _mb(value: Estimate, sign: str = "") -> str:
    low = value.low if sign else max(value.low, 0)
    return f"{value.value / 1e6:{sign}.1f} [{low / 1e6:{sign}.1f}, {value.high / 1e6:{sign}.1f}]"


def _print(options: argparse.Namespace, said: dict[str, Any], forecasts: dict[str, tuple[Estimate, Estimate]], parts: int) -> None:
    print(f"extrapolated: {parts} parts of {said['from_ns'] / 1e9:.0f} s to {said['until_ns'] / 1e9:.0f} s, each repeated up to {options.to:.0f} s")
    print(f"in the recording: {printable(said['why'])}\n")
    rows = [("allocator", "RSS then, MB", "MB/hour", "")]
    for name, (rss, slope) in sorted(forecasts.items(), key=lambda item: item[1][0].value):
        rows.append((printable(name), _mb(rss), _mb(slope, "+"), "" if slope.resolved else "growth not resolved"))
    print("\n".join(table_lines(rows, right={1, 2})))


def _as_json(said: dict[str, Any], forecasts: dict[str, tuple[Estimate, Estimate]], parts: int) -> dict[str, Any]:
    def keys(value: Estimate) -> dict[str, Any]:
        return {"value": value.value, "ci_low": value.low, "ci_high": value.high}

    return {"extended": said, "parts": parts, "allocators": [
        {"name": name, "rss_bytes": keys(rss), "slope_bytes_per_hour": {**keys(slope), "resolved": slope.resolved}}
        for name, (rss, slope) in forecasts.items()]}


def run_forecast(options: argparse.Namespace) -> None:
    replay = find_replay()
    said = _stretch(find_heaptape(replay), options)
    progress = ProgressLine(not options.quiet)
    try:
        found, parts = _replay_all(replay, options, said, progress)
    finally:
        progress.end()
    # An allocator that failed in a part has fewer: its interval would not be comparable.
    forecasts = _forecasts(said, {name: values for name, values in found.items() if len(values) == parts})
    if not forecasts:
        raise UsageError("--alloc: expected an allocator that is replayed in each part, other than null")
    if options.json:
        print(json.dumps(_as_json(said, forecasts, parts), indent=2))
    else:
        _print(options, said, forecasts, parts)

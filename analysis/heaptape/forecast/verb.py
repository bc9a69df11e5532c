# SPDX-License-Identifier: Apache-2.0
"""heaptape forecast: what RSS is at a later time, under each allocator."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..base.errors import HeaptapeError, UsageError
from ..base.programs import find_heaptape, find_replay
from ..base.sharing import as_sentence, sharing
from ..base.text import ProgressLine, printable, table_lines
from ..judge.intervals import SAME_WITHIN
from ..results.caution import as_caution
from .parts import (
    Estimate,
    Key,
    Replayed,
    baseline_check,
    difference,
    estimate,
    replay_parts,
    steady_stretch,
)

Forecasts = dict[Key, tuple[Estimate, Estimate]]
"""RSS and slope."""


def _forecasts(said: dict[str, Any], replayed: Replayed, scale: int) -> Forecasts:
    """Live bytes may go on in any way that the recording does not exclude."""
    level = scale * (said["live_to_high_bytes"] - said["live_to_low_bytes"]) / 2
    slope_doubt = scale * said["live_to_slope_doubt"]
    return {key: (estimate([rss for rss, _ in parts], level), estimate([slope for _, slope in parts], slope_doubt))
            for key, parts in replayed.whole().items()}


def _differences(replayed: Replayed) -> Forecasts:
    """From the baseline on the same machine."""
    whole, found = replayed.whole(), {}
    for (processors, name), parts in whole.items():
        base = whole.get((processors, replayed.baseline))
        if base and name != replayed.baseline:
            rss, slope = (difference(values, others) for values, others in zip(zip(*parts, strict=True), zip(*base, strict=True), strict=True))
            found[processors, name] = (rss, slope)
    return found


def _mb(value: Estimate, sign: str = "") -> str:
    low = value.low if sign else max(value.low, 0)
    return f"{value.value / 1e6:{sign}.1f} [{low / 1e6:{sign}.1f}, {value.high / 1e6:{sign}.1f}]"


def _print(options: argparse.Namespace, said: dict[str, Any], forecasts: Forecasts, replayed: Replayed, check: dict[str, Any] | None) -> None:
    if as_caution(check):
        print(printable(as_caution(check)))
    print(f"extrapolated: {replayed.parts} parts of {said['from_ns'] / 1e9:.0f} s to {said['until_ns'] / 1e9:.0f} s, each repeated up to {options.to:.0f} s")
    if options.scale > 1:
        print(f"assumed: {options.scale} times the load, as {options.scale} copies of the recording in one process")
    print(f"in the recording: {printable(said['why'])}\n")
    print("\n".join(_table(options, said, forecasts, replayed)))
    print("\n" + _own_memory(said) + as_sentence(sharing(replayed.forked)))


def _table(options: argparse.Namespace, said: dict[str, Any], forecasts: Forecasts, replayed: Replayed) -> list[str]:
    differences, baseline = _differences(replayed), printable(replayed.baseline)
    rows = [["processors", "allocator", "heap RSS then, MB", "MB/hour", *([f"against {baseline}, MB", "MB/hour"] if differences else []), ""]]
    for key, (rss, slope) in sorted(forecasts.items(), key=lambda item: (item[0][0] or 0, item[1][0].value)):
        against = differences.get(key)
        words = _growth(slope, said["grows"])
        if against and _matters(against[1], rss, options.to):
            words = f"grows {'more' if against[1].value > 0 else 'less'} than {baseline}"
        compared = [_mb(value, "+") for value in against] if against else ["", ""] if differences else []
        rows.append([str(key[0]), printable(key[1]), _mb(rss), _mb(slope, "+"), *compared, words])
    rows = rows if options.cpus else [row[1:] for row in rows]
    return table_lines(rows, right={*range(len(rows[0]) - 1)} - {rows[0].index("allocator")})


def _growth(slope: Estimate, live_grow: bool) -> str:
    """The words about growth that is not shown."""
    if slope.resolved:
        return ""
    return "grew; not resolved whether that goes on" if live_grow else "growth not resolved"


def _matters(slope: Estimate, rss: Estimate, to_s: float) -> bool:
    """Whether a difference of slopes is shown to make one of RSS until then."""
    return slope.resolved and min(abs(slope.low), abs(slope.high)) * to_s / 3600 > SAME_WITHIN * rss.value


def _own_memory(said: dict[str, Any]) -> str:
    """The memory that a process has beside its heap."""
    own = said.get("own_until_bytes")
    if own is None:
        return "The process has more: memory of its own, which was not measured."
    return f"The process has more: as recorded, {own / 1e6:.1f} MB of its own at {said['until_ns'] / 1e9:.0f} s (its data, stacks and mappings)."


def _as_json(said: dict[str, Any], forecasts: Forecasts, replayed: Replayed, scale: int, check: dict[str, Any] | None) -> dict[str, Any]:
    def keys(value: Estimate) -> dict[str, Any]:
        return {"value": value.value, "ci_low": value.low, "ci_high": value.high}

    def figures(pair: tuple[Estimate, Estimate]) -> dict[str, Any]:
        rss, slope = pair
        return {"rss_bytes": keys(rss), "slope_bytes_per_hour": {**keys(slope), "resolved": slope.resolved}}

    against = _differences(replayed)
    return {"extended": said, "parts": replayed.parts, "scale": scale, "sharing": sharing(replayed.forked) or None, "baseline_check": check,
            "baseline": replayed.baseline, "allocators": [
                {"name": key[1], "processors": key[0], **figures(pair), "against_baseline": figures(against[key]) if key in against else None}
                for key, pair in forecasts.items()]}


def run_forecast(options: argparse.Namespace) -> None:
    replay = find_replay()
    heaptape = find_heaptape(replay)
    said = steady_stretch(heaptape, options)
    progress = ProgressLine(not options.quiet)
    try:
        replayed = replay_parts(replay, options, said, progress)
        check = baseline_check(replay, options)
    finally:
        progress.end()
    forecasts = _forecasts(said, replayed, options.scale)
    if not forecasts and not replayed.failures:
        raise UsageError("--alloc: expected an allocator other than null")
    if options.json:
        print(json.dumps(_as_json(said, forecasts, replayed, options.scale, check), indent=2))
    elif forecasts:
        _print(options, said, forecasts, replayed, check)
    if replayed.failures:
        raise HeaptapeError(f"an allocator that fails has no forecast: {'; '.join(replayed.failures)}")

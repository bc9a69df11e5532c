# SPDX-License-Identifier: Apache-2.0
"""What resident memory consists of: at the moment that is asked for, and along the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.units import BYTE_STEPS, TIME_STEPS, byte_count, counted, nanoseconds, percent
from ..explain.answer import Answer, allocator_rows, when_sentence
from ..explain.sums import ACCOUNTS, MEANING
from .figures import STRIP_PX, Figure, Row, Table, rows_markup
from .heap_maps import map_figure
from .svg import Drawing, curve, framed, scaled_ticks, share

_CSS = {"live": "part-live", "rounding": "part-rounding", "headers": "part-headers", "holes": "part-holes", "free_pages": "part-free", "tables": "part-tables",
        "untouched": "part-untouched"}
_KEY = [(name.replace("_", " "), css) for name, css in _CSS.items()]
_STACK_PX, _COST_PX = 240, 90
_COST_SHOWN, _CALLS_SHOWN, _PAUSE = 0.97, 150, 20
"""Of the stretches: the few in which a call cost more are cut; those with fewer timed calls are drawn together; after so many without
a call the curve begins anew."""


@dataclass(frozen=True)
class Heap:
    """What the template shows of one allocator's heap."""

    answer: Answer
    name: str
    css: str
    when: list[str]
    along: Figure | None
    map: Figure | None


def heaps_of(answers: list[Answer], classes: dict[str, str]) -> list[Heap]:
    """classes: CSS classes by the allocator's name."""
    made = []
    for answer in answers:
        drawn = map_figure(answer.allocator, answer.map, answer.snapshot.time_ns, answer.thread_names) if answer.map else None
        made.append(Heap(answer, answer.allocator, classes.get(str(answer.snapshot.allocator["name"]), "c0 a0"), when_sentence(answer), along_figure(answer), drawn))
    return made


def accounts_figure(heaps: list[Heap]) -> Figure:
    """A bar for each allocator."""
    rows = allocator_rows([heap.answer for heap in heaps])
    greatest, made = max((heap.answer.accounts.rss_bytes for heap in heaps), default=0) or 1, []
    for heap in heaps:
        accounts, strip, at = heap.answer.accounts, Drawing(None, STRIP_PX, ""), 0.0
        for name, css in _CSS.items():
            part = accounts.bytes[name] / greatest
            tip = f"{name.replace('_', ' ')}: {byte_count(accounts.bytes[name])}, {percent(accounts.bytes[name] / max(accounts.rss_bytes, 1))} of RSS"
            strip.rect(share(at), 1, share(part), STRIP_PX - 2, css, tip)
            at += part
        made.append(Row(heap.name, heap.css, f"{byte_count(accounts.rss_bytes)}: {heap.answer.verdict}", strip))
    caption = "; ".join(f"{name.replace('_', ' ')}: {MEANING[name]}" for name in ACCOUNTS) + "."
    return Figure("Accounts of RSS", caption[0].upper() + caption[1:], rows_markup(made, scaled_ticks(greatest, 4, BYTE_STEPS), "bars"),
                  Table(rows[0], rows[1:]), _KEY)


def _with_moments(answer: Answer) -> pd.DataFrame:
    """The accounts along the trace, and those of the snapshots, where peaks are that lie within a stretch."""
    moments = pd.DataFrame([{"time_ns": moment.time_ns, "rss_bytes": moment.accounts.rss_bytes, **moment.accounts.bytes}
                            for moment in answer.moments if moment.time_ns is not None])
    return pd.concat([answer.along, moments]).sort_values("time_ns", kind="stable", ignore_index=True)


def along_figure(answer: Answer) -> Figure | None:
    """The accounts stacked along the trace, and below what a call cost there. None without any."""
    rows = _with_moments(answer)
    within = answer.within_call
    span, high = float(rows["time_ns"].max()), max(float(rows["rss_bytes"].max()), within.rss_bytes if within else 0) * 1.04
    if answer.along.empty or not span or not high:
        return None
    time = rows["time_ns"].to_numpy() / span
    area = Drawing(None, _STACK_PX, f"Accounts of RSS under {answer.allocator} along {nanoseconds(span)} of the trace, as in the table")
    stacked = np.cumsum(rows[list(ACCOUNTS)].to_numpy(dtype=float), axis=1) / high
    drawn = [curve(time, stacked[:, number], f"{_CSS[name]} filled", True) for number, name in reversed(list(enumerate(ACCOUNTS)))]
    if within:
        drawn.append(curve(np.full(2, within.time_ns / span), np.array([0.0, within.rss_bytes / high]), "cost"))
    area.plot(drawn)
    for number in range(len(rows)):
        begun = time[number - 1] if number else 0.0
        area.rect(share(begun), 0, share(time[number] - begun), _STACK_PX, "column", _tip(rows.iloc[number]))
    across = scaled_ticks(span, 6, TIME_STEPS)
    body = framed(area, scaled_ticks(high, 5, BYTE_STEPS), across) + _cost_chart(answer, span)
    shown = rows.iloc[np.unique(np.linspace(0, len(rows) - 1, 20).astype(int))]
    table = Table(["time", "RSS", *(name.replace("_", " ") for name in ACCOUNTS), "a call"], [
        [nanoseconds(row["time_ns"]), byte_count(row["rss_bytes"]), *(byte_count(row[name]) for name in ACCOUNTS), nanoseconds(row["cost_ns"])]
        for row in shown.to_dict("records")])
    return Figure(answer.allocator, _along_caption(answer), body, table, _KEY)


def _tip(row: pd.Series) -> str:
    parts = ", ".join(f"{name.replace('_', ' ')} {byte_count(row[name])}" for name in ACCOUNTS if row[name])
    cost = "" if np.isnan(row["cost_ns"]) else f"; a call {nanoseconds(row['cost_ns'])}"
    return f"{nanoseconds(row['time_ns'])}: RSS {byte_count(row['rss_bytes'])}: {parts}{cost}"


def _along_caption(answer: Answer) -> str:
    costs = answer.along["cost_ns"].dropna()
    words = f"RSS at {counted(len(answer.along), 'time')} along the trace."
    if answer.within_call:
        words += f" The line is its peak, within a call: {byte_count(answer.within_call.rss_bytes)}."
    if costs.empty:
        return words
    return (f"{words} Below: the mean cost of the timed calls of each stretch, with the first touch of the returned blocks; "
            f"at most {nanoseconds(costs.max())}.")


def _cost_chart(answer: Answer, span: float) -> str:
    rows = answer.along[answer.along["cost_ns"].notna()]
    rows = rows.assign(part=(rows.index.to_series().diff() > _PAUSE).cumsum(), group=rows["timed_calls"].cumsum() // _CALLS_SHOWN,
                       ns=rows["cost_ns"] * rows["timed_calls"])
    sums = rows.groupby(["part", "group"]).agg({"time_ns": "last", "ns": "sum", "timed_calls": "sum"})
    cost = sums["ns"] / sums["timed_calls"]
    high = float(cost.quantile(_COST_SHOWN)) * 1.25 if len(cost) else 0.0
    if not high:
        return ""
    area = Drawing(None, _COST_PX, f"Cost of a call under {answer.allocator} along the trace, as in the table")
    area.plot([curve(sums["time_ns"].loc[part].to_numpy() / span, cost.loc[part].to_numpy() / high, "cost") for part in rows["part"].unique()])
    return framed(area, scaled_ticks(high, 3, TIME_STEPS), [])

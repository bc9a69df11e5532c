# SPDX-License-Identifier: Apache-2.0
"""The answer of `explain`, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..base.recorded_settings import left_out_sentence, shown_name
from ..base.sharing import as_sentence, in_brackets
from ..base.text_table import table_lines
from ..base.units import (
    byte_count,
    counted,
    nanoseconds,
    null_unless_known,
    percent,
    three_digits,
    with_nulls,
)
from ..results.caution import NOT_HELD_AGAINST, as_caution
from ..sites.frames import place_text
from .accounts import MEANING, Accounts, Sums
from .call_sites import CallSites, site_rows, site_sentences, sites_object
from .cures import Cure
from .heap_map import HeapMap
from .holders import Holder, size_class
from .shared_lines import SharedLines, sentences
from .snapshots import ACCOUNTS, Snapshot
from .stretches import Break
from .unmeasured import Unmeasured, unmeasured_sentence
from .verdict import VERDICTS, Trend

CURES_SHOWN = 3

_NAMED_SHARE = 0.1
"""Of what is above the live bytes: a smaller account is not named in the first sentences, nor who holds it."""

_MORE_THAN_ITS_SHARE = 1.2
"""A group of blocks of all sizes that holds so many times its share of the holes stands out."""


_FRESH_HEAP = ("Caution: the blocks from before the slice lie in a fresh heap, without the holes that they had: cut the slice from the whole recording, "
               "without --fresh.")


@dataclass(frozen=True)
class Moment:
    """why: peak, end, time, or a jump, which is one of the largest rises of RSS less live bytes; or mean, which is no moment, but
    the mean over the time of the trace: time_ns is None."""

    why: str
    time_ns: int | None
    accounts: Sums
    verdict: str


@dataclass(frozen=True)
class WithinCall:
    """The peak of RSS, where it lies within a call: nothing can be taken apart there."""

    rss_bytes: int
    time_ns: int


@dataclass(frozen=True)
class Answer:
    """cures: None where none were tried. moments: all that snapshots were taken of, by time, and the mean. along: as of
    accounts_along. map: None where no page is written. also_set: the sentence about what cures need besides, or ""."""

    trace: str
    snapshot: Snapshot
    end_ns: int
    accounts: Accounts
    verdict: str
    trend: Trend
    holders: list[Holder]
    thread_names: dict[int, str]
    cures: list[Cure] | None
    lines: SharedLines | None
    moments: list[Moment] = field(default_factory=list)
    along: pd.DataFrame = field(default_factory=pd.DataFrame)
    broke: Break | None = None
    map: HeapMap | None = None
    command: str = ""
    also_set: str = ""
    sites: CallSites | None = None
    extended: dict[str, Any] | None = None
    """What was repeated, where the trace is one that was extended."""
    unmeasured: Unmeasured | None = None
    within_call: WithinCall | None = None
    sharing: str = ""
    """The words that go with all advice about one of several processes."""
    baseline_check: dict[str, Any] | None = None
    memory_recorded: bool = True
    begins_late: str = ""
    """Where blocks at its very beginning are older than it, what it begins with: slice or fork."""
    own: str = ""
    """The caution where the program's allocator is part of it, and another one."""
    fresh_heap: bool = False
    """It is a slice, and these blocks lie in a fresh heap: not all that led to them was replayed."""

    @property
    def caution(self) -> str:
        """The first sentence where the replay is not what the program ran under, else ""."""
        return self.own or as_caution(self.baseline_check)

    controls: dict[str, int] = field(default_factory=dict)
    """Calls by which the program itself controls its allocator, and how many of each."""

    @property
    def allocator(self) -> str:
        """Its name, with the settings of the recorded program that it had, and its version, where that is known."""
        of = self.snapshot.allocator
        return f"{shown_name(of['name'], of.get('settings'))} {of['version']}".strip()


def _sizes(low: int, high: int) -> str:
    return f"{low:,}–{counted(high, 'byte')}" if low < high else counted(low, "byte")


def _thread(answer: Answer, holder: Holder) -> str:
    if holder.thread is None:
        return "several threads"
    name = answer.thread_names.get(holder.thread, "")
    return f"thread {holder.thread}" + (f" ({name})" if name else "")


def _when(answer: Answer, holder: Holder) -> str:
    if holder.windowed and not holder.born_to_ns and answer.begins_late:
        return f"before the {answer.begins_late}"
    return f"between {nanoseconds(holder.born_from_ns)} and {nanoseconds(holder.born_to_ns)}" if holder.windowed else "throughout"


def _above(accounts: Accounts) -> list[str]:
    """What is above the live bytes, largest first."""
    above = accounts.rss_bytes - accounts.bytes["live"]
    named = sorted((name for name in ACCOUNTS[1:] if accounts.bytes[name] >= max(_NAMED_SHARE * above, 1)), key=lambda name: -accounts.bytes[name])
    parts = [f"{name.replace('_', ' ')} {percent(accounts.bytes[name] / above)}" for name in named]
    return [f"Above the live bytes: {', '.join(parts)}."] if parts else []


def _holder_sentence(answer: Answer) -> list[str]:
    accounts, blocks = answer.accounts, len(answer.accounts.blocks)
    holes = accounts.bytes["holes"]
    if not answer.holders or holes < _NAMED_SHARE * (accounts.rss_bytes - accounts.bytes["live"]):
        return []
    worst = answer.holders[0]
    if worst.size_high > 2 * worst.size_low and worst.holes_bytes / holes < _MORE_THAN_ITS_SHARE * worst.blocks / blocks:
        return ["No group of blocks holds much more than its share of the holes."]
    return [f"{percent(worst.blocks / blocks)} of the blocks hold {percent(worst.holes_bytes / holes)} of the holes ({byte_count(worst.holes_bytes)}): "
            f"{_sizes(worst.size_low, worst.size_high)}, allocated by {_thread(answer, worst)} {_when(answer, worst)}."]


def _site_holder_sentence(answer: Answer) -> list[str]:
    """The call site with most of the holes."""
    holes = answer.accounts.bytes["holes"]
    if not answer.sites or not answer.sites.holders or holes < _NAMED_SHARE * (answer.accounts.rss_bytes - answer.accounts.bytes["live"]):
        return []
    worst = answer.sites.holders[0]
    return [f"Call site: {percent(worst.holes_bytes / holes)} of the holes are held by blocks of {place_text(worst.place)}."]


def _rounding_sentence(accounts: Accounts) -> list[str]:
    """The size class with most of it."""
    if accounts.bytes["rounding"] < max(_NAMED_SHARE * (accounts.rss_bytes - accounts.bytes["live"]), 1):
        return []
    size = accounts.blocks["requested_bytes"].to_numpy()
    rounding = np.clip((accounts.blocks["usable_bytes"] - accounts.blocks["untouched_bytes"]).to_numpy() - size, 0, None)
    classes = size_class(size, 4)
    held = np.bincount(classes, rounding)
    chosen = classes == np.argmax(held)
    return [f"{percent(held.max() / held.sum())} of the rounding is in {counted(int(np.count_nonzero(chosen)), 'block')} of "
            f"{_sizes(int(size[chosen].min()), int(size[chosen].max()))}."]


def _cost_words(broke: Break) -> str:
    """What a call cost before and after, where that differs."""
    if not broke.resolved:
        return ""
    return (f" A call cost {nanoseconds(broke.cost_before_ns)} before that and {nanoseconds(broke.cost_after_ns)} after it "
            f"({three_digits(broke.ratio_low)} to {three_digits(broke.ratio_high)} times as much, 95 % interval).")


def when_sentence(answer: Answer) -> list[str]:
    """Where RSS came apart from the live bytes."""
    if not answer.broke:
        return []
    broke = answer.broke
    begun, ended = nanoseconds(broke.from_ns), nanoseconds(broke.to_ns)
    when = f"at {ended}" if begun == ended else f"between {begun} and {ended}"
    return [f"When: RSS less live bytes grew most {when}, by {byte_count(broke.grew_bytes)}.{_cost_words(broke)}"]


def _extended_sentence(answer: Answer) -> list[str]:
    if answer.extended is None:
        return []
    start, until = (answer.extended.get(name) for name in ("from_ns", "until_ns"))
    of_slice = " of the extension that this is a slice of" if answer.extended["of_slice"] else ""
    return [f"Extrapolated: time after {nanoseconds(until)}{of_slice}, as if the load stayed as between {nanoseconds(start)} and then."]


def _controls_sentence(answer: Answer) -> list[str]:
    calls = [f"{name} ({counted(calls, 'call')})" for name, calls in answer.controls.items()]
    return [f"The program controls malloc itself: {', '.join(calls)}."] if calls else []


def _within_call_sentence(answer: Answer) -> list[str]:
    within = answer.within_call
    if within is None or answer.snapshot.why != "peak":
        return []
    return [f"The peak itself, {byte_count(within.rss_bytes)}, lies within a call, as of a realloc that copies and has both blocks until it ends: "
            f"{byte_count(within.rss_bytes - answer.accounts.rss_bytes)} more than at the reading next to it, which is what follows."]


def first_sentences(answer: Answer) -> list[str]:
    """What RSS is, the verdict, when it came about, who holds it."""
    accounts, snapshot = answer.accounts, answer.snapshot
    above = accounts.rss_bytes - accounts.bytes["live"]
    moment = f"{nanoseconds(snapshot.time_ns)} of {nanoseconds(answer.end_ns)}"
    near = "next to" if answer.within_call else "at"
    why = {"peak": f"{near} its peak ({moment})", "end": f"at the end ({nanoseconds(answer.end_ns)})"}.get(snapshot.why, f"at {moment}")
    return [*filter(None, [answer.caution, "" if answer.memory_recorded else NOT_HELD_AGAINST, _FRESH_HEAP if answer.fresh_heap and not answer.caution else ""]),
            f"Under {answer.allocator} RSS is {byte_count(accounts.rss_bytes)} {why}: {byte_count(accounts.bytes['live'])} of live bytes and "
            f"{byte_count(above)} above them.",
            *_within_call_sentence(answer), *filter(None, [left_out_sentence(snapshot.allocator.get("left_out"))]), *unmeasured_sentence(answer.unmeasured, accounts.rss_bytes), *_extended_sentence(answer),
            f"Verdict: {answer.verdict} ({VERDICTS[answer.verdict]}). Along the trace {answer.trend.words}.", *when_sentence(answer), *_above(accounts),
            *_controls_sentence(answer), *_holder_sentence(answer), *_site_holder_sentence(answer), *site_sentences(answer.sites), *_rounding_sentence(accounts), *sentences(answer.lines)]


def account_rows(accounts: Accounts) -> list[list[str]]:
    """A table, its head first."""
    rows = [["account", "bytes", "of RSS", "what it is"]]
    return rows + [[name.replace("_", " "), byte_count(accounts.bytes[name]), percent(accounts.bytes[name] / max(accounts.rss_bytes, 1)), MEANING[name]]
                   for name in ACCOUNTS]


def _account_lines(accounts: Accounts) -> list[str]:
    lines = table_lines(account_rows(accounts), right=(1, 2))
    if accounts.not_resident_bytes:
        lines.append(f"Not in RSS: {byte_count(accounts.not_resident_bytes)} of live bytes, never written to.")
    return lines


def _sums_row(accounts: Sums) -> list[str]:
    return [byte_count(accounts.rss_bytes), *(byte_count(accounts.bytes[name]) for name in ACCOUNTS)]


_SUMS = ["RSS", *(name.replace("_", " ") for name in ACCOUNTS)]


def moment_rows(answer: Answer) -> list[list[str]]:
    """How the accounts change along the trace: a table, its head first."""
    rows = [["moment", "time", *_SUMS, "verdict"]]
    return rows + [[moment.why, "" if moment.time_ns is None else nanoseconds(moment.time_ns), *_sums_row(moment.accounts), moment.verdict]
                   for moment in answer.moments]


def _moment_lines(answer: Answer) -> list[str]:
    return table_lines(moment_rows(answer), right=range(1, 2 + len(_SUMS))) if len(answer.moments) > 1 else []


def holder_rows(answer: Answer) -> list[list[str]]:
    """A table, its head first."""
    holes = max(answer.accounts.bytes["holes"], 1)
    rows = [["holes", "share", "blocks", "sizes", "allocated by", "when"]]
    return rows + [[byte_count(holder.holes_bytes), percent(holder.holes_bytes / holes), f"{holder.blocks:,}", _sizes(holder.size_low, holder.size_high),
                    _thread(answer, holder), _when(answer, holder)] for holder in answer.holders]


def _holder_lines(answer: Answer) -> list[str]:
    return table_lines(holder_rows(answer), right=(0, 1, 2)) if answer.holders else []


def site_holder_rows(answer: Answer) -> list[list[str]]:
    """A table, its head first; [] without call sites."""
    return site_rows(answer.sites, answer.accounts.bytes["holes"]) if answer.sites and answer.sites.holders else []


def _site_lines(answer: Answer) -> list[str]:
    rows = site_holder_rows(answer)
    return table_lines(rows, right=range(4)) if rows else []


def helpful_cures(answer: Answer) -> list[Cure]:
    """The best of those that save memory."""
    return [cure for cure in answer.cures or [] if cure.ci_low > 0][:CURES_SHOWN]


def cure_rows(answer: Answer) -> list[list[str]]:
    """A table, its head first."""
    moment = "the end" if answer.snapshot.why == "end" else "the peak"
    helps = "what helps in this replay, not recommended" if answer.caution else "what helps"
    rows = [[f"{helps}{in_brackets(answer.sharing)}", f"saves at {moment}", "95 % interval", "time in malloc"]]
    return rows + [[cure.name, byte_count(cure.saves_bytes), f"{byte_count(cure.ci_low)} to {byte_count(cure.ci_high)}",
                    "n/a" if cure.time_ratio is None else f"× {cure.time_ratio:.2f}"] for cure in helpful_cures(answer)]


def nothing_helps(answer: Answer) -> str:
    """Where cures were tried."""
    return f"No change saves memory ({len(answer.cures or [])} tried).{as_sentence(answer.sharing)}"


def also_set_for(cures: list[Cure], answer: Answer) -> str:
    """What has to be set beside the lines of any that puts an allocator or its settings to use; or ""."""
    return answer.also_set if any(cure.lines and cure.alloc for cure in cures) else ""


def _cure_lines(answer: Answer) -> list[str]:
    if answer.cures is None:
        return []
    helpful = helpful_cures(answer)
    if not helpful:
        return [nothing_helps(answer)]
    lines = table_lines(cure_rows(answer), right=(1,))
    for cure in helpful if not answer.caution else []:
        lines += ["", f"{cure.name}:", *(f"  {what:7}  {line}" for what, line in cure.lines)] \
            if cure.lines else []
    if also_set_for(helpful, answer):
        lines += ["", also_set_for(helpful, answer)]
    return lines


def allocator_rows(answers: list[Answer]) -> list[list[str]]:
    """The accounts of several allocators side by side: a table, its head first."""
    rows = [["allocator", "time", *_SUMS, "verdict"]]
    return rows + [[answer.allocator, nanoseconds(answer.snapshot.time_ns), *_sums_row(answer.accounts), answer.verdict] for answer in answers]


def text_of_several(answers: list[Answer]) -> list[str]:
    """Lines."""
    lines = table_lines(allocator_rows(answers), right=range(1, 2 + len(_SUMS)))
    for answer in answers:
        lines += ["", *first_sentences(answer), "", *_moment_lines(answer)]
    return lines


def text_of(answer: Answer) -> list[str]:
    """Lines."""
    lines = [*first_sentences(answer), "", *_account_lines(answer.accounts)]
    for more in (_holder_lines(answer), _site_lines(answer), _moment_lines(answer), _cure_lines(answer)):
        lines += ["", *more] if more else []
    return lines


def object_of(answer: Answer) -> dict[str, Any]:
    """For --json. Its keys stay (docs/reference/explain.md)."""
    snapshot = answer.snapshot
    return {
        "trace": answer.trace, "extended": answer.extended, "allocator": snapshot.allocator, "at": snapshot.why, "time_ns": snapshot.time_ns, "event": snapshot.event,
        "rss_bytes": answer.accounts.rss_bytes, "accounts_bytes": answer.accounts.bytes,
        "not_resident_bytes": answer.accounts.not_resident_bytes, "unmeasured": answer.unmeasured and asdict(answer.unmeasured), "blocks": len(answer.accounts.blocks), "cache_lines": answer.lines and asdict(answer.lines),
        "verdict": answer.verdict, "trend": asdict(answer.trend),
        "holders": [asdict(holder) | {"thread_name": answer.thread_names.get(holder.thread, "") if holder.thread is not None else None}
                    for holder in answer.holders],
        "call_sites": sites_object(answer.sites),
        "moments": [{"at": moment.why, "time_ns": moment.time_ns, "rss_bytes": moment.accounts.rss_bytes, "accounts_bytes": moment.accounts.bytes,
                     "verdict": moment.verdict} for moment in answer.moments],
        "stretches": {name: [null_unless_known(value) for value in answer.along[name].tolist()] for name in answer.along},
        "within_call": answer.within_call and asdict(answer.within_call),
        "broke": None if answer.broke is None else with_nulls(asdict(answer.broke)),
        "control_calls": answer.controls, "sharing": answer.sharing or None, "baseline_check": answer.baseline_check,
        "cures": None if answer.cures is None else [
            {"name": cure.name, "alloc": cure.alloc, "saves_bytes": cure.saves_bytes, "ci_low": null_unless_known(cure.ci_low),
             "ci_high": null_unless_known(cure.ci_high), "time_ratio": cure.time_ratio} for cure in answer.cures]}

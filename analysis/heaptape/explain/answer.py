# SPDX-License-Identifier: Apache-2.0
"""The answer of `explain`, as text and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..base.allocators import left_out_sentence, shown_name
from ..base.sharing import as_sentence, in_brackets
from ..base.text import table_lines
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
from ..results.use import SMALL_SHARE
from ..sites.frames import place_text
from .accounts import Accounts
from .call_sites import CallSites, site_rows, site_sentences, sites_object
from .cures import CACHES, Cure
from .heap_map import HeapMap
from .holders import Holder, size_class
from .snapshots import Snapshot
from .stretches import Break
from .sums import ACCOUNTS, MEANING, OF_ACCOUNT, VERDICTS, Sums
from .verdict import SharedLines, Trend, Unmeasured, sentences, unmeasured_sentence

_NAMED_SHARE, _NAMED_OF_RSS = 0.1, 0.01
"""Shares of what is above the live bytes, and of RSS: a smaller account is not named in the first sentences, nor who holds it."""

_SAVING_LEAST_BYTES = 64 << 10
"""A smaller saving is no reason to change anything, nor is one below SMALL_SHARE of RSS."""

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
    """How the trace was extended, if it was."""
    unmeasured: Unmeasured | None = None
    within_call: WithinCall | None = None
    sharing: str = ""
    """The words that go with all advice about one of several processes."""
    baseline_check: dict[str, Any] | None = None
    memory_recorded: bool = True
    begins_late: str = ""
    """The trace begins with this ("slice" or "fork") if blocks at its very beginning are older than it."""
    own: str = ""
    """The caution where the program's allocator is part of it, and another one."""
    release: str = ""
    """The caution where the program ran under another release of this allocator."""
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


def _named(accounts: Accounts, account: str) -> bool:
    """Whether it is large enough to be spoken of."""
    return accounts.bytes[account] >= max(_NAMED_SHARE * (accounts.rss_bytes - accounts.bytes["live"]), _NAMED_OF_RSS * accounts.rss_bytes, 1)


def _live_and_above(accounts: Accounts) -> list[str]:
    """What is above the live bytes, largest first."""
    above = accounts.rss_bytes - accounts.bytes["live"]
    named = sorted((name for name in ACCOUNTS[1:] if _named(accounts, name)), key=lambda name: -accounts.bytes[name])
    parts = ", ".join(f"{name.replace('_', ' ')} {percent(accounts.bytes[name] / above)}" for name in named)
    return [f"Of RSS {byte_count(accounts.bytes['live'])} are live bytes; {byte_count(above)} are above them{f': {parts}' if parts else ''}."] if accounts.rss_bytes else []


def _holder_sentence(answer: Answer) -> list[str]:
    accounts, blocks = answer.accounts, len(answer.accounts.blocks)
    holes = accounts.bytes["holes"]
    if not answer.holders or not _named(accounts, "holes"):
        return []
    worst = answer.holders[0]
    if worst.size_high > 2 * worst.size_low and worst.holes_bytes / holes < _MORE_THAN_ITS_SHARE * worst.blocks / blocks:
        return ["No group of blocks holds much more than its share of the holes."]
    return [f"{percent(worst.blocks / blocks)} of the blocks hold {percent(worst.holes_bytes / holes)} of the holes ({byte_count(worst.holes_bytes)}): "
            f"{_sizes(worst.size_low, worst.size_high)}, allocated by {_thread(answer, worst)} {_when(answer, worst)}."]


def _site_holder_sentence(answer: Answer) -> list[str]:
    """The call site with most of the holes."""
    holes = answer.accounts.bytes["holes"]
    if not answer.sites or not answer.sites.holders or not _named(answer.accounts, "holes"):
        return []
    worst = answer.sites.holders[0]
    return [f"Call site: {percent(worst.holes_bytes / holes)} of the holes are held by blocks of {place_text(worst.place)}."]


def _rounding_sentence(accounts: Accounts) -> list[str]:
    """The size class with most of it."""
    if not _named(accounts, "rounding"):
        return []
    size = accounts.blocks["requested_bytes"].to_numpy()
    rounding = np.clip(accounts.blocks["usable_bytes"].to_numpy() - size, 0, None)
    classes = size_class(size, 4)
    held = np.bincount(classes, rounding)
    chosen = classes == np.argmax(held)
    return [f"{percent(held.max() / held.sum())} of the rounding is in {counted(int(np.count_nonzero(chosen)), 'block')} of "
            f"{_sizes(int(size[chosen].min()), int(size[chosen].max()))}."]


def _cost_words(broke: Break) -> str:
    """The cost of a call before and after, if they differ."""
    if not broke.resolved:
        return ""
    return (f" A call cost {nanoseconds(broke.cost_before_ns)} before that and {nanoseconds(broke.cost_after_ns)} after it "
            f"({three_digits(broke.ratio_low)} to {three_digits(broke.ratio_high)} times as much, 95 % interval).")


def when_sentence(answer: Answer) -> list[str]:
    """The sentence about the time at which RSS came apart from the live bytes."""
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


def _moment_words(answer: Answer) -> str:
    snapshot = answer.snapshot
    moment = f"{nanoseconds(snapshot.time_ns)} of {nanoseconds(answer.end_ns)}"
    near = "next to" if answer.within_call else "at"
    return {"peak": f"{near} its peak ({moment})", "end": f"at the end ({nanoseconds(answer.end_ns)})"}.get(snapshot.why, f"at {moment}")


def _verdict_sentence(answer: Answer) -> str:
    """The account that dominates RSS, with its size."""
    accounts, verdict = answer.accounts, answer.verdict
    of = f"{byte_count(accounts.rss_bytes)} RSS under {answer.allocator} {_moment_words(answer)}"
    if verdict == "none":
        return f"Nothing to explain: under {answer.allocator} the heap adds nothing to RSS {_moment_words(answer)}."
    if verdict == "untouched":
        return f"Untouched: {byte_count(accounts.not_resident_bytes + accounts.bytes['untouched'])} were requested, but never written to, beside {of}."
    account = next((name for name, said in OF_ACCOUNT.items() if said == verdict), "live")
    size = max((cure.saves_bytes for cure in answer.cures or [] if cure.name in CACHES), default=0) if verdict == "caches" else accounts.bytes[account]
    return f"{verdict.capitalize()}: {byte_count(size)} ({percent(size / accounts.rss_bytes)}) of {of} are {VERDICTS[verdict]}."


def headline(answer: Answer) -> str:
    """The sentence that says what RSS mostly is, and what helps most."""
    return f"{_verdict_sentence(answer)} {cure_sentence(answer)}".rstrip()


def first_sentences(answer: Answer) -> list[str]:
    """The headline, after what makes it uncertain; when it came about, who holds it."""
    accounts, trend = answer.accounts, answer.trend.words
    return [*filter(None, [answer.release, answer.caution, "" if answer.memory_recorded else NOT_HELD_AGAINST, _FRESH_HEAP if answer.fresh_heap and not answer.caution else ""]),
            *_extended_sentence(answer), headline(answer), *_live_and_above(accounts),
            *_within_call_sentence(answer), *filter(None, [left_out_sentence(answer.snapshot.allocator.get("left_out"))]),
            *unmeasured_sentence(answer.unmeasured, accounts.rss_bytes),
            *([f"Along the trace {trend}."] if accounts.rss_bytes else []), *when_sentence(answer), *_controls_sentence(answer), *_holder_sentence(answer), *_site_holder_sentence(answer),
            *site_sentences(answer.sites), *_rounding_sentence(accounts), *sentences(answer.lines)]


def account_rows(accounts: Accounts) -> list[list[str]]:
    """A table, its head first."""
    rows = [["account", "bytes", "of RSS", "what it is"]]
    return rows + [[name.replace("_", " "), byte_count(accounts.bytes[name]), percent(accounts.bytes[name] / max(accounts.rss_bytes, 1)), MEANING[name]]
                   for name in ACCOUNTS]


def not_in_rss(accounts: Accounts) -> str:
    """The sentence under the accounts, or ""."""
    return f"Not in RSS: {byte_count(accounts.not_resident_bytes)} of requested bytes, never written to." if accounts.not_resident_bytes else ""


def _account_lines(accounts: Accounts) -> list[str]:
    return [*(table_lines(account_rows(accounts), right=(1, 2)) if accounts.rss_bytes else []), *filter(None, [not_in_rss(accounts)])]


def _sums_row(accounts: Sums) -> list[str]:
    return [byte_count(accounts.rss_bytes), *(byte_count(accounts.bytes[name]) for name in ACCOUNTS)]


_SUMS = ["RSS", *(name.replace("_", " ") for name in ACCOUNTS)]


def moment_rows(answer: Answer) -> list[list[str]]:
    """How the accounts change along the trace: a table, its head first."""
    rows = [["moment", "time", *_SUMS, "verdict"]]
    return rows + [[moment.why, "" if moment.time_ns is None else nanoseconds(moment.time_ns), *_sums_row(moment.accounts), moment.verdict]
                   for moment in answer.moments]


def _moment_lines(answer: Answer) -> list[str]:
    shown = len(answer.moments) > 1 and any(moment.accounts.rss_bytes for moment in answer.moments)
    return table_lines(moment_rows(answer), right=range(1, 2 + len(_SUMS))) if shown else []


def holder_rows(answer: Answer) -> list[list[str]]:
    """A table, its head first; [] where there are hardly any holes."""
    if not answer.holders or not _named(answer.accounts, "holes"):
        return []
    holes = max(answer.accounts.bytes["holes"], 1)
    rows = [["holes", "share", "blocks", "sizes", "allocated by", "when"]]
    return rows + [[byte_count(holder.holes_bytes), percent(holder.holes_bytes / holes), f"{holder.blocks:,}", _sizes(holder.size_low, holder.size_high),
                    _thread(answer, holder), _when(answer, holder)] for holder in answer.holders]


def _holder_lines(answer: Answer) -> list[str]:
    rows = holder_rows(answer)
    return table_lines(rows, right=(0, 1, 2)) if rows else []


def site_holder_rows(answer: Answer) -> list[list[str]]:
    """A table, its head first; [] without call sites, or where there are hardly any holes."""
    shown = answer.sites and answer.sites.holders and _named(answer.accounts, "holes")
    return site_rows(answer.sites, answer.accounts.bytes["holes"]) if answer.sites and shown else []


def _site_lines(answer: Answer) -> list[str]:
    rows = site_holder_rows(answer)
    return table_lines(rows, right=range(4)) if rows else []


# ---- what helps ----


def _moment_cured(answer: Answer) -> str:
    return "the end" if answer.snapshot.why == "end" else "the peak"


def _least_saving(answer: Answer) -> float:
    """The least saving that counts, as a part of RSS at the moment at which cures are measured."""
    at = "end" if answer.snapshot.why == "end" else "peak"
    rss = next((moment.accounts.rss_bytes for moment in answer.moments if moment.why == at), answer.accounts.rss_bytes)
    return max(SMALL_SHARE * rss, _SAVING_LEAST_BYTES)


def _helps(cure: Cure, answer: Answer) -> bool:
    """Clearly, and enough."""
    return not cure.bound and cure.ci_low > 0 and cure.saves_bytes >= _least_saving(answer)


def _may_help(cure: Cure, answer: Answer) -> bool:
    """Its interval does not say that it saves too little. Without an interval it may, too."""
    return not cure.bound and not cure.ci_high < _least_saving(answer)


def _most(cures: list[Cure]) -> Cure | None:
    return max(cures, key=lambda cure: cure.saves_bytes, default=None)


def best_cure(answer: Answer) -> Cure | None:
    return _most([cure for cure in answer.cures or [] if _helps(cure, answer)])


def best_setting(answer: Answer) -> Cure | None:
    """The setting of the same allocator that saves most, even if it does not save enough; None if none saves anything."""
    return _most([cure for cure in answer.cures or [] if cure.is_setting and cure.saves_bytes > 0 and (_helps(cure, answer) or _may_help(cure, answer))])


def _interval(cure: Cure) -> str:
    return f"{byte_count(cure.ci_low)} to {byte_count(cure.ci_high)}" if math.isfinite(cure.ci_low) else "unknown: one round"


def _saving_words(cure: Cure, answer: Answer) -> str:
    time = "" if cure.time_ratio is None else f", × {cure.time_ratio:.2f} the time in malloc"
    return f"{byte_count(cure.saves_bytes)} less at {_moment_cured(answer)} ({_interval(cure)}, 95 % interval){time}"


def cure_sentence(answer: Answer) -> str:
    """The sentence that says what helps most, that nothing does, or that it is not decided; "" if nothing was tried, or the replay is not what ran."""
    if answer.cures is None or answer.caution:
        return ""
    best, tried = best_cure(answer), counted(sum(not cure.bound for cure in answer.cures), "change")
    if best:
        return f"What helps most{in_brackets(answer.sharing)}: {best.name}, {_saving_words(best, answer)}."
    likely = _most([cure for cure in answer.cures if _may_help(cure, answer)])
    if likely:
        return f"Not decided what helps: of {tried} tried none clearly saves memory; {likely.name} may.{as_sentence(answer.sharing)}"
    if not answer.cures:
        return f"No change could be tried.{as_sentence(answer.sharing)}"
    return f"Nothing helps: of {tried} tried none saves {byte_count(_least_saving(answer))} or more.{as_sentence(answer.sharing)}"


def cure_rows(answer: Answer) -> list[list[str]]:
    """All that were tried: a table, its head first; [] without any."""
    if not answer.cures:
        return []
    tried = "change tried in this replay, not recommended" if answer.caution else "change tried"
    rows = [[f"{tried}{in_brackets(answer.sharing)}", f"less at {_moment_cured(answer)}", "95 % interval", "time in malloc"]]
    return rows + [[cure.name, byte_count(cure.saves_bytes), _interval(cure), "n/a" if cure.time_ratio is None else f"× {cure.time_ratio:.2f}"]
                   for cure in answer.cures]


def advice(answer: Answer) -> list[tuple[str, list[tuple[str, str]]]]:
    """A heading, and the lines that put it to use, for the best cure and for the best setting of the same allocator."""
    best, setting = (None, None) if answer.caution else (best_cure(answer), best_setting(answer))
    found = [(f"{best.name}:", best.lines)] if best and best.lines else []
    if setting and setting is not best and setting.lines:
        clearly = "" if _helps(setting, answer) else ", not clearly"
        found.append((f"Best setting of {shown_name(answer.snapshot.allocator['name'], None)}{clearly}: {setting.name}, {_saving_words(setting, answer)}:", setting.lines))
    return found


def no_setting(answer: Answer) -> str:
    """The sentence where something helps, but no setting of the same allocator; else, or where none was tried, ""."""
    settings = [cure for cure in answer.cures or [] if cure.is_setting]
    if not settings or best_setting(answer) or answer.caution or not best_cure(answer):
        return ""
    return f"No setting of {shown_name(answer.snapshot.allocator['name'], None)} helps ({len(settings)} tried)."


def also_set_for(answer: Answer) -> str:
    """What has to be set beside the lines of any that puts an allocator or its settings to use; or ""."""
    return answer.also_set if any(cure and cure.lines and cure.alloc for cure in (best_cure(answer), best_setting(answer))) and not answer.caution else ""


def _advice_lines(answer: Answer) -> list[str]:
    lines = []
    for heading, uses in advice(answer):
        lines += [heading, *(f"  {what:7}  {line}" for what, line in uses)]
    return [*lines, *filter(None, [no_setting(answer), also_set_for(answer)])]


def _cure_lines(answer: Answer) -> list[str]:
    rows = cure_rows(answer)
    return table_lines(rows, right=(1,)) if rows else []


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
    """Lines: what to do, why, and then all that is known."""
    said = first_sentences(answer)
    decided = said.index(headline(answer)) + 1
    parts = [[*said[:decided], *_advice_lines(answer)], said[decided:], _account_lines(answer.accounts), _cure_lines(answer), _holder_lines(answer),
             _site_lines(answer), _moment_lines(answer)]
    lines = [line for part in parts if part for line in ["", *part]]
    return lines[1:]


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

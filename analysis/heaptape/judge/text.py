# SPDX-License-Identifier: Apache-2.0
"""The comparison as tables for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TextIO

from ..base.allocators import other_release
from ..base.units import listing
from .against import print_earlier
from .beside import beside_medians
from .comparison import compare_pair, is_of_own, of_recorded, recorded
from .details import print_figures, print_harness_share, print_huge_pages, print_processors
from .intervals import hidden_text, more_rounds_text
from .model import (
    FIGURES,
    LESS,
    MORE,
    NONE,
    PEAK,
    SAME,
    TIME,
    UNRESOLVED,
    Choice,
    Comparison,
    ControlCall,
    Estimate,
    Failing,
    FigureWords,
    FunctionFigures,
    Interval,
    Json,
)
from .power import power_text
from .rounds import given_up
from .words import Table, cut, divided, grouped, number, number_of, put, rounded

# ---- the leader by a figure, and the allocators that do not clearly differ from it ----

@dataclass(frozen=True)
class Standing:
    """leader: None where the baseline was not measured; tied: measured, and not shown to be behind the leader, who is never
    among them."""

    leader: int | None
    tied: list[int] = field(default_factory=list)


def standing_of(comparison: Comparison, words: FigureWords) -> Standing:
    """Where some allocator's verdict is that it has less than the baseline, the leader is the one of these with the least
    ratio, by name where two have it; else it is the baseline."""
    baseline = comparison.context.baseline
    if baseline >= len(comparison.allocators) or not _measured(comparison, words, baseline):
        return Standing(None)
    leader = _leader(comparison, words)
    tied = [number for number in range(len(comparison.allocators))
            if number not in (leader, baseline) and _measured(comparison, words, number)
            and _estimate(comparison, words, number).verdict != MORE
            and _against(comparison, words, number, leader).verdict != MORE]
    return Standing(leader, tied)


def lead(comparison: Comparison, words: FigureWords, standing: Standing, over: int) -> Estimate:
    """The leader's share of what another one has, as a ratio. Its verdict is LESS where it is shown to have less, and says so
    only where the standing agrees."""
    if standing.leader is None or standing.leader == over or over in standing.tied:
        nothing = Interval(1, math.nan, math.nan, 0)
        return Estimate(math.nan, math.nan, nothing, nothing, NONE, math.nan, [])
    return _against(comparison, words, standing.leader, over)


def _against(comparison: Comparison, words: FigureWords, choice: int, other: int) -> Estimate:
    """One allocator against another: as the table has it where the other is the baseline."""
    if other == comparison.context.baseline:
        return _estimate(comparison, words, choice)
    return compare_pair(comparison, words, choice, other)


def _estimate(comparison: Comparison, words: FigureWords, choice: int) -> Estimate:
    return comparison.allocators[choice].estimates[words.name]


def _measured(comparison: Comparison, words: FigureWords, choice: int) -> bool:
    return not math.isnan(_estimate(comparison, words, choice).median)


def _leader(comparison: Comparison, words: FigureWords) -> int:
    """By name where ratios are equal: results, which have their leader from results/verdicts.py, have no other order."""
    less = [number for number in range(len(comparison.allocators)) if _estimate(comparison, words, number).verdict == LESS]
    return min(less, key=lambda number: (_estimate(comparison, words, number).ratio.estimate, comparison.names[number]),
               default=comparison.context.baseline)


_COMMAND_BYTES = 60
_NAME_BYTES, _VERSION_BYTES = 240, 30


def print_comparison(comparison: Comparison, out: TextIO) -> None:
    c, plan = comparison, comparison.context.plan
    any_choice = bool(c.context.choices)
    besides = [beside_medians(c, choice) for choice in range(len(c.names))]
    _print_caution(c, out)
    _print_own_allocator(c, out)
    _print_refusals(c, out)
    _print_heading(c, out)
    if plan.time_pass and any_choice:
        _print_time(c, out)
    if plan.instructions and any_choice:
        _print_instructions(c, out)
    if plan.memory_pass and any_choice:
        _print_memory(c, out)
    if plan.processors and plan.memory_pass and any_choice:
        print_processors(c, besides, out)
    if c.earlier is not None and any_choice:
        print_earlier(c, out)
    put(out, "")
    for choice, failing in zip(c.context.choices, c.measurements.failing, strict=True):
        _print_missing(failing, choice, out)
    standings = {words.name: standing_of(c, words) for words in FIGURES}
    _print_best(c, standings, out)
    _print_recorded(c, standings[TIME.name], out)
    print_controls(c, out)
    _print_harness(c, out)
    print_harness_share(c, besides, out)
    if any_choice:
        print_huge_pages(c, besides, out)
    if plan.verbose and plan.time_pass:
        _print_details(c, out)
    if plan.verbose and any_choice:
        print_figures(c, besides, out)
    if plan.verbose:
        _print_outliers(c, out)


# --- cells

class _TimeUnit(NamedTuple):
    """One for a whole column, so that its numbers can be compared by eye."""

    ns: float
    decimals: int
    name: str

    def text(self, ns: float) -> str:
        return number(ns, self.ns, self.decimals, f" {self.name}")


def _time_unit(largest_ns: float) -> _TimeUnit:
    if largest_ns >= 1e9:
        return _TimeUnit(1e9, 2, "s")
    return _TimeUnit(1e6, 1, "ms") if largest_ns >= 1e6 else _TimeUnit(1e3, 1, "us")


def _time_text(ns: float) -> str:
    return _time_unit(abs(ns)).text(ns)


def _megabytes(value: float) -> str:
    return number(value, 1e6, 1, " MB")


def _count_text(count: float) -> str:
    return "-" if math.isnan(count) else grouped(rounded(count))


def _difference_text(mine: float, base: float, text: Callable[[float], str]) -> str:
    """The text in place of the ratio if the baseline takes nothing."""
    return f"{'+' if mine > base else ''}{text(mine - base)}" if base <= 0 and mine != base else "-"


def _ratio_text(ratio: Interval, is_baseline: bool = False, difference: str = "-") -> str:
    if math.isnan(ratio.estimate):
        return difference
    if is_baseline:
        return "1.00"
    if math.isnan(ratio.low):
        return f"{ratio.estimate:.2f}"
    return f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _verdict_text(estimate: Estimate, words: FigureWords) -> str:
    if estimate.verdict == UNRESOLVED:
        if estimate.widened.is_hidden:
            return f"unresolved ({hidden_text(words.of_time)})"
        if math.isnan(estimate.more_rounds):
            return "unresolved (one round is not enough)"
        return f"unresolved ({more_rounds_text(estimate.more_rounds)})"
    return {LESS: words.less, MORE: words.more, SAME: "same within 1 %"}.get(estimate.verdict, "")


def _with_version(name: str, version: str) -> str:
    return f"{name} {version}" if version else name


def _allocator_text(choice: Choice) -> str:
    return f"{cut(choice.shown, _NAME_BYTES)} {cut(choice.version, _VERSION_BYTES)}"


def _base_name(c: Comparison) -> str:
    return c.names[c.context.baseline]


# --- what stands before the tables

def _print_caution(c: Comparison, out: TextIO) -> None:
    _print_release(c, out)
    if c.context.program.share_words:
        put(out, f"caution: {c.context.program.share_words}")
    if _differs(c):
        assert c.check is not None
        put(out, f"caution: {c.check['words']}")


def _print_release(c: Comparison, out: TextIO) -> None:
    program, served = c.context.program, recorded(c)
    if served is None:
        return
    choice = c.context.choices[served]
    said = other_release({"name": program.allocator, "version": program.allocator_version}, choice.name, choice.version)
    if said:
        put(out, f"caution: {said}")


def _differs(c: Comparison) -> bool:
    """Whether the replay is not what was recorded."""
    return c.check is not None and c.check["words"] is not None


def _print_own_allocator(c: Comparison, out: TextIO) -> None:
    """Before all figures, too: what they are not held against."""
    program = c.context.program
    if not c.context.plan.memory_pass or not c.names or not is_of_own(c):
        return
    line = (f"the program's own {_with_version(program.allocator, program.allocator_version)} is part of it and not replayed: it held "
            f"{program.rss_peak_bytes / 1e6:.1f} MB at its peak")
    for choice, name in enumerate(c.names):
        ratio = of_recorded(c, choice)
        if not math.isnan(ratio):
            line += f"{',' if choice else '; of that the process would hold'} {ratio:.2f} under {name}"
    put(out, f"{line}; no figure of time is held against it")


def _print_refusals(c: Comparison, out: TextIO) -> None:
    """Before all figures: whose are not of this program."""
    for choice in c.context.choices:
        if choice.refused_calls:
            put(out, f"{choice.name} {choice.refusal}: no figure of it would be of this program, and it is not replayed")


def _shown_command(command: str) -> str:
    whole = command.encode(errors="surrogateescape")
    shown = min(len(whole), _COMMAND_BYTES)
    while 0 < shown < len(whole) and whole[shown] & 0xC0 == 0x80:  # not inside of a UTF-8 character
        shown -= 1
    return cut(command, shown) + ("..." if shown < len(whole) else "")


def _print_heading(c: Comparison, out: TextIO) -> None:
    plan, program, trace = c.context.plan, c.context.program, c.context.trace
    line = plan.trace_path.rpartition("/")[2]
    if program.command:
        line += f"  {_shown_command(program.command)}"
    if program.allocator:
        line += f", recorded under {_with_version(program.allocator, program.allocator_version)}"
    put(out, line)
    if program.extended_words:
        put(out, program.extended_words)
    line = f"{plan.scale} copies side by side, together " if plan.scale > 1 else ""
    line += f"{number_of(trace.calls, 'call')}, {number_of(c.rounds, 'round')}, seed {plan.seed}"
    if trace.inherited_objects:
        line += f"; {number_of(trace.inherited_objects, 'block')} inherited{', after a replay of all calls before' if trace.has_prelude else ''}"
    if plan.aged_blocks:
        line += f"; on a used heap: {number_of(plan.aged_blocks, 'block')}, of which {100 * plan.age_occupancy:.3g} % stay"
    if c.measurements.repeats > 1:
        line += f"; time is the mean of {c.measurements.repeats} repeats in each run"
    put(out, line)
    _print_control(c, out)


def _print_control(c: Comparison, out: TextIO) -> None:
    """The control's ratio in the passes, which says how far a difference of nothing goes, and what difference is found."""
    if not c.controlled:
        return
    plan = c.context.plan
    ratios = [f"{words} {_ratio_text(c.controls[figure.name])}"
              for figure, words, ran in ((TIME, "time", plan.time_pass), (PEAK, "peak RSS", plan.memory_pass)) if ran]
    put(out, f"A/A control ({_base_name(c)} again): {', '.join(ratios)}")
    power = power_text(c)
    if power and not plan.quiet:
        put(out, power)


# --- the tables

def _print_table(table: Table, out: TextIO) -> None:
    put(out, "")
    table.print(out)


def _print_time(c: Comparison, out: TextIO) -> None:
    medians = [e.estimates[TIME.name].median for e in c.allocators]
    base = medians[c.context.baseline]
    unit = _time_unit(max((median for median in medians if median > 0), default=0))
    table = Table("lrrrlrl", ["allocator", "time", "min", "per call", f"vs {_base_name(c)}", "page faults", "verdict"])
    for at, (choice, e) in enumerate(zip(c.context.choices, c.allocators, strict=True)):
        time = e.estimates[TIME.name]
        table.add([_allocator_text(choice), unit.text(time.median), unit.text(time.minimum), number(e.ns_per_call, 1, 1, " ns"),
                   _ratio_text(time.ratio, at == c.context.baseline, _difference_text(time.median, base, unit.text)), _count_text(e.faults), _verdict_text(time, TIME)])
    _print_table(table, out)


def _counted_text(counts: Json, part: str, key: str) -> str:
    values = counts.get(part) or {}
    return grouped(int(values[key] or 0)) if key in values else "n/a"


def _print_instructions(c: Comparison, out: TextIO) -> None:
    table = Table("lrrrrr", ["allocator", "instructions", "per call", f"vs {_base_name(c)}", "mapping calls", "the replay's own"])
    base = c.instructions(c.context.baseline)
    for at, choice in enumerate(c.context.choices):
        counts = (c.measurements.counts or {}).get(choice.name) or {}
        mine = c.instructions(at)
        table.add([_allocator_text(choice), "n/a" if math.isnan(mine) else _count_text(mine), number(mine, c.context.trace.calls, 1),
                   number(mine, base, 4) if base else _difference_text(mine, base, _count_text), _counted_text(counts, "allocator", "mapping_calls"), _counted_text(counts, "program", "instructions")])
    _print_table(table, out)


def _print_memory(c: Comparison, out: TextIO) -> None:
    table = Table("lrlrrrrl", ["allocator", "peak RSS", f"vs {_base_name(c)}", "mean RSS", "RSS at end", "peak RSS/live", "process", "verdict"])
    base = c.allocators[c.context.baseline].estimates[PEAK.name].median
    for at, (choice, e) in enumerate(zip(c.context.choices, c.allocators, strict=True)):
        peak, *others = (e.estimates[words.name] for words in FIGURES[1:])
        mean, end, process = (_megabytes(estimate.median) for estimate in others)
        table.add([_allocator_text(choice), _megabytes(peak.median), _ratio_text(peak.ratio, at == c.context.baseline, _difference_text(peak.median, base, _megabytes)), mean, end,
                   number(e.fragmentation[3], 1, 2), process, _verdict_text(peak, PEAK)])
    _print_table(table, out)
    _print_within_calls(c, out)
    if any(not math.isnan(e.estimates["process_rss_peak"].median) for e in c.allocators):
        put(out, "process: peak RSS with what the program held itself at each moment "
                 f"({c.context.program.share_own_bytes / 1e6:.1f} MB at most), without file pages")


def _print_within_calls(c: Comparison, out: TextIO) -> None:
    found = [f" {name} {e.rss_between_calls_peak / 1e6:.1f} MB" for name, e in zip(c.names, c.allocators, strict=True) if e.peaks_within_call]
    if found:
        put(out, f"peak RSS within a call, as of a realloc that copies; at readings between calls at most:{','.join(found)}")


# --- what it comes to

def _print_missing(failing: Failing, choice: Choice, out: TextIO) -> None:
    """Prints which figures of this allocator are missing, and why; nothing if none is."""
    if failing.failed and not choice.refused_calls:
        put(out, f"missing: {choice.name} failed in {failing.failed} of {number_of(failing.runs, 'run')}"
                 f"{', then no more were made' if given_up(failing) else ''}; the last: {failing.problem}")


def _has_rival(c: Comparison, words: FigureWords) -> bool:
    return any(choice != c.context.baseline and not math.isnan(e.estimates[words.name].median) for choice, e in enumerate(c.allocators))


def _lead_text(c: Comparison, words: FigureWords, title: str, standing: Standing) -> str:
    base, tied = _base_name(c), ", ".join(c.names[choice] for choice in standing.tied)
    assert standing.leader is not None
    if standing.leader == c.context.baseline:
        return f"{title}: none is clearly {words.less} than {base} (no clear difference: {tied})." if tied else f"{title}: {base}."
    ratio = c.allocators[standing.leader].estimates[words.name].ratio
    if words == TIME:
        of = f"{1 / ratio.estimate:.2f}x [{1 / ratio.high:.2f}, {1 / ratio.low:.2f}] the speed of {base}"
    else:
        of = f"{ratio.estimate:.2f}x that of {base}"
    return f"{title}: {c.names[standing.leader]}, {of}{f'; no clear difference from it: {tied}' if tied else ''}."


def _print_best(c: Comparison, standings: Mapping[str, Standing], out: TextIO) -> None:
    leads = []
    for words, title in ((TIME, "fastest"), (PEAK, "smallest peak")):
        standing = standings[words.name]
        if standing.leader is not None and _has_rival(c, words) and not (words == PEAK and _differs(c)):
            leads.append(_lead_text(c, words, title, standing))
    if leads:
        before = "of malloc's part alone: " if c.context.program.share_words else ""
        after = "  (one of several processes; shared pages are not counted)" if c.context.program.forked else ""
        put(out, f"{before}{'  '.join(leads)}{after}")


def _print_recorded(c: Comparison, of_time: Standing, out: TextIO) -> None:
    if c.context.plan.memory_pass:
        _print_recorded_memory(c, out)
    program, served = c.context.program, recorded(c)
    if served is None:
        return
    malloc_ns = c.allocators[served].estimates[TIME.name].median
    if math.isnan(malloc_ns) or math.isnan(program.cpu_ns):
        return
    line = (f"malloc's share: {program.allocator} takes {divided(100 * malloc_ns, program.cpu_ns):.1f} % of the recorded program's "
            f"{program.cpu_ns / 1e9:.2f} s of CPU")
    leads = lead(c, TIME, of_time, served)
    if leads.verdict == LESS:
        assert of_time.leader is not None
        saved = divided(100 * (1 - leads.ratio.estimate) * malloc_ns, program.cpu_ns)
        line += f"; {c.names[of_time.leader]} would save about {saved:.1f} %"
    elif len(c.names) > 1:
        line += "; no other allocator clearly saves any of it"
    put(out, f"{line}; where blocks lie also changes the program's own time")


def _print_recorded_memory(c: Comparison, out: TextIO) -> None:
    program, served = c.context.program, recorded(c)
    if not program.has_samples:
        put(out, "recorded program: its memory is not in the trace: no replay is held against it")
    if math.isnan(program.rss_peak_bytes):
        return
    # The recorder too looks between calls.
    replayed = math.nan if served is None else c.allocators[served].rss_between_calls_peak
    line = f"recorded program: {program.rss_peak_bytes / 1e6:.1f} MB peak RssAnon"
    unseen = bool(program.share_words)
    heap = program.share_explained_bytes if unseen else program.heap_peak_bytes
    if not math.isnan(heap):
        line += f", {heap / 1e6:.1f} MB of it in the heap"
    elif not math.isnan(program.heap_high_bytes):
        line += (f", how much of it in the heap is unknown ({program.heap_low_bytes / 1e6:.1f} to {program.heap_high_bytes / 1e6:.1f} MB): "
                 "no replay is held against it")
    if not unseen and not math.isnan(replayed) and not math.isnan(program.heap_peak_bytes):
        more = 100 * (divided(replayed, program.heap_peak_bytes) - 1)
        line += f"; replayed under {program.allocator}: {replayed / 1e6:.1f} MB ({more:+.1f} %)"
    put(out, line)


def _print_harness(c: Comparison, out: TextIO) -> None:
    parts, calls, kept_bytes = [], c.context.trace.calls, c.context.plan.aged_kept_bytes
    if not math.isnan(c.harness_ns):
        parts.append(f" {_time_text(c.harness_ns)}, {c.harness_ns / calls if calls else 0:.1f} ns per call, subtracted from each time")
    if not math.isnan(c.null_rss_bytes):
        kept = f" and {kept_bytes / 1e6:.2f} MB of blocks that stay" if kept_bytes else ""
        parts.append(f" {(c.null_rss_bytes - kept_bytes) / 1e6:.2f} MB{kept}, subtracted from each RSS")
    if parts:
        put(out, f"harness (null allocator):{';'.join(parts)}")


# --- control calls

def _obey_alike(one: ControlCall, other: ControlCall) -> bool:
    return set(one.obeyed_by) == set(other.obeyed_by) and one.is_kernels == other.is_kernels


def print_controls(c: Comparison, out: TextIO) -> None:
    """A sentence for each set of allocators that obeys; nothing where the program makes no such call."""
    left = [call for call in c.context.control_calls if call.changes]
    while left:
        alike = [call for call in left if _obey_alike(call, left[0])]
        calls = ", ".join(f"{call.name} {'once' if call.calls == 1 else number_of(call.calls, 'time')}" for call in alike)
        put(out, f"the program calls {calls}: {_who_obeys(c.names, left[0])}")
        left = [call for call in left if not _obey_alike(call, left[0])]


def _who_obeys(names: Sequence[str], call: ControlCall) -> str:
    who = [name for name in names if name in call.obeyed_by]
    if len(names) == 1:
        return "replayed on the same bytes" if call.is_kernels else f"{names[0]} {'obeys' if who else 'does not obey'}"
    if not who:
        return "none of these obeys"
    if len(who) == len(names):
        return "replayed on the same bytes" if call.is_kernels else "all obey"
    return f"{listing(who)} alone {'obeys' if len(who) == 1 else 'obey'}"


# --- -v

def _by_expense(functions: Mapping[str, FunctionFigures]) -> list[str]:
    """Names, most expensive first; those whose time is not known come last, the last of them first."""
    called = [name for name, figures in functions.items() if figures.count]
    timed = [name for name in called if not math.isnan(functions[name].time_ns)]
    timed.sort(key=lambda name: -functions[name].time_ns)
    return timed + [name for name in reversed(called) if name not in timed]


def _print_functions(name: str, functions: Mapping[str, FunctionFigures], out: TextIO) -> None:
    """The shape of `ltrace -c`."""
    times = touch = 0.0
    for figures in functions.values():
        times += 0 if math.isnan(figures.time_ns) else figures.time_ns
        touch += 0 if math.isnan(figures.touch_ns) else figures.touch_ns
    table = Table("rrrrl", ["% time", "seconds", "ns/call", "calls", "function"])
    percent = (times + touch) / 100
    for function in _by_expense(functions):
        figures = functions[function]
        table.add([number(figures.time_ns, percent, 2), number(figures.time_ns, 1e9, 6), number(figures.time_ns, figures.count, 1),
                   grouped(figures.count), function])
    if times + touch > 0:
        table.add([number(touch, percent, 2), number(touch, 1e9, 6), "", "", "(first touch of the returned blocks)"])
    put(out, "")
    put(out, name)
    table.print(out)


def _print_details(c: Comparison, out: TextIO) -> None:
    for name, e in zip(c.names, c.allocators, strict=True):
        _print_functions(name, e.functions, out)
    put(out, "")
    put(out, f"split by about {number_of(c.timed_calls, 'timed call')} per run; the clock's own {c.clock_cost_ns:.1f} ns are subtracted from "
             "each reading")
    if c.context.trace.threads > 1:
        for name, e in zip(c.names, c.allocators, strict=True):
            put(out, f"{name}: threads waited {_time_text(e.wait_ns)} for each other, not counted above")


def _print_outliers(c: Comparison, out: TextIO) -> None:
    for name, e in zip(c.names, c.allocators, strict=True):
        for words in FIGURES:
            outliers = e.estimates[words.name].outliers
            if outliers:
                put(out, f"outliers, kept: {words.name} of {name} in round{'' if len(outliers) == 1 else 's'} "
                         f"{', '.join(str(round_number + 1) for round_number in outliers)}")

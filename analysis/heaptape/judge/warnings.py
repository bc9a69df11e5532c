# SPDX-License-Identifier: Apache-2.0
"""Which warnings a comparison deserves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from .intervals import BOOTSTRAP_ROUNDS_MIN, MORE_ROUNDS_MAX
from .model import FIGURES, PEAK, PROCESS, TIME, Comparison, Json, Warning, known
from .schedule import End
from .words import number_of

FEW_CALLS = 10_000
SUGGESTED_ROUNDS = 12
BUSY_CORES_MAX, STOLEN_SHARE_MAX, REPAIRED_SHARE_MAX = 0.2, 0.02, 0.001
DROPPED_SHARE_MAX, CONTROL_ERROR_MAX, SHORT_RUN_NS = 0.01, 0.01, 500e3
ZEROED_SHARE_MAX, UNMEASURED_SHARE_MAX = 0.05, 0.05
BUDGET_MINUTES_MAX = 24 * 60
THREAD_BLOCKS = "a thread blocks SIGSYS"
"""Why RSS was not read within calls, where a filter itself was permitted."""


def warnings_after(comparison: Comparison, activity: Json, end: End, spent_s: float) -> list[Warning]:
    """activity: what the machine did meanwhile: wall_s, busy_s (processor time of all processes), own_s (of it ours), stolen_s, throttled_s,
    swapped_bytes; null where it does not report one. spent_s: for the warm-up and all rounds."""
    before: tuple[Callable[[Comparison], Iterator[Warning]], ...] = (
        _of_trace, _of_queries, _of_operators, _of_fresh_heap, _of_zeroed, _of_unmeasured, _of_unwatched, _of_copying)
    after = (_of_settings, _of_time, _of_control)
    return [*(warning for each in before for warning in each(comparison)), *_of_machine(comparison, activity),
            *(warning for each in after for warning in each(comparison)), *_of_rounds(comparison, end, spent_s)]


# --- the trace

def _of_trace(comparison: Comparison) -> Iterator[Warning]:
    calls, program = comparison.context.trace.calls, comparison.context.program
    if calls < FEW_CALLS:
        yield Warning("few_events", f"the trace has only {number_of(calls, 'call')}: startup dominates", "record a longer workload")
    if program.lost_calls or program.anomalies or program.foreign_frees or program.repairs > REPAIRED_SHARE_MAX * calls:
        yield Warning("lossy_trace", f"the recording is incomplete: {number_of(program.lost_calls, 'call')} lost, "
                      f"{number_of(program.anomalies, 'anomaly')}, {number_of(program.foreign_frees, 'foreign free')}, "
                      f"{number_of(program.repairs, 'repair')}",
                      "see `heaptape info`; record again, from the program's start, to a disk with enough space")


def _of_queries(comparison: Comparison) -> Iterator[Warning]:
    queries = comparison.context.trace.usable_size_calls
    for choice in comparison.context.choices:
        if queries and choice.skips_queries and not choice.is_floor:
            yield Warning("skipped_queries", f"{choice.name} has no malloc_usable_size: {number_of(queries, 'call')} of it "
                          f"{'was' if queries == 1 else 'were'} skipped", "its time lacks them, and the program would not run with it")


def _of_operators(comparison: Comparison) -> Iterator[Warning]:
    for choice in comparison.context.choices:
        if choice.lacks_operators:
            yield Warning("no_cxx_library", f"libstdc++.so.6 cannot be loaded: operator new and delete of {choice.name} are replayed as malloc "
                          "and free", "install libstdc++6: its time excludes that library's own work")


def _of_fresh_heap(comparison: Comparison) -> Iterator[Warning]:
    blocks = comparison.context.trace.fresh_objects
    if comparison.context.program.sliced and blocks:
        yield Warning("fresh_heap", f"{number_of(blocks, 'block')} from before the slice {'lies' if blocks == 1 else 'lie'} in a fresh heap, "
                      "without the holes and arenas that they had", "cut the slice from the whole recording, without --fresh")


# --- memory

def _share_of_touched(comparison: Comparison, part_bytes: int) -> float:
    """The share of the memory at the peak; NaN if the replay does not touch what the program touched."""
    plan, touched_bytes = comparison.context.plan, comparison.context.trace.touched_peak_bytes
    if not plan.memory_pass or plan.touch != "recorded" or not touched_bytes:
        return math.nan
    return part_bytes / touched_bytes


def _of_zeroed(comparison: Comparison) -> Iterator[Warning]:
    """The recording has them as resident, and so has the prediction."""
    zeroed_bytes = comparison.context.trace.zeroed_peak_bytes
    share = _share_of_touched(comparison, zeroed_bytes)
    if share > ZEROED_SHARE_MAX:
        yield Warning("zeroed_by_calloc", f"{100 * share:.0f} % of the memory at the peak ({zeroed_bytes / 1e6:.1f} MB) is what calloc wrote while "
                      "recording; whether the program touched it is not known: under an allocator that takes such blocks from the kernel, RSS may be "
                      "lower by that", "record under the allocator in question, too; --touch none is a lower bound")


def _of_unmeasured(comparison: Comparison) -> Iterator[Warning]:
    unmeasured_bytes = comparison.context.trace.unmeasured_peak_bytes
    share = _share_of_touched(comparison, unmeasured_bytes)
    if share > UNMEASURED_SHARE_MAX:
        yield Warning("unmeasured", f"{100 * share:.0f} % of the memory at the peak ({unmeasured_bytes / 1e6:.1f} MB) is in large blocks whose pages "
                      "the recorder had no time to count: they are filled as others of their size",
                      "--touch none and --touch pages are the bounds")


def _of_unwatched(comparison: Comparison) -> Iterator[Warning]:
    """One line for all of them: what does not permit it to one hardly permits it to another."""
    found = {name: each.unwatched for name, each in zip(comparison.names, comparison.allocators, strict=True) if each.unwatched is not None}
    if found:
        why = list(found.values())[-1]
        yield Warning("unwatched", f"RSS was not read within calls, so that of a realloc that copies is missed: {', '.join(found)} ({why})",
                      "nothing: their peaks may be higher than shown" if why == THREAD_BLOCKS else "permit seccomp filters here")


def _of_copying(comparison: Comparison) -> Iterator[Warning]:
    """Warns that former blocks of a growing buffer are still resident at its peak, because no time passes while it is copied."""
    for choice, found in zip(comparison.context.choices, comparison.allocators, strict=True):
        if choice.purges_soon and found.peaks_within_call and not comparison.context.plan.memory_real > 0:
            yield Warning("copying", f"{choice.name} gives memory back some ms after it is freed, but no trace time passes while a realloc copies: "
                          "its peak within a call may be too high", "use --pace memory=real")


# --- the machine

def _of_machine(comparison: Comparison, activity: Json) -> Iterator[Warning]:
    wall_s, busy_s, own_s, stolen_s = (known(activity[key]) for key in ("wall_s", "busy_s", "own_s", "stolen_s"))
    throttled_s, swapped_bytes = known(activity["throttled_s"]), known(activity["swapped_bytes"])
    cores = comparison.context.machine.cores
    others, stolen = (busy_s - own_s) / wall_s, stolen_s / wall_s / cores
    if others > BUSY_CORES_MAX:
        yield Warning("busy", f"other processes kept {others:.1f} of the machine's {number_of(cores, 'processor')} busy",
                      "end them, or use a larger --budget for narrower intervals")
    if stolen > STOLEN_SHARE_MAX:
        yield Warning("steal", f"the hypervisor gave {100 * stolen:.0f} % of the processors' time to other machines",
                      "use a larger --budget, or a machine of your own")
    if throttled_s > 0:
        yield Warning("throttled", f"the control group's quota stopped the replays for {throttled_s:.2f} s in all",
                      "raise cpu.max of this control group")
    if swapped_bytes > 0:
        yield Warning("swap", f"the machine swapped {swapped_bytes / 1e6:.1f} MB", "free memory: RSS does not include swapped pages")


def _of_settings(comparison: Comparison) -> Iterator[Warning]:
    machine, plan, recorded = comparison.context.machine, comparison.context.plan, comparison.context.program.thp
    if machine.governor and machine.governor != "performance":
        yield Warning("governor", f"the processors' frequency governor is {machine.governor}", "cpupower frequency-set -g performance")
    if machine.turbo:
        yield Warning("turbo", "turbo is on: the clock rate depends on other processes", machine.turbo_off)
    if not plan.memory_pass or not machine.thp or plan.thp is not None:  # what was chosen is known
        return
    if recorded != machine.thp if recorded else machine.thp == "always":
        then = f', and were "{recorded}" where recorded' if recorded else ""
        mode = recorded or "madvise"
        # An option where that does, else what only root can do.
        remedy = f"--thp {mode}" if mode in machine.thp_choices else f"echo {mode} > /sys/kernel/mm/transparent_hugepage/enabled"
        yield Warning("thp", f'transparent huge pages are "{machine.thp}" here{then}', remedy)


# --- figures

def _readings(comparison: Comparison, key: str) -> int:
    """How many readings the timed calls have in all runs."""
    return sum(int(cell.exact_time.get(key) or 0) for cells in comparison.measurements.rounds for cell in cells if cell.time is not None)


def _of_time(comparison: Comparison) -> Iterator[Warning]:
    if not comparison.context.plan.time_pass:
        return
    medians = [found.estimates[TIME.name].median for found in comparison.allocators]
    least_ns = min((value for value in medians if not math.isnan(value)), default=math.inf)
    run_ns = (least_ns + comparison.harness_ns) * comparison.measurements.repeats
    dropped = _readings(comparison, "readings_dropped")
    readings = _readings(comparison, "readings_taken") + dropped
    if math.isfinite(run_ns) and run_ns < SHORT_RUN_NS:
        yield Warning("short_run", f"a run takes only {run_ns / 1e6:.2f} ms of CPU time, much of it startup", "record a longer workload")
    if readings > 0 and dropped > DROPPED_SHARE_MAX * readings:
        yield Warning("dropped", f"{100 * dropped / readings:.1f} % of the timed calls were dropped because their thread was switched out",
                      "run fewer other processes, or use --threads 1")
    if any(value < comparison.harness_ns for value in medians):
        yield Warning("harness", "the harness takes longer than the allocator: small differences are uncertain",
                      "use --instructions, which counts exactly")


def _of_control(comparison: Comparison) -> Iterator[Warning]:
    """The process's control is the heap's with the same added to both: it differs less."""
    for words in FIGURES:
        control = comparison.controls[words.name]
        if words != PROCESS and (control.low > 1 + CONTROL_ERROR_MAX or control.high < 1 - CONTROL_ERROR_MAX):
            yield Warning("control", f"the A/A control of {words.name} is {control.estimate:.3f} [{control.low:.3f}, {control.high:.3f}]: the baseline "
                          "differs from itself", "verdicts include it; a larger --budget on an idle machine reduces it")


def _most_rounds_needed(comparison: Comparison) -> float:
    needed = [found.estimates[words.name].more_rounds for found in comparison.allocators for words in (TIME, PEAK)]
    return max((more for more in needed if not math.isnan(more)), default=0.0)


def _of_rounds(comparison: Comparison, end: End, spent_s: float) -> Iterator[Warning]:
    rounds, more = comparison.rounds, _most_rounds_needed(comparison)
    if len(comparison.names) < 2:
        return
    if rounds < BOOTSTRAP_ROUNDS_MIN:
        remedy = f"use --rounds auto, or {SUGGESTED_ROUNDS} and more" if comparison.context.plan.rounds else "use a larger --budget"
        yield Warning("few_rounds", f"{number_of(rounds, 'round')} {'is' if rounds == 1 else 'are'} too few to resample: intervals assume "
                      "log-normal ratios", remedy)
    if end == End.BUDGET and more > 0:
        minutes = spent_s / rounds * (rounds + more) / 60
        remedy = (f"use --budget {math.ceil(minutes)}m" if more <= MORE_ROUNDS_MAX and math.ceil(minutes) <= BUDGET_MINUTES_MAX
                  else "none: the difference is too small for this trace and machine")
        yield Warning("budget", "the budget ended before all verdicts were clear", remedy)

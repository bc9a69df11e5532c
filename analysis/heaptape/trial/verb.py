# SPDX-License-Identifier: Apache-2.0
"""The verb `try`: records a program, replays what it did under other allocators, and says what would change."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ..base.allocators import other_release
from ..base.builds import broken, builds_here
from ..base.errors import EXIT_FAILED, HeaptapeError, UsageError
from ..base.files import sha256_of
from ..base.programs import find_heaptape, find_replay
from ..base.recorded_trace import RecordedProcess
from ..base.text import outlined, printable
from ..base.units import counted, listing
from ..group.trace import GroupTrace
from ..group.verb import recorded_service, try_service
from ..judge import attached
from ..judge.model import Interim
from ..report.html import Decided, write_report
from ..results.comparison import experiments
from ..results.malloc_share import program_use
from ..results.reader import ResultsWarning, read_results
from ..results.summary import Summary, summarise
from .allocators import choose, countable, settings
from .answer import Trial, answer, answer_object, decision_lines, readable_names, short, versions_of
from .changes import CPU, MEASURED_BY, MEMORY, Change, Changes, changes_of, interim_changes
from .decision import decide, may_turn, promising
from .real_runs import RealRuns, Say, input_position, will_run, with_real
from .recorded import (
    CHECKED_WITHIN,
    Logs,
    Recorded,
    folder_of_logs,
    from_logs,
    from_recording,
    input_comes_twice,
    record_logs,
)

BUDGET_S = 60.0
"""The budget of the replay if nobody says one."""

RUN_SHARE = 0.25
"""Runs of the program itself take this share of the budget besides."""

COUNTED_CALL_S = 2.5e-6
"""A simulated call takes about so long."""

COUNT_MAX_S = 3600.0
"""Nobody waits longer for it."""


def _folder(options: argparse.Namespace) -> Path:
    """Makes the folder."""
    if options.output:
        path = Path(options.output)
        if os.path.lexists(path):
            raise UsageError(f"-o {path}: already exists")
        try:
            path.mkdir()
        except OSError as error:
            raise UsageError(f"-o {path}: cannot create: {error.strerror}") from error
        return path
    name = f"heaptape-{Path(options.command[0] if options.command else options.logs).resolve().name.removeprefix('heaptape-')}"
    for number in range(1, 10_000):
        path = Path(name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise HeaptapeError(f"{path}: cannot create: {error.strerror}; name a folder with -o") from error
    raise HeaptapeError(f"{name} to {name}-9999 exist: name a folder with -o")


def _replay(replay: str, alloc: str, baseline: str, recorded: Recorded, results: Path, options: argparse.Namespace, recordings: int) -> str:
    """Its progress is that of replay itself. recordings share the budget. What went wrong without ending all, or ""."""
    trace, use = recorded.trace, program_use(recorded.trace)
    # The CPU time of a program that is run is its own.
    told_by_runs = {CPU} if will_run(options.command, recorded.context, (options.budget or BUDGET_S) * RUN_SHARE) else set()

    def matters(interim: Interim) -> set[str]:
        known = {CPU: use.cpu_ns, MEMORY: use.whole_bytes}
        turning = {what for _, what in may_turn(interim_changes(interim, use))} | {what for what, amount in known.items() if not amount}
        return {MEASURED_BY[what] for what in turning - told_by_runs}

    command = [replay, "--alloc", alloc, "--baseline", baseline, "-o", str(results)]
    budget_s = (options.budget or BUDGET_S) / recordings
    command += ["--budget", f"{max(round(budget_s), 1)}s"] if options.budget or recordings > 1 else []
    command += ["--cpus", str(options.cpus)] if options.cpus else []
    command += ["-q"] if options.quiet else []
    status = attached.replay([*command, "--", str(trace)], aloud=True, matters=matters).status
    if not results.exists() or not results.stat().st_size:
        raise HeaptapeError(f"the replay failed with status {status}")
    return f"the replay ended with status {status}: not all runs succeeded" if status else ""


def _say(options: argparse.Namespace, words: str) -> None:
    if not options.quiet:
        print(f"heaptape try: {printable(words)}", file=sys.stderr, flush=True)


def _service(heaptape: str, options: argparse.Namespace, folder: Path, logs: Logs) -> GroupTrace | None:
    """The trace of the group if the answer is to be of all processes at once: not if one is asked for, or runs of the program are to be compared."""
    if options.process or options.recordings > 1:
        return None
    return recorded_service(heaptape, logs.folder, folder / "service.bin", partial(_say, options))


def _first_logs(heaptape: str, options: argparse.Namespace, folder: Path) -> Logs:
    """The logs of the first recording, or those that are there."""
    if options.logs:
        return Logs(folder_of_logs(Path(options.logs)), 0)
    return _record(heaptape, options, folder, 1)


def _record(heaptape: str, options: argparse.Namespace, folder: Path, number: int) -> Logs:
    checked = number == 1 and not options.no_check and not options.seconds and input_comes_twice()
    of = f" ({number} of {options.recordings})" if options.recordings > 1 else ""
    again = f", and once more without the recorder if it ends within {CHECKED_WITHIN} (--no-check leaves that out)" if checked else ""
    _say(options, f"recording {short(options.command)}{of}{again}")
    found = record_logs(heaptape, options.command, folder, options.seconds, checked, number, aside=options.json)
    if found.exit_status:
        _say(options, f"the program ended with status {found.exit_status}")
    return found


def _recordings(heaptape: str, options: argparse.Namespace, folder: Path, first: Logs) -> list[Recorded]:
    """One, or as many as were asked for, of the same program in each."""
    if options.logs:
        return [from_logs(heaptape, first.folder, folder / "trace.bin", options.process)]
    found = [from_recording(heaptape, first, folder / "trace.bin", options.process)]
    for number in range(2, options.recordings + 1):
        logs = _record(heaptape, options, folder, number)
        found.append(from_recording(heaptape, logs, folder / f"trace-{number}.bin", found[0].process.name))
    return found


def _alloc(replay: str, options: argparse.Namespace, recorded: Recorded) -> tuple[str, str, str]:
    """The result of choose(), with settings of the recorded allocator if nothing else was asked for."""
    alloc, baseline, why_baseline = choose(replay, options.alloc, recorded.context)
    if options.alloc or why_baseline:
        return alloc, baseline, why_baseline
    own = next((word for word in alloc.split(",") if word.startswith(f"{baseline}=")), baseline)
    found = settings(replay, own, baseline, recorded.trace, recorded.info.get("control_calls") or {}, recorded.info["threads"])
    return ",".join([alloc, *found]), baseline, why_baseline


def _simulates(replay: str) -> bool:
    """By Valgrind's own package, or by the simulation's for pip, which brings what it needs."""
    return bool(shutil.which("valgrind")) or (Path(replay).parent.parent / "libexec/heaptape/valgrind/valgrind").exists()


def _count(replay: str, alloc: str, baseline: str, names: set[str], recorded: Recorded, results: Path, options: argparse.Namespace) -> str:
    """What the calls of these and of the baseline do is simulated, which repeats exactly. What has to be said of that, or ""."""
    if not _simulates(replay):
        package = "heaptape-simulate" if Path(sys.argv[0]).name == "heaptape-analysis" else "valgrind"
        return f"A longer --budget may tell; with the package {package}, what is not resolved is simulated."
    wanted = countable(replay, alloc, {*names, baseline})
    took_s = recorded.info["events"] * len(wanted) * COUNTED_CALL_S
    if took_s > (options.budget or BUDGET_S):
        return f"--budget {math.ceil(took_s / 60)}m may tell: that is the time to simulate it." if took_s < COUNT_MAX_S else ""
    _say(options, f"the time is not resolved: simulating {counted(len(wanted), 'allocator')}, about {max(took_s, 1):.0f} s")
    command = [replay, "-q", "--pass", "count", "--alloc", ",".join(wanted), "-o", str(results), "--", str(recorded.trace)]
    status = attached.replay(command, aloud=True).status
    return f"Its simulation ended with status {status}." if status else ""


def _summaries(recorded: list[Recorded], baseline: str, results: Path) -> list[Summary]:
    """In the order of the recordings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultsWarning)
        frame = read_results(results)
    of_traces = {str(experiment.trace_sha256): experiment for experiment in experiments(frame)}
    return [summarise(of_traces[sha256_of(one.trace)], baseline, traces=[one.trace], processes=one.sharers) for one in recorded]


def _changes(summaries: list[Summary], recorded: list[Recorded]) -> Changes:
    return changes_of(summaries, [one.context for one in recorded], max(one.info["threads"] for one in recorded))


def _notes(recorded: list[Recorded], versions: Mapping[str, str], baseline: str) -> list[str]:
    """What the replay was not of, and what one recording does not show. versions: of allocators that were replayed."""
    context = recorded[0].context
    said = other_release({"name": context.get("allocator_name"), "version": context.get("allocator_version")}, baseline, versions.get(baseline, ""))
    return [f"Caution: {said}.", *_of_recordings(recorded)] if said else _of_recordings(recorded)


def _of_recordings(recorded: list[Recorded]) -> list[str]:
    threads = max(one.info["threads"] for one in recorded)
    if len(recorded) > 1:
        return [f"Of {len(recorded)} recordings: the decision's intervals are over the program's own runs; figures below are of the first."]
    if threads > 1:
        return [f"One recording of {threads} threads: intervals are the replay's alone, and runs of the program differ more; memory within 10 % has no "
                "verdict (--recordings 5)."]
    return []


def run_try(options: argparse.Namespace) -> int:
    """heaptape try"""
    replay = find_replay()
    heaptape = find_heaptape(replay)
    _check(options)
    if options.alloc:
        builds_here(replay, options.alloc)  # refused before the program runs
    for sentence in [] if options.alloc else broken(replay):
        _say(options, sentence)
    folder = _folder(options)
    position = input_position()
    try:
        first = _first_logs(heaptape, options, folder)
        service = _service(heaptape, options, folder, first)
        recorded = [] if service else _recordings(heaptape, options, folder, first)
    except HeaptapeError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if service:
        return try_service(replay, options, choose(replay, options.alloc, service.context), folder, first.folder, service, partial(_say, options))
    alloc, baseline, why_baseline = _alloc(replay, options, recorded[0])
    _say(options, f"replaying {counted(sum(one.info['events'] for one in recorded), 'call')} under {alloc.replace(',', ', ')}")
    results = folder / "results.jsonl"
    problems = [_replay(replay, alloc, baseline, one, results, options, len(recorded)) for one in recorded]
    summaries = _summaries(recorded, baseline, results)
    changes, more, shown = _changes(summaries, recorded), "", readable_names(summaries[0].experiment.runs)
    runs, say_runs = RealRuns(options.command, recorded[0], summaries[0], position), _runs_saying(options, shown)
    runs.measure(promising(changes), (options.budget or BUDGET_S) * RUN_SHARE, say_runs, _still(changes, runs.refused))
    changes = with_real(changes, runs.changes())
    unresolved = {name for name in _still(changes, runs.refused)({}) if not changes[name][CPU].runs}
    if unresolved:
        more = _count(replay, alloc, baseline, unresolved, recorded[0], results, options)
        summaries = _summaries(recorded, baseline, results)
        changes = with_real(_changes(summaries, recorded), runs.changes())
    more_of_memory = "More --recordings may tell." if recorded[0].info["threads"] > 1 else "A longer --budget may tell."
    would_tell = {CPU: more or "A longer --budget may tell.", MEMORY: more_of_memory}
    decision = decide(changes, baseline, shown, would_tell, runs.refused)
    while not all(runs.prove(name, say_runs) for name in decision.advised):
        decision = decide(changes, baseline, shown, would_tell, runs.refused)
    trial = Trial(options.command or _command_of(recorded[0].process), folder, options.logs or str(folder), recorded, summaries, decision, changes,
                  why_baseline, [*_notes(recorded, versions_of(summaries[0].experiment.runs), baseline),
                                 *runs.missing(decision.advised)])
    decided = None if summaries[0].own else Decided(decision_lines(trial), decision.advised)
    write_report(read_results(results), folder / "report.html", [one.trace for one in recorded], baseline, processes=recorded[0].sharers, decided=decided)
    print(outlined(answer_object(trial)) if options.json else answer(trial))
    for problem in filter(None, problems):
        print(f"heaptape try: {problem}", file=sys.stderr)
    return EXIT_FAILED if any(problems) else 0


def _still(changes: Changes, refused: Mapping[str, str]) -> Callable[[Mapping[str, Change]], set[str]]:
    """Which allocators' CPU time may still change the answer if there are more runs of the program; none of those that end it."""
    return lambda real: {name for name, what in may_turn({name: figures for name, figures in with_real(changes, real).items() if name not in refused}) if what == CPU}


def _runs_saying(options: argparse.Namespace, shown: Mapping[str, str]) -> Say:
    def say(names: list[str], how_long: str) -> None:
        _say(options, f"running the program {how_long} under {listing([shown[name] for name in names])}")

    return say


def _command_of(process: RecordedProcess) -> list[str]:
    """Its words, whose blanks the log writes as \\x20."""
    return [word.replace("\\x20", " ") for word in process.command.split(" ")]


def _check(options: argparse.Namespace) -> None:
    """Raises UsageError."""
    if bool(options.command) == bool(options.logs):
        raise UsageError("expected COMMAND, or --logs DIR" + (", not both" if options.logs else ""))
    if options.logs:
        folder_of_logs(Path(options.logs))
        if options.recordings > 1 or options.seconds:
            raise UsageError("--logs records nothing: expected neither --recordings nor --seconds with it")
    elif not shutil.which(options.command[0]):
        raise UsageError(f"{options.command[0]}: no such program")

"""The verb `fleet`: traces, allocators and configurations in rounds over machines (docs/reference/fleet.md)."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import HeaptapeError, UsageError
from ..base.printable import printable
from ..base.progress import ProgressLine

if TYPE_CHECKING:
    from .plan import Plan
    from .results import FleetResults
    from .unit import Outcome, Unit


def run_fleet(options: argparse.Namespace) -> None:
    """heaptape fleet"""
    # Here, because the other verbs need not load Dask; and before anything is written.
    from .cluster import open_client
    from .plan import read_plan
    from .results import FleetResults
    from .unit import built_allocators, check_plan, units_of

    if options.scheduler and options.workers:
        raise UsageError("--workers and --scheduler exclude each other")
    plan = read_plan(Path(options.plan), built_allocators(), options.rounds)
    check_plan(plan)
    output = Path(options.output or f"{Path(options.plan).stem}.results.jsonl")
    with FleetResults(output, plan, options.retry_failed) as results:
        units = units_of(plan)
        left = [unit for unit in units if unit.key not in results.done]
        talk = _Talk(len(left), options.quiet)
        if len(left) < len(units):
            talk.say(f"{output} has {len(units) - len(left)} of {len(units)} rounds already")
        client = open_client(options.scheduler, options.workers or 1)
        refused = _measure(left, results, talk, client) if left else 0
        _print_summary(plan, results, options)
        failed = sum(results.done.get(unit.key, False) for unit in units)
    if refused or failed:
        parts = [f"failed runs in {failed} round{'s' * (failed > 1)}"] * bool(failed)
        parts += [f"{refused} round{'s' * (refused > 1)} could not be run; run the same command to try again"] * bool(refused)
        raise HeaptapeError("; ".join(parts))


def _measure(units: list[Unit], results: FleetResults, talk: _Talk, client: AbstractContextManager[Any]) -> int:
    """Run the units; returns how many could not be run."""
    from .cluster import run_units

    refused = 0

    def take(unit: Unit, outcome: Outcome) -> None:
        nonlocal refused
        results.add(unit, outcome)
        problems = [outcome.refused] if outcome.refused else outcome.problems
        refused += outcome.refused is not None
        for problem in problems:
            talk.warn(f"{unit}: {problem}")
        talk.advance(unit)

    try:
        with client as connected:
            run_units(connected, units, take, talk.warn)
    finally:
        talk.end()
    return refused


def _print_summary(plan: Plan, results: FleetResults, options: argparse.Namespace) -> None:
    from .summary import notes_of, summarise, summary_markdown, summary_object, summary_text

    if not results.rows:
        return
    blocks, notes = summarise(plan, results.rows), notes_of(plan, results.rows)
    if options.json:
        print(json.dumps(summary_object(plan, blocks, results.rows, notes), indent=1))
    else:
        made = (summary_markdown if options.markdown else summary_text)(plan, blocks, results.rows, notes)
        print(printable(made, keep="\n"))


class _Talk:
    """Output to stderr: sentences, and on a terminal a line of progress."""

    def __init__(self, total: int, quiet: bool) -> None:
        self._total, self._quiet, self._done = total, quiet, 0
        self._line = ProgressLine(not quiet)

    def say(self, text: str) -> None:
        """Say what is good to know."""
        if not self._quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say what went wrong."""
        self.end()
        print(f"heaptape fleet: {printable(text)}", file=sys.stderr, flush=True)

    def advance(self, unit: Unit) -> None:
        """A unit has ended."""
        self._done += 1
        self._line.show(f"{self._done} of {self._total} rounds ({unit})", self._line.left_s(self._done, self._total))

    def end(self) -> None:
        """Leave the line of progress empty."""
        self._line.end()

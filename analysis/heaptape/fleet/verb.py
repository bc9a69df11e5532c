# SPDX-License-Identifier: Apache-2.0
"""The verb `fleet`: traces, allocators and configurations in rounds over machines (docs/reference/fleet.md)."""

from __future__ import annotations

import argparse
import json
import math
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import EXIT_HOLDS, EXIT_UNDECIDED, HeaptapeError, UsageError
from ..base.text import ProgressLine, printable
from ..base.units import counted
from ..results.conditions import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    Condition,
    Judged,
    judged_object,
    parse_condition,
)

if TYPE_CHECKING:
    from .plan import Plan
    from .results import FleetResults
    from .unit import Outcome, Unit


def run_fleet(options: argparse.Namespace) -> int:
    """heaptape fleet"""
    # Here, because the other verbs need not load Dask; and before anything is written.
    from .cluster import open_client
    from .gate import check_conditions, outcome_of
    from .plan import read_plan
    from .results import FleetResults
    from .unit import built_allocators, check_plan, units_of

    if options.scheduler and options.workers:
        raise UsageError("--workers: expected no --scheduler with it")
    plan = read_plan(Path(options.plan), built_allocators(), options.rounds)
    conditions = [parse_condition(text) for text in options.fail_if]
    if options.max_rounds and not conditions:
        raise UsageError("--max-rounds: expected --fail-if with it")
    check_conditions(plan, conditions)
    check_plan(plan)
    output = Path(options.output or f"{Path(options.plan).stem}.results.jsonl")
    with FleetResults(output, plan, options.retry_failed) as results:
        units = units_of(plan)
        judged: list[tuple[str, Judged]] = []
        left = [unit for unit in units if unit.key not in results.done]
        talk = _Talk(len(left), options.quiet)
        if len(left) < len(units):
            talk.say(f"{output} has {len(units) - len(left)} of {counted(len(units), 'round')} already")
        client = open_client(options.scheduler, options.workers or 1)
        refused = _measure(left, results, talk, client) if left else 0
        if conditions:
            gate = _Gate(plan, conditions, options)
            plan, more_refused = gate.decide(results)
            refused, judged, units = refused + more_refused, gate.judged, units_of(plan)
        _print_summary(plan, results, options, judged)
        failed = sum(results.done.get(unit.key, False) for unit in units)
    if refused or failed:
        parts = [f"failed runs in {failed} round{'s' * (failed > 1)}"] * bool(failed)
        parts += [f"{refused} round{'s' * (refused > 1)} could not be run; run the same command to try again"] * bool(refused)
        raise HeaptapeError("; ".join(parts))
    outcome = outcome_of(judged)
    return EXIT_HOLDS if outcome == HOLDS else EXIT_UNDECIDED if outcome == UNDECIDED else 0


class _Gate:
    """The conditions over the plan's rounds, and more of these while a condition is undecided."""

    def __init__(self, plan: Plan, conditions: list[Condition], options: argparse.Namespace) -> None:
        self._plan, self._conditions, self._options = plan, conditions, options
        self._most = options.max_rounds or 3 * plan.rounds
        self.judged: list[tuple[str, Judged]] = []

    def decide(self, results: FleetResults) -> tuple[Plan, int]:
        """The plan with all rounds that were run, and how many units could not be run. Says what is not refuted."""
        from .cluster import open_client
        from .gate import ROUNDS_GROW, judge_fleet, more_would_help
        from .unit import units_of

        refused, quiet = 0, self._options.quiet
        while True:
            self.judged = judge_fleet(self._plan, self._conditions, results.rows, self._plan.seed)
            if refused or self._plan.rounds >= self._most or not more_would_help(self.judged):
                break
            self._plan = replace(self._plan, rounds=min(self._most, math.ceil(self._plan.rounds * ROUNDS_GROW)))
            left = [unit for unit in units_of(self._plan) if unit.key not in results.done]
            talk = _Talk(len(left), quiet)
            talk.say(f"a condition is undecided: going on to {counted(self._plan.rounds, 'round')}")
            refused += _measure(left, results, talk, open_client(self._options.scheduler, self._options.workers or 1))
        for name, item in self.judged:
            if item.outcome != REFUTED:
                print(f"heaptape fleet: {printable(item.sentence(name))}", file=sys.stderr, flush=True)
        return self._plan, refused


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


def _print_summary(plan: Plan, results: FleetResults, options: argparse.Namespace, judged: list[tuple[str, Judged]]) -> None:
    from .summary import notes_of, summarise, summary_markdown, summary_object, summary_text

    if not results.rows:
        return
    blocks, notes = summarise(plan, results.rows, [parse_condition(text) for text in options.fail_if]), notes_of(plan, results.rows)
    if options.json:
        gate = [{"trace": name, **one} for name, item in judged for one in judged_object([item])]
        print(json.dumps(summary_object(plan, blocks, results.rows, notes) | ({"fail_if": gate} if options.fail_if else {}), indent=1))
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
        self._line.show(f"{self._done} of {counted(self._total, 'round')} ({unit})", self._line.left_s(self._done, self._total))

    def end(self) -> None:
        """Leave the line of progress empty."""
        self._line.end()

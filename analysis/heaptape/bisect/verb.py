# SPDX-License-Identifier: Apache-2.0
"""heaptape bisect: the first commit at which a condition holds, with the figures on both sides."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

from ..base.errors import EXIT_UNDECIDED, HeaptapeError
from ..base.printable import printable
from ..base.programs import find_replay
from ..base.text_table import table_lines
from ..base.units import interval, with_nulls
from ..results.conditions import parse_condition
from .history import Commit, History
from .measure import BAD, GOOD, SKIP, Bench, Figure, Tested


class _Search:
    """What has been tested, each commit once."""

    def __init__(self, history: History, bench: Bench, quiet: bool) -> None:
        self._history, self._bench, self._quiet = history, bench, quiet
        self.tested: dict[str, Tested] = {}

    def test(self, commit: Commit) -> Tested:
        """The commit, which is checked out first."""
        if commit.sha not in self.tested:
            self.tested[commit.sha] = self._bench.test(commit)
            self._say(self.tested[commit.sha])
        return self.tested[commit.sha]

    def _say(self, tested: Tested) -> None:
        why = f" ({tested.why})" if tested.why else "".join(f", {one.figure} {one.ratio:.4f}" for one in tested.figures)
        if not self._quiet:
            print(f"heaptape bisect: {tested.outcome}: {printable(str(tested.commit))}{printable(why)}", file=sys.stderr, flush=True)

    def ends(self, good: Commit, bad: Commit) -> None:
        """Raises HeaptapeError where they do not differ as they should."""
        for commit, expected in ((good, GOOD), (bad, BAD)):
            tested = self.test(commit)
            if tested.outcome != expected:
                said = f": {tested.why}" if tested.why else "".join(f", {one.figure} {one.ratio:.4f}" for one in tested.figures)
                raise HeaptapeError(f"--{expected} {commit}: expected it to be {expected}, found {tested.outcome}{said}")

    def first_bad(self) -> Commit | None:
        """None where only skipped commits are left."""
        while (found := self._history.first_bad()) is None:
            here = self._history.here()
            self._history.mark(self.test(here).outcome)
            # git says so after the last test, whatever that found.
            if self._history.first_bad() is None and self._history.possible():
                return None
        return found


def _value_text(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "n/a"


def _ratio_text(figure: Figure) -> str:
    return f"{figure.ratio:.4f} {interval(figure.low, figure.high) if figure.low != figure.high else ''}".strip()


def _before_text(before: Tested | None) -> str:
    if before is None:
        return "nothing, it has no parent"
    return f"{printable(str(before.commit))}{f' ({before.outcome}: {printable(before.why)})' if before.outcome == SKIP else ''}"


def _print(first: Tested, before: Tested | None, good: Commit) -> None:
    print(f"first bad commit: {printable(str(first.commit))}")
    print(f"before it: {_before_text(before)}")
    print(f"ratios are to the good commit, {printable(str(good))}\n")
    earlier = {(one.trace, one.figure): one for one in (before.figures if before else [])}
    rows = [["trace", "figure", "before it", "ratio", "at it", "ratio"]]
    for one in first.figures:
        was = earlier.get((one.trace, one.figure))
        rows.append([printable(one.trace), one.figure, _value_text(was.value) if was else "n/a", _ratio_text(was) if was else "n/a",
                     _value_text(one.value), _ratio_text(one)])
    print("\n".join(table_lines(rows, right={2, 4})))


def _tested_object(tested: Tested) -> dict[str, Any]:
    figures = [with_nulls({"trace": one.trace, "figure": one.figure, "value": one.value, "ratio": one.ratio, "verdict_low": one.low,
                           "verdict_high": one.high}) for one in tested.figures]
    return {"commit": tested.commit.sha, "subject": tested.commit.subject, "outcome": tested.outcome, "why": tested.why, "figures": figures}


def _print_json(good: Commit, search: _Search, first: Tested | None, before: Tested | None, possible: list[Commit]) -> None:
    print(json.dumps({"good": good.sha, "first_bad": _tested_object(first) if first else None, "before": _tested_object(before) if before else None,
                      "possible": [commit.sha for commit in possible], "tested": [_tested_object(one) for one in search.tested.values()]}, indent=1))


def run_bisect(options: argparse.Namespace) -> int:
    """heaptape bisect"""
    conditions = [parse_condition(text) for text in options.fail_if]
    with History() as history:
        for left in history.swept:
            print(f"heaptape bisect: removed {printable(str(left))}, which a search that was killed had left", file=sys.stderr, flush=True)
        bench = Bench(find_replay(), history, options, conditions)
        good, bad = history.commit(options.good), history.commit(options.bad)
        history.check_order(good, bad)
        search = _Search(history, bench, options.quiet)
        bench.keep_good(good)
        search.ends(good, bad)
        history.start(good, bad)
        found = search.first_bad()
        if found is None:
            possible = history.possible()
            if options.json:
                _print_json(good, search, None, None, possible)
            else:
                print("only skipped commits are left; the first bad one is among:\n" + "\n".join(printable(str(commit)) for commit in possible))
            return EXIT_UNDECIDED
        parent = history.parent(found)
        first, before = search.test(found), search.test(parent) if parent else None
        if options.json:
            _print_json(good, search, first, before, [])
        else:
            _print(first, before, good)
    return 0

# SPDX-License-Identifier: Apache-2.0
"""`compare --to`: writes a feed in place of tables."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ..base.errors import UsageError
from ..base.files import check_output, output_file, refuse_inputs
from ..explain.snapshots import snapshots_in, snapshots_of
from ..results.found_trace import find_trace
from ..results.summary import Summary
from .counter_tracks import to_perfetto
from .series import to_bencher, to_github_action, to_hyperfine

_JSON: dict[str, Callable[[Sequence[Summary]], bytes]] = {"bencher": to_bencher, "github-action": to_github_action, "hyperfine": to_hyperfine}


def check_feed(options: argparse.Namespace) -> None:
    """Raises HeaptapeError or ImportError, before any work is done."""
    if bool(options.to) != bool(options.output):
        raise UsageError("--to, -o: expected both or neither")
    if options.snapshots and options.to != "perfetto":
        raise UsageError("--snapshots: expected --to perfetto, which shows them")
    if options.output:
        check_output(options.output, [*options.results, *options.trace])
    if options.to == "perfetto":
        from ..sites import profile_message  # noqa: F401  # the package that it needs may be missing


def write_feed(options: argparse.Namespace, summaries: Sequence[Summary]) -> None:
    """Writes the file whole or not at all."""
    made = _JSON[options.to](summaries) if options.to in _JSON else _tracks(options, summaries)
    with output_file(options.output) as file:
        file.write(made)


def _tracks(options: argparse.Namespace, summaries: Sequence[Summary]) -> bytes:
    snapshots = snapshots_in(Path(options.snapshots)) if options.snapshots else []
    if snapshots and not any(snapshots_of(snapshots, summary.experiment) for summary in summaries):
        raise UsageError(f"--snapshots {options.snapshots}: expected snapshots of the trace that was replayed, under an allocator of the results")
    given = [Path(path) for path in options.trace]
    with contextlib.ExitStack() as opened:
        found = [find_trace(summary.experiment, given) for summary in summaries]
        for one in found:
            if one.trace:
                opened.callback(one.trace.close)
                refuse_inputs(options.output, [one.trace.path])
        return to_perfetto(summaries, found, snapshots)

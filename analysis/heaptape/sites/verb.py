# SPDX-License-Identifier: Apache-2.0
"""The verb `sites`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..base.errors import EXIT_BAD_INPUT, TraceError, UsageError
from ..base.files import check_output, output_file
from ..base.text import printable
from ..base.units import byte_count, counted, nanoseconds
from ..trace.reader import Trace, read_trace
from .exports import EXPORTS
from .figures import SiteFigures, site_figures
from .frames import Stacks
from .options import ROWS
from .table import (
    MEASURES,
    SUMMED,
    by_place,
    call_tree,
    json_of_tree,
    object_of_places,
    table_text,
    tree_text,
)


def require_sites(trace: Trace) -> None:
    """Raises UsageError of a trace without, TraceError of one that has lost them."""
    if not trace.sites.sites.empty:
        return
    if trace.truncated:
        raise TraceError(trace.path, trace.whole_bytes, "expected the tables of call sites, found the file cut short")
    raise UsageError(f"{trace.path}: no call sites; record with --sites")


def say_cut_short(verb: str, trace: Trace) -> int:
    """The exit status, with a line on standard error where it is not 0."""
    if not trace.truncated:
        return 0
    print(f"heaptape {verb}: warning: {printable(str(trace.path))}: cut short after {trace.whole_bytes} bytes of whole sections", file=sys.stderr)
    return EXIT_BAD_INPUT


def _totals(trace: Trace, figures: SiteFigures) -> dict[str, Any]:
    sums = figures.sites[list(SUMMED)].sum()
    return {"trace": str(trace.path), "command": str(trace.context.get("command") or ""), "calls": int(sums["calls"]),
            "bytes": int(sums["bytes"]), "peak_bytes": figures.peak_bytes, "peak_ns": figures.peak_ns, "end_bytes": int(sums["end_bytes"]),
            "end_ns": figures.end_ns, "unknown_calls": int(figures.sites["calls"].iloc[0])}


def _heading(totals: dict[str, Any]) -> str:
    return (f"{totals['trace']}: {counted(totals['calls'], 'allocation')}, {byte_count(totals['bytes'])}; live {byte_count(totals['peak_bytes'])} at the peak "
            f"({nanoseconds(totals['peak_ns'])}), {byte_count(totals['end_bytes'])} at the end ({nanoseconds(totals['end_ns'])})"
            + (f"; no call site is known of {counted(totals['unknown_calls'], 'allocation')}" if totals["unknown_calls"] else ""))


def _check(options: argparse.Namespace) -> None:
    if bool(options.to) != bool(options.output):
        raise UsageError("--to, -o: expected both or neither")
    if options.to and options.json:
        raise UsageError("--to and --json: expected one of them")
    if options.rows is not None and (options.to or (options.tree and options.json)):
        raise UsageError("--rows: expected a table, as --to and --tree --json have all call sites")
    if MEASURES[options.by] not in SUMMED and (options.tree or options.to):
        raise UsageError("--by lifetime: expected a figure with a sum, such as bytes")
    if options.output:
        check_output(options.output, [options.trace])
    if options.to == "pprof":
        from . import profile_message  # noqa: F401  # the package that it needs may be missing


def run_sites(options: argparse.Namespace) -> int:
    """heaptape sites"""
    _check(options)
    with read_trace(options.trace) as trace:
        require_sites(trace)
        figures, stacks, name = site_figures(trace), Stacks(trace.sites, str(trace.context.get("executable") or "")), str(trace.context.get("command") or trace.path)
        totals = _totals(trace, figures)
        status = say_cut_short("sites", trace)
    if options.to:
        made = EXPORTS[options.to](figures, stacks, name, MEASURES[options.by])
        with output_file(options.output) as file:
            file.write(made)
    elif options.json:
        if options.tree:
            print(f'{json.dumps(totals, indent=1)[:-2]},\n "tree": {json_of_tree(call_tree(figures.sites, stacks), options.by)}\n}}')
        else:
            print(json.dumps(totals | {"call_sites": object_of_places(by_place(figures.sites, stacks), options.by, options.rows or 0)}, indent=1))
    else:
        lines = tree_text(call_tree(figures.sites, stacks), options.by, options.rows) if options.tree else \
            table_text(by_place(figures.sites, stacks), options.by, ROWS if options.rows is None else options.rows)
        print("\n".join(printable(line) for line in (_heading(totals), "", *lines)))
    return status

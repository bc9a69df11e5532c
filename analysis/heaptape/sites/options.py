# SPDX-License-Identifier: Apache-2.0
"""The option tables of the verbs `sites` and `diff`."""

from __future__ import annotations

import argparse

from ..base.arguments import output_name
from ..base.verb_parser import VerbParser

FORMATS = ("pprof", "collapsed", "speedscope", "dhat")
ROWS = 20
"""That are shown."""


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("expected a number of rows, 0 for all")
    return int(text)


def _add_rows(parser: VerbParser, of_trees: bool) -> None:
    tree, default = (", or functions of a tree", " of a tree those with a hundredth of all;") if of_trees else ("", "")
    parser.add_argument("--rows", type=_rows, metavar="N", help=f"Show N call sites{tree}; 0: all (default: {ROWS};{default} in JSON all)")


def sites_parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    sites = VerbParser(
        "sites", ["TRACE"],
        "Show the call sites of TRACE: calls, bytes, lifetimes, what is live when live bytes are highest and at the end.",
        notes="TRACE has call sites if it was recorded with record --sites. Blocks that are never freed live until the end. --to pprof needs "
              "the Python package protobuf (in a checkout: ./setup.sh --extras).",
        files=[("FILE", "What --to writes, for another program")],
        see_also=["diff", "stats", "explain"],
        examples=[("heaptape sites app.bin --by peak", "Who holds the memory at the peak"),
                  ("heaptape sites app.bin --by peak --tree", "The same as a call tree"),
                  ("heaptape sites app.bin --to pprof -o app.pb.gz", "For go tool pprof")])
    sites.add_argument("trace", metavar="TRACE")
    sites.add_argument("--by", choices=("calls", "bytes", "lifetime", "peak", "end"), default="bytes", metavar="calls|bytes|lifetime|peak|end",
                       help="Sort by this figure; trees and collapsed stacks show it (default: bytes)")
    _add_rows(sites, of_trees=True)
    printed = sites.add_mutually_exclusive_group()
    printed.add_argument("--tree", action="store_true", help="Print a call tree, with shares")
    sites.add_argument("--json", action="store_true", help="Print JSON: all call sites, or with --tree the whole tree")
    printed.add_argument("--to", choices=FORMATS, metavar="|".join(FORMATS), help="Write the stacks in this format (default: none)")
    sites.add_argument("-o", "--output", type=output_name, metavar="FILE", help="Write to FILE what --to asks for (default: none)")
    return sites


def diff_parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    diff = VerbParser(
        "diff", ["OLD NEW"],
        "Compare two recordings of a program by call site: calls, bytes, sizes, lifetimes, what is live at the peak and at the end, threads.",
        notes="OLD and NEW are traces with call sites (record --sites). Call sites are the same if their functions and files are; without names, "
              "if their offsets in modules of equal build ids are.",
        see_also=["sites", "stats"],
        examples=[("heaptape diff old.bin new.bin", "What a change of the program changed")])
    diff.add_argument("old", metavar="OLD")
    diff.add_argument("new", metavar="NEW")
    _add_rows(diff, of_trees=False)
    diff.add_argument("--json", action="store_true", help="Print JSON: all call sites that differ")
    return diff

# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `bisect`."""

from __future__ import annotations

from ..base.verb_parser import USUAL_STATUSES, VerbParser


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    bisect = VerbParser(
        "bisect", ["--good=COMMIT --build=COMMAND --alloc=LIBRARY --fail-if=CONDITION TRACE..."],
        "Find the first commit at which an allocator meets a condition: run git bisect, build each commit, and replay TRACE against it and against the "
        "good commit.",
        notes="Run it in the allocator's repository. The commits are checked out in a temporary work tree: the one at hand is not touched. A commit that does "
              "not build, whose replay fails or that stays undecided is skipped. Files that git does not know, such as those of the build before, stay "
              "from commit to commit (--clean removes them).",
        see_also=["replay", "compare", "fleet"],
        examples=[("heaptape bisect --good v2.0 --build 'make -s' --alloc build/libmine.so --fail-if 'instructions>1.01' app.bin",
                   "Which commit since v2.0 takes 1 % more instructions?"),
                  ("heaptape bisect --good v2.0 --bad v2.1 --build ./build.sh --alloc libmine.so --fail-if 'rss_peak>1.05' a.bin b.bin",
                   "Or more memory, on either trace?")],
        statuses=[*USUAL_STATUSES[:3], ("3", "A trace is damaged, cut short, or of another format"), ("5", "Only skipped commits are left, which are printed")])
    bisect.add_argument("traces", metavar="TRACE", nargs="+")
    bisect.add_argument("--good", required=True, metavar="COMMIT", help="A commit before the change, with which others are compared (required)")
    bisect.add_argument("--bad", default="HEAD", metavar="COMMIT", help="A commit that meets a condition (default: HEAD)")
    bisect.add_argument("--build", required=True, metavar="COMMAND", help="Build a commit by this command of the shell, in its work tree's folder (required)")
    bisect.add_argument("--alloc", required=True, metavar="LIBRARY", help="What it builds: the allocator's shared library, seen from that folder (required)")
    bisect.add_argument("--fail-if", action="append", required=True, metavar="CONDITION",
                        help="A commit is bad if CONDITION, as of replay, holds for a trace, with the good commit as baseline, such as "
                             "'instructions>1.01'. May be repeated (required)")
    bisect.add_argument("--clean", action="store_true",
                        help="Remove what the build before has left (git clean -ffdx), before each build: slower, and no commit depends on another's files")
    bisect.add_argument("--rounds", default="auto", metavar="auto|N", help="Rounds of replays of time or memory, as of replay (default: auto)")
    bisect.add_argument("--json", action="store_true", help="Print what was found as JSON")
    bisect.add_argument("-q", "--quiet", action="store_true", help="Print only the answer, and what went wrong")
    return bisect

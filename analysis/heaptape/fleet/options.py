# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `fleet`."""

from __future__ import annotations

from ..base.arguments import output_name, positive
from ..base.verb_parser import USUAL_STATUSES, VerbParser


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    fleet = VerbParser(
        "fleet", ["PLAN"],
        "Replay the traces of PLAN under its allocators and configurations, in rounds on one or more machines, and print means over all traces.",
        notes="PLAN is a TOML file. Results are kept: the same command continues. Needs the Python "
              "packages dask and distributed (in a checkout: ./setup.sh --extras).",
        see_also=["replay", "compare"],
        examples=[("heaptape fleet plan.toml", "On this machine"),
                  ("heaptape fleet plan.toml --scheduler tcp://host:8786", "On the workers of a Dask cluster"),
                  ("heaptape fleet plan.toml --fail-if 'instructions>1.01'", "For CI: is the new one worse on any trace?")],
        statuses=[*USUAL_STATUSES, ("4", "A condition of --fail-if holds"),
                  ("5", "A condition stayed undecided, and none holds")])
    fleet.add_argument("plan", metavar="PLAN")
    fleet.add_argument("-o", "--output", type=output_name, metavar="FILE",
                       help="Append lines of results to FILE, and skip the rounds that it has (default: PLAN's name and .results.jsonl)")
    fleet.add_argument("--workers", type=positive, metavar="N",
                       help="Run N replays side by side on this machine (default: 1, since several disturb each other's times)")
    fleet.add_argument("--scheduler", metavar="ADDRESS",
                       help="Use a Dask cluster; its workers with the resource replay=1 measure (default: this machine)")
    fleet.add_argument("--rounds", type=positive, metavar="N", help="Run N rounds (default: the plan's)")
    fleet.add_argument("--fail-if", action="append", default=[], metavar="CONDITION",
                       help="Exit with status 4 if CONDITION, as of replay, clearly holds for a trace or for the geometric mean over the traces, and "
                            "name it; with 5 if that stays undecided. May be repeated")
    fleet.add_argument("--max-rounds", type=positive, metavar="N",
                       help="With --fail-if, run up to N rounds while a condition is undecided (default: three times --rounds)")
    fleet.add_argument("--retry-failed", action="store_true", help="Run rounds with failed runs again")
    form = fleet.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="Print the summary as JSON")
    form.add_argument("--markdown", action="store_true", help="Print the summary as Markdown")
    fleet.add_argument("-q", "--quiet", action="store_true", help="Print only results, and what went wrong")
    return fleet

# SPDX-License-Identifier: Apache-2.0
"""The option tables of the verbs `compare`, `report` and `export`."""

from __future__ import annotations

from .base.arguments import BOOTSTRAP_SEED, bootstrap_seed, output_name
from .base.verb_parser import USUAL_STATUSES, VerbParser

FEEDS = ("bencher", "github-action", "hyperfine", "perfetto")


def compare_parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    compare = VerbParser(
        "compare", ["RESULTS..."],
        "Compare the runs of RESULTS, files that heaptape replay -o wrote: ratios to the baseline, 95 % intervals, verdicts. Of an old and a new build of one allocator: what became worse.",
        environment=[("NO_COLOR", "If set and not empty, as --color=never"),
                     ("COLUMNS", "The width of the tables (default: the terminal's)")],
        notes="--to writes medians with their 95 % intervals (bencher, github-action), the times of all rounds (hyperfine), or curves along the trace "
              "(perfetto: RSS and live bytes; with --snapshots also holes, free pages, headers, rounding and tables). It needs the Python package protobuf for perfetto "
              "(in a checkout: ./setup.sh --extras).",
        files=[("FILE", "What --to writes, for another program")],
        see_also=["replay", "report"],
        examples=[("heaptape compare results.jsonl", "Print tables"),
                  ("heaptape compare old.jsonl new.jsonl --markdown", "For a pull request"),
                  ("heaptape compare results.jsonl --fail-if 'time>1.05'", "For CI"),
                  ("heaptape compare results.jsonl --to github-action -o benchmark.json", "For a chart of all commits")],
        statuses=[*USUAL_STATUSES, ("4", "A condition of --fail-if holds"),
                  ("5", "A condition stayed undecided, and none holds")])
    _add_common(compare)
    compare.add_argument("--fail-if", action="append", default=[], metavar="CONDITION",
                         help="Exit with status 4 if a ratio to the baseline clearly meets CONDITION, as in 'time>1.05', with 5 if that stays "
                              "undecided, with 1 if a run failed. Figures: time, rss_peak, rss_mean, rss_end, process_rss_peak; > >= < <=. May be "
                              "repeated")
    compare.add_argument("--color", choices=("auto", "always", "never"), default="auto", metavar="auto|always|never",
                         help="Colour verdicts; auto: on a terminal (default: auto)")
    printed = compare.add_mutually_exclusive_group()
    printed.add_argument("--json", action="store_true", help="Print JSON")
    printed.add_argument("--csv", action="store_true", help="Print a row for each measure and allocator")
    printed.add_argument("--markdown", action="store_true", help="Print Markdown for issues and pull requests")
    printed.add_argument("--to", choices=FEEDS, metavar="|".join(FEEDS), help="Write the figures in this format, and print no table (default: none)")
    compare.add_argument("-o", "--output", type=output_name, metavar="FILE", help="Write to FILE what --to asks for (default: none)")
    compare.add_argument("--snapshots", metavar="FOLDER", help="With --to perfetto: show what RSS consists of, too, by the snapshots that heaptape replay "
                         "--snapshots wrote into FOLDER (default: none)")
    return compare


def report_parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    report = VerbParser(
        "report", ["RESULTS..."],
        "Write the comparison of RESULTS, files that heaptape replay -o wrote, as one HTML page that needs no other file.",
        files=[("report.html", "The page")],
        see_also=["replay", "compare"],
        examples=[("heaptape report results.jsonl --trace app.bin -o report.html", "Write a page")])
    _add_common(report)
    report.add_argument("-o", "--output", type=output_name, default="report.html", metavar="FILE", help="Write the page to FILE (default: report.html)")
    report.add_argument("--snapshots", metavar="FOLDER", help="Show the heaps, too, of which heaptape replay --snapshots wrote snapshots into FOLDER "
                        "(default: none)")
    report.add_argument("-q", "--quiet", action="store_true", help="Print only what went wrong")
    return report


def export_parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    export = VerbParser(
        "export", ["TRACE"],
        "Write TRACE as Parquet tables, for DuckDB, Polars and pandas.",
        notes="Needs the Python package pyarrow (in a checkout: ./setup.sh --extras).",
        files=[("DIR/events.parquet", "The calls; tables of threads, samples and others are next to it")],
        see_also=["convert", "dump"],
        examples=[("heaptape export app.bin -o tables", "Write tables")])
    export.add_argument("trace", metavar="TRACE")
    export.add_argument("-o", "--output", type=output_name, metavar="DIR", help="Write the tables into DIR (default: beside the trace, named .parquet)")
    export.add_argument("-q", "--quiet", action="store_true", help="Print only what went wrong")
    return export


def _add_common(parser: VerbParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("--baseline", metavar="ALLOCATOR",
                        help="Compare with this allocator (default: one labelled old, before or base beside new, after or head; else the one that the "
                             "program ran under, else glibc, else the replay's baseline)")
    parser.add_argument("--trace", action="append", default=[], metavar="FILE",
                        help="Read the replayed trace from FILE; may be repeated (default: where the results say, or beside them)")
    parser.add_argument("--seed", type=bootstrap_seed, default=BOOTSTRAP_SEED, metavar="N",
                        help=f"Seed the random numbers of the bootstrap with N (default: {BOOTSTRAP_SEED})")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `heaptape validate` on many real programs, keeps the figures in tables, and writes docs/method/validity.md.

    bench/validity/validate.py [times|instructions|accesses|page] [--only SET|NAME,...] [--again] [--tables DIR] [--page FILE.md]

The sets are programs, others, services, large and accesses, each a file beside this one (programs.toml has the keys). times: memory and
CPU time, of the programs alone and as replays predict them, of all sets but accesses; wants a quiet machine. instructions: exact counts of
the set programs, with smaller inputs. accesses: modelled times of the set accesses. page: measures nothing.
What a program gives goes into the tables (CSV files) as soon as it is there. A program that is there
already is passed over, unless --again, so that what was interrupted goes on in an empty DIR. One that is not installed is named.
A known explanation of an error goes into the program's table (`note`; for counts `count_note`).

    bench/validity/validate.py times --again --only programs,others,services       # hours on an idle machine
    bench/validity/validate.py times --again --only large --rounds 2
    bench/validity/validate.py instructions --again    # by simulation: half an hour, also on a busy machine
    bench/validity/validate.py accesses --again        # 20 minutes

All programs, on Debian 12:

    apt-get install --no-install-recommends perl ruby sqlite3 git lua5.4 jq gawk php-cli nodejs xsltproc gdb g++ clang xz-utils imagemagick ffmpeg \\
        redis-server redis-tools nginx-light wrk curl postgresql cmake groff-base mandoc universal-ctags poppler-utils vim \\
        povray graphviz ghostscript gnuplot-nox r-base-core zstd pigz 7zip python3-pandas tesseract-ocr swi-prolog-nox tcl sox hunspell-en-us \\
        hunspell doxygen cppcheck nasm iverilog glpk-utils z3 minimap2 samtools bison ocaml-nox python3-xapian pandoc octave \\
        mariadb-server memcached libmemcached-tools varnish haproxy puma lld default-jdk-headless python3-pip
"""

from __future__ import annotations

import argparse
import csv
import io
import signal
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.page import CHANGES, Row, Tables, page, totals_table  # noqa: E402
from bench.validity.run import chosen, made_brief, prepare, run_all, validated  # noqa: E402

from heaptape.base.errors import HeaptapeError  # noqa: E402
from heaptape.base.files import write_whole  # noqa: E402

PAGE = ROOT / "docs" / "method" / "validity.md"
SETS = {"times": ("programs", "others", "services", "large"), "instructions": ("programs",), "accesses": ("accesses",)}
"""The programs of each kind of figures."""
KEYS = {"does", "needs", "setup", "command", "start", "ready", "load", "stop", "process", "unprivileged", "env", "note", "count",
        "count_note"}
FILES = ("programs.csv", "memory.csv", "cpu.csv", "requests.csv", "instructions.csv", "accesses.csv")
FIRST = {"times": "programs.csv", "instructions": "instructions.csv", "accesses": "accesses.csv"}
"""The table that has every program that was measured so."""
FIGURES = ("peak", "mean")

Document = dict[str, Any]
"""The document that heaptape validate --json prints."""


def read_programs() -> dict[str, dict[str, Any]]:
    """By name, in the order of the page, each with its set."""
    programs: dict[str, dict[str, Any]] = {}
    for name_of_set in dict.fromkeys(name for names in SETS.values() for name in names):
        path = ROOT / "bench" / "validity" / f"{name_of_set}.toml"
        for name, program in tomllib.loads(path.read_text()).items():
            if unknown := set(program) - KEYS:
                sys.exit(f"{path}: {name}: unknown: {', '.join(sorted(unknown))}")
            if ("command" in program) == ("start" in program):
                sys.exit(f"{path}: {name}: either a command or a server's start expected")
            if name in programs:
                sys.exit(f"{path}: {name}: another program has this name")
            programs[name] = program | {"set": name_of_set}
    return programs


def _number(value: float | None, scale: float = 1) -> str:
    """A number of three digits."""
    return "" if value is None else f"{float(f'{value * scale:.3g}'):g}"


def _tenths(value: float | None, scale: float) -> str:
    return "" if value is None else f"{value * scale:.1f}"


def _hundredths(value: float | None, scale: float) -> str:
    return "" if value is None else f"{value * scale:.2f}"


def _measured(document: Document) -> list[Document]:
    """The allocators under which the program could be measured."""
    return [item for item in document["allocators"] if "memory" in item]


def _differences(document: Document) -> Iterator[tuple[str, Document]]:
    """The CPU time of each allocator but the baseline, if it is there."""
    for item in _measured(document):
        if item["name"] != document["baseline"] and item["cpu"].get("real_difference_ns") is not None:
            yield item["name"], item["cpu"]


def _baseline(document: Document) -> Document:
    found: Document = next(item for item in document["allocators"] if item["name"] == document["baseline"])
    return found


def _ends_agree(document: Document, figure: str) -> str:
    """Whether who has least and who has most is as predicted."""
    ends = document["agreement"].get(figure)
    # Neither a hit nor a miss where the allocators do not differ: there was nothing to predict.
    known = [ends[end]["agrees"] for end in ("best", "worst") if ends[end]["agrees"] is not None] if ends else []
    return ("yes" if all(known) else "no") if known else ""


def _memory(of: Document, figure: str) -> Row:
    """Changes against the baseline, which has none, have the interval that the rounds give them."""
    cells = {"predicted_mb": _number(of["predicted_bytes"], 1e-6), "real_mb": _number(of["real_bytes"], 1e-6), "error_percent": _tenths(of["error"], 100)}
    cells |= {f"{key}_percent": _hundredths(of.get(key), 100) for key in CHANGES}
    if figure == "peak":
        cells["own_percent"] = _number(of["own_bytes"] / of["predicted_bytes"], 100)
    return {f"{figure}_{key}": cell for key, cell in cells.items()}


def times_rows(name: str, program: dict[str, Any], document: Document) -> Tables:
    recorded, curve = document["recorded"], document["curve"]
    problems = [f"under {item['name']} not measured: {item['problem']}" for item in document["allocators"] if item["problem"]]
    programs = [{
        "program": name, "what": program["does"], "calls": str(recorded["calls"]), "threads": str(recorded["threads"]),
        "lasts_s": _number(recorded["duration_ns"], 1e-9), "cpu_s": _number(recorded["cpu_ns"], 1e-9),
        "curve_percent": _tenths(curve and curve["difference"], 100), **{f"{figure}_ends_agree": _ends_agree(document, figure) for figure in FIGURES},
        "rounds": str(document["rounds"]), "remarks": "; ".join([*problems, *document["warnings"]])}]
    memory = [{"program": name, "allocator": item["name"]} | _memory(item["memory"]["peak"], "peak") | _memory(item["memory"]["mean"], "mean")
              for item in _measured(document)]
    requests = [{"program": name, "allocator": item["name"]} | {
        f"{key}_us": _number(item["latency"][f"{key}_ns"], 1e-3) for key in ("request_p50", "request_p99", "malloc_p99", "free_p99")}
        for item in _measured(document)] if document["server"] else []
    cpu = [{
        "program": name, "baseline_cpu_s": _number(_baseline(document)["cpu"]["real_ns"], 1e-9), "allocator": allocator,
        **{f"{key}_ms": _tenths(found[f"{key}_ns"], 1e-6) for key in ("predicted_difference", "predicted_low", "predicted_high", "real_difference", "real_low", "real_high")},
        "resolved": "yes" if found["resolved"] else "no",
        "predicted_over_real": f"{found['predicted_over_real']:.2f}" if found["resolved"] else ""} for allocator, found in _differences(document)]
    return {"programs.csv": programs, "memory.csv": memory, "cpu.csv": cpu, "requests.csv": requests}


def instructions_rows(name: str, _: dict[str, Any], document: Document) -> Tables:
    """Warnings stand in the row of the baseline."""
    rows = []
    for item in document["allocators"]:
        differences = item.get("count_differences")
        figures = {"predicted": item["instructions_delta_predicted"], "real": item["instructions_delta_real"],
                   "malloc": differences["allocator"]["instructions"], "outside": differences["program"]["instructions"]} if differences else {}
        remarks = document["warnings"] if item["name"] == document["baseline"] else []
        if item["problem"]:
            remarks = [*remarks, f"under {item['name']} not counted: {item['problem']}"]
        rows.append({"program": name, "allocator": item["name"], **{key: str(figures.get(key, "")) for key in ("predicted", "real", "malloc", "outside")},
                     "remarks": "; ".join(remarks)})
    return {"instructions.csv": rows}


def _modelled_ns(parts: dict[str, Any], *names: str) -> float:
    return float(sum(parts[name]["modelled_ns"]["total"] for name in names))


def accesses_rows(name: str, _: dict[str, Any], document: Document) -> Tables:
    """Differences of modelled times, in percent of the program's: counted of the real program, replayed with its accesses, replayed without."""
    base = _baseline(document)
    base_ns, rows = _modelled_ns(base["counts"], "allocator", "program"), []
    for item in document["allocators"]:
        if item is base:
            continue
        shares = {}
        if not item["problem"]:
            # validate adds what starting a program costs more, to compare with times.
            started_ns = item["cpu"]["startup_ns"] - base["cpu"]["startup_ns"]
            shares = {"real": _modelled_ns(item["count_differences"], "allocator", "program") / base_ns,
                      "accesses": (item["cpu"]["modelled_difference_ns"] - started_ns) / base["cpu"]["real_ns"],
                      "calls_alone": _modelled_ns(item["count_differences"], "replayed_time") / base_ns}
        rows.append({"program": name, "calls": str(document["recorded"]["calls"]), "baseline_ms": _number(base_ns, 1e-6), "allocator": item["name"],
                     **{f"{key}_percent": f"{100 * shares[key]:.4f}" if shares else "" for key in ("real", "accesses", "calls_alone")}})
    return {"accesses.csv": rows}


def _rows_of(path: Path) -> list[Row]:
    """None of a file that is not there."""
    try:
        rows = list(csv.DictReader(path.read_text().splitlines()))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        sys.exit(f"validate: {path}: expected a table, found {error}")
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values() or "program" not in row:
            sys.exit(f"validate: {path}: line {number}: expected a program's cells under each heading, found others")
    return rows


def read_tables(folder: Path) -> Tables:
    return {file: _rows_of(folder / file) for file in FILES}


def put(folder: Path, made: Tables, name: str, order: list[str]) -> None:
    """Writes a program's rows in place of those that were there."""
    tables = read_tables(folder)
    for file, new in made.items():
        rows = sorted([row for row in tables[file] if row["program"] != name] + new, key=lambda row: order.index(row["program"]))
        if rows:
            text = io.StringIO()
            writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            write_whole(folder / file, text.getvalue())


def measure(options: argparse.Namespace, order: list[str], name: str, program: dict[str, Any], scratch: Path) -> list[str]:
    """Puts one kind of figures of a program into the tables, whose rows are in this order of programs, and returns the problems of single
    allocators. Raises PassedOver and Failed."""
    brief = made_brief(program) if options.kind == "instructions" else program
    rounds = ["--rounds", str(options.rounds), "--replay-rounds", str(options.replay_rounds or options.rounds)]
    how, rows = {"times": (rounds, times_rows), "instructions": (["--instructions"], instructions_rows),
                 "accesses": (["--count", "--accesses", "--rounds", "2", "--replay-rounds", "1"], accesses_rows)}[options.kind]
    document = validated(prepare(name, brief, scratch, options.build), options.build, options.alloc, *how)
    options.tables.mkdir(parents=True, exist_ok=True)
    put(options.tables, rows(name, program, document), name, order)
    return [item["problem"] for item in document["allocators"] if item["problem"]]


def chosen_of_sets(parser: argparse.ArgumentParser, only: str | None, programs: dict[str, dict[str, Any]]) -> list[str]:
    """The names, and those of the sets, that --only lists, else all."""
    words = only.split(",") if only else []
    in_sets = [[name for name, program in programs.items() if program["set"] == word] or [word] for word in words]
    return chosen(parser, ",".join(name for names in in_sets for name in names), programs)


def parse(programs: dict[str, dict[str, Any]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*FIRST, "page"])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", metavar="SET|NAME,...", help=f"sets, or of {', '.join(programs)}")
    parser.add_argument("--alloc", default="glibc,jemalloc,tcmalloc,mimalloc", metavar="LIST")
    parser.add_argument("--rounds", type=int, default=12, metavar="N", help="times: of real runs and of replays (12)")
    parser.add_argument("--replay-rounds", type=int, metavar="N", help="of replays, where not as many")
    parser.add_argument("--again", action="store_true", help="measure also what the tables have already")
    parser.add_argument("--tables", type=Path, metavar="DIR", help=f"({PAGE.with_suffix('').relative_to(ROOT)})", default=PAGE.with_suffix(""))
    parser.add_argument("--page", type=Path, metavar="FILE.md", help=f"({PAGE.relative_to(ROOT)}, of the tables beside it)")
    options = parser.parse_args()
    of_kind = {name: program for name, program in programs.items() if program["set"] in SETS.get(options.kind, ())}
    options.names = chosen_of_sets(parser, options.only, of_kind)
    if options.rounds < 2 or (options.replay_rounds or 1) < 1:
        parser.error("--rounds: expected two or more; --replay-rounds: one or more")
    options.page = options.page or (PAGE if options.tables == PAGE.with_suffix("") else None)
    options.build = options.build.resolve()
    return options


def main() -> int:
    programs = read_programs()
    options = parse(programs)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the scratch folders go on the way out
    fine = True
    if options.kind != "page":
        done = set() if options.again else {row["program"] for row in read_tables(options.tables)[FIRST[options.kind]]}
        fine = run_all(options.names, programs, done, partial(measure, options, list(programs)))
    tables = read_tables(options.tables)
    if (options.page or options.kind == "page") and not tables["programs.csv"]:
        print(f"validate: no page: {options.tables} has no times yet", file=sys.stderr)
        return 1
    if options.page:
        write_whole(options.page, page(tables, programs, options.tables, options.page.resolve().parent))
    print(totals_table(tables, programs, with_accesses=True))
    return 0 if fine else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeaptapeError as problem:
        sys.exit(f"validate: {problem}")

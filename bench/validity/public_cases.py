#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Public reports about the memory of programs, rebuilt: what heaptape answers to their question, against the real program.

    bench/validity/public_cases.py [--build B] [--only NAME,...] [--runs N] [--results FILE] [--again] [--no-run] [--page FILE.md]

Each program of public_cases.toml is recorded once under its own allocator and settings, and replayed under that, glibc, jemalloc,
tcmalloc, mimalloc and what was proposed; then it runs N times under each. Keeps a line of JSON in the results for each; one that is
there already is passed over, unless --again. Prints the table of all and the sums; --page writes the page. Only memory is measured.
Status 1: something failed, or an answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.page import signed, table  # noqa: E402
from bench.validity.run import Failed, Prepared, chosen, prepare, record, run_all, run_json  # noqa: E402

from heaptape.base.errors import HeaptapeError  # noqa: E402
from heaptape.base.files import write_whole  # noqa: E402
from heaptape.base.programs import (  # noqa: E402
    environment_of,
    list_allocators,
)
from heaptape.base.units import percent  # noqa: E402
from heaptape.results.caution import HeapShare  # noqa: E402
from heaptape.trace.reader import read_trace  # noqa: E402
from heaptape.validate.observed_run import ObservedRun, Start  # noqa: E402

CASES = ROOT / "bench" / "validity" / "public_cases.toml"
RESULTS = ROOT / "docs" / "method" / "validity" / "public-cases.jsonl"
PLAIN = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
BEST, ASKED = "best", "asked"
SAME = 0.05
"""Ratios this near to 1, and to each other, say the same."""
OFF, OFF_BYTES = 0.10, 1e6
"""Memory is off by more than both: the share and the bytes."""
CAUTIONS = ("zeroed_by_calloc",)
"""Warnings of the replay that say of memory that it may be otherwise."""
LIMIT_S = 60
PYTHON = "/usr/bin/python3"

HEAD = """# Public reports, rebuilt

`bench/validity/public_cases.py` rebuilds {count} public reports about the memory of programs as small programs
([public_cases.toml](../../../bench/validity/public_cases.toml), `bench/programs/public/`), puts their authors' question to heaptape, and holds the answer
against the program itself. It records each once, with its own allocator and settings, replays it ({rounds} rounds), and runs it {runs} times under each
allocator. It rebuilds the pattern of calls, not sizes and times.

```sh
bench/validity/public_cases.py --again --page docs/method/validity/public-cases.md
```

- *Right*: the verdict is as in reality, and RSS (peak or end, of the whole process) is within {off} or {off_mb:.0f} MB under both allocators, its own and the
  proposed one. Of *best*: the named allocator really has the least or is within {same} of it, and its RSS is so, too.
- *Unknown*: heaptape itself says that the verdict is not recommended, not resolved, or about a small part of the memory.
- *Wrong*: anything else, without a word.

"""


@dataclass(frozen=True)
class Judged:
    """What an answer comes to: what is not as in reality, and what heaptape says against it. `real` and `answered`: ratios to the program's
    own allocator, or names."""

    outcome: str
    missed: str
    said: str
    real: str
    answered: str


def build(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """The program in the form of those of programs.toml."""
    file, which = case["program"]
    source = f"$BENCH/programs/public/{file}"
    if file.endswith(".py"):
        return {"needs": [PYTHON], "command": [PYTHON, source, which], "env": {}}
    return {"needs": ["gcc"], "setup": f"gcc -O1 -fno-builtin -pthread -o {name} {source}", "command": [f"./{name}", which], "env": {}}


def specification(case: dict[str, Any]) -> tuple[str, str]:
    """The --alloc of the replays, and the name in there of what was proposed."""
    names = list(dict.fromkeys([case.get("under", "glibc"), *PLAIN]))
    if case["asked"] in (BEST, *names):
        return ",".join(names), case["asked"]
    return ",".join([*names, f"{ASKED}={case['asked']}"]), ASKED


def environments(case: dict[str, Any], prepared: Prepared, spec: str, replay: Path) -> dict[str, dict[str, str]]:
    """By name of an allocator: of the real program. Its own has the case's settings; where another of the same kind was proposed, these are
    replaced."""
    base, own = case.get("under", "glibc"), case.get("env", {})
    found = {}
    for item in list_allocators(str(replay), spec):
        if item.get("problem") or not item.get("built", True):
            raise Failed(f"{item['name']}: {item.get('problem') or 'is not built here'}")
        settings = {} if item["name"] == ASKED and item["kind"] == base else own
        preload = None if item["kind"] == "glibc" else str(item["path"])
        found[str(item["name"])] = environment_of(prepared.who["env"] | settings, [*([f"LD_PRELOAD={preload}"] if preload else []), *(item.get("environment") or ())])
    return found


def run_once(prepared: Prepared, environment: dict[str, str]) -> dict[str, int]:
    """Peak and end of anonymous memory."""
    command = prepared.words[1:]
    argv = [os.path.join(prepared.folder, command[0]), *command[1:]]
    name = os.path.basename(os.path.realpath(argv[0]))
    try:
        with ObservedRun(Start(argv, environment), name, only_root=True) as run:
            run.watch(None, LIMIT_S, name)
    except HeaptapeError as error:
        raise Failed(str(error)) from error
    if run.exit_status or not run.watched:
        raise Failed(f"it ended with status {run.exit_status}")
    seen = run.watched[0]
    return {"peak": seen.peak_bytes, "end": seen.rss_bytes[-1]}


def answers(document: dict[str, Any], own_end: float) -> dict[str, dict[str, Any]]:
    """By allocator: RSS of the whole process as predicted, and the verdict on it. own_end: of the recorded program, what was not the heap's when
    it was last looked at."""
    found = {}
    for item in document["allocators"]:
        heap, whole = item["rss_peak_bytes"], item["process_rss_peak_bytes"]
        if item["problem"] or not whole:
            found[item["name"]] = {"problem": item["problem"] or "no figures"}
            continue
        found[item["name"]] = {"problem": None, "peak": whole["median"], "end": item["rss_end_bytes"]["median"] + own_end, "baseline": item["baseline"],
                               "verdict": {"peak": heap["verdict"], "end": item["rss_end_bytes"]["verdict"]}}
    return found


def said(document: dict[str, Any], base: str) -> str:
    """The words of heaptape against its own answer."""
    recorded = document["recorded"]
    if recorded["allocator"] != base:
        raise Failed(f"recorded under {recorded['allocator']}, not {base}")
    share = HeapShare(recorded["rss_peak_bytes"], recorded["explained_bytes"])
    words = (document.get("baseline_check") or {}).get("words") or ""
    warned = [warning["message"].partition(";")[0] for warning in document["warnings"] if warning["kind"] in CAUTIONS]
    return "; ".join(filter(None, [words.partition(": ")[2].partition(". ")[0] or words, share.sentence() if share.is_small else "", *warned]))


def measure(name: str, case: dict[str, Any], scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measures it, and returns what is kept of it. Raises PassedOver and Failed."""
    prepared = prepare(name, build(name, case), scratch, options.build)
    spec, _ = specification(case)
    real_environments = environments(case, prepared, spec, options.build / "replay")
    base = case.get("under", "glibc")
    recorded = Prepared(prepared.program, prepared.folder, prepared.who | {"env": real_environments[base]})
    _, trace = record(recorded, options.build)
    document = run_json([options.build / "heaptape", "replay", "-q", "--json", "--pass", "memory", "--rounds", str(options.rounds), "--seed", "20817",
                         "--alloc", spec, "--baseline", base, trace], prepared.who)
    real: dict[str, dict[str, list[int]]] = {who: {"peak": [], "end": []} for who in real_environments}
    for _ in range(options.runs):
        for who, environment in real_environments.items():
            for figure, value in run_once(prepared, environment).items():
                real[who][figure].append(value)
    with read_trace(trace) as read:
        answered = answers(document, float(read.samples["own_rss_bytes"].iloc[-1]))
    return {"name": name, "runs": options.runs, "rounds": options.rounds, "said": said(document, base), "real": real, "answered": answered}


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in map(json.loads, path.read_text().splitlines() if path.exists() else [])}


def write_results(path: Path, results: dict[str, dict[str, Any]], order: list[str]) -> None:
    write_whole(path, "".join(json.dumps(results[name], separators=(",", ":")) + "\n" for name in order if name in results))


def tendency(ratio: float) -> str:
    return "less" if ratio < 1 - SAME else "more" if ratio > 1 + SAME else "the same"


def is_off(answered: float, real: float) -> bool:
    return abs(answered / real - 1) > OFF and abs(answered - real) > OFF_BYTES


def _error(answered: float, real: float) -> str:
    return f"{signed(100 * (answered / real - 1), 0)} %"


def judge(case: dict[str, Any], result: dict[str, Any]) -> Judged:
    """Judges a line of the results."""
    figure, answered = case["figure"], {name: item for name, item in result["answered"].items() if not item["problem"]}
    real = {name: statistics.median(figures[figure]) for name, figures in result["real"].items()}
    base = next(name for name, item in answered.items() if item["baseline"])
    own, (_, asked) = case.get("under", "glibc"), specification(case)
    if asked == BEST:
        named, best = (min(PLAIN, key=of) for of in (lambda name: answered[name][figure], real.__getitem__))
        checked, agree, shown = [(named, named)], real[named] <= (1 + SAME) * real[best], (best, named)
        why = "" if agree else f"{real[named] / real[best]:.2f} of the least"
    else:
        ratios = real[asked] / real[own], answered[asked][figure] / answered[base][figure]
        checked, shown = [(own, base), (asked, asked)], (f"{ratios[0]:.2f}", f"{ratios[1]:.2f}")
        agree = tendency(ratios[0]) == tendency(ratios[1]) or abs(ratios[0] - ratios[1]) <= SAME
        why = "" if agree else f"{tendency(ratios[1])}, really {tendency(ratios[0])}"
    far = []
    for name, replayed in checked:
        value, runs = answered[replayed][figure], result["real"][name][figure]
        if is_off(value, real[name]):
            within = ", as some real runs" if min(runs) <= value <= max(runs) else ""
            far.append(f"{case['asked'] if name == ASKED else name} {_error(value, real[name])}{within}")
    missed = "; ".join(filter(None, [why, ", ".join(far)]))
    unresolved = asked not in (BEST, base) and answered[asked]["verdict"][figure] in (None, "unresolved")
    objection = result["said"] or ("not resolved" if unresolved else "")
    return Judged("unknown" if objection else "wrong" if missed else "right", missed, objection, *shown)


def _megabytes(case: dict[str, Any], result: dict[str, Any], name: str) -> str:
    figures = [value / 1e6 for value in result["real"][name][case["figure"]]]
    return f"{statistics.median(figures):.1f}" + (f" [{min(figures):.1f}, {max(figures):.1f}]" if max(figures) > (1 + SAME) * min(figures) else "")


def rows(cases: dict[str, dict[str, Any]], results: dict[str, dict[str, Any]]) -> list[list[str]]:
    found = []
    for name, result in results.items():
        case, judged = cases[name], judge(cases[name], result)
        own, (_, asked) = case.get("under", "glibc"), specification(case)
        shown = [own, *([asked] if asked != BEST else [])]
        base = next(replayed for replayed, item in result["answered"].items() if item.get("baseline"))
        numbers = [f"{_megabytes(case, result, who)} / {result['answered'][base if who == own else who][case['figure']] / 1e6:.1f}" for who in shown]
        setting = "".join(f" {key}={value}" for key, value in case.get("env", {}).items())
        title, address = case["reference"]
        found.append([name, f"[{title}]({address}): {case['question']}", f"{own}{setting}", case["asked"], case["figure"], *numbers, *[""] * (2 - len(numbers)),
                      f"{judged.real} / {judged.answered}", f"**{judged.outcome}**" if judged.outcome == "wrong" else judged.outcome, judged.missed, judged.said])
    return found


HEADS = ["case", "report and question", "runs under", "asked", "RSS", "its own, MB: real / answered", "asked, MB: real / answered",
         "ratio: real / answered", "answer", "not as in reality", "what heaptape says"]


def sums(cases: dict[str, dict[str, Any]], results: dict[str, dict[str, Any]]) -> str:
    judged = [judge(cases[name], result) for name, result in results.items()]
    right, wrong, unknown = ([item for item in judged if item.outcome == outcome] for outcome in ("right", "wrong", "unknown"))
    return (f"{len(judged)} questions: {len(right)} right, {len(wrong)} wrong, {len(unknown)} unknown "
            f"({sum(not item.missed for item in unknown)} of these as in reality)")


def distance(results: dict[str, dict[str, Any]]) -> str:
    """How far figures of all allocators are off, asked about or not."""
    found = []
    for figure in ("peak", "end"):
        pairs = [(item[figure], statistics.median(result["real"][who][figure]), result["said"]) for result in results.values()
                 for who, item in result["answered"].items() if not item["problem"] and who in result["real"]]
        middle = statistics.median(abs(answered / real - 1) for answered, real, _ in pairs)
        far = [said for answered, real, said in pairs if is_off(answered, real)]
        found.append(f"{figure}: {len(pairs)} pairs of case and allocator, {percent(middle)} off in the median, {len(far)} by more than {percent(OFF)} "
                     f"and {OFF_BYTES / 1e6:.0f} MB, {sum(not said for said in far)} of these without a caution")
    return "; ".join(found)


def others(cases: dict[str, dict[str, Any]], results: dict[str, dict[str, Any]]) -> list[str]:
    """Figures of any allocator, asked about or not, that are beyond the bound without a caution."""
    found = []
    for name, result in results.items():
        for who, item in result["answered"].items():
            for figure in ("peak", "end"):
                middle = statistics.median(result["real"].get(who, {}).get(figure) or [0])
                if middle and not item["problem"] and not result["said"] and is_off(item[figure], middle):
                    label = cases[name]["asked"] if who == ASKED else who
                    found.append(f"- **{name}**, {label}, {figure}: {middle / 1e6:.1f} MB real, {item[figure] / 1e6:.1f} answered ({_error(item[figure], middle)})")
    return found


def page(cases: dict[str, dict[str, Any]], results: dict[str, dict[str, Any]]) -> str:
    first = next(iter(results.values()))
    far = others(cases, results)
    parts = [HEAD.format(count=len({case["reference"][1] for name, case in cases.items() if name in results}), rounds=first["rounds"], runs=first["runs"],
                         off=percent(OFF), off_mb=OFF_BYTES / 1e6, same=percent(SAME)) + f"{sums(cases, results)}. RSS at the {distance(results)}.", table(HEADS, rows(cases, results), len(HEADS))]
    missed = [f"- **{name}**: {cases[name]['note']}" for name, result in results.items() if "note" in cases[name] and judge(cases[name], result).outcome != "right"]
    if missed:
        parts.append("## Explanations\n" + "\n".join(missed))
    if far:
        parts.append("## Far off without a caution\nUnder every allocator that was replayed, asked about or not.\n\n" + "\n".join(far))
    parts.append("[All figures](public-cases.jsonl): bytes of each run and of the replays.")
    return "\n\n".join(parts) + "\n"


def main() -> int:
    cases: dict[str, dict[str, Any]] = tomllib.loads(CASES.read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(cases)}")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of the real program under each allocator (5)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of the replays (3)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help=f"({RESULTS.relative_to(ROOT)})")
    parser.add_argument("--again", action="store_true", help="measure also what the results have already")
    parser.add_argument("--no-run", action="store_true", help="only print and write what the results hold")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="write the page about it")
    options = parser.parse_args()
    if options.runs < 1 or options.rounds < 2:
        parser.error("--runs: expected one or more; --rounds: two or more")
    options.names, options.build = chosen(parser, options.only, cases), options.build.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the scratch folders go on the way out
    kept = read_results(options.results)

    def keep(name: str, case: dict[str, Any], scratch: Path) -> list[str]:
        kept[name] = measure(name, case, scratch, options)
        write_results(options.results, kept, list(cases))
        return [item["problem"] for item in kept[name]["answered"].values() if item["problem"]]

    fine = options.no_run or run_all(options.names, cases, () if options.again else set(kept), keep)
    results = {name: kept[name] for name in cases if name in kept and name in options.names}
    if not results:
        print("public_cases: there are no results", file=sys.stderr)
        return 1
    if options.page:
        write_whole(options.page, page(cases, results))
    print(table(HEADS, rows(cases, results), len(HEADS)))
    print(sums(cases, results))
    return 0 if fine and all(judge(cases[name], result).outcome != "wrong" for name, result in results.items()) else 1


if __name__ == "__main__":
    sys.exit(main())

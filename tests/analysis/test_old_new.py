# SPDX-License-Identifier: Apache-2.0
"""An old build of an allocator against a new one: what became worse comes first, in compare as in the report."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import results_factory
from heaptape.results.comparison import choose_baseline, experiments, newer_of
from heaptape.results.reader import read_results
from verbs_here import run_here

Rows = list[dict[str, Any]]


def rows_of(names: tuple[str, str] = ("old", "new"), trace: str = "/t/job.bin", time: float = 1.0, peak: float = 1.0, noise: float = 0.003,
            passes: tuple[str, ...] = ("time", "memory"), **allocator: Any) -> Rows:
    """Of six rounds; time and peak: of the new build. allocator: what both are."""
    rng, rows = np.random.default_rng(3), []
    for number in range(6):
        for name, of_time, of_peak in ((names[1], time, peak), (names[0], 1.0, 1.0)):
            for which in passes:
                row = results_factory.run(name, which, number, rng, time_ratio=of_time, peak_ratio=of_peak, noise=noise)
                rows.append(row | {"trace": {"path": trace, "sha256": f"{trace:0<64}".replace("/", "0"), "events": 10}, "allocator": row["allocator"] | allocator})
    return rows


def counted(rows: Rows, instructions: dict[str, dict[tuple[str, int], int]]) -> Rows:
    """With a line of counts for each allocator, by function and size class."""
    made = []
    for name, classes in instructions.items():
        row = next(row for row in rows if row["allocator"]["name"] == name)
        listed = [{"function": function, "size_low": low, "instructions": count} for (function, low), count in classes.items()]
        counts = {"allocator": {"instructions": sum(classes.values()), "mapping_calls": 1}, "program": {}, "calls_by_size": listed}
        made.append({key: row[key] for key in ("schema", "trace", "allocator", "seed", "threads", "touch", "pace", "machine")}
                    | {"pass": "count", "round": 0, "failures": 0, "started_at": name, "counts": counts})
    return made + rows


PLANTED = {"old": {("malloc", 64): 700_000, ("free", 64): 300_000}, "new": {("malloc", 64): 800_000, ("free", 64): 300_000}}


def compared(folder: Path, rows: Rows, *options: str) -> str:
    done = run_here("compare", results_factory.write(folder / "r.jsonl", rows), *options, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def reported(folder: Path, rows: Rows) -> str:
    """What one reads of the page before the first question of a trace, and all of it."""
    done = run_here("report", "-q", results_factory.write(folder / "r.jsonl", rows), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    page = re.sub(r"<(style|script)>.*?</\1>", "", (folder / "report.html").read_text().replace("<wbr>", ""), flags=re.DOTALL)
    return html.unescape(re.sub(r"[ \n]+", " ", re.sub(r"<[^>]*>", " ", page)))


@pytest.mark.parametrize(("names", "kinds", "paths", "wanted", "found"), [
    (("new", "old"), ("", ""), ("/n.so", "/o.so"), None, ("old", "new")),
    (("glibc", "after", "before"), ("", "", ""), ("/g.so", "/n.so", "/o.so"), None, ("before", "after")),
    (("head", "base"), ("", ""), ("/n.so", "/o.so"), "head", ("head", "base")),
    (("b", "a"), ("", ""), ("/n.so", "/o.so"), "a", ("a", "b")),
    (("je52", "je53"), ("jemalloc", "jemalloc"), ("/5.2/j.so", "/5.3/j.so"), None, ("je52", "je53")),
    (("x/lib.so", "y/lib.so"), (None, None), ("/x/lib.so", "/y/lib.so"), None, ("x/lib.so", "y/lib.so")),
    # Which to take:
    (("glibc", "jemalloc"), ("glibc", "jemalloc"), ("/g.so", "/j.so"), None, ("glibc", "")),
    (("jemalloc", "jemalloc:narenas=1"), ("jemalloc", "jemalloc"), ("/j.so", "/j.so"), None, ("jemalloc", "")),
    (("glibc", "a", "b"), ("", "", ""), ("/g.so", "/n.so", "/o.so"), None, ("glibc", "")),
    (("glibc", "new"), ("glibc", ""), ("/g.so", "/n.so"), None, ("glibc", "")),
    (("glibc", "old", "new"), ("glibc", "", ""), ("/g.so", "/o.so", "/n.so"), "glibc", ("glibc", "")),
    (("je51", "je52", "je53"), ("jemalloc",) * 3, ("/1.so", "/2.so", "/3.so"), None, ("je51", "")),
])
def test_which_are_old_and_new(tmp_path: Path, names: tuple[str, ...], kinds: tuple[Any, ...], paths: tuple[str, ...], wanted: str | None,
                               found: tuple[str, str]) -> None:
    rows = [results_factory.run(name, "memory", 0, np.random.default_rng(1)) for name in names]
    for row, kind, path in zip(rows, kinds, paths, strict=True):
        row["allocator"] |= {"kind": kind, "path": path, "version": "", "build_id": path}
    (experiment,) = experiments(read_results(results_factory.write(tmp_path / "r.jsonl", rows)))
    baseline = choose_baseline(experiment.all_runs, wanted)
    assert (baseline, newer_of(experiment.runs, baseline)) == found


def test_the_baseline_of_the_replay_is_that_of_the_comparison(tmp_path: Path) -> None:
    """Each round runs its allocators in an order of its own; the baseline is who ran twice."""
    rows = rows_of(("je52", "je53"), kind="jemalloc")
    again = [row | {"control": True, "started_at": "later"} for row in rows if row["allocator"]["name"] == "je52"]
    assert rows[0]["allocator"]["name"] == "je53"
    assert "\nje52: jemalloc" in compared(tmp_path, rows + again).partition("\nje53: ")[0]


def test_what_became_worse_is_the_first_line_and_the_first_table(tmp_path: Path) -> None:
    text = compared(tmp_path, counted(rows_of(peak=1.25, time=0.8), PLANTED))
    first, *lines = text.splitlines()
    assert re.fullmatch(r"new is worse than old: peak RSS \+15\.\d MB \(\+2[45]\.\d %\); instructions \+100,000 \(\+10\.0 %\)\. "
                        r"Better: time in malloc −1\d\d ms \(−(19|20)\.\d %\)\.", first)
    heads = [number for number, line in enumerate(lines) if line.startswith(("worse ", "better ", "where "))]
    assert [lines[number].split()[0] for number in heads] == ["worse", "better", "where"]
    worse = [re.split(r" {2,}", line) for line in lines[heads[0] + 1:heads[1] - 1]]
    assert [row[0] for row in worse] == ["peak RSS", "instructions", "RSS at the end", "mean RSS"]
    assert worse[1][1:] == ["+100,000", "+10.0 %", "exact", "1,000,000", "1,100,000"]
    inside = [re.split(r" {2,}", line)[:3] for line in lines[heads[2] + 1:]]
    assert ["instructions: malloc, all sizes", "+100,000", "+14.3 %"] in inside and ["instructions: malloc, 64 to 79 bytes", "+100,000", "+14.3 %"] in inside
    assert not any(row[0].startswith("instructions: free") for row in inside) and any(row[0] == "time: malloc" for row in inside)


def test_all_forms_say_the_same(tmp_path: Path) -> None:
    rows = counted(rows_of(peak=1.25), PLANTED)
    text, page = compared(tmp_path, rows), reported(tmp_path, rows)
    first, *lines = text.splitlines()
    assert compared(tmp_path, rows, "--markdown").startswith(f"**{first}**\n")
    (said,) = json.loads(compared(tmp_path, rows, "--json"))
    assert said["headline"] == first and said["newer"] == "new" and {item["figure"] for item in said["shifts"]} >= {"peak RSS", "instructions"}
    before = page.partition("How certain is that?")[0]
    for line in [first, *(line for line in lines if line.startswith(("peak RSS ", "instructions")))]:
        assert re.sub(r" +", " ", line) in before
    for words in ("reason to change", "What do I gain?", "What next?", "To use"):
        assert words not in page and words not in text
    assert "<h1" not in page and (tmp_path / "report.html").read_text().count("<h1") == 1


def test_several_traces_are_one_answer(tmp_path: Path) -> None:
    rows = [row for number, peak in enumerate((1.1, 1.0, 1.25, 0.8, 1.0)) for row in rows_of(trace=f"/t/{number}.bin", peak=peak, passes=("memory",))]
    first, *lines = compared(tmp_path, rows).splitlines()
    assert re.match(r"new is worse than old: peak RSS on 2 of 5 traces, at most \+2[45]\.\d % \(\+15\.\d MB, 2\.bin\)\. "
                    r"Better: peak RSS on 1 of 5 traces, −(19|20)\.\d % \(−12\.\d MB, 3\.bin\)\. ", first)
    assert first.endswith(" Not measured: instructions and time in malloc.")
    assert [line.split("  ")[0] for line in lines if line.startswith("peak RSS, ")] == ["peak RSS, 2.bin", "peak RSS, 0.bin", "peak RSS, 3.bin"]
    assert any(line.startswith("Geometric mean over 5 traces: peak RSS +") for line in lines)
    page = reported(tmp_path, rows)
    assert page.index(first) < page.index("Memory over time") and "geometric mean" not in page


def test_where_nothing_differs_no_difference_is_said(tmp_path: Path) -> None:
    rows = counted(rows_of(noise=0.0001), {"old": PLANTED["old"], "new": PLANTED["old"]})
    text = compared(tmp_path, rows)
    assert text.startswith("new is not shown to differ from old. Same within 1 %: peak RSS, instructions and time in malloc.\n")
    assert not re.search("^(worse|better|where|not resolved)", text, re.MULTILINE) and "reason to change" not in reported(tmp_path, rows)


def test_what_is_open_says_how_much_it_may_be(tmp_path: Path) -> None:
    text = compared(tmp_path, rows_of(noise=0.1, peak=0.8))
    assert re.match(r"new is better than old: peak RSS −12\.\d MB \(−(19|20)\.\d %\)\. Nothing is shown to be worse\. "
                    r"Not resolved: time in malloc \(−\d+\.\d % to \+\d+\.\d %\)\. Not measured: instructions\.\n", text)
    assert re.search(r"^not resolved .*\ntime in malloc .* more rounds?$", text, re.MULTILINE)


def test_a_new_build_that_fails_is_worse(tmp_path: Path) -> None:
    rows = rows_of()
    for row in rows:
        if row["allocator"]["name"] == "new":
            row |= {"failures": 1, "problem": "killed by SIGSEGV"}
    first, second, *_ = compared(tmp_path, rows + rows_of(trace="/t/other.bin")).splitlines()
    assert first.startswith("new is worse than old: it fails on 1 of 2 traces. ")
    assert second == "job.bin: 12 of 12 runs of new failed and are left out (the last: killed by SIGSEGV)."


def test_huge_pages_are_named(tmp_path: Path) -> None:
    rows = rows_of(peak=1.25)
    for row in rows:
        if row["pass"] == "memory":
            row["anon_huge_peak_bytes"] = 10 << 20 if row["allocator"]["name"] == "new" else 0
    text = compared(tmp_path, rows)
    assert re.match(r"new is worse than old: peak RSS \+15\.\d MB \(\+2\d\.\d %, in huge pages \+10\.5 MB\)", text)
    assert re.search(r"^huge pages: part of peak RSS \(kernel: madvise\) +\+10\.5 MB +new +0 B +10\.5 MB$", text, re.MULTILINE)


def test_rounding_is_by_size(tmp_path: Path) -> None:
    rows = rows_of(peak=1.25)
    for row in rows:
        if row["pass"] == "memory":
            usable = 30_000_000 if row["allocator"]["name"] == "new" else 20_000_000
            row["slop_by_size"] = [{"to_bytes": 64, "blocks": 9, "requested_bytes": 19_000_000, "usable_bytes": usable},
                                   {"to_bytes": 128, "blocks": 9, "requested_bytes": 100, "usable_bytes": usable / 1e5}]
    text = compared(tmp_path, rows)
    assert re.search(r"^rounding: blocks of up to 64 bytes +\+10\.0 MB +\+1000\.0 %", text, re.MULTILINE) and "128 bytes" not in text


def test_others_beside_them_are_compared_as_usual(tmp_path: Path) -> None:
    more = [row | {"allocator": row["allocator"] | {"name": "glibc"}} for row in rows_of() if row["allocator"]["name"] == "old"]
    text = compared(tmp_path, rows_of(peak=1.25) + more)
    assert text.startswith("new is worse than old: peak RSS ") and re.search(r"^glibc .* same within 1 %", text, re.MULTILINE)
    page = reported(tmp_path, rows_of(peak=1.25) + more)
    assert "new is worse than old" in page and "What do I gain?" not in page and "reason to change" not in page

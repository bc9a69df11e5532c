# SPDX-License-Identifier: Apache-2.0
"""A service of several processes as one: what is made of results, what `try` and `explain` say, and what other verbs do with its
lines."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import group_lines
import preforking
import pytest
import results_factory
from group_lines import ALONE, MB, OWN, SHARED, TOTAL, line, trace, write
from heaptape import read_results
from heaptape.base.errors import ResultsError
from heaptape.group.answer import ServiceTrial, answer, answer_object
from heaptape.group.estimate import SYSTEMATIC, Estimates, estimates
from heaptape.group.verb import object_of, sharing, text_of
from heaptape.group.runs import GroupRun, read_runs
from heaptape.group.trace import GroupTrace, Pages, is_group, of_info
from heaptape.results.reader import ResultsWarning
from tool_runner import Tools
from verbs_here import run_here

BAND = SYSTEMATIC * TOTAL


def _runs(folder: Path, *lines: dict[str, Any]) -> list[GroupRun]:
    return read_runs(write(folder / "r.jsonl", list(lines)))


def _estimates(folder: Path, *lines: dict[str, Any], of: GroupTrace | None = None, why: str = "") -> Estimates:
    return estimates(of or trace(), _runs(folder, *lines), "glibc", why)


def _both(name: str, apart: float, together: float, **more: Any) -> list[dict[str, Any]]:
    return [line(name, apart, drawn="apart", **more), line(name, together, drawn="together", **more)]


def test_a_difference_is_of_runs_that_drew_the_same(tmp_path: Path) -> None:
    """Totals are the recorded one and the difference; the interval is from the least to the most, and the systematic band."""
    found = _estimates(tmp_path, *_both("glibc", TOTAL - MB, TOTAL + MB), *_both("jemalloc", TOTAL - 31 * MB, TOTAL - 19 * MB))
    [one] = found.others
    assert found.whole_bytes == TOTAL and found.baseline_error == 0 and not found.unjudged
    assert (one.change_bytes, one.total_bytes) == (-25 * MB, TOTAL - 25 * MB)
    assert (one.low_bytes, one.high_bytes) == pytest.approx((-30 * MB - BAND, -20 * MB + BAND))
    assert one.saves and one.is_resolved and not one.costs and found.savers == [one]


@pytest.mark.parametrize(("change", "saves", "costs"), [(-BAND - 1, True, False), (-BAND + 1, False, False), (0, False, False), (BAND - 1, False, False), (BAND + 1, False, True)])
def test_what_the_band_holds_is_not_resolved(tmp_path: Path, change: float, saves: bool, costs: bool) -> None:
    [one] = _estimates(tmp_path, line("glibc", TOTAL), line("jemalloc", TOTAL + change)).others
    assert (one.saves, one.costs) == (saves, costs)


def test_runs_of_other_draws_are_no_pairs(tmp_path: Path) -> None:
    found = _estimates(tmp_path, line("glibc", TOTAL, seed=1), line("jemalloc", TOTAL / 2, seed=2))
    assert found.others == [] and found.savers == []


@pytest.mark.parametrize(("of_moment", "base", "words"), [
    ({"swap_bytes": 0.02 * TOTAL}, TOTAL, "2.0 % of the memory was in swap"),
    ({"ksm_bytes": 0.02 * TOTAL}, TOTAL, r"in merged pages \(KSM\)"),
    ({"huge_bytes": 0.02 * TOTAL}, TOTAL, "in huge pages"),
    ({"moments": 0}, TOTAL, "no snapshot of the pages was recorded"),
    ({}, 1.11 * TOTAL, "glibc's own replay takes 11 % more than was recorded"),
    ({}, 0.85 * TOTAL, "glibc's own replay takes 15 % less than was recorded")])
def test_where_there_is_no_verdict(tmp_path: Path, of_moment: dict[str, Any], base: float, words: str) -> None:
    found = _estimates(tmp_path, line("glibc", base), line("jemalloc", base / 2), of=trace(**of_moment))
    assert len(found.unjudged) == 1 and re.search(f"^No verdict: .*{words}", found.unjudged[0])
    assert not found.others[0].is_resolved and found.others[0].high_bytes < 0


def test_little_in_swap_is_no_reason(tmp_path: Path) -> None:
    assert _estimates(tmp_path, line("glibc", 1.09 * TOTAL), of=trace(swap_bytes=0.009 * TOTAL, huge_bytes=0.009 * TOTAL)).unjudged == []


def test_a_baseline_that_was_not_recorded(tmp_path: Path) -> None:
    """What was recorded is no figure of it, and its replays have no verdict."""
    found = _estimates(tmp_path, line("glibc", TOTAL / 2), line("jemalloc", TOTAL / 4), why="The program was recorded under its own jemalloc.")
    assert found.whole_bytes == TOTAL / 2 and found.others[0].total_bytes == TOTAL / 4 and found.baseline_error is None
    assert found.unjudged == ["No verdict: the program was recorded under its own jemalloc."]


def test_one_more_worker(tmp_path: Path) -> None:
    """Of pages that all share, a worker has a third in its PSS: what is left is its own, to the byte."""
    assert Pages(ALONE[1] + SHARED, ALONE[1] + SHARED / 3, OWN).exclusive_bytes(3) == pytest.approx(ALONE[1])
    assert trace().worker_bytes() == pytest.approx(20 * MB)
    found = _estimates(tmp_path, line("glibc", TOTAL, worker_bytes=21 * MB), line("jemalloc", TOTAL, worker_bytes=9 * MB))
    assert found.worker_bytes == pytest.approx(20 * MB) and found.others[0].worker_bytes == pytest.approx(8 * MB)


def test_what_shares_pages() -> None:
    """A family is what was forked from one process and was there; a program that was executed has none."""
    whole = group_lines.info()
    assert trace().family == [0, 1, 2] and trace().is_shared and trace().workers == [1, 2]
    whole["processes"][1]["parent"] = None
    found = of_info(Path("x"), whole)
    assert found.family == [0, 2] and [one.role for one in found.processes] == ["master", "alone", "worker"]
    whole["processes"][2]["presence"] = [None]
    found = of_info(Path("x"), whole)
    assert not found.is_shared and [one.pid for one in found.present] == [100, 101]


def test_the_highest_moment_counts(tmp_path: Path) -> None:
    """What the program copied is added up to there."""
    whole = group_lines.info(moments=3)
    for number, moment in enumerate(whole["moments"]):
        whole["moments"][number] = moment | {"anonymous_bytes": (TOTAL, TOTAL + MB, TOTAL)[number]}
    found = of_info(Path("x"), whole)
    assert found.moment and found.moment.number == 1
    row = line("glibc", TOTAL, copied=2 * MB)
    row["moments"] *= 3
    assert _estimates(tmp_path, row, of=found).copied_bytes == 4 * MB


def test_a_replay_that_failed_is_named(tmp_path: Path) -> None:
    broken = line("jemalloc", 0) | {"group_moment_bytes": None, "group_peak_bytes": None, "group_end_bytes": None, "moments": None, "problem": "killed by SIGSEGV", "failures": 1}
    trimmed = broken | {"allocator": broken["allocator"] | {"name": "glibc"}, "purged_at_fork": True}
    found = _estimates(tmp_path, line("glibc", TOTAL), broken, line("mimalloc", TOTAL / 2), trimmed, trimmed | {"purged_at_fork": False, "round": 1})
    assert found.failed == {"jemalloc": "killed by SIGSEGV", "glibc with malloc_trim before each fork": "killed by SIGSEGV"} and [one.name for one in found.others] == ["mimalloc"]


# ---- the answers ----


def _trial(folder: Path, *lines: dict[str, Any], of: GroupTrace | None = None) -> ServiceTrial:
    runs = _runs(folder, *lines)
    return ServiceTrial(["./server"], Path("out"), "out/logs", of or trace(), runs, estimates(of or trace(), runs, "glibc"), [])


LINES = [*_both("glibc", TOTAL, TOTAL, copied=9 * MB, worker_bytes=20 * MB), *_both("jemalloc", TOTAL - 30 * MB, TOTAL - 20 * MB, worker_bytes=10 * MB),
         *_both("glibc:arena_max=2", TOTAL + 27 * MB, TOTAL + 29 * MB, worker_bytes=34 * MB), *_both("glibc", TOTAL - 2 * MB, TOTAL - 2 * MB, purged_at_fork=True)]

ANSWER = """\
The service, 3 processes: 110 MB of anonymous memory, each page counted once; jemalloc would take 85.0 MB (−23 %, −3 to −42 %).

allocator                                memory of the service  change                   one more worker
glibc 1.0                                               110 MB                                   20.0 MB
jemalloc 1.0                                           85.0 MB  −23 % [−42, −3]                  10.0 MB
glibc with two arenas for all threads                   138 MB  +25 % [+10, +41]                 34.0 MB
glibc with malloc_trim before each fork                 108 MB  not resolved [−17, +13]          20.0 MB

With glibc:
  two arenas for all threads: 28.0 MB more (+25 %, +10 to +41 %)
  inherited blocks never written: at most 9.00 MB less (8.2 %)

At its highest, 2.00 s after the start (anonymous pages; PSS: its own ones, and its part of shared ones):
  process  role        RSS      PSS  not malloc's  program
  100      master  70.0 MB  30.0 MB       1.00 MB  server
  101      worker  80.0 MB  40.0 MB       1.00 MB  server
  102      worker  80.0 MB  40.0 MB       1.00 MB  server
The sum of RSS, 230 MB, counts shared pages many times.

Intervals: of all draws of what the program wrote, and 15 % of the memory in both directions.
Not known: CPU time. Of one process:  heaptape try --logs out/logs --process PID

Use:  LD_PRELOAD=/lib/libjemalloc.so.2 ./server
More:  heaptape explain service.bin"""


def test_the_answer(tmp_path: Path) -> None:
    assert answer(_trial(tmp_path, *LINES)) == ANSWER


def test_nothing_is_better(tmp_path: Path) -> None:
    trial = _trial(tmp_path, line("glibc", TOTAL), line("jemalloc", TOTAL - MB), line("mimalloc", TOTAL + 20 * MB))
    text = answer(trial)
    assert text.startswith("The service, 3 processes: 110 MB of anonymous memory, each page counted once; keep glibc: none of 2 others is shown to take less.\n")
    assert "Use:" not in text and "With glibc" not in text and answer_object(trial)["decision"] == "keep"


def test_no_verdict_is_said_first(tmp_path: Path) -> None:
    of = trace(swap_bytes=TOTAL / 2)
    trial = _trial(tmp_path, line("glibc", TOTAL, copied=9 * MB), line("jemalloc", TOTAL / 2), of=of)
    lines = answer(trial).splitlines()
    assert lines[0].endswith("each page counted once.") and lines[1].startswith("No verdict: 50 % of the memory was in swap")
    assert any(re.match(r"jemalloc 1.0 .*−50 % \[−65, −35\], no verdict", one) for one in lines) and not any(one.startswith(("Use:", "With glibc:")) for one in lines)
    assert answer_object(trial)["decision"] == "not decided" and answer_object(trial)["allocators"] == []


def test_the_answer_for_programs(tmp_path: Path) -> None:
    found = answer_object(_trial(tmp_path, *LINES))
    assert found["decision"] == "use" and found["allocators"] == ["jemalloc"] and found["group_bytes"] == TOTAL and found["copied_by_program_bytes"] == 9 * MB
    assert found["changes"]["jemalloc"] == {"group_bytes": TOTAL - 25 * MB, "group_low_bytes": round(TOTAL - 30 * MB - BAND), "group_high_bytes": round(TOTAL - 20 * MB + BAND),
                                            "resolved": True, "one_more_worker_bytes": 10 * MB}
    assert found["process_count"] == 3 and found["processes"][1] == {"pid": 101, "role": "worker", "name": "server", "rss_anon_bytes": 80 * MB, "pss_anon_bytes": 40 * MB, "own_bytes": OWN}


def test_memory_of_processes_without_a_log(tmp_path: Path) -> None:
    trial = _trial(tmp_path, line("glibc", TOTAL), of=trace(anonymous_bytes=TOTAL + 8 * MB))
    assert "\n8.00 MB of the memory are of processes without a log, which are not replayed.\n" in answer(trial)
    assert "without a log" not in answer(_trial(tmp_path, line("glibc", TOTAL)))


def test_trim_may_be_the_best(tmp_path: Path) -> None:
    trial = _trial(tmp_path, line("glibc", TOTAL), line("glibc", TOTAL - 20 * MB, purged_at_fork=True))
    text = answer(trial)
    assert "; glibc with malloc_trim before each fork would take 90.0 MB (−18 %, −3 to −33 %)." in text and "Use:  Call malloc_trim(0) in the master" in text


def test_who_breaks_the_sharing(tmp_path: Path) -> None:
    """Parts add up to the whole."""
    found = sharing(trace(), _runs(tmp_path, line("glibc", TOTAL, copied=30 * MB)))
    parts = [found.shared_bytes, found.first_alone_bytes, found.copied_by_program_bytes, found.copied_by_allocator_or_fresh_bytes, found.own_bytes]
    assert parts == pytest.approx([SHARED, 9 * MB, 30 * MB, 8 * MB, 3 * MB]) and sum(parts) == pytest.approx(TOTAL)
    assert found.alone_of("worker") == pytest.approx(38 * MB)
    text = text_of(trace(), found)
    assert text[:2] == ["What breaks the sharing: the program's own writes into inherited blocks (30.0 MB, 27 % of the memory).",
                        "Of malloc's pages alone, copies included: 1 master has 9.00 MB, 2 workers have 38.0 MB."]
    whole = object_of(found)
    assert whole["group_bytes"] == TOTAL and [one["alone_bytes"] for one in whole["processes"]] == [9 * MB, 19 * MB, 19 * MB]
    other = sharing(trace(), _runs(tmp_path, line("glibc", TOTAL, copied=MB)))
    assert text_of(trace(), other)[0].startswith("What breaks the sharing: malloc, which")
    mostly_own = replace(other, own_bytes=TOTAL * 0.9)
    assert text_of(trace(), mostly_own)[0].startswith("Most of the memory is not malloc's")


# ---- other readers of the lines ----


def test_lines_of_groups_are_left_out(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=3, names=("glibc", "jemalloc"))
    path = write(tmp_path / "both.jsonl", [*rows, *LINES])
    with pytest.warns(ResultsWarning, match=r"both.jsonl: 8 runs of a group of processes are left out"):
        assert len(read_results(path)) == len(rows)
    done = run_here("compare", "both.jsonl", cwd=tmp_path)
    assert done.returncode == 0 and "heaptape compare: warning: both.jsonl: 8 runs of a group of processes are left out\n" in done.stderr
    done = run_here("report", "-q", "-o", "r.html", "both.jsonl", cwd=tmp_path)
    assert done.returncode == 0 and "8 runs of a group of processes are left out" in done.stderr


def test_lines_of_groups_alone(tmp_path: Path) -> None:
    write(tmp_path / "g.jsonl", LINES)
    for verb in (["compare"], ["report", "-o", "r.html"]):
        done = run_here(*verb, "g.jsonl", cwd=tmp_path)
        assert done.returncode == 3 and "found those of a group of processes alone" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("change", [{"moments": [{}]}, {"moments": 5}, {"drawn": "elsewhere"}, {"group_moment_bytes": "much"}])
def test_a_line_that_is_wrong(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ResultsError, match=r"r\.jsonl:2: expected"):
        _runs(tmp_path, line("glibc", TOTAL), line("jemalloc", TOTAL) | change)


# ---- a service ----


def test_from_a_service_to_the_answer(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded without a word about groups; then explained, and one of its processes compared alone."""
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(tools.replay_program))
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    done = run_here("try", "-q", "--json", "--no-check", "--alloc", "glibc,bump", "-o", "out", "--", *preforking.command(3.0), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(done.stdout) < 3000 and found["kind"] == "group" and found["process_count"] == preforking.WORKERS + 1 and found["baseline"] == "glibc"
    assert [one["role"] for one in found["processes"]] == ["master"] + ["worker"] * preforking.WORKERS
    assert abs(found["baseline_error"]) < 0.1 and found["rss_anon_sum_bytes"] > found["group_bytes"] > 10 * MB
    assert sorted(os.listdir(tmp_path / "out")) == ["logs", "results.jsonl", "service.bin"] and is_group(tmp_path / "out/service.bin")

    done = run_here("explain", "-q", "--json", "out/service.bin", cwd=tmp_path)
    parts = json.loads(done.stdout)
    names = ("shared_bytes", "first_alone_bytes", "copied_by_program_bytes", "copied_by_allocator_or_fresh_bytes", "own_bytes")
    assert done.returncode == 0 and parts["group_bytes"] == pytest.approx(sum(parts[name] for name in names), abs=10)
    for option in (["--at", "end"], ["--html", "x.html"], ["--budget", "5s"]):
        refused = run_here("explain", *option, "out/service.bin", cwd=tmp_path)
        assert refused.returncode == 2 and "expected the trace of one process, found that of a group" in refused.stderr

    pid = str(found["processes"][1]["pid"])
    done = run_here("try", "-q", "--json", "--alloc", "glibc", "--budget", "1s", "--logs", "out", "--process", pid, "-o", "one", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["process"]["pid"] == int(pid)


def test_processes_that_share_nothing_are_no_service(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(tools.replay_program))
    tools.succeed([tools.heaptape, "record", "-q", "--group", "-o", tmp_path / "logs", "--", preforking.PYTHON, "-S", "-c", "import time; time.sleep(0.5)"])
    done = run_here("try", "-q", "--json", "--alloc", "glibc", "--budget", "1s", "--logs", "logs", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0 and "process" in json.loads(done.stdout) and not (tmp_path / "out/service.bin").exists()

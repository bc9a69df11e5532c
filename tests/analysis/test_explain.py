# SPDX-License-Identifier: Apache-2.0
"""`heaptape explain`: planted heaps, whose waste is known."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from heaptape.base.allocators import to_try
from heaptape.base.errors import HeaptapeError
from heaptape.base.programs import find_replay, list_allocators
from heaptape.base.sharing import is_forked, sharing
from heaptape.base.units import byte_count
from heaptape.command_line import main
from heaptape.explain import answering, verb
from heaptape.explain.accounts import Accounts, account, use_of
from heaptape.explain.answer import Answer, Moment, cure_sentence, object_of, text_of
from heaptape.explain.cures import Candidate, Cure, ProgramCures, _cure, _of_two_heaps, candidates
from heaptape.explain.heap_map import FREE, LIVE, NOT_RESIDENT, SHADES, TABLES, map_of
from heaptape.explain.holders import Holder, find_holders, size_class
from heaptape.explain.snapshots import Snapshot, SnapshotFile, Spacing, Timed
from heaptape.explain.stretches import _Cost, accounts_along, break_of, mean_of
from heaptape.explain.sums import ACCOUNTS, VERDICTS, verdict_of
from heaptape.explain.verdict import SharedLines, trend_of
from heaptape.judge.attached import Replayed
from heaptape.judge.comparison import compare
from heaptape.judge.model import END, PEAK
from heaptape.report.heap_maps import map_figure
from judged_runs import cell, context, measurements
from quick_tier import quick

ROOT = Path(__file__).parents[2]

# Where the verdict is looked for, what it is under glibc and jemalloc, and which account and blocks hold the waste.
PLANTED: dict[str, tuple[str, str, str, str | None, int]] = {
    "pins": ("end", "fragmentation", "fragmentation", "holes", 200),
    "arenas": ("peak", "retention", "retention", "free_pages", 0),
    "promotion": ("end", "fragmentation", "fragmentation", "holes", 48),
    "leak": ("end", "growth", "growth", None, 120),
    "rounding": ("end", "growth", "rounding", None, 16385),
    "caches": ("peak", "caches", "caches", "free_pages", 0),
    "burst": ("end", "retention", "retention", "free_pages", 0),
    "realloc": ("end", "growth", "retention", None, 16 << 20),
    "aligned": ("end", "fragmentation", "rounding", None, 100),
    "untouched": ("end", "untouched", "untouched", None, 0),
    "headers": ("end", "headers", "rounding", None, 24),
    "slack": ("end", "growth", "growth", None, 82000),
}


def _environment() -> dict[str, str]:
    return {**os.environ, "HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "analysis")}


def _explain(heaptape: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([heaptape, "explain", *words], env=_environment(), capture_output=True, text=True, timeout=300, check=False)


def _recorded(heaptape: Path, folder: Path, kind: str) -> tuple[Path, dict[str, int]]:
    done = subprocess.run([heaptape, "record", "-q", "-o", folder / "logs", "--", heaptape.parent / "tests/targets/planted_heaps", kind],
                          capture_output=True, text=True, timeout=60, check=True)
    [log] = (folder / "logs").glob("*.mraw")
    subprocess.run([heaptape, "convert", "-q", log, "-o", folder / "t.bin"], timeout=60, check=True, capture_output=True)
    truth: dict[str, int] = json.loads(done.stdout)
    return folder / "t.bin", truth


@pytest.mark.parametrize("alloc", quick(["glibc"], ["glibc", "jemalloc"]))
@pytest.mark.parametrize("kind", quick(["pins"], PLANTED))
def test_planted_heaps(heaptape_binary: Path, tmp_path: Path, kind: str, alloc: str) -> None:
    if not heaptape_binary.with_name(f"replay-{alloc}").exists():
        pytest.skip(f"{alloc} is not built in")
    moment, of_glibc, of_jemalloc, held, size = PLANTED[kind]
    trace, truth = _recorded(heaptape_binary, tmp_path, kind)
    cures = ["--budget", "8s"] if of_glibc == "caches" else ["--budget", "0"]
    done = _explain(heaptape_binary, "--json", "--alloc", alloc, "--at", moment, *cures, trace)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    accounts = found["accounts_bytes"]
    assert 0 == found["cache_lines"]["shared"] < found["cache_lines"]["lines"]
    assert found["verdict"] == (of_glibc if alloc == "glibc" else of_jemalloc), found
    assert sum(accounts.values()) == found["rss_bytes"] and list(accounts) == list(ACCOUNTS)
    if held == "holes":
        worst = found["holders"][0]
        assert (worst["size_low"], worst["size_high"], worst["thread"]) == (size, size, 0)
        assert worst["holes_bytes"] >= 0.9 * accounts["holes"]
    if kind == "pins":
        assert accounts["holes"] == pytest.approx(truth["held_bytes"], rel=0.15)  # with what glibc puts before each freed block
    if kind in ("headers", "slack"):
        assert accounts["live"] == pytest.approx(truth["held_bytes"], rel=0.01)
        assert accounts["holes"] < 0.001 * found["rss_bytes"] and found["not_resident_bytes"] == accounts["untouched"] == 0
    if kind == "headers":
        beside = "headers" if alloc == "glibc" else "rounding"
        assert accounts[beside] == pytest.approx(truth["held_bytes"] / 3, rel=0.02)
        assert accounts["headers"] + accounts["rounding"] - accounts[beside] < 0.001 * found["rss_bytes"]
    if kind == "burst":
        assert accounts["free_pages"] == pytest.approx(truth["held_bytes"], rel=0.1)
    if kind == "untouched":
        assert found["not_resident_bytes"] == pytest.approx(truth["held_bytes"], rel=0.15)


@pytest.mark.thorough
@pytest.mark.parametrize(("end", "blocks"), [("kill", 1), ("_exit", 0)])
def test_what_is_not_recorded_is_no_fact(heaptape_binary: Path, tmp_path: Path, end: str, blocks: int) -> None:
    """A quarter of 2 MiB is written to, but a signal leaves the recorder no time to look at the block."""
    target = heaptape_binary.parent / "tests" / "targets" / "big_blocks"
    subprocess.run([heaptape_binary, "record", "-q", "-o", tmp_path / "logs", "--", target, tmp_path / "counts", end], timeout=100, check=False)
    [log] = (tmp_path / "logs").glob("*.mraw")
    subprocess.run([heaptape_binary, "convert", "-q", log, "-o", tmp_path / "t.bin"], timeout=100, check=True)
    done = _explain(heaptape_binary, "--json", "--alloc", "glibc", "--at", "end", "--budget", "0", tmp_path / "t.bin")
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["unmeasured"] == {"blocks": blocks, "bytes": blocks * (2 << 20)}
    assert (found["accounts_bytes"]["live"] < 1 << 20) == (end == "_exit")
    text = _explain(heaptape_binary, "--alloc", "glibc", "--at", "end", "--budget", "0", tmp_path / "t.bin").stdout
    assert ("Not recorded: how much of 1 live block of 2.10 MB" in text) == (end == "kill")


@pytest.fixture
def replay(heaptape_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(heaptape_binary.with_name("replay")))


def test_text(replay: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(answering, "also_set", lambda context: f"Set it too, as under {context['allocator_name']}.")
    assert main(["explain", "--alloc", "glibc", "--budget", "4s", "--html", str(tmp_path / "p.html"), str(ROOT / "traces" / "sqlite3-small.bin")]) == 0
    printed = capsys.readouterr().out
    # The trace is of Debian 12.
    first = next(line for line in printed.splitlines() if not line.startswith("Caution: the program ran under glibc 2.36, "))
    assert " RSS under glibc " in first and first.split(":")[0].lower() in VERDICTS and "holes" in printed
    assert any(words in first for words in ("What helps most", "Not decided what helps", "Nothing helps")) and "change tried" in printed
    for text in (printed, (tmp_path / "p.html").read_text(encoding="utf-8")):
        assert ("Set it too, as under glibc." in text) == ("Environment=" in printed)


@pytest.mark.parametrize(("rounds", "known"), [(1, False), (2, True)])
def test_what_one_round_saves_is_not_certain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rounds: int, known: bool) -> None:
    """Of the changed trace, as where the others failed, and of another allocator."""
    def replay(command: list[str], **_more: object) -> Replayed:
        place, many = (5, rounds) if "--purge" in command else (9, 5)
        cells = [[cell(memory={"rss_peak_bytes": 1000 * place + 10 * number}), cell()] for number in range(many)]
        return Replayed(0, "", compare(context(["glibc"]), measurements(cells)))

    monkeypatch.setattr("heaptape.judge.attached.replay", replay)
    listed = {"name": "glibc", "purge_call": "malloc_trim(0)"}
    (cure,) = ProgramCures("replay", "t.bin", Candidate("glibc", "", listed), PEAK, tmp_path).purges(10**6, [])
    assert cure.saves_bytes == 4020 - 5 * (rounds - 1) and math.isfinite(cure.ci_low) == (cure.ci_low > 0) == known
    cells = [[cell(memory={"rss_peak_bytes": 100}), cell(memory={"rss_peak_bytes": 50 + number}), cell(memory={"rss_peak_bytes": 100})] for number in range(rounds)]
    found = compare(context(["glibc", "jemalloc"]), measurements(cells)).allocators[1]
    other = _cure(Candidate("jemalloc", "", {"name": "jemalloc"}), found, PEAK, 100.0, "")
    assert other and other.saves_bytes == pytest.approx(50 - (rounds - 1) / 2) and math.isfinite(other.ci_low) == math.isfinite(other.ci_high) == known
    assert not known or other.ci_low < other.saves_bytes < other.ci_high


@pytest.mark.parametrize(("null_ns", "resolved"), [((1.0, 1.2, 0.2), True), ((1.0, 0.8, 1.8), False)])
def test_a_cost_is_lower_where_the_null_replayers_is_higher(null_ns: tuple[float, ...], resolved: bool) -> None:
    """The median is 1 ns, and the interval of the first reaches up to 2.1, of the second to 2.5."""
    assert _Cost(np.array([2.3, 2.3, 2.3]), np.array(null_ns), 30).resolved == resolved


@pytest.mark.thorough
def test_a_cure_that_fails_leaves_the_answer(replay: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_words: object) -> list[object]:
        raise HeaptapeError("no memory")

    monkeypatch.setattr(verb, "ProgramCures", fails)
    monkeypatch.setattr(verb, "try_cures", lambda *_words: [])
    assert main(["explain", "--alloc", "glibc", "--at", "end", str(ROOT / "traces" / "redis.bin")]) == 0
    said = capsys.readouterr()
    assert " RSS under glibc " in said.out and "No change could be tried." in said.out and "could be tried: no memory" in said.err


@pytest.mark.thorough
def test_a_moments_verdict_does_not_depend_on_the_one_that_is_asked_for(replay: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cures are measured at the peak, whatever moment is explained."""
    monkeypatch.setattr(verb, "ProgramCures", lambda *_words: SimpleNamespace(without=lambda *_more: [], purges=lambda *_more: []))
    monkeypatch.setattr(verb, "try_cures", lambda *_words: [Cure("no thread caches", "glibc:x=1", 1e9, 1e9, 1e9, None, [])])

    def verdicts(at: str) -> dict[str, str]:
        assert main(["explain", "--json", "--alloc", "glibc", "--at", at, str(ROOT / "traces" / "redis.bin")]) == 0
        return {moment["at"]: moment["verdict"] for moment in json.loads(capsys.readouterr().out)["moments"]}

    assert verdicts("peak")["peak"] == verdicts("10ms")["peak"] == "caches"


@pytest.mark.parametrize(("words", "status", "said"), [
    (["absent.bin"], 3, "absent.bin"), (["--at", "noon", "x.bin"], 2, "--at"), (["--alloc", "null", "traces/sqlite3-small.bin"], 2, "1 to 8 allocators"),
    (["--alloc", ",".join(f"a{number}=glibc" for number in range(9)), "traces/sqlite3-small.bin"], 2, "1 to 8 allocators"),
    (["--alloc", "", "traces/sqlite3-small.bin"], 2, "1 to 8 allocators"), (["--html", f"{ROOT}/traces/sqlite3-small.bin", "traces/sqlite3-small.bin"], 2, "its input"),
    (["--alloc", "no-such", "traces/sqlite3-small.bin"], 2, "no-such"),
    (["--at", "99h", "traces/sqlite3-small.bin"], 2, "small.bin: --at: expected times up to the end of the trace, 0.00135 s, found 99:00:00\n"),
    (["--alloc", "glibc,other=glibc", "--budget", "5s", "traces/sqlite3-small.bin"], 2, "--budget: expected one allocator, found 2: no cures are tried under several\n"),
    (["--at=-1s", "x.bin"], 2, "--at -1s: expected peak, end or a time"), (["--at", "99999999h", "x.bin"], 2, "--at 99999999h: expected peak, end or a time"),
    (["--at", "2m", "--extend", "1m", "x.bin"], 2, "--at 2m: expected a time up to that of --extend, 60.0 s\n")])
def test_wrong_use(replay: None, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str) -> None:
    try:
        ended = main(["explain", *(str(ROOT / word) if word.endswith("small.bin") else word for word in words)])
    except SystemExit as error:  # of the parser
        ended = int(error.code or 0)
    spoken = capsys.readouterr()
    assert ended == status and said in spoken.err and not spoken.out


@pytest.mark.parametrize(("default", "tried"), [("7", False), ("16", True)])
def test_a_versions_default_is_not_tried(default: str, tried: bool) -> None:
    knob = {"name": "tcache_count", "value": None, "default": default}
    assert ("tcache_count=7" in to_try({"kind": "glibc", "knobs": [knob]}, "glibc", ())) == tried


@pytest.mark.thorough
@pytest.mark.parametrize(("spec", "tried"), [("glibc", "glibc:arena_max=1"), ("mine=glibc", "glibc:arena_max=1"),
                                             ("glibc:tcache_count=0", "glibc:tcache_count=0,arena_max=1")])
def test_settings_are_tried_beside_those_named(replay: None, spec: str, tried: str) -> None:
    program = find_replay()
    found = candidates(program, Candidate(spec, "", list_allocators(program, spec)[0]))
    assert tried in [one.alloc for one in found] and len({one.name for one in found}) == len(found)
    assert ("glibc" in [one.alloc for one in found]) == (spec != "glibc")


@pytest.mark.thorough
def test_a_program_that_allocates_nothing_else(replay: None, heaptape_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "t.rep").write_text("0\n9\n9\n1\n" + "".join(f"a {number} 5000\n" for number in range(9)))
    subprocess.run([heaptape_binary, "convert", "-q", "--from", "rep", tmp_path / "t.rep", "-o", tmp_path / "t.bin"], timeout=60, check=True)
    program = find_replay()
    changed = ProgramCures(program, str(tmp_path / "t.bin"), Candidate("mine=glibc", "", list_allocators(program, "mine=glibc")[0]),
                           PEAK, tmp_path)
    everything = Holder(5000, 5000, None, 0, 1, False, 9, 1.0, 45000)
    assert changed.without(everything, 9 * 10**9) == [] == changed.without(replace(everything, size_low=1, size_high=2), 9 * 10**9)


@pytest.mark.thorough
def test_two_heaps(replay: None, heaptape_binary: Path, tmp_path: Path) -> None:
    """A heap for each size: together they peak where the first has not given back what the second needs."""
    phases = ["a {n} 5000\n", "f {n}\n", "a {n} 70000\n"]
    (tmp_path / "t.rep").write_text("0\n400\n600\n1\n" + "".join(phases[p].format(n=n + 200 * (p == 2)) for p in range(3) for n in range(200)))
    subprocess.run([heaptape_binary, "convert", "-q", "--from", "rep", tmp_path / "t.rep", "-o", tmp_path / "t.bin"], timeout=60, check=True)
    program = find_replay()
    changed = ProgramCures(program, str(tmp_path / "t.bin"), Candidate("glibc", "", list_allocators(program, "glibc")[0]), PEAK, tmp_path)
    small, bound = changed.without(Holder(70000, 70000, None, 0, 1, False, 200, 1.0, 10**6), 9 * 10**9)
    assert bound.saves_bytes >= small.saves_bytes
    curves = [{"timeline": {"time_ns": [1, 3], "rss_bytes": [5, 7], "high_bytes": [5, 7]}, "rss_end_bytes": 7},
              {"timeline": {"time_ns": [2, 4], "rss_bytes": [9, 1], "high_bytes": [9, 1]}, "rss_end_bytes": 1}]
    assert (_of_two_heaps(*curves, PEAK), _of_two_heaps(*curves, END)) == (16, 8)
    curves[1]["timeline"]["high_bytes"][1] = 20  # within a call, beside 7 of the other
    assert _of_two_heaps(*curves, PEAK) == 27


@pytest.mark.thorough
def test_odd_names(replay: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the trace, the folder and the allocator: bytes that are no UTF-8, a separator of lines, a slash."""
    trace = os.fsdecode(bytes(tmp_path) + b"/t\xff.bin")
    shutil.copy(ROOT / "traces" / "sqlite3-small.bin", trace)
    folder = os.fsdecode(bytes(tmp_path) + b"/\xff\xe2\x80\xa8")
    assert main(["explain", "-q", "--json", "--budget", "0", "--alloc", "a/b c=glibc", "--snapshots", folder, trace]) == 0
    assert json.loads(capsys.readouterr().out)["allocator"]["name"] == "a/b c" and os.listdir(folder) == ["a_b c.snapshots"]


@pytest.fixture(scope="module")
def page(heaptape_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]], Path]:
    """Of two allocators with a hostile name: the page, the JSON, and the folder of snapshots."""
    folder = tmp_path_factory.mktemp("page")
    done = _explain(heaptape_binary, "-q", "--json", "--alloc", "<b>&'\"=glibc,other=glibc", "--at", "end", "--snapshots", folder / "s", "--html", folder / "p.html",
                    ROOT / "traces" / "sqlite3-small.bin")
    assert done.returncode == 0, done.stderr
    return (folder / "p.html").read_text(encoding="utf-8"), json.loads(done.stdout), folder


@pytest.mark.thorough
def test_several_allocators(page: tuple[str, list[dict[str, Any]], Path]) -> None:
    _, found, folder = page
    assert [one["allocator"]["name"] for one in found] == ["<b>&'\"", "other"] and len(list((folder / "s").iterdir())) == 2
    for one in found:
        stretches = one["stretches"]
        assert [sum(stretches[name][number] for name in ACCOUNTS) for number in range(len(stretches["rss_bytes"]))] == stretches["rss_bytes"]
        assert one["moments"][-1]["at"] == "mean" and one["moments"][-1]["time_ns"] is None and one["moments"][-1]["verdict"] in VERDICTS
        assert sum(one["moments"][-1]["accounts_bytes"].values()) == one["moments"][-1]["rss_bytes"] <= max(stretches["rss_bytes"])
        assert one["cures"] is None


def test_page(page: tuple[str, list[dict[str, Any]], Path]) -> None:
    """It has the figures of the JSON, and nothing in a name is taken as markup."""
    text, found, _ = page
    assert len(text) < 500_000 and "<b>&'" not in text and "&lt;b&gt;&amp;" in text
    for one in found:
        for amount in [one["rss_bytes"], *one["accounts_bytes"].values(), *one["moments"][-1]["accounts_bytes"].values()]:
            assert byte_count(amount) in text
        assert f"{byte_count(one['rss_bytes'])}: {one['verdict']}" in text
    assert text.count('class="map"') == 2 * (1 + len(found[0]["moments"]) - 1) and "http-equiv=\"Content-Security-Policy\"" in text


@pytest.mark.thorough
def test_report_shows_heaps(page: tuple[str, list[dict[str, Any]], Path], heaptape_binary: Path, tmp_path: Path) -> None:
    _, _, folder = page
    results, trace = tmp_path / "r.jsonl", ROOT / "traces" / "sqlite3-small.bin"
    subprocess.run([heaptape_binary.with_name("replay"), "-q", "--alloc", "other=glibc", "--rounds", "1", "-o", results, trace], timeout=60, check=True,
                   capture_output=True)
    assert main(["report", "-q", str(results), "--snapshots", str(folder / "s"), "--trace", str(trace), "-o", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "What is resident, and where does it lie?" in text and text.count("data-map=") == 1 and "&lt;b" not in text
    assert main(["report", "-q", str(results), "--snapshots", str(tmp_path), "-o", str(tmp_path / "s.html")]) == 2
    changed = results.read_text().replace(json.loads(results.read_text().splitlines()[0])["trace"]["sha256"], "0" * 64)
    results.write_text(changed)
    assert main(["report", "-q", str(results), "--snapshots", str(folder / "s"), "-o", str(tmp_path / "s.html")]) == 2
    assert not (tmp_path / "s.html").exists()


# ---- what is said of them ----


def _accounts(not_resident_bytes: int = 0, **bytes_: int) -> Accounts:
    every = {name: bytes_.get(name, 0) for name in ACCOUNTS}
    return Accounts(every, sum(every.values()), not_resident_bytes, pd.DataFrame({
        "requested_bytes": [100, 100, 5000], "usable_bytes": [112, 112, 8192], "untouched_bytes": 0, "holes_bytes": 0.0}))


@pytest.mark.parametrize(("accounts", "verdict"), [
    (_accounts(), "none"), (_accounts(live=70, headers=20, holes=10), "headers"), (_accounts(live=90, holes=10), "live"), (_accounts(live=50, holes=30, rounding=20), "fragmentation"),
    (_accounts(live=50, free_pages=900, not_resident_bytes=60), "retention"), (_accounts(live=50, free_pages=90, not_resident_bytes=100), "untouched")])
def test_verdicts(accounts: Accounts, verdict: str) -> None:
    assert verdict_of(accounts, live_rises=False) == verdict
    assert verdict_of(accounts, live_rises=True) == ("growth" if verdict == "live" else verdict)


def _said(accounts: Accounts, *holders: Holder) -> list[str]:
    curve = pd.DataFrame({"time_ns": [0, 1], "live_bytes": 1, "rss_bytes": 1})
    snapshot = replace(_snapshot([], []), allocator={"name": "x", "version": ""}, why="time", time_ns=250_000_000)
    return text_of(Answer("t", snapshot, 4_000_000_000, accounts, verdict_of(accounts, live_rises=False), trend_of(curve), list(holders), {3: "a\x1b"}, None,
                          SharedLines(2, 1, 2)))


def test_the_first_sentences_name_what_is_large() -> None:
    said = _said(_accounts(live=1000, holes=45, rounding=3216, free_pages=500, tables=239))
    assert said[0] == "Rounding: 3.22 kB (64 %) of 5.00 kB RSS under x at 250 ms of 4.00 s are what live blocks have beyond the requested bytes."
    assert said[2] == "Of RSS 1.00 kB are live bytes; 4.00 kB are above them: rounding 80 %, free pages 12 %."
    assert "99 % of the rounding is in 1 block of 5,000 bytes." in said


def test_shared_pages_are_said_with_cures() -> None:
    words = sharing(is_forked({"parent_pid": 7}, {}))
    curve = pd.DataFrame({"time_ns": [0, 1], "live_bytes": 1, "rss_bytes": 1})
    answer = Answer("t", replace(_snapshot([], []), allocator={"name": "x", "version": ""}), 4_000_000_000, _accounts(live=1000, holes=1000),
                    "fragmentation", trend_of(curve), [], {}, [], None, sharing=words)
    assert cure_sentence(answer) == "No change could be tried. One of several processes; shared pages are not counted."
    answer = replace(answer, cures=[Cure("one arena", "x:arenas=1", 1e6, 5e5, 2e6, None, [("shell", "A=1 COMMAND")])])
    text = "\n".join(text_of(answer))
    for before in ("What helps most", "change tried"):
        assert f"{before} (one of several processes; shared pages are not counted)" in text
    assert object_of(answer)["sharing"] == words and object_of(replace(answer, sharing=""))["sharing"] is None


MB = 1e6
SETTING, WORSE = Cure("no thread caches", "x:a=1", 2 * MB, 1.5 * MB, 3 * MB, 1.5, [("shell", "A=1 COMMAND")]), Cure("one arena for all threads", "x:b=1", -MB, -2 * MB, -MB / 2, 1, [("shell", "B=1 COMMAND")])
OTHER = Cure("jemalloc instead", "jemalloc", 9 * MB, 8 * MB, 10 * MB, 0.5, [("shell", "J COMMAND")])
BOUND = Cure("all gone (upper bound)", None, 19 * MB, 19 * MB, 19 * MB, None, [], bound=True)
UNKNOWN = replace(SETTING, ci_low=-MB)
OTHERS = [replace(OTHER, name=f"other {number} instead", saves_bytes=(5 + number) * MB) for number in range(4)]


@pytest.mark.parametrize(("cures", "first", "lines"), [
    ([BOUND, OTHER, *OTHERS, SETTING, WORSE], "What helps most: jemalloc instead, 9.00 MB less at the peak (8.00 MB to 10.0 MB, 95 % interval), × 0.50 the time in malloc.",
     ["jemalloc instead:", "J COMMAND", "Best setting of x: no thread caches, 2.00 MB less", "A=1 COMMAND"]),
    ([OTHER, UNKNOWN], "What helps most: jemalloc instead", ["J COMMAND", "Best setting of x, not clearly: no thread caches", "A=1 COMMAND"]),
    ([OTHER, WORSE], "What helps most: jemalloc instead", ["J COMMAND", "No setting of x helps (1 tried)."]),
    ([SETTING, WORSE], "What helps most: no thread caches", ["no thread caches:", "A=1 COMMAND"]),
    ([UNKNOWN, WORSE, BOUND], "Not decided what helps: of 2 changes tried none clearly saves memory; no thread caches may.", ["A=1 COMMAND"]),
    ([replace(SETTING, ci_low=math.nan, ci_high=math.nan)], "Not decided what helps: of 1 change tried", ["unknown: one round", "A=1 COMMAND"]),
    ([BOUND, replace(SETTING, saves_bytes=9e4, ci_low=8e4, ci_high=1e5), WORSE], "Nothing helps: of 2 changes tried none saves 200 kB or more.", [])])
def test_the_first_line_says_what_to_do(cures: list[Cure], first: str, lines: list[str]) -> None:
    """All that was tried is in the table, and the best setting of the same allocator has its line, whatever else saves more."""
    snapshot = replace(_snapshot([], []), allocator={"name": "x", "version": ""}, why="peak")
    accounts = _accounts(live=5_000_000, free_pages=15_000_000)
    curve = pd.DataFrame({"time_ns": [0, 1], "live_bytes": 1, "rss_bytes": 1})
    answer = Answer("t", snapshot, 4_000_000_000, accounts, "retention", trend_of(curve), [], {}, cures, None, [Moment("peak", 0, accounts, "retention")])
    said = text_of(answer)
    assert said[0].startswith("Retention: 15.0 MB (75 %) of 20.0 MB RSS under x at its peak ") and first in said[0]
    text = "\n".join(said[1:])
    at = [text.find(words) for words in lines]
    assert -1 not in at and at == sorted(at) and all(cure.name in text for cure in cures)
    assert ("B=1 COMMAND" not in text) and (lines or "COMMAND" not in text)
    assert "COMMAND" not in "\n".join(text_of(replace(answer, own="Caution: it is another."))) and "helps" not in text_of(replace(answer, own="Caution."))[1]
    assert text_of(replace(answer, release="Caution: it is older."))[0].startswith("Caution: it is older.")


@pytest.mark.parametrize(("accounts", "said"), [
    (_accounts(), ["Nothing to explain: under x the heap adds nothing to RSS at its peak (0 ns of 4.00 s).", ""]),
    (_accounts(not_resident_bytes=8_000_000), ["Untouched: 8.00 MB were requested, but never written to, beside 0 B RSS under x", "", "Not in RSS: 8.00 MB of requested bytes"]),
    (_accounts(live=4096, not_resident_bytes=8_000_000), ["Untouched: 8.00 MB were requested, but never written to, beside 4.10 kB RSS under x", ""])])
def test_heaps_of_which_hardly_anything_is_resident(accounts: Accounts, said: list[str]) -> None:
    snapshot = replace(_snapshot([], []), allocator={"name": "x", "version": ""}, why="peak")
    curve = pd.DataFrame({"time_ns": [0, 1], "live_bytes": 0, "rss_bytes": 0})
    answer = Answer("t", snapshot, 4_000_000_000, accounts, verdict_of(accounts, live_rises=False), trend_of(curve), [], {}, None, None,
                    [Moment(why, 0, accounts, "none") for why in ("peak", "end")])
    lines = text_of(answer)
    assert lines[0].startswith(said[0]) and all(any(line.startswith(words) for line in lines) for words in said)
    assert any(line.startswith("account") for line in lines) == (accounts.rss_bytes > 0)


@pytest.mark.parametrize(("context", "totals", "forked"), [
    ({}, None, False), ({"parent_pid": 7}, None, True), ({}, {"inherited_objects": 3}, True), ({"sliced_from": {}}, {"inherited_objects": 3}, False),
    ({"sliced_from": {}, "parent_pid": 7}, {"inherited_objects": 3}, True), ({}, {"inherited_objects": 0}, False)])
def test_who_was_forked(context: dict[str, Any], totals: dict[str, Any] | None, forked: bool) -> None:
    assert is_forked(context, totals) == forked


def test_a_group_of_all_sizes_is_named_only_where_it_stands_out() -> None:
    everything = Holder(1, 9000, None, 0, 1_500_000, True, 2, 700.0, 100)
    evenly, clearly = (_said(_accounts(live=1000, holes=1000), replace(everything, blocks=blocks)) for blocks in (2, 1))
    assert "No group of blocks holds much more than its share of the holes." in evenly
    [named] = [line for line in clearly if " of the blocks hold " in line]
    assert named.startswith("33 % of the blocks hold 70 % of the holes (700 B): 1–9,000 bytes, allocated by several threads between")


# ---- the accounts of made-up heaps ----


def _snapshot(blocks: list[tuple[int, int, int, int]], runs: list[tuple[int, int, bool]], null_bytes: int = 0) -> Snapshot:
    """Blocks: address, requested, usable, untouched; runs: page, pages, held."""
    columns = np.array(blocks, dtype=np.int64).reshape(-1, 4)
    frame = pd.DataFrame({"slot": np.arange(len(blocks)) + 1, "address": columns[:, 0], "requested_bytes": columns[:, 1],
                          "usable_bytes": columns[:, 2], "untouched_bytes": columns[:, 3]})
    pages = pd.DataFrame({"page": [run[0] for run in runs], "pages": [run[1] for run in runs], "kind": 0, "held": [run[2] for run in runs]})
    return Snapshot({}, {}, "end", 0, 0, int(pages["pages"].sum()) * 4096, null_bytes, frame, pages)


def test_accounts_of_one_page() -> None:
    found = account(_snapshot([(4096, 100, 104, 0), (4096 + 512, 200, 200, 0)], [(1, 1, True)]))
    assert found.bytes == {"live": 300, "rounding": 4, "headers": 0, "holes": 4096 - 304, "free_pages": 0, "tables": 0, "untouched": 0}
    assert found.blocks["holes_bytes"].tolist() == [(4096 - 304) / 2] * 2


def test_holes_are_charged_less_the_null_replayers() -> None:
    found = account(_snapshot([(4096, 100, 104, 0), (4096 + 512, 200, 200, 0)], [(1, 1, True)], null_bytes=1000))
    assert found.blocks["holes_bytes"].sum() == pytest.approx(found.bytes["holes"]) and found.bytes["holes"] == 4096 - 304 - 1000


def test_accounts_of_large_blocks() -> None:
    """A block of ten pages that begins in the middle of one, of which four are resident; a free page; one of the allocator's."""
    found = account(_snapshot([(4096 + 2048, 40_000, 40_960, 0)], [(1, 4, True), (50, 1, True), (60, 1, False)], null_bytes=1096))
    assert found.bytes == {"live": 3 * 4096 + 2048, "rounding": 0, "headers": 0, "holes": 2048, "free_pages": 4096, "tables": 3000, "untouched": 0}
    assert found.not_resident_bytes == 40_000 - 3 * 4096 - 2048 and found.rss_bytes == 6 * 4096 - 1096


def test_accounts_of_what_was_never_written() -> None:
    """Only what was requested counts, in RSS or not: the pages beyond are rounding, or nothing."""
    found = account(_snapshot([(4096, 12_000, 12_288, 8192)], [(1, 3, True)]))
    assert (found.bytes["live"], found.bytes["untouched"], found.bytes["rounding"], found.not_resident_bytes) == (4096, 7904, 288, 0)
    found = account(_snapshot([(4096, 12_000, 20_480, 12_288)], [(1, 2, True)]))
    assert (found.bytes["live"], found.bytes["untouched"], found.bytes["rounding"], found.not_resident_bytes) == (8192, 0, 0, 12_000 - 8192)
    found = account(_snapshot([(4096, 8192, 20_480, 12_288)], [(1, 3, True)]))
    assert (found.bytes["live"], found.bytes["untouched"], found.bytes["rounding"], found.not_resident_bytes) == (8192, 0, 4096, 0)


@pytest.mark.parametrize(("spacing", "headers", "holes"), [
    (Spacing(), 0, 4 * 4096 - 100 - 200 - 9000), (Spacing(16), 16 + 12 + 16, 4 * 4096 - 100 - 200 - 9000 - 44),
    # The last one has its two pages and a bit for itself, unless only those at another place in a page do.
    (Spacing(16, 9000), 16 + 12 + (3 * 4096 - 9000), 4096 - 100 - 200 - 28), (Spacing(16, 9000, 16), 44, 4 * 4096 - 9300 - 44), (Spacing(16, 9001), 44, 4 * 4096 - 9344)])
def test_headers_are_no_holes(spacing: Spacing, headers: int, holes: int) -> None:
    """Two small blocks, the second 12 bytes behind the first, and a large one."""
    found = account(replace(_snapshot([(4096 + 64, 100, 100, 0), (4096 + 176, 200, 200, 0), (8192 + 32, 9000, 9000, 0)], [(1, 4, True)]), spacing=spacing))
    assert (found.bytes["headers"], found.bytes["holes"]) == (headers, holes) and sum(found.bytes.values()) == 4 * 4096


def test_a_page_that_a_header_holds_is_not_free() -> None:
    snapshot = _snapshot([(8192, 4096, 4096, 0)], [(1, 2, True)])
    assert account(snapshot).bytes["free_pages"] == 4096
    found = account(replace(snapshot, spacing=Spacing(8)))
    assert (found.bytes["headers"], found.bytes["holes"], found.bytes["free_pages"]) == (8, 4088, 0) and found.blocks["holes_bytes"].tolist() == [4088]


def test_blocks_that_overlap_are_cut() -> None:
    """One of them was freed while the snapshot was taken."""
    found = account(_snapshot([(4096, 3000, 3000, 0), (4096 + 1000, 1000, 1000, 0)], [(1, 1, True)]))
    assert found.rss_bytes == 4096 and found.bytes["live"] == 2000


def _blocks(size: int, thread: int, born_ns: np.ndarray, holes: float) -> pd.DataFrame:
    return pd.DataFrame({"requested_bytes": size, "thread": thread, "born_ns": born_ns, "holes_bytes": holes})


def test_the_worst_holder_is_named_by_size_thread_and_time() -> None:
    second = 1_000_000_000
    everywhere = np.linspace(0, 100 * second, 10_000).astype(np.int64)
    pins = _blocks(48, 3, np.linspace(21 * second, 24 * second, 300).astype(np.int64), 1000.0)
    others = pd.concat([_blocks(48, 1, everywhere, 2.0), _blocks(1000, 3, everywhere, 1.0)])
    worst = find_holders(pd.concat([others, pins], ignore_index=True), 100 * second)[0]
    assert (worst.size_low, worst.size_high, worst.thread, worst.windowed) == (48, 48, 3, True)
    assert 240 <= worst.blocks <= 300 and 21 * second <= worst.born_from_ns < worst.born_to_ns <= 24 * second


def test_no_block_has_two_holders() -> None:
    random = np.random.default_rng(1)
    blocks = pd.DataFrame({"requested_bytes": random.integers(1, 5000, 3000), "thread": random.integers(0, 4, 3000),
                           "born_ns": random.integers(0, 10**9, 3000), "holes_bytes": random.random(3000) * 100})
    found = find_holders(blocks, 10**9)
    assert found and sum(holder.blocks for holder in found) <= 3000
    assert sum(holder.holes_bytes for holder in found) <= blocks["holes_bytes"].sum() * (1 + 1e-9)


def test_size_classes() -> None:
    assert size_class(np.array([64, 79, 80, 127, 128]), 4).tolist() == [24, 24, 25, 27, 28]


@pytest.mark.parametrize(("live", "rss", "words"), [
    ([1, 2, 3, 4], [2, 3, 4, 5], "growth"), ([2, 2, 2, 2], [2, 3, 4, 5], "the live bytes do not"), ([5, 4, 2, 1], [5, 5, 5, 5], "RSS does not: fragmentation or retention"),
    ([3, 3, 3, 3], [4, 4, 4, 4], "neither"), ([1, 2, 2, 3], [2, 3, 5, 9], "more than twice as much"), ([1, 1, 3, 6], [9, 9, 9, 9], "the live bytes rise, RSS does not"),
    ([9, 6, 3, 1], [9, 9, 9, 9], "the live bytes fall, RSS does not"), ([2, 2, 2, 2], [9, 9, 5, 3], "RSS falls, the live bytes do not"),
    ([9, 9, 6, 1], [9, 9, 9, 7], "less than half as much"), ([9, 9, 5, 1], [9, 9, 5, 2], "RSS falls with")])
def test_trends(live: list[int], rss: list[int], words: str) -> None:
    curve = pd.DataFrame({"time_ns": np.arange(5) * 10, "live_bytes": [*live, live[-1]], "rss_bytes": [*rss, rss[-1]]}) * 1000
    assert words in trend_of(curve).words


def test_a_trend_beside_a_call_site_that_grows() -> None:
    curve = pd.DataFrame({"time_ns": range(5), "live_bytes": [20] * 5, "rss_bytes": [20, 30, 40, 50, 60]})
    assert "the live bytes as a whole do not" in trend_of(curve, a_site_grows=True).words


# ---- along a made-up trace ----


def _along(rss: list[int], live: list[int], cost_ns: list[float], null_bytes: int = 0) -> SnapshotFile:
    """Stretches of 10 ns; what is above the live bytes are holes; 100 calls are timed in each, in five rounds."""
    count = len(rss)
    rows = pd.DataFrame({"time_ns": 10 * (np.arange(count) + 1), "event": np.arange(count), "null_rss_bytes": null_bytes, "rss_bytes": rss,
                         **dict.fromkeys(ACCOUNTS, 0), "live": live, "holes": np.array(rss) - np.array(live), "not_resident_bytes": 0})
    calls, noise = np.full((5, count), 100), 1 + 0.01 * np.arange(5)[:, None]
    null = Timed(calls, 100 * np.full((5, count), 30.0))
    return SnapshotFile(Path("x"), {}, {}, pd.DataFrame(), rows, Timed(calls, 100 * (30 + noise * np.array(cost_ns))), null, [])


def test_where_it_broke() -> None:
    found = _along([100, 110, 300, 310, 700], [90, 100, 100, 100, 100], [10, 10, 50, 20, 20])
    along = accounts_along(found)
    broke = break_of(found, along, 40)
    assert broke and (broke.from_ns, broke.to_ns, broke.grew_bytes) == (20, 30, 190)
    assert broke.resolved and broke.cost_ratio == pytest.approx(2) and broke.cost_before_ns == pytest.approx(10.2)
    assert along["cost_ns"].tolist() == pytest.approx([10.2, 10.2, 51, 20.4, 20.4])
    found = _along([100, 110, 300, 310], [90, 100, 100, 100], [10] * 4)
    same = break_of(found, accounts_along(found), 40)
    assert same and not same.resolved


@pytest.mark.parametrize(("cost_ns", "calls", "before", "after"), [
    ([10, 10, 50, 0.003, 0.003], 100, True, False),  # less than any call takes
    ([10, 10, 50, -3, -3], 100, True, False),
    ([-3, -3, 50, 20, 20], 100, False, True),
    ([10, 10, 50, 20, 20], 10, False, False)])  # in each stretch; two of them are too few
def test_costs_that_are_not_resolved(cost_ns: list[float], calls: int, before: bool, after: bool) -> None:
    found = _along([100, 110, 300, 310, 320], [90, 100, 100, 100, 100], cost_ns)
    found = replace(found, timed=Timed(found.timed.calls // 100 * calls, found.timed.ns / 100 * calls),
                    null_timed=Timed(found.null_timed.calls // 100 * calls, found.null_timed.ns / 100 * calls))
    along = accounts_along(found)
    broke = break_of(found, along, 50)
    assert broke and not broke.resolved and np.isnan(broke.cost_ratio)
    assert [not np.isnan(cost) for cost in (broke.cost_before_ns, broke.cost_after_ns)] == [before, after]
    assert along["cost_ns"].notna().tolist() == [cost > 1 for cost in cost_ns]


def test_a_cost_that_is_the_null_replayers_spread() -> None:
    """The calls of all rounds agree; what is taken off does not."""
    found = _along([100, 110, 300, 310], [90, 100, 100, 100], [2, 2, 50, 20])
    spread = np.array([0.9, 1.1, 1, 0.8, 1.2])[:, None]
    broke = break_of(found, accounts_along(found), 40)
    assert broke and broke.resolved
    found = replace(found, null_timed=Timed(found.null_timed.calls, found.null_timed.ns * spread))
    broke = break_of(found, accounts_along(found), 40)
    assert broke and not broke.resolved and np.isnan(broke.cost_before_ns)


def test_nothing_broke() -> None:
    found = _along([100, 101, 99, 100], [99, 100, 98, 99], [10] * 4)
    assert break_of(found, accounts_along(found), 40) is None and break_of(found, accounts_along(found), 0) is None


def test_the_mean_is_over_time() -> None:
    found = _along([1000, 3000, 9000], [500, 600, 700], [10] * 3, null_bytes=100)
    mean = mean_of(accounts_along(found))
    assert mean and mean.rss_bytes == 1900 and mean.bytes["live"] == 550 and sum(mean.bytes.values()) == mean.rss_bytes


# ---- maps of made-up heaps ----


def test_a_map_of_pages() -> None:
    """Four pages: a full one, one that is nearly empty, a free one, one of the allocator's; far away a block of twenty pages."""
    snapshot = _snapshot([(4096, 4096, 4096, 0), (8192, 16, 16, 0), (4096 * 1000, 80_000, 81_920, 0)], [(1, 3, True), (4, 1, False), (1000, 20, True)])
    shown = map_of([snapshot], {0: use_of(snapshot)}, snapshot, pd.DataFrame({"thread": [0, 0, 7]}))
    assert shown.pages_per_cell == 1 and shown.cells.tolist() == [1, 2, 3, 4, *range(1000, 1020)]
    assert shown.moments[0].states[:5].tolist() == [LIVE + SHADES - 1, LIVE, FREE, TABLES, LIVE + SHADES - 1]
    details = shown.details
    assert details.blocks[:5].tolist() == [1, 1, 0, 0, 1] and details.percent_live[:3].tolist() == [100, 0, 0]
    assert [details.owners[owner - 1] for owner in details.owner[[0, 10]]] == [(4096, 4096, 0), (80_000, 80_000, 7)]
    assert shown.ranges["resident_pages"].tolist() == [20, 4] and shown.ranges["from"].tolist() == [4096 * 1000, 4096]


def test_names_of_threads_are_no_markup() -> None:
    snapshot = _snapshot([(4096, 100, 100, 0)], [(1, 1, True)])
    shown = map_of([snapshot], {0: use_of(snapshot)}, snapshot, pd.DataFrame({"thread": [3]}))
    body = map_figure("x", shown, 0, {3: "\"'><script>\u2028"}).body
    assert "<script>" not in body and "&lt;script&gt;" in body and body.count("<img") == 1


@pytest.mark.thorough
def test_a_large_heap_has_larger_cells() -> None:
    """Pages are counted once each; what was resident at another moment only is not resident here."""
    random = np.random.default_rng(3)
    pages = np.unique(np.concatenate([random.integers(0, 1 << 20, 100_000), random.integers(1 << 34, (1 << 34) + (1 << 18), 50_000)]))
    one = _snapshot([], [(int(page), 1, True) for page in pages])
    other = _snapshot([], [(1 << 30, 1, True)])
    shown = map_of([one, other], {0: use_of(one), 1: use_of(other)}, one, None)
    assert 4096 < shown.cells.size <= 20_000 and np.all(np.diff(shown.cells) > 0)
    assert shown.details.pages.sum() == pages.size == shown.ranges["resident_pages"].sum()
    assert np.count_nonzero(shown.moments[1].states != NOT_RESIDENT) == 1

# SPDX-License-Identifier: Apache-2.0
"""heaptape lint: programs that make mistakes, and programs that make none."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from dump_lines import Event
from dump_model import follow
from quick_tier import quick
from recorded_traces import NAMES
from tool_runner import Tools, run


def lint(tools: Tools, path: Path, *more: str) -> tuple[int, dict]:
    done = run([tools.heaptape, "lint", "--json", path, *more])
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def counts(report: dict) -> dict[str, int]:
    return {row["finding"]: row["count"] for row in report["findings"] if row["count"]}


def examples(report: dict, finding: str) -> list[dict]:
    return next(row["examples"] for row in report["findings"] if row["finding"] == finding)


def mistake(tools: Tools, folder: Path, kind: str) -> Path:
    recording = tools.preload([tools.target("heap_mistakes"), kind], folder / "logs")
    aborts = kind in ("double", "inside")
    assert recording.outcome.status == (-signal.SIGABRT if aborts else 0), recording.outcome
    return recording.logs[0]


def test_double_free(tools: Tools, tmp_path: Path) -> None:
    log = mistake(tools, tmp_path, "double")
    status, report = lint(tools, log)
    assert status == 1 and report["kind"] == "raw log"
    assert report["defects"] == 1 and counts(report)["double_free"] == 1
    finding, = examples(report, "double_free")
    assert finding["function"] == "free" and finding["thread"] == 0
    assert finding["block"]["time_ns"] <= finding["time_ns"]
    # What the converter makes of it: the second free is foreign. The trace has no addresses.
    info = tools.info(tools.convert(log, tmp_path / "t.bin"))
    assert info["foreign_frees"] == 1
    status, report = lint(tools, tmp_path / "t.bin")
    assert status == 0 and counts(report)["foreign"] == 1
    text = run([tools.heaptape, "lint", log])
    assert text.returncode == 1
    assert b"freed twice" in text.stdout and finding["address"].encode() in text.stdout


def test_record_is_where_lint_says(tools: Tools, tmp_path: Path) -> None:
    """The offset names the record's first byte: a free, known by its low four bits."""
    log = mistake(tools, tmp_path, "double")
    _, report = lint(tools, log)
    offset = examples(report, "double_free")[0]["offset"]
    with log.open("rb") as file:
        file.seek(offset)
        assert file.read(1)[0] & 15 == 1


def test_free_inside_a_block(tools: Tools, tmp_path: Path) -> None:
    status, report = lint(tools, mistake(tools, tmp_path, "inside"))
    assert status == 1
    assert counts(report)["free_inside_block"] == 1
    finding, = examples(report, "free_inside_block")
    assert int(finding["address"], 16) - int(finding["block"]["address"], 16) == 64
    assert finding["block"]["bytes"] == 7111


@pytest.mark.parametrize("convert", [False, True], ids=["raw", "trace"])
def test_what_is_for_information_only(tools: Tools, tmp_path: Path, convert: bool) -> None:
    def report_of(kind: str) -> dict:
        path = mistake(tools, tmp_path / kind, kind)
        if convert:
            path = tools.convert(path, tmp_path / f"{kind}.bin")
        status, report = lint(tools, path)
        assert status == 0 and report["defects"] == 0
        return report
    for kind in ("failed", "zero", "leak"):
        (tmp_path / kind).mkdir()
    assert counts(report_of("failed")) == {"failed_call": 2}
    # glibc's realloc(p, 0) frees.
    assert counts(report_of("zero")) == {"realloc_zero": 1, "zero_sized": 1}
    leaks = report_of("leak")["leaks"]
    assert {row["size"]: row["blocks"] for row in leaks["by_size"]}[7113] == 50
    assert leaks["by_size"][0] == {"size": 7113, "blocks": 50}
    assert leaks["oldest"][0]["bytes"] >= 7111
    assert leaks["by_thread"] == [{"thread": 0, "blocks": leaks["blocks"]}]


@pytest.mark.parametrize("name", quick(["golden", "child"], NAMES))
def test_faithful_traces_have_no_defects(tools: Tools, recorded_folder: Path, recorded: dict[str, Path],
                                         dumped: dict[str, list[Event]], name: str) -> None:
    status, report = lint(tools, recorded[name])
    assert status == 0 and report["defects"] == 0
    events = dumped[name]
    live, _ = follow(events)
    leaks = report["leaks"]
    assert leaks["blocks"] + leaks["inherited_blocks"] == len(live)
    assert leaks["bytes"] + leaks["inherited_bytes"] == sum(live.values())
    assert report["calls"] == sum(e.is_call for e in events)
    if name != "child":
        sizes = Counter(live.values())
        assert [(r["size"], r["blocks"]) for r in leaks["by_size"]] == \
            sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:5]
    logs = recorded_folder / name
    if logs.is_dir():
        status, raw = lint(tools, next(iter(sorted(logs.glob("*.mraw")))))
        assert status == 0 and raw["defects"] == 0
        if name != "child":
            # The same from the log, which has addresses for slots.
            assert raw["calls"] == report["calls"] and counts(raw) == counts(report)
            assert raw["leaks"]["bytes"] == leaks["bytes"]


def test_a_childs_log_is_checked_with_what_it_inherited(tools: Tools, recorded_folder: Path) -> None:
    reports = [lint(tools, log) for log in sorted((recorded_folder / "child").glob("*.mraw"))]
    assert [status for status, _ in reports] == [0, 0]
    assert all("foreign" not in counts(report) for _, report in reports)
    assert any(report["leaks"]["inherited_blocks"] > 100 for _, report in reports)


def test_bad_input(tools: Tools, repository: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no trace, no log: more than 64 bytes of something else " * 2)
    done = run([tools.heaptape, "lint", tmp_path / "text"])
    assert done.returncode == 3 and b"trace" in done.stderr
    assert run([tools.heaptape, "lint", tmp_path / "none"]).returncode == 3
    golden = (repository / "tests" / "golden" / "sqlite3.bin").read_bytes()
    (tmp_path / "cut.bin").write_bytes(golden[:-40])
    done = run([tools.heaptape, "lint", tmp_path / "cut.bin"])
    assert done.returncode == 3 and b"cut short" in done.stderr and b"calls" in done.stdout


def test_examples_are_limited(tools: Tools, tmp_path: Path) -> None:
    log = mistake(tools, tmp_path, "failed")
    for limit in (0, 1, 5):
        _, report = lint(tools, log, "--examples", str(limit))
        assert counts(report)["failed_call"] == 2
        assert len(examples(report, "failed_call")) == min(limit, 2)
        assert len(report["leaks"]["oldest"]) <= limit
    assert run([tools.heaptape, "lint", log, "--examples", "-1"]).returncode == 2

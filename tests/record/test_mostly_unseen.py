# SPDX-License-Identifier: Apache-2.0
"""A program whose memory is mostly not from malloc: every verb says so before anything else, and none of ordinary ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tool_runner import Tools, run

WORDS = "most of this program's memory does not come from malloc"
UNSEEN = [["64", "1"], ["64", "1", "bare"]]
SEEN = [["64", "32"], ["1", "64"], ["4", "0"]]


def said_by_record(tools: Tools, folder: Path, *options: str | Path, program: list[str]) -> list[str]:
    done = run([tools.heaptape, "record", "-o", folder, *options, "--", tools.target("mmap_own"), *program])
    assert done.returncode == 17, done.stderr
    return [line for line in done.stderr.decode().splitlines() if WORDS in line]


def the_trace(tools: Tools, folder: Path) -> Path:
    [log] = folder.glob("*.mraw")
    done = tools.succeed([tools.heaptape, "convert", log, "-o", folder / "t.bin"])
    assert WORDS in done.stderr.decode()
    return folder / "t.bin"


@pytest.mark.parametrize("program", UNSEEN, ids=" ".join)
@pytest.mark.parametrize("options", [[], ["-q"], ["--convert"], ["-q", "--convert"]], ids=" ".join)
def test_record(tools: Tools, tmp_path: Path, program: list[str], options: list[str]) -> None:
    said = said_by_record(tools, tmp_path, *options, program=program)
    assert len(said) == 1 and said[0].startswith("heaptape record: warning: "), said


@pytest.mark.parametrize("program", SEEN, ids=" ".join)
def test_record_of_an_ordinary_program(tools: Tools, tmp_path: Path, program: list[str]) -> None:
    assert said_by_record(tools, tmp_path / "raw", program=program) == []
    assert said_by_record(tools, tmp_path / "traces", "--convert", program=program) == []
    [trace] = (tmp_path / "traces").glob("*.bin")
    assert tools.info(trace)["mostly_unseen"] is False
    assert WORDS not in tools.succeed([tools.heaptape, "info", trace]).stdout.decode()


@pytest.mark.thorough
@pytest.mark.parametrize("program", UNSEEN, ids=" ".join)
def test_all_that_reads_the_trace(tools: Tools, tmp_path: Path, program: list[str]) -> None:
    (recorded,) = said_by_record(tools, tmp_path, program=program)
    trace = the_trace(tools, tmp_path)
    first, *_ = tools.succeed([tools.heaptape, "info", trace]).stdout.decode().splitlines()
    sentence = first.removeprefix("caution: ")
    assert WORDS in sentence and sentence in recorded  # the log has the same figures as the trace
    info = tools.info(trace)
    assert info["mostly_unseen"] is True
    assert 1 << 20 <= info["recorded_explained_bytes"] < 3 << 20

    results = tmp_path / "r.jsonl"
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "2", "--alloc", "again=glibc", trace, "-o", results])
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode().splitlines()
    assert out[0] == first
    assert all("of malloc's part alone" in line for line in out if "fastest:" in line or "smallest peak:" in line)
    assert done.stderr.decode().splitlines()[0].startswith(f"heaptape replay: warning: {sentence}")
    reported = json.loads(results.read_text().splitlines()[0])["trace"]
    assert reported["explained_bytes"] == info["recorded_explained_bytes"]
    assert reported["rss_peak_bytes"] == info["recorded_rss_peak_bytes"]
    assert reported["own_bytes"] == info["recorded_own_peak_bytes"]
    compared = tools.succeed([tools.heaptape, "compare", results]).stdout.decode().splitlines()
    assert compared[0] == f"Caution: {sentence}." and compared[-1].startswith(f"{compared[0]} Of malloc's part alone: ")


@pytest.mark.thorough
def test_replay_for_machines(tools: Tools, tmp_path: Path) -> None:
    said_by_record(tools, tmp_path, program=UNSEEN[0])
    done = tools.succeed([tools.replay_program, "--json", "--alloc", "glibc", "--rounds", "2", the_trace(tools, tmp_path)])
    found = json.loads(done.stdout)
    assert found["warnings"][0]["kind"] == "mostly_unseen" and WORDS in found["warnings"][0]["message"]
    assert 1 << 20 <= found["recorded"]["explained_bytes"] < 3 << 20


def test_memory_of_before_the_recording_is_no_stranger(tools: Tools, tmp_path: Path) -> None:
    """What the program got from malloc before its recording began is not called another's, and the heap is unknown."""
    script = "import time; a = [bytes(1000) for _ in range(50000)]; time.sleep(1.5); b = [bytes(700) for _ in range(1000)]"
    done = run([tools.heaptape, "record", "-o", tmp_path, "--start", "1", "--", "/usr/bin/python3", "-c", script])
    assert done.returncode == 0, done.stderr
    assert WORDS not in done.stderr.decode()
    trace = tools.convert(next(tmp_path.glob("*.mraw")), tmp_path / "t.bin")
    info = json.loads(tools.succeed([tools.heaptape, "info", "--json", trace]).stdout)
    assert info["recorded_heap_rss_peak_bytes"] is None and info["recorded_own_peak_bytes"] is None
    assert info["recorded_heap_rss_low_bytes"] < 10 << 20 and info["recorded_heap_rss_high_bytes"] > 50_000_000
    assert b"in the heap            unknown: " in tools.succeed([tools.heaptape, "info", trace]).stdout
    found = json.loads(tools.succeed([tools.replay_program, "--json", "--alloc", "glibc", "--pass", "memory", "--rounds", "1", trace]).stdout)
    assert found["warnings"][0]["kind"] == "unknown_heap" and found["baseline_check"] is None
    assert found["recorded"]["heap_peak_bytes"] is None and found["recorded"]["heap_high_bytes"] > 50_000_000

# SPDX-License-Identifier: Apache-2.0
"""Names that would move a terminal's cursor, set its title or turn its text: no verb prints them as they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import naive_writer
import pytest
from naive_writer import Event, TraceSpec
from quick_tier import quick
from tool_runner import Tools, clean_environment, run

HOSTILE = "x\x1b]0;TITLE\x07\x1b[2J\r\x08\x7f\u009b31m\u202edesrever\u2066\u2028\u061cend"
DANGEROUS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NAME = "t\x1b[31m\u202e\nheaptape: all is well.bin"


def assert_harmless(done: subprocess.CompletedProcess[bytes], status: int | None) -> None:
    for stream in (done.stdout, done.stderr):
        text = stream.decode("utf-8")  # which fails on bytes that are none
        assert not DANGEROUS.search(text), repr(text)
        assert "\nheaptape: all is well" not in text, repr(text)
    assert status is None or done.returncode == status, done.stderr


def hostile_trace(folder: Path) -> Path:
    context = dict.fromkeys(("command", "executable", "allocator_name", "allocator_version", "stopped", "source", "source_format", "run", "bypassed_by", "env.LD_LIBRARY_PATH"), HOSTILE)
    events = [Event(1, 0, 0, 0, 1, 100), Event(2, 0, 0, 10, 2, 3, 5), Event(5, 0, 0, 50, 1), Event(18, 0, 1, 60, 2)]
    spec = TraceSpec(events, context | {"page_bytes": 4096, "pid": 7, "time": "nominal", "sliced_from": {"trace": HOSTILE}},
                     threads=[(7, 0, 0, 3, 60, 0, "\x1b[31mEV\u202e"), (8, 3, 60, 1, 60, 0, "\x9b\r\x07")])
    path = folder / NAME
    path.write_bytes(naive_writer.build(spec)[0])
    return path


@pytest.mark.thorough
def test_c_verbs(tools: Tools, tmp_path: Path) -> None:
    trace = hostile_trace(tmp_path)
    for words, status in ((["info"], 0), (["dump"], 0), (["stats"], 0), (["lint"], None), (["lint", "--strict"], None),
                          (["slice", "-o", tmp_path / ("s" + NAME), "--from-event", "1"], 0),
                          (["convert", "--to", "malloc_wrap", "-o", tmp_path / ("c" + NAME)], None),
                          (["convert", "-o", tmp_path / ("d" + NAME)], None), (["convert", "--follow"], None)):
        assert_harmless(run([tools.heaptape, words[0], trace, *words[1:]]), status)


VERBS = ("info", "dump", "stats", "lint", "slice", "convert", "replay", "compare", "report")


@pytest.mark.parametrize("verb", quick(VERBS[:-2], VERBS))
def test_error_lines(tools: Tools, tmp_path: Path, verb: str) -> None:
    """One line each, whatever the file is called and holds."""
    empty, missing = tmp_path / NAME, tmp_path / ("no" + NAME)
    empty.write_bytes(b"")
    more = {"slice": ["-o", tmp_path / "o"], "report": ["-o", tmp_path / "o"], "replay": ["--alloc", "null"]}.get(verb, [])
    for path in (empty, missing):
        done = run([tools.heaptape, verb, path, *more])
        assert_harmless(done, 3)
        assert done.stderr.count(b"\n") == 1, done.stderr


@pytest.mark.thorough
def test_names_that_are_no_text(tools: Tools, tmp_path: Path) -> None:
    path = bytes(tmp_path) + b"/\xff\xc0\x80\xed\xa0\x80\xe2\x80.bin"
    with open(path, "wb"):
        pass
    for verb in ("info", "lint", "compare"):
        done = subprocess.run([tools.heaptape, verb, path], capture_output=True, env=clean_environment(), timeout=60, check=False)
        assert_harmless(done, 3)
        assert rb"\xff\xc0\x80\xed\xa0\x80\xe2\x80.bin" in done.stderr


WAYS = {"text": ["compare"], "markdown": ["compare", "--markdown"], "csv": ["compare", "--csv"], "report": ["report"]}


@pytest.mark.parametrize("way", quick(["report"], WAYS))
def test_replay_and_what_reads_its_results(tools: Tools, tmp_path: Path, way: str) -> None:
    trace, results = hostile_trace(tmp_path), tmp_path / ("r" + NAME + "l")
    assert_harmless(run([tools.replay_program, "--alloc", "glibc", "--rounds", "2", trace, "-o", results], timeout=300), 0)
    rows = [json.loads(line) for line in results.read_text().split("\n") if line]
    for row in rows:
        if row["allocator"]["name"] == "glibc":
            row["allocator"] |= {"name": HOSTILE, "version": HOSTILE}
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "page.html"
    more = ["-o", page, "--trace", trace] if way == "report" else []
    assert_harmless(run([tools.heaptape, *WAYS[way], results, *more]), 0 if way == "report" else None)
    assert way != "report" or not re.search(DANGEROUS, page.read_text())


def test_recorded_names(tools: Tools, tmp_path: Path) -> None:
    """A program needs no forged trace for it: its name, its arguments and its threads' names are enough."""
    program = tmp_path / "p\x1b[31m\u202e"
    program.symlink_to(sys.executable)
    logs = tmp_path / "logs\x1b[7m"
    logs.mkdir()
    script = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\x1b[31mEV\\x9b', 0, 0, 0)"
    done = run([tools.heaptape, "record", "-o", logs, "--", program, "-S", "-c", script, "\x1b[2J"])
    assert_harmless(done, 0)
    log = max(logs.glob("*.mraw"), key=lambda path: path.stat().st_size)
    assert_harmless(run([tools.heaptape, "lint", log]), None)
    assert_harmless(run([tools.heaptape, "convert", log]), 0)
    for verb in ("info", "stats"):
        assert_harmless(run([tools.heaptape, verb, log.with_suffix(".bin")]), 0)

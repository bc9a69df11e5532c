# SPDX-License-Identifier: Apache-2.0
"""Damage in a raw log: `convert` goes on after it, counts what is lost, and says so."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from broken_logs import CHUNK, ENDED_CALLS_OFFSET, HEADER_BYTES
from quick_tier import quick
from refresh import patched
from tool_runner import Tools, logs_in, run

PAGE = 4_096
CALLS, THREADS = 60_000, 4


@pytest.fixture(scope="module")
def whole(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict]:
    """A real log of several threads, and what its trace has."""
    folder = tmp_path_factory.mktemp("whole")
    tools.preload([tools.target("threads_exchange"), folder / "calls.json", CALLS, THREADS], folder)
    (log,) = logs_in(folder)
    info = tools.info(tools.convert(log, folder / "whole.bin"))
    assert info["lost_calls"] == info["anomalies"] == info["foreign_frees"] == 0 and "damage" not in info
    return log.read_bytes()[: max(begin + size for begin, size, *_ in chunks(log.read_bytes()))], info


def chunks(log: bytes) -> list[tuple[int, int, int, int]]:
    """Offset, bytes, used and stream of each."""
    found, at, end = [], HEADER_BYTES, struct.unpack_from("<Q", log, 112)[0]
    while at < end:
        magic, stream, _, _, size, _, _, used, *_ = CHUNK.unpack_from(log, at)
        found += [(at, size, used, stream)] if magic else []
        at += size if magic else PAGE
    return found


def converted(tools: Tools, folder: Path, log: bytes, *more: str) -> tuple[dict, str]:
    """What info says of the trace, and what convert said."""
    path = folder / "malloc-footprint.1.mraw"
    path.write_bytes(log)
    done = run([tools.heaptape, "convert", "-q", *more, path, "-o", folder / "t.bin"])
    assert done.returncode == 0, done.stderr
    info = tools.info(folder / "t.bin")
    (folder / "t.bin").unlink()
    return info, done.stderr.decode()


@pytest.mark.parametrize("follows", [False, True], ids=["convert", "follow"])
def test_a_page_of_zeros_anywhere(tools: Tools, tmp_path: Path, whole: tuple[bytes, dict], follows: bool) -> None:
    log, truth = whole
    # Each thread has freed some of its own memory after it ended.
    unsaid = truth["events"] - struct.unpack_from("<Q", log, ENDED_CALLS_OFFSET)[0]
    assert 0 <= unsaid <= 4 * len({stream for *_, stream in chunks(log)}) == 4 * (THREADS + 1)
    places = [(at, bool(used)) for begin, size, used, _ in chunks(log) for at in range(begin, begin + (used or size), PAGE)
              if any(log[at : at + PAGE])]
    for at, closed in places[:: max(len(places) // 10, 1)]:
        info, said = converted(tools, tmp_path, patched(log, at, bytes(PAGE)), *(["--follow", "--keep-raw"] if follows else []))
        accounted = info["events"] + info["lost_calls"]
        assert accounted == truth["events"] if closed else truth["events"] - unsaid <= accounted <= truth["events"], (at, closed)
        assert 0 < info["lost_calls"] < truth["events"] and not (closed and info["damage"]["at_least"])
        assert info["damage"]["lost_calls"] == info["lost_calls"]
        assert info["damage"]["first"].startswith("offset ") and "expected" in info["damage"]["first"]
        assert f" {info['lost_calls']:,} of {accounted:,} calls" in said and said.count("\n") == 1


def test_the_end_of_a_killed_programs_log(tools: Tools, tmp_path: Path, whole: tuple[bytes, dict]) -> None:
    """Nobody knows what its last chunks had: what is said is a bound."""
    log, truth = whole
    log = patched(log, ENDED_CALLS_OFFSET, bytes(8))
    last = max(chunks(log), key=lambda chunk: (not chunk[2], chunk[1]))
    assert last[2] == 0 and last[1] > 3 * PAGE
    info, said = converted(tools, tmp_path, patched(log, last[0] + PAGE, bytes(PAGE)))
    assert info["damage"]["at_least"] and 0 < info["lost_calls"] <= truth["events"] - info["events"]
    assert "at least" in said


@pytest.mark.parametrize("seed", quick([1], range(1, 6)))
def test_changed_bytes(tools: Tools, tmp_path: Path, whole: tuple[bytes, dict], seed: int) -> None:
    """Some are not to be seen as damage; none ends the conversion, or makes calls."""
    log, truth = whole
    for number in range(12):
        at = HEADER_BYTES + (seed * 7919 + number * 104_729) % (len(log) - HEADER_BYTES)
        info, _ = converted(tools, tmp_path, patched(log, at, bytes([log[at] ^ 1 << number % 8])))
        assert truth["events"] / 4 < info["events"] <= truth["events"] + PAGE


def test_what_other_verbs_say(tools: Tools, tmp_path: Path, whole: tuple[bytes, dict]) -> None:
    log, _ = whole
    begin = next(begin for begin, _, used, _ in chunks(log) if used > 3 * PAGE)
    path = tmp_path / "malloc-footprint.1.mraw"
    path.write_bytes(patched(log, begin + PAGE, bytes(PAGE)))
    done = run([tools.heaptape, "convert", path, "-o", tmp_path / "t.bin"])
    assert done.returncode == 0 and done.stderr.count(b"warning") == 1
    words = done.stderr.decode().split("damaged: ")[1].split(";")[0]
    shown = run([tools.heaptape, "info", tmp_path / "t.bin"])
    assert shown.returncode == 0 and words in shown.stdout.decode()
    linted = run([tools.heaptape, "lint", "--json", path])
    assert linted.returncode == 3 and json.loads(linted.stdout)["calls"] > 0
    assert linted.stderr.decode().count("\n") == 1 and words.split("(")[1].split(", the first")[0].rstrip(")") in linted.stderr.decode()
    # Whatever is made of the trace says so as well; a copy for others not where.
    lost = tools.info(tmp_path / "t.bin")["lost_calls"]
    tools.succeed([tools.heaptape, "slice", "--to-event", "9000", tmp_path / "t.bin", "-o", tmp_path / "s.bin"])
    tools.succeed([tools.heaptape, "share", tmp_path / "t.bin", "-o", tmp_path / "c.bin"])
    assert tools.info(tmp_path / "s.bin")["damage"]["lost_calls"] == lost
    assert set(tools.info(tmp_path / "c.bin")["damage"]) == {"places", "lost_calls", "at_least"}


def test_a_log_without_a_whole_call(tools: Tools, tmp_path: Path, whole: tuple[bytes, dict]) -> None:
    log, _ = whole
    path = tmp_path / "malloc-footprint.1.mraw"
    path.write_bytes(log[:HEADER_BYTES] + b"\1" * (len(log) - HEADER_BYTES))
    done = run([tools.heaptape, "convert", path, "-o", tmp_path / "t.bin"])
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1 and b"expected a chunk" in done.stderr
    assert not (tmp_path / "t.bin").exists()

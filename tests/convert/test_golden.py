# SPDX-License-Identifier: Apache-2.0
"""Good files, kept for ever, are read as they always were; damaged ones are refused, or read in part, with the very same line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import refresh  # makes the damaged files, and says how they are judged
from tool_runner import Tools, run

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def test_the_old_trace_is_read_as_ever(tools: Tools) -> None:
    done = run([tools.heaptape, "dump", GOLDEN / "sqlite3.bin"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == (GOLDEN / "sqlite3.dump").read_bytes()


def test_the_old_log_converts_to_the_same_events(tools: Tools, tmp_path: Path) -> None:
    trace = tools.convert(GOLDEN / "sqlite3.mraw", tmp_path / "t.bin")
    done = run([tools.heaptape, "dump", trace])
    assert done.stdout == (GOLDEN / "sqlite3.dump").read_bytes()


def test_every_damaged_file_has_its_message() -> None:
    assert sorted(refresh.messages()) == sorted(refresh.damaged())


@pytest.mark.parametrize("name", sorted(refresh.damaged()))
def test_damage_is_reported_in_the_same_words(tools: Tools, tmp_path: Path, name: str) -> None:
    status, said = refresh.verdict(tools.heaptape.parent, name, output := tmp_path / "output")
    assert (status, said) == refresh.messages()[name]
    assert said.count("\n") == 1
    # convert goes on after what is damaged in a log, and says so.
    assert list(tmp_path.iterdir()) == ([output] if status == 0 else [])
    assert "damaged: " in said if status == 0 else status == 3


@pytest.mark.parametrize("part", range(1, 16))
def test_a_cut_trace_dumps_the_beginning(tools: Tools, tmp_path: Path, part: int) -> None:
    whole = (GOLDEN / "sqlite3.bin").read_bytes()
    cut = tmp_path / "cut.bin"
    cut.write_bytes(whole[: len(whole) * part // 16])
    done = run([tools.heaptape, "dump", cut])
    assert done.returncode == 3
    assert (GOLDEN / "sqlite3.dump").read_bytes().startswith(done.stdout)
    assert len(done.stderr.splitlines()) == 1 and b"cut.bin: offset " in done.stderr
    shown = run([tools.heaptape, "info", cut])
    assert shown.returncode == 3 and len(shown.stderr.splitlines()) == 1


SOURCES = GOLDEN.parent.parent
READERS = ["format/raw/raw_reader.c", "format/trace/trace_reader.c", "format/trace/trace_facts.c", "format/trace/columns.c", "format/trace/event_arrays.c", "convert/merge/streams.c",
           "convert/merge/inheritance.c", "convert/merge/merge.c", "convert/common/convert_raw.c", "replay/program/form_state.c",
           "replay/program/form_blocks.c", "replay/program/form_writing.c"]
# No file provokes these: they are about memory, the machine, or another program that changes the file meanwhile.
WITHOUT_A_FILE = {
    "found no regular file",  # test_bad_input.py has a folder
    "bytes of a chunk, found the end of the file",  # the file shrank while it was read
    "expected at most %d ancestors",  # 65 logs
    "expected fewer slots for so many copies",  # 2^29 blocks live at once in all copies
    "whole section or the footer, found the file cut short or damaged: only",  # in two pieces
}


def messages(path: Path) -> list[str]:
    """What the file can say of bad input: sentences that end in what was expected, as patterns."""
    text = re.sub(r'"\s*(PRI[uxd]\d+)\s*"', "%", path.read_text())
    text = re.sub(r'"\s*\n\s*"', "", text)
    found = re.findall(r'"((?:[^"\\\n]|\\.)*\bexpected\b(?:[^"\\\n]|\\.)*)"', text)
    return [message for message in found if not any(known in message for known in WITHOUT_A_FILE)]


@pytest.mark.parametrize("source", READERS)
def test_every_complaint_has_a_file_that_provokes_it(source: str) -> None:
    said = refresh.MESSAGES.read_text()
    for message in messages(SOURCES / source):
        pattern = ".*".join(re.escape(part) for part in re.split(r"%[a-z0-9]*", message))
        assert re.search(pattern, said), f"{source}: no golden file makes a tool say: {message}"

# SPDX-License-Identifier: Apache-2.0
"""The convert command: several inputs, where their traces go, what is not overwritten."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from convert_refuses import A_CALL, refused, write
from tool_runner import Tools, run

IMPORTS = Path(__file__).resolve().parent.parent / "golden" / "imports"


def test_several_inputs(tools: Tools, tmp_path: Path) -> None:
    sources = [write(tmp_path / "a.txt", A_CALL), write(tmp_path / "b.rep", b"9\n1\n1\n1\na 0 5\n")]
    done = run([tools.heaptape, "convert", *sources])
    assert done.returncode == 0 and done.stderr.count(b": 1 event, ") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "b.rep", "a.bin", "b.bin"}
    folder = tmp_path / "traces"
    folder.mkdir()
    tools.succeed([tools.heaptape, "convert", "-q", *sources, "-o", folder])
    assert {path.name for path in folder.iterdir()} == {"a.bin", "b.bin"}
    # One bad input keeps none of the others from its trace.
    bad = write(tmp_path / "bad.txt", b"nothing\n")
    (folder / "b.bin").unlink()
    assert "bad.txt" in refused(tools, "-q", bad, sources[1], "-o", folder)
    assert (folder / "b.bin").exists()


def test_outputs_that_collide(tools: Tools, tmp_path: Path) -> None:
    sources = [write(tmp_path / name, A_CALL) for name in ("a.txt", "b.txt", "a.log")]
    done = run([tools.heaptape, "convert", *sources[:2], "-o", tmp_path / "t.bin"])
    assert done.returncode == 2 and b"expected a folder" in done.stderr
    assert "two inputs would make this trace" in refused(tools, sources[0], sources[2], status=2)
    assert "would overwrite its input" in refused(
        tools, sources[0], "-o", sources[0], status=2
    )
    os.link(sources[0], tmp_path / "b.bin")
    assert "would overwrite another input" in refused(tools, "-q", sources[1], sources[0], status=2)
    assert (tmp_path / "b.bin").read_bytes() == A_CALL


def test_raw_logs_are_never_overwritten(tools: Tools, tmp_path: Path) -> None:
    log = write(tmp_path / "malloc-footprint.7.mraw", b"HTAPERAW" + bytes(100))
    source = write(tmp_path / "a.txt", A_CALL)
    assert "would overwrite a raw log" in refused(tools, source, "-o", log, status=2)


def test_ours_as_a_stranger(tools: Tools, tmp_path: Path) -> None:
    trace = tools.convert(IMPORTS / "android.txt", tmp_path / "t.bin")
    assert "expected a raw log, found a trace" in refused(tools, trace, "-o", tmp_path / "u.bin")
    assert "a file of its own" in refused(
        tools, "-", "-o", tmp_path / "u.bin", stdin=b"HTAPERAW" + bytes(99)
    )
    assert "expected a raw log (HTAPERAW)" in refused(
        tools, IMPORTS / "android.txt", "--from", "heaptape", "-o", tmp_path / "u.bin"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--from", "nothing", "a"],
        ["--pid", "x", "a"],
        ["--pid", "-1", "a"],
        ["-"],
        ["--parent", "p", "a.txt"],
        ["--no-parent", "a.txt"],
        ["--lenient", "a.mraw"],
        ["--member", "m", "a.mraw"],
        ["--pid", "1", "a.mraw"],
    ],
    ids=" ".join,
)
def test_bad_usage(tools: Tools, tmp_path: Path, words: list[str]) -> None:
    write(tmp_path / "a.txt", A_CALL)
    write(tmp_path / "a.mraw", b"HTAPERAW" + bytes(100))
    done = run([tools.heaptape, "convert", *words], cwd=tmp_path)
    assert done.returncode == 2 and done.stderr, done.stderr
    assert len(list(tmp_path.iterdir())) == 2


def test_formats_are_named_alike_everywhere(tools: Tools, repository: Path) -> None:
    """The parser, the help and the table in the documentation know the same formats."""
    said = run([tools.heaptape, "convert", "--from", "nothing", "a"]).stderr.decode()
    match = re.search(r"--from nothing: expected one of (.*)\n", said)
    assert match
    names = set(match[1].split(", "))
    table = (repository / "docs" / "reference" / "foreign-traces.md").read_text()
    assert set(re.findall(r"^`(\w+)` \|", table, re.MULTILINE)) == names
    words = set(
        re.findall(r"\w+", tools.succeed([tools.heaptape, "convert", "--help"]).stdout.decode())
    )
    assert names <= words


@pytest.mark.parametrize("option", [[], ["--follow"], ["--no-parent"], ["--parent", "p.mraw"], ["--no-names"], ["--lenient"]])
def test_no_such_file(tools: Tools, tmp_path: Path, option: list[str]) -> None:
    """Whatever else is asked for."""
    absent = tmp_path / "absent.mraw"
    assert f"{absent}: cannot open: No such file" in refused(tools, *option, absent)
    assert not list(tmp_path.iterdir())

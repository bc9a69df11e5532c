# SPDX-License-Identifier: Apache-2.0
"""Where the Python verbs write: never over what they read, through links, to devices and pipes; whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import results_factory
import story
from heaptape.base.errors import HeaptapeError, UsageError
from heaptape.base.files import appendable, check_output, output_file, write_whole
from verbs_here import run_here

ROOT = Path(__file__).resolve().parents[2]
HTML = b"<!doctype html>"


def _run(*arguments: object, cwd: Path, **more: object) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "analysis")}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.run([sys.executable, "-m", "heaptape", *map(str, arguments)], cwd=cwd, env=environment, timeout=120,
                          check=False, **streams)


def _refused(done: subprocess.CompletedProcess[bytes] | subprocess.CompletedProcess[str], status: int, words: str) -> None:
    said = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    assert done.returncode == status and said.count("\n") == 1 and words in said, said
    assert "Traceback" not in said


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Small results, with their trace beside them."""
    return story.write_story(tmp_path, rounds=1)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["itself", "link", "hard"])
@pytest.mark.parametrize("which", ["results", "trace"])
def test_a_report_does_not_replace_what_it_is_made_from(tmp_path: Path, results: Path, which: str, name: str) -> None:
    victim = results if which == "results" else tmp_path / "job.bin"
    output = tmp_path / "out.html"
    if name == "itself":
        output = victim
    elif name == "link":
        output.symlink_to(victim)
    else:
        output.hardlink_to(victim)
    before = victim.read_bytes()
    # The trace is refused where it is named, and where it is found by the results alone.
    for more in (["--trace", tmp_path / "job.bin"], []):
        _refused(run_here("report", results, *more, "-o", output, cwd=tmp_path), 2, "would overwrite")
        assert victim.read_bytes() == before


@pytest.mark.thorough
def test_a_report_follows_links(tmp_path: Path, results: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    assert _run("report", results, "-o", "link.html", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link.html").is_symlink() and (tmp_path / "real.html").read_bytes().startswith(HTML)


@pytest.mark.thorough
def test_a_report_to_standard_output(tmp_path: Path, results: Path) -> None:
    done = _run("report", results, "-o", "-", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith(HTML) and not (tmp_path / "-").exists()
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    again = _run("report", results, "-o", "stdout", cwd=tmp_path)
    assert again.returncode == 0 and again.stdout == done.stdout and (tmp_path / "stdout").is_symlink()


@pytest.mark.thorough
def test_a_report_to_a_pipe(tmp_path: Path, results: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "fifo").read_bytes()), daemon=True)
    reader.start()
    assert _run("report", results, "-o", "fifo", cwd=tmp_path).returncode == 0
    reader.join(60)
    assert read and read[0].startswith(HTML) and read[0].rstrip().endswith(b"</html>") and (tmp_path / "fifo").is_fifo()


@pytest.mark.thorough
@pytest.mark.parametrize("output", ["/dev/full", "full"])
def test_a_full_device_is_reported(tmp_path: Path, results: Path, output: str) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    _refused(_run("report", results, "-o", output, cwd=tmp_path), 1, "No space left on device")
    assert Path("/dev/full").is_char_device() and (tmp_path / "full").is_symlink()


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["report", "-o", "-"], ["compare"], ["compare", "--json"], ["compare", "--help"]])
def test_a_full_standard_output_is_reported(tmp_path: Path, results: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = _run(arguments[0], results, *arguments[1:], cwd=tmp_path, stdout=full)
    _refused(done, 1, "standard output: cannot write: No space left on device")


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["report", "-o", "-"], ["compare"], ["compare", "--json"], ["compare", "--help"]])
def test_a_closed_standard_output_is_reported(tmp_path: Path, results: Path, arguments: list[str]) -> None:
    done = _run(arguments[0], results, *arguments[1:], cwd=tmp_path, stdout=None, preexec_fn=lambda: os.close(1))
    _refused(done, 1, "standard output: cannot write: Bad file descriptor")


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    with pytest.raises(ZeroDivisionError), output_file(tmp_path / "kept") as file:
        file.write(b"new")
        raise ZeroDivisionError
    with pytest.raises(HeaptapeError, match="cannot write"):
        write_whole(tmp_path, "a folder")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    long = tmp_path / ("n" * 255)
    write_whole(long, "x")
    assert long.read_text() == "x" and long.stat().st_mode & 0o044


UNWRITABLE = {"no/such/folder/o": "No such file or directory", ".": "Is a directory", "file/o": "Not a directory", "": "No such file or directory",
              "n" * 256: "File name too long", "/proc/o": "No such file or directory"}
"""Names of outputs, and why nothing can be written there; in /proc not even root can, whatever permissions say."""


def test_what_could_not_be_written_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("{}")
    os.mkfifo(tmp_path / "fifo")  # nobody reads it yet
    for path, why in UNWRITABLE.items():
        for check in (check_output, lambda path: appendable(path, [], b"{", "lines of JSON"), lambda path: write_whole(path, "x")):
            with pytest.raises(HeaptapeError, match=f"^{path}: cannot write: {why}$"):
                check(path)
    for path in ("file", "absent", "fifo", "/dev/full"):
        check_output(path)
        appendable(path, [], b"{", "lines of JSON")
    check_output("-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "file"] and (tmp_path / "file").read_text() == "{}"


@pytest.mark.parametrize("verb", [
    ["report", "absent.jsonl", "-o"], ["compare", "absent.jsonl", "--to", "bencher", "-o"], ["sites", "absent.bin", "--to", "dhat", "-o"],
    ["explain", "absent.bin", "--html"], ["tune", "t.bin", "--alloc", "fake", "-o"], ["tune", "t.bin", "--alloc", "fake", "--splice", "x", "--study"],
    ["validate", "-o"]], ids=lambda words: f"{words[0]} {words[-1]}")
def test_a_verb_refuses_at_once_what_it_could_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]) -> None:
    """Before it reads or replays anything: what it is given to read is not there, and what replays fails."""
    replay = tmp_path / "replay"
    replay.write_text("""#!/bin/sh
case "$*" in
*--list*) echo '[{"name": "fake", "knobs": [{"name": "k", "type": "boolean", "value": "0"}]}]' ;;
*) exit 3 ;;
esac
""")
    replay.chmod(0o755)
    (tmp_path / "t.bin").touch()
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(replay))
    for path in ("no/such/folder/o", "."):
        done = run_here(*verb, path, *(["--", "true"] if verb[0] == "validate" else []), cwd=tmp_path)
        _refused(done, 1, f"heaptape {verb[0]}: {path}: cannot write: {UNWRITABLE[path]}")
        assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["replay", "t.bin"]


@pytest.mark.thorough
def test_tables_do_not_replace_the_trace(tmp_path: Path) -> None:
    _, trace = story.write_story(tmp_path, rounds=1)
    trace = trace.rename(tmp_path / "events.parquet")
    before = trace.read_bytes()
    _refused(run_here("export", trace, "-o", tmp_path, cwd=tmp_path), 2, "would overwrite")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "threads.parquet").symlink_to(trace)
    _refused(run_here("export", trace, "-o", "t", cwd=tmp_path), 2, "would overwrite")
    assert trace.read_bytes() == before and [path.name for path in (tmp_path / "t").iterdir()] == ["threads.parquet"]
    (tmp_path / "t" / "threads.parquet").unlink()
    (tmp_path / "t" / "samples.parquet").symlink_to("/dev/full")
    _refused(_run("export", trace, "-o", "t", cwd=tmp_path), 2, "expected a regular file")


def test_lines_are_appended_to_lines_only(tmp_path: Path) -> None:
    trace, lines, empty = tmp_path / "a.bin", tmp_path / "r.jsonl", tmp_path / "empty"
    trace.write_bytes(b"HTAPETRC")
    results_factory.write(lines, [{"schema": 1}])
    empty.touch()
    for path in (lines, empty, tmp_path / "absent", Path("/dev/null")):
        appendable(path, [trace], b"{", "lines of JSON")
    for path, inputs in ((trace, []), (lines, [lines])):
        with pytest.raises(UsageError):
            appendable(path, inputs, b"{", "lines of JSON")

# SPDX-License-Identifier: Apache-2.0
"""Bad input to each tool: one line that names the file, status 3, and no partial output."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path

import pytest
import refresh

from tool_runner import Tools, run

VERSION_OFFSET = 8  # in both formats: version and minimum reader version, 16 bits each


@pytest.fixture(scope="module")
def good(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A sound raw log and its trace, in which the cases below break something."""
    folder = tmp_path_factory.mktemp("good")
    recording = tools.preload([tools.target("calls_printed"), folder / "printed", "200000"],
                              folder / "logs")
    assert recording.outcome.status == 0
    log = recording.logs[0]
    return log, tools.convert(log, folder / "good.bin")


def empty(source: Path, bad: Path) -> None:
    bad.write_bytes(b"")


def directory(source: Path, bad: Path) -> None:
    bad.mkdir()


def pipe(source: Path, bad: Path) -> None:
    """That nobody writes into."""
    os.mkfifo(bad)


def garbage(source: Path, bad: Path) -> None:
    bad.write_bytes(random.Random(20817).randbytes(100_000))


def text(source: Path, bad: Path) -> None:
    bad.write_text("this is no recording\n" * 500)


def missing(source: Path, bad: Path) -> None:
    pass


def wrong_version(source: Path, bad: Path) -> None:
    content = bytearray(source.read_bytes())
    struct.pack_into("<HH", content, VERSION_OFFSET, 99, 99)
    bad.write_bytes(content)


def header_only(source: Path, bad: Path) -> None:
    bad.write_bytes(source.read_bytes()[:40])


def cut_in_half(source: Path, bad: Path) -> None:
    content = source.read_bytes()
    bad.write_bytes(content[:len(content) // 2])


def flipped_in_the_middle(source: Path, bad: Path) -> None:
    content = bytearray(source.read_bytes())
    middle = len(content) // 2
    for offset in range(middle, middle + 64):
        content[offset] ^= 0xFF
    bad.write_bytes(content)



BREAKAGES = [empty, directory, garbage, text, missing, wrong_version, header_only]


def tool_commands(tools: Tools, bad: Path, output: Path) -> dict[str, list]:
    return {
        "convert": [tools.heaptape, "convert", bad, "-o", output],
        "info": [tools.heaptape, "info", bad],
        "info-json": [tools.heaptape, "info", bad, "--json"],
        "dump": [tools.heaptape, "dump", bad],
        "replay": [tools.replay_program, "--alloc", "glibc", "--rounds", "1", bad, "-o", output],
    }


def assert_refused(tools: Tools, tool: str, bad: Path, folder: Path, status: int = 3) -> str:
    """One line on stderr that names the file, the status, and no file beside the input."""
    output = folder / "output"
    present = sorted(folder.iterdir())
    done = run(tool_commands(tools, bad, output)[tool])
    complaint = done.stderr.decode()
    assert done.returncode == status, f"{done.returncode}: {complaint}"
    assert len(complaint.splitlines()) == 1, complaint
    assert bad.name in complaint, complaint
    assert sorted(folder.iterdir()) == present, "output was left behind"
    return complaint


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda f: f.__name__)
def test_convert_refuses(tools: Tools, good: tuple[Path, Path], tmp_path: Path, breakage) -> None:
    bad = tmp_path / "bad.mraw"
    breakage(good[0], bad)
    complaint = assert_refused(tools, "convert", bad, tmp_path)
    if breakage is wrong_version:
        assert "version" in complaint


def test_convert_refuses_a_log_cut_in_half(tools: Tools, good: tuple[Path, Path],
                                           tmp_path: Path) -> None:
    """A copy that lost its second half is no recording that ended early: the header shows that."""
    log = good[0]
    end = struct.unpack_from("<Q", log.read_bytes()[:4096], 112)[0]  # chunks_end
    bad = tmp_path / "bad.mraw"
    with log.open("rb") as source:
        bad.write_bytes(source.read(end // 2))
    assert_refused(tools, "convert", bad, tmp_path)


@pytest.mark.parametrize("tool", ["info", "info-json", "dump", "replay"])
@pytest.mark.parametrize("breakage", [*BREAKAGES, pipe], ids=lambda f: f.__name__)
def test_trace_readers_refuse(tools: Tools, good: tuple[Path, Path], tmp_path: Path, tool: str,
                              breakage) -> None:
    bad = tmp_path / "bad.bin"
    breakage(good[1], bad)
    complaint = assert_refused(tools, tool, bad, tmp_path)
    if breakage is wrong_version:
        assert "version" in complaint


# info reads the totals at the end and not the blocks, so that it is instant.
@pytest.mark.parametrize("tool,breakage", [
    ("info", cut_in_half), ("info-json", cut_in_half), ("dump", cut_in_half),
    ("replay", cut_in_half), ("dump", flipped_in_the_middle), ("replay", flipped_in_the_middle),
])
def test_damaged_trace(tools: Tools, good: tuple[Path, Path], tmp_path: Path, tool: str,
                       breakage) -> None:
    """Half a trace may still be shown up to the damage, but the status says that it is not whole."""
    bad = tmp_path / "bad.bin"
    breakage(good[1], bad)
    assert_refused(tools, tool, bad, tmp_path)


READ_TEXTS = {
    "info": ["info"], "stats": ["stats"], "slice": ["slice", "-o", "OUTPUT"], "share": ["share", "-o", "OUTPUT"],
    "export": ["convert", "--to", "rep", "-o", "OUTPUT"], "replay": ["replay", "--alloc", "glibc", "-o", "OUTPUT"],
}


def totals_section(trace: bytes) -> tuple[int, int]:
    """Where the section of that kind begins and ends."""
    at = 64
    while trace[at + 4] != 6:
        at += 48 + struct.unpack_from("<I", trace, at + 8)[0]
    return at, at + 48 + struct.unpack_from("<I", trace, at + 8)[0]


@pytest.mark.thorough
def test_verbs_in_c_and_in_python_say_the_same_of_a_header(tools: Tools, good: tuple[Path, Path], tmp_path: Path) -> None:
    content = bytearray(good[1].read_bytes())
    content[20] ^= 0xFF
    bad = tmp_path / "bad.bin"
    bad.write_bytes(content)
    said = [run([tools.heaptape, verb, bad]).stderr.decode().partition(f"heaptape {verb}: ")[2] for verb in ("info", "sites")]
    assert said[0] == said[1] and said[0].startswith(f"{bad}: offset 0: expected bytes of checksum ")


@pytest.mark.thorough
def test_verbs_in_c_and_in_python_say_the_same_of_what_is_no_file(tools: Tools, tmp_path: Path) -> None:
    directory(tmp_path, tmp_path / "folder")
    pipe(tmp_path, tmp_path / "pipe")
    for name in ("folder", "pipe", "/dev/null"):
        for words in (["info"], ["sites"], ["tune", "--alloc", "glibc"]):
            done = run([tools.heaptape, *words, name], cwd=tmp_path)
            assert done.returncode == 3 and done.stdout == b"", done.stderr
            assert done.stderr.decode() == f"heaptape {words[0]}: {name}: offset 0: expected a trace in a regular file, found no regular file\n"


@pytest.mark.parametrize("verb", READ_TEXTS)
def test_damaged_totals(tools: Tools, good: tuple[Path, Path], tmp_path: Path, verb: str) -> None:
    """Each verb that takes something from the totals refuses damaged ones, and leaves nothing."""
    content = bytearray(good[1].read_bytes())
    start, end = totals_section(content)
    content[(start + 48 + end) // 2] ^= 0xFF
    bad = tmp_path / "bad.bin"
    bad.write_bytes(content)
    done = run([tools.heaptape, *(tmp_path / "output" if word == "OUTPUT" else word for word in READ_TEXTS[verb]), bad])
    assert done.returncode == 3 and done.stdout == b""
    assert f"{bad}: offset {start}: expected bytes of checksum " in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1 and list(tmp_path.iterdir()) == [bad]


@pytest.mark.parametrize("name,said", [("info-totals.bin", "offset 397: expected totals in JSON"),
                                       ("info-context.bin", "offset 64: expected a context in JSON")])
@pytest.mark.parametrize("verb", sorted(READ_TEXTS.keys() - {"share"}))  # which needs what these lack besides
def test_texts_that_are_no_json(tools: Tools, tmp_path: Path, verb: str, name: str, said: str) -> None:
    bad = refresh.write(tmp_path, name)
    done = run([tools.heaptape, *(tmp_path / "output" if word == "OUTPUT" else word for word in READ_TEXTS[verb]), bad])
    assert done.returncode == 3 and done.stdout == b"" and list(tmp_path.iterdir()) == [bad]
    [line] = done.stderr.decode().splitlines()
    assert line.endswith(f"{name}: {said}")


def test_raw_log_is_no_trace(tools: Tools, good: tuple[Path, Path], tmp_path: Path) -> None:
    for tool in ("info", "dump", "replay"):
        bad = tmp_path / "bad.bin"
        shutil.copy(good[0], bad)
        complaint = assert_refused(tools, tool, bad, tmp_path)
        assert "convert" in complaint, "a raw log is a common mistake: say what to do with it"


# What each reads in place of a good file; the baseline and the accesses go with a sound trace.
SHORT_READERS = {
    "trace": [["info", "BAD"], ["dump", "BAD"], ["stats", "BAD"], ["lint", "BAD"], ["names", "BAD", "-o", "OUT"], ["slice", "BAD", "-o", "OUT"],
              ["share", "BAD", "-o", "OUT"], ["extend", "BAD", "--to", "10s"], ["replay", "--alloc", "glibc", "BAD"]],
    "raw log": [["convert", "BAD", "-o", "OUT"], ["convert", "--follow", "BAD", "-o", "OUT"], ["convert", "--no-parent", "BAD", "-o", "OUT"],
                ["convert", "--from", "heaptape", "BAD", "-o", "OUT"]],
    "accesses": [["convert", "--from", "acc", "BAD", "-o", "OUT"], ["replay", "--alloc", "glibc", "--pass", "count", "--splice", "BAD", "GOOD"]],
    "baseline": [["replay", "--alloc", "glibc", "--pass", "count", "--fail-if", "instructions>1.01", "--baseline-file", "BAD", "GOOD"]],
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SHORT_READERS)
def test_files_too_short_for_a_header(tools: Tools, good: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    """Each verb says what it expected and found, of what is no such file, and of the first bytes of one."""
    bad, output = tmp_path / "bad", tmp_path / "out"
    starts = {"trace": good[1].read_bytes(), "raw log": good[0].read_bytes()[:64], "accesses": b"HTAPEACC" + bytes(16), "baseline": b"{"}
    noise = random.Random(63).randbytes(63)
    others = [b"", b"t", b"this is", bytes(8), noise[:1], noise, b"no recording\n" * 4]
    for words in SHORT_READERS[kind]:
        for content in [*others, starts[kind][:8], starts[kind][:23]]:
            bad.write_bytes(content)
            named = {"BAD": bad, "OUT": output, "GOOD": good[1]}
            done = run([tools.heaptape, *(named.get(word, word) for word in words)])
            said = done.stderr.decode()
            assert (done.returncode, said.count("\n")) == (3, 1) and not output.exists(), (words, content, said)
            at = 0 if content in others else 1 if kind == "baseline" else len(content)
            assert f"{bad}: offset {at}: " in said and "expected " in said and ", found" in said, (words, content, said)
            if content in others:
                assert "an empty file" in said if not content else "another file" in said or "none of heaptape" in said, (words, content, said)


@pytest.mark.parametrize("where", ["missing-folder/t.bin", "/proc/t.bin"])
@pytest.mark.parametrize("tool", ["convert", "replay"])
def test_unwritable_output(tools: Tools, good: tuple[Path, Path], tmp_path: Path, tool: str,
                           where: str) -> None:
    """An output that cannot be written is no fault of the input: status 1. (Tests may run as root,
    for whom no permission bit makes a folder unwritable.)"""
    output = tmp_path / where  # an absolute path replaces the folder
    source = good[0] if tool == "convert" else good[1]
    done = run(tool_commands(tools, source, output)[tool])
    complaint = done.stderr.decode()
    assert done.returncode == 1, complaint
    assert len(complaint.splitlines()) == 1, complaint
    assert output.name in complaint
    assert list(tmp_path.iterdir()) == []


def test_failed_convert_keeps_the_old_output(tools: Tools, good: tuple[Path, Path],
                                             tmp_path: Path) -> None:
    output = tmp_path / "t.bin"
    output.write_text("precious")
    bad = tmp_path / "bad.mraw"
    garbage(good[0], bad)
    assert run([tools.heaptape, "convert", bad, "-o", output]).returncode == 3
    assert output.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.mraw", "t.bin"]


@pytest.mark.thorough
def test_empty_recording_is_an_error(tools: Tools, tmp_path: Path) -> None:
    """A static program is not recorded; record must say so instead of leaving the user puzzled."""
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 0; }\n")
    program = tmp_path / "static"
    if run(["gcc", "-static", "-o", program, source]).returncode:
        pytest.skip("gcc cannot link statically here")
    recording = tools.record([program], tmp_path / "logs")
    assert recording.logs == []
    assert recording.outcome.status != 0
    assert b"static" in recording.outcome.stderr or b"nothing" in recording.outcome.stderr

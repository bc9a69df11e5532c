"""Bad input to each tool: one line that names the file, status 3, and no partial output."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import pytest

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
@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda f: f.__name__)
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


def test_raw_log_is_no_trace(tools: Tools, good: tuple[Path, Path], tmp_path: Path) -> None:
    for tool in ("info", "dump", "replay"):
        bad = tmp_path / "bad.bin"
        shutil.copy(good[0], bad)
        complaint = assert_refused(tools, tool, bad, tmp_path)
        assert "convert" in complaint, "a raw log is a common mistake: say what to do with it"


@pytest.mark.parametrize("where", ["missing-folder/t.bin", "/proc/t.bin"])
@pytest.mark.parametrize("tool", ["convert", "replay"])
def test_unwritable_output(tools: Tools, good: tuple[Path, Path], tmp_path: Path, tool: str,
                           where: str) -> None:
    """An output that can't be written is no fault of the input: status 1. (Tests may run as root,
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

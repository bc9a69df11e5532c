# SPDX-License-Identifier: Apache-2.0
"""A recording with long idle ends, or of a shell around the program: which slice or log to take."""

from __future__ import annotations

import shlex
from pathlib import Path

from tool_runner import Tools, run

SECOND = 1_000_000_000
BUSY = 500


def trace_of(tools: Tools, folder: Path, before_s: float, after_s: float) -> Path:
    """A call, a pause, half a second of calls, a pause, a call."""
    first = int(before_s * SECOND)
    times = [0, *(first + number * SECOND // 2 // BUSY for number in range(BUSY)), first + SECOND // 2 + int(after_s * SECOND)]
    text = "".join(f"1: malloc {(number + 1) << 20:#x} 100 {ns} {ns}\n" for number, ns in enumerate(times))
    (folder / "a.txt").write_text(text)
    tools.succeed([tools.heaptape, "convert", "-q", folder / "a.txt", "-o", folder / "app.bin"])
    return folder / "app.bin"


def test_idle_ends_are_named_with_the_slice(tools: Tools, tmp_path: Path) -> None:
    trace = trace_of(tools, tmp_path, 12, 7.5)
    said = tools.succeed([tools.heaptape, "info", trace]).stdout.decode().splitlines()[-1]
    assert said.startswith("the first 12.0 s and the last 7.5 s of 20.0 s have hardly any calls; without them: heaptape slice ")
    replay = run([tools.replay_program, "--alloc", "null", "--pass", "memory", "--rounds", "1", trace])
    assert f"heaptape replay: {said}" in replay.stderr.decode().splitlines()
    command = shlex.split(said.partition("without them: heaptape ")[2])
    run([tools.heaptape, *command], cwd=tmp_path)
    assert tools.info(tmp_path / "busy.bin")["duration_ns"] < SECOND
    assert tools.info(tmp_path / "busy.bin")["events"] >= BUSY * 97 // 100
    quiet = run([tools.replay_program, "-q", "--alloc", "null", "--pass", "memory", "--rounds", "1", trace])
    assert b"hardly any calls" not in quiet.stderr


def test_short_ends_are_not_named(tools: Tools, tmp_path: Path) -> None:
    for before_s, after_s, named in ((0.9, 0.9, []), (0, 3, ["last"]), (3, 0, ["first"])):
        said = tools.succeed([tools.heaptape, "info", trace_of(tools, tmp_path, before_s, after_s)]).stdout.decode()
        assert [word for word in ("first", "last") if f"the {word} 3.0 s of 3.5 s have hardly any calls" in said] == named


def test_the_shell_around_a_program(tools: Tools, tmp_path: Path) -> None:
    done = run([tools.heaptape, "record", "-o", tmp_path, "--", "/bin/sh", "-c", f"{tools.target('exit_quick')} counts; true"], cwd=tmp_path)
    said = done.stderr.decode()
    shell = next((line for line in said.splitlines() if "the shell around it, made" in line), "")
    log = shell.rpartition("(")[2].rstrip(")")
    assert Path(log).exists(), said
    wanted = said.rpartition("next: heaptape convert ")[2].split(" -o ")[0]
    converted = run([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert converted.returncode == 0
    last = converted.stderr.decode().splitlines()[-1]
    assert last.startswith("this is the log of a shell, ") and last.endswith(f": heaptape convert {wanted}")
    other = run([tools.heaptape, "convert", wanted, "-o", tmp_path / "t.bin"])
    assert other.returncode == 0 and b"of a shell" not in other.stderr

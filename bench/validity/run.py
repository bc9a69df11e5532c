# SPDX-License-Identifier: Apache-2.0
"""Runs tools on the programs that a file of bench/validity/ lists, each in a folder of its own with its inputs."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.compatibility.run import FOLDERS, find_program, free_port

ROOT = Path(__file__).resolve().parents[2]
SETUP_LIMIT_S = 300
LIMIT_S = 3 * 3600
ENDING_S = 30
SCRIPTS = ("start", "ready", "load", "stop")

Measure = Callable[[str, dict[str, Any], Path], list[str]]
"""Takes a program's name, the program and an empty folder, keeps what it measures, and returns the problems of single allocators."""


class PassedOver(Exception):
    """The program is missing here."""


class Failed(Exception):
    """It could not be measured."""


def environment(program: dict[str, Any], folder: Path, build: Path) -> dict[str, str]:
    """Nothing of the user's own but where Python finds heaptape; the home is the folder."""
    found = [str(path.parent) for name in program["needs"] if (path := find_program(name))]
    return {
        "PATH": ":".join(dict.fromkeys([*FOLDERS, *found])), "HOME": str(folder), "LC_ALL": "C.UTF-8", "TZ": "UTC",
        "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "BENCH": str(ROOT / "bench"),
        "RECIPES": str(ROOT / "traces" / "recipes"), "INPUT": str(folder), "PORT": str(free_port()),
        "HEAPTAPE_PYTHON": os.environ.get("HEAPTAPE_PYTHON", sys.executable), "HEAPTAPE_REPLAY": str(build / "replay"),
        "PYTHONPATH": str(ROOT / "analysis"), "PYTHONDONTWRITEBYTECODE": "1", **program.get("env", {}),
    }


def user_of(program: dict[str, Any]) -> pwd.struct_passwd | None:
    """Who is to run what refuses to run as root."""
    name = program.get("unprivileged")
    if not name or os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise PassedOver(f"will not run as root, and there is no user {name}") from None


def command_line(program: dict[str, Any], variables: dict[str, str]) -> list[str]:
    if "command" in program:
        return ["--", *(string.Template(word).substitute(variables) for word in program["command"])]
    # What starts the server is one command, and the title.
    return [f"--{name}={'' if name == 'start' else 'set -eu; '}{program[name].strip()}" for name in SCRIPTS if name in program]


def run_to_end(command: list[Any], limit_s: float, who: dict[str, Any]) -> tuple[int, bytes, bytes]:
    """Status, output and what was said. It is asked to end where we are to, or where it takes too long: killed, it would leave
    its own program behind."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **who)
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException as error:
        process.terminate()
        try:
            process.communicate(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"it took more than {limit_s:.0f} s") from error
        raise
    return process.returncode, out, err


def made_brief(program: dict[str, Any]) -> dict[str, Any]:
    """With the inputs for exact counts."""
    pairs = program.get("count", {})
    made = dict(program)
    for key in ("setup", "load"):
        for old, new in pairs.items():
            if key in made:
                made[key] = made[key].replace(old, new)
    if "command" in made:
        made["command"] = [pairs.get(word, word) for word in made["command"]]
    return made


@dataclass(frozen=True)
class Prepared:
    """A program whose inputs lie in its folder: how to run commands there, and what to put behind `heaptape validate`."""

    program: dict[str, Any]
    folder: Path
    who: dict[str, Any]

    @property
    def words(self) -> list[str]:
        return command_line(self.program, self.who["env"])


def prepare(name: str, program: dict[str, Any], scratch: Path, build: Path) -> Prepared:
    """In a folder of that name. Raises PassedOver and Failed."""
    # A module of Python is a file that nobody executes.
    if missing := [needed for needed in program["needs"] if not (find_program(needed) or (needed.startswith("/") and Path(needed).exists()))]:
        raise PassedOver(f"{', '.join(missing)} missing")
    user = user_of(program)
    folder = scratch / name
    folder.mkdir()
    scratch.chmod(0o755)
    who: dict[str, Any] = {"cwd": folder, "env": environment(program, folder, build), "stdin": subprocess.DEVNULL}
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
        who |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    if "setup" in program:
        status, _, said = run_to_end(["bash", "-eu", "-o", "pipefail", "-c", program["setup"]], SETUP_LIMIT_S, who)
        if status:
            raise Failed(f"its inputs could not be made: {last_line(said)}")
    return Prepared(program, folder, who)


def run_json(command: list[Any], who: dict[str, Any]) -> dict[str, Any]:
    """The document that it prints. Raises Failed."""
    _, printed, said = run_to_end(command, LIMIT_S, who)
    try:
        document: dict[str, Any] = json.loads(printed)
        return document
    except ValueError as error:
        raise Failed(last_line(said)) from error


def run_tool(command: list[Any], who: dict[str, Any], limit_s: float = LIMIT_S) -> str:
    """What it prints. Raises Failed where its status is not 0."""
    status, printed, said = run_to_end([str(word) for word in command], limit_s, who)
    if status:
        raise Failed(f"{Path(command[0]).name} {command[1]}: {last_line(said)}")
    return printed.decode(errors="replace")


def record(prepared: Prepared, build: Path, *how: str) -> tuple[Path, Path]:
    """The largest file of a recording, and its trace."""
    logs = prepared.folder / "-".join(["logs", *how])
    run_tool([build / "heaptape", "record", "-q", *how, "-o", logs, *prepared.words], prepared.who)
    if not (found := [path for suffix in ("*.acc", "*.mraw") for path in logs.glob(suffix)]):
        raise Failed("nothing was recorded")
    largest, trace = max(found, key=lambda path: path.stat().st_size), logs.with_suffix(".bin")
    run_tool([build / "heaptape", "convert", "-q", largest, "-o", trace], prepared.who)
    return largest, trace


def validated(prepared: Prepared, build: Path, alloc: str, *how: str) -> dict[str, Any]:
    """The document of heaptape validate."""
    process = ["--process", prepared.program["process"]] if "process" in prepared.program else []
    return run_json([build / "heaptape", "validate", "-q", "--json", "--alloc", alloc, "--seed", "20817", *how, *process, *prepared.words], prepared.who)


def chosen(parser: argparse.ArgumentParser, only: str | None, programs: dict[str, Any]) -> list[str]:
    """The names that --only lists, else all. A name of no program is wrong use."""
    names = only.split(",") if only else list(programs)
    if unknown := set(names) - set(programs):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    return names


def run_all(names: list[str], programs: dict[str, dict[str, Any]], done: Container[str], measure: Measure) -> bool:
    """Measures those that are not done. Whether every one that is installed could be measured."""
    fine = True
    for name in names:
        if name in done:
            print(f"{name}: is there already", file=sys.stderr)
            continue
        began = time.monotonic()
        # Others must be able to read what is in there, where a server will not run as root.
        with tempfile.TemporaryDirectory(prefix="heaptape-programs-") as scratch:
            try:
                problems = measure(name, programs[name], Path(scratch))
            except PassedOver as why:
                print(f"{name}: passed over, {why}", file=sys.stderr)
                continue
            except Failed as why:
                problems = [f"failed, {why}"]
        fine = fine and not problems
        print(f"{name}: {time.monotonic() - began:.0f} s{': ' + problems[0] if problems else ''}", file=sys.stderr, flush=True)
    return fine


def last_line(said: bytes) -> str:
    """Without the name of a verb, which the caller knows."""
    return re.sub(r"^heaptape \w+: ", "", (said.decode(errors="replace").strip().splitlines() or ["without a word"])[-1])

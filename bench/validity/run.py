# SPDX-License-Identifier: Apache-2.0
"""Makes a program's inputs in a folder of its own and runs `heaptape validate` on it there."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import string
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.compatibility.run import FOLDERS, find_program, free_port

ROOT = Path(__file__).resolve().parents[2]
SETUP_LIMIT_S = 300
LIMIT_S = 3600
ENDING_S = 30
COUNTED = ("name", "problem", "instructions_delta_real", "instructions_delta_predicted", "instructions_error", "count_differences")
SCRIPTS = ("start", "ready", "load", "stop")


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
    """With the inputs for --count."""
    pairs = program.get("count", {})
    made = dict(program)
    for key in ("setup", "load"):
        for old, new in pairs.items():
            if key in made:
                made[key] = made[key].replace(old, new)
    if "command" in made:
        made["command"] = [pairs.get(word, word) for word in made["command"]]
    return made


def count_one(name: str, program: dict[str, Any], scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What is kept of its counts. Raises PassedOver and Failed."""
    how = ["--instructions" if options.instructions else "--count"]
    found = validated(prepare(name, made_brief(program), scratch, options.build), options, how)
    return {"calls": found["recorded"]["calls"], "threads": found["recorded"]["threads"], **found["count"],
            "warnings": found["warnings"], "baseline": found["baseline"],
            "allocators": [{key: item.get(key) for key in COUNTED} for item in found["allocators"]]}


def validate_one(name: str, program: dict[str, Any], scratch: Path,
                 options: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document that --json prints, and the curves. Raises PassedOver and Failed."""
    curves = scratch / name / "curves.jsonl"
    rounds = ["--rounds", str(options.rounds), "--replay-rounds", str(options.replay_rounds or options.rounds), "-o", str(curves)]
    document = validated(prepare(name, program, scratch, options.build), options, rounds)
    try:
        return document, [json.loads(line) for line in curves.read_text().splitlines()]
    except (ValueError, OSError) as error:
        raise Failed(f"its curves cannot be read: {error}") from error


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
    if missing := [needed for needed in program["needs"] if not find_program(needed)]:
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


def run_tool(command: list[Any], who: dict[str, Any], statuses: tuple[int, ...] = (0,)) -> str:
    """What it prints. Raises Failed, where it ends with another status."""
    status, printed, said = run_to_end([str(word) for word in command], LIMIT_S, who)
    if status not in statuses:
        raise Failed(f"{Path(command[0]).name} {command[1]}: {last_line(said)}")
    return printed.decode(errors="replace")


def record(prepared: Prepared, build: Path) -> Path:
    """The trace of the program's largest process."""
    logs, trace = prepared.folder / "logs", prepared.folder / "trace.bin"
    run_tool([build / "heaptape", "record", "-q", "-o", logs, *prepared.words], prepared.who)
    if not (found := list(logs.glob("*.mraw"))):
        raise Failed("nothing was recorded")
    run_tool([build / "heaptape", "convert", "-q", max(found, key=lambda path: path.stat().st_size), "-o", trace], prepared.who)
    return trace


def validated(prepared: Prepared, options: argparse.Namespace, how: list[str]) -> dict[str, Any]:
    """The document of heaptape validate."""
    process = ["--process", prepared.program["process"]] if "process" in prepared.program else []
    return run_json([options.build / "heaptape", "validate", "-q", "--json", "--alloc", options.alloc, "--seed", "20817", *how, *process,
                     *prepared.words], prepared.who)


def chosen(parser: argparse.ArgumentParser, only: str | None, programs: dict[str, Any]) -> list[str]:
    """The names that --only lists, else all. A name of no program is wrong use."""
    names = only.split(",") if only else list(programs)
    if unknown := set(names) - set(programs):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    return names


def last_line(said: bytes) -> str:
    return (said.decode(errors="replace").strip().splitlines() or ["without a word"])[-1].removeprefix("heaptape validate: ")

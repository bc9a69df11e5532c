# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario's commands, and takes out of what they say the little that is the machine's.

`replay` is the real one. It lies in a folder of its own where each replay-NAME is tests/targets/scripted_child, which replays
nothing and reports the figures of the scenario's script; a valgrind of our own copies the counts of the script."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import heaptape
from frozen import digest
from verbs_here import run_here

RESULTS = "r.jsonl"
VALGRIND = """#!/bin/sh
here=${0%/*}
while :; do
    case $1 in --out=*) out=${1#--out=} ;; -*) ;; *) break ;; esac
    shift
done
[ -f "$here/counts-${1##*/replay-}.json" ] && cp "$here/counts-${1##*/replay-}.json" "${out%\\%p.json}$$.json"
exec "$@"
"""
ALLOCATORS = ("null", "glibc", "jemalloc", "mimalloc", "tcmalloc", "dlmalloc", "rpmalloc", "snmalloc", "bump", "tbbmalloc", "hardened")
# What stands in place of what is the machine's, and that day's.
MACHINE = {"cpu": "Example CPU", "cores": 2, "kernel": "Linux 6.1.0", "libc": "glibc 2.36", "thp": "madvise", "load": 0.5,
           "governor": None, "turbo": None}
MACHINE_WARNINGS = ("busy", "steal", "throttled", "swap", "governor", "turbo")
MACHINE_WORDS = ("other processes kept ", "the hypervisor gave ", "the control group's quota stopped ", "the machine swapped ",
                 "the processors' frequency governor is ", "turbo is on: ")


@dataclass(frozen=True)
class Scenario:
    """commands: words, the first of them `replay`, which is started, or a verb of the package, which runs in this process.
    change: what becomes of the results between replay and the others."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    script: str = ""
    trace: bytes = b""
    counts: dict[str, Any] = field(default_factory=dict)
    change: Callable[[list[dict[str, Any]], Random], list[dict[str, Any]] | bytes] | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def without_machine_warnings(text: str) -> str:
    """Of stderr lines, of JSON elements of "warnings"."""
    kinds = "|".join(MACHINE_WARNINGS)
    text = re.sub(rf'    \{{\n      "kind": "({kinds})",\n(      .*\n)*?    \}},?\n', "", text)
    text = re.sub(r'    \},\n  \],', "    }\n  ],", re.sub(r'"warnings": \[\n  \]', '"warnings": []', text))
    return "".join(line for line in text.splitlines(keepends=True)
                   if not line.startswith(tuple(f"heaptape replay: warning: {words}" for words in MACHINE_WORDS)))


def masked(text: str, folder: Path) -> str:
    text = without_machine_warnings(text).replace(f"{folder}/", "").replace(str(folder), "FOLDER")
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("heaptape replay: a round takes about "))
    text = re.sub(r"use --budget \d+m\b", "use --budget Nm", text)
    text = re.sub(r"no control group: .*?;", "no control group: WHY;", text)
    text = re.sub(r"^differences found 9 times of 10: .*", lambda found: re.sub(r"[\d.]+ (s|min|h)\b", "N s", found[0]), text, flags=re.MULTILINE)
    text = re.sub(r'"(spent_s|one_percent_s)": [-\de.]+', r'"\1": "TIME"', text)
    # The last digits hang on the machine's logarithm and exponential function.
    return re.sub(r"-?\d+\.\d{11,}(e-?\d+)?", lambda found: f"{float(found[0]):.10g}", text)


def masked_row(row: dict[str, Any]) -> dict[str, Any]:
    row = row | {"heaptape": "VERSION", "machine": MACHINE, "started_at": "2026-01-01T00:00:00.000Z"}
    if row["cpu"] is not None:
        row["cpu"] = 0
    if row["thp"] != "never":  # it was not asked for
        row["thp"] = "madvise"
    row["trace"] = row["trace"] | {"path": Path(row["trace"]["path"]).name}
    return row


def written(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()


def mask_results(file: Path) -> None:
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"".join(written([masked_row(json.loads(line))]) if line.startswith(b'{"schema"') and line.endswith(b"}") else line + b"\n" for line in lines))


def set_in(file: Path, place: str, value: str) -> None:
    """Of a file of JSON, what is at KEY.KEY; without a value it goes."""
    root = json.loads(file.read_text())
    *outer, last = place.split(".")
    holder = root
    for key in outer:
        holder = holder[key]
    if value:
        holder[last] = json.loads(value)
    else:
        del holder[last]
    file.write_text(json.dumps(root))


def masked_baseline(text: str) -> str:
    """What the machine is in a file that --write-baseline wrote."""
    return re.sub(r'"(processors|libc|instruction_set|caches|thp|heaptape)": ("[^"]*"|\d+)', r'"\1": "MACHINE"', text)


def index_of(file: Path) -> bytes:
    """Of snapshots: the JSON before the last two words."""
    data = file.read_bytes()
    return data[-16 - int.from_bytes(data[-16:-8], "little"):-16]


def page_text(page: str) -> str:
    """What a reader sees of a page, a line for each piece of text, and what is drawn."""
    page = re.sub(r"<style.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL)
    pieces = re.findall(r">([^<>]+)<", page)
    return "".join(f"{piece.strip()}\n" for piece in pieces if piece.strip())


class Oracle:
    """One folder for all scenarios of a process: only script, trace and files differ."""

    def __init__(self, build: Path, folder: Path) -> None:
        self.programs, self.targets, self.work = folder / "programs", build / "tests" / "targets", folder / "work"
        (self.programs / "valgrind").mkdir(parents=True)
        self.path = folder / "path"
        self.path.mkdir()
        shutil.copy2(build / "heaptape", self.programs)
        (self.programs / "replay").symlink_to("heaptape")
        for name in ALLOCATORS:
            (self.programs / f"replay-{name}").symlink_to(self.targets / "scripted_child")
        (self.programs / "valgrind" / "heaptape-amd64-linux").symlink_to("/bin/true")
        valgrind = self.path / "valgrind"
        valgrind.write_text(VALGRIND)
        valgrind.chmod(0o755)

    def prepare(self, scenario: Scenario) -> None:
        for old in self.path.glob("counts-*"):
            old.unlink()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        (self.programs / "script").write_text(scenario.script)
        for name, counts in scenario.counts.items():
            (self.path / f"counts-{name}.json").write_text(json.dumps(counts))
        if scenario.trace:
            (self.work / "t.bin").write_bytes(scenario.trace)
        for name, content in scenario.files.items():
            (self.work / name).write_bytes(content)

    def replay(self, words: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str, str]:
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TMPDIR", "LSAN_OPTIONS")}
        home = {"HOME": str(self.work), "PATH": f"{self.path}:/usr/bin:/bin", "HEAPTAPE_PYTHON": sys.executable,
                "PYTHONPATH": str(Path(heaptape.__file__).parents[1])}
        if "--memory-max" in words:
            home["LD_PRELOAD"] = str(self.targets / "no_control_groups.so")
        for runs in self.programs.glob("runs.*"):  # each command begins with the first figures
            runs.unlink()
        done = subprocess.run([self.programs / "replay", *words], cwd=self.work, capture_output=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=kept | home | environment)
        if (file := self.work / RESULTS).exists():
            mask_results(file)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def ask(self, scenario: Scenario) -> dict[str, str]:
        """What each command says, the results and other files that they leave."""
        self.prepare(scenario)
        said: dict[str, str] = {}
        changed = scenario.change is None
        for number, words in enumerate(scenario.commands, 1):
            if words[0] == "set":
                set_in(self.work / words[1], words[2], words[3])
                continue
            if words[0] == "replay":
                status, out, err = self.replay(words[1:], scenario.environment)
            else:
                if not changed and (changed := True):
                    self.change(scenario)
                with patch.dict(os.environ, {"HEAPTAPE_REPLAY": str(self.programs / "replay")}):  # as the front end sets it
                    done = run_here(*words, cwd=self.work)
                status, out, err = done.returncode, done.stdout, done.stderr
            text = masked(f"{out}{'-- stderr --' if err else ''}\n{err}-- status {status} --\n", self.work).replace(str(self.programs), "PROGRAMS")
            said[f"{number} {' '.join(words)}"] = text
            for page in sorted(self.work.glob("*.html")):
                text = masked(page.read_text(), self.work)
                said[f"{number} page"] = page_text(text)
                said[f"{number} page's bytes"] = digest(text)
                page.unlink()
        for file in sorted(self.work.iterdir()):
            if file.name in scenario.files or file.suffix not in (".jsonl", ".json", ".snapshots"):
                continue
            text = (index_of(file) if file.suffix == ".snapshots" else file.read_bytes()).decode(errors="backslashreplace")
            text = masked(text, self.work) if file.suffix == ".snapshots" else text
            said[file.name] = masked_baseline(text) if file.name == "b.json" else text
        return said

    def change(self, scenario: Scenario) -> None:
        file = self.work / RESULTS
        rows = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert scenario.change
        made = scenario.change(rows, Random(scenario.name))
        (self.work / RESULTS).write_bytes(made if isinstance(made, bytes) else written(made))

# SPDX-License-Identifier: Apache-2.0
"""Man pages, completion and the reference say what --help says, and completion completes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from heaptape.base.verb_parser import help_text, option_head

from tool_runner import Tools, clean_environment, run

Table = dict[str, Any]
# What changes nothing where it is not given.
NO_DEFAULT = {"--pid", "--core", "--member", "--wrap", "--fail-if", "--start", "--load", "--keep", "--output"}


@pytest.fixture(scope="module")
def package(repository: Path) -> dict[str, str]:
    """The tree's, not the one that is installed."""
    return {"PYTHONPATH": str(repository / "analysis")}


@pytest.fixture(scope="module")
def tables(tools: Tools, package: dict[str, str]) -> list[Table]:
    done = run([tools.heaptape, "help", "--json"], env=package)
    assert done.returncode == 0 and done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def pages(tools: Tools) -> Path:
    folder = tools.build / "pages"
    if not folder.is_dir():
        pytest.skip("this build has no man pages: no python3, or a cross build")
    return folder


def test_a_table_for_each_verb(tables: list[Table]) -> None:
    assert sorted(table["name"] for table in tables[1:]) == sorted(verb["name"] for verb in tables[0]["commands"])
    assert tables[0]["knobs"]["glibc"]


def test_help_is_printed_from_the_tables(tools: Tools, package: dict[str, str], tables: list[Table]) -> None:
    """In C as in Python, so that both look alike, and that the tables have all of it."""
    for number, table in enumerate(tables):
        name, columns = f"heaptape {table['name']}".rstrip(), (80, 47, 131)[number % 3]
        done = run([tools.heaptape, *name.split()[1:], "--help"], env=package | {"COLUMNS": str(columns)})
        assert done.stdout.decode() == help_text(table, name, columns)


def test_tables_need_no_package(package: dict[str, str], tables: list[Table]) -> None:
    done = run([sys.executable, "-S", "-m", "heaptape", "help", "--json"], env=package)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) >= 7 and found == tables[-len(found):]


def test_texts_are_alike(tables: list[Table]) -> None:
    for table in tables:
        assert json.dumps(table, ensure_ascii=False).isascii()  # whatever the terminal
        assert table["examples"] and table["statuses"] and table["description"].endswith(".")
        for option in table["options"]:
            text = option["help"]
            assert re.match(r"[A-Z]|\w+: |\w+ ", text) and text[-1] not in " .", f"{table['name']} --{option['long']}: {text}"
            settled = "(default: " in text or "(required)" in text or f"--{option['long']}" in NO_DEFAULT
            assert settled or "argument" not in option, f"{table['name']} --{option['long']} says no default"


def test_every_option_is_everywhere(repository: Path, tables: list[Table], pages: Path) -> None:
    reference = (repository / "docs" / "reference" / "commands.md").read_text()
    bash, zsh, fish = ((pages / name).read_text() for name in ("bash/heaptape", "zsh/_heaptape", "fish/heaptape.fish"))
    seen = 0
    for table in tables[1:]:
        verb = table["name"]
        man = (pages / "man" / f"heaptape-{verb}.1").read_text()
        section, usual = (reference.partition(f"\n## {name}\n")[2].partition("\n## ")[0] for name in (f"heaptape {verb}", "heaptape"))
        case = {"bash": re.findall(rf"^ +{verb}\) .*", bash, re.MULTILINE)[0],
                "zsh": zsh.partition(f"\n    {verb}) _arguments")[2].partition(";;\n")[0]}
        for option in table["options"]:
            long = option["long"]
            assert f"- `{option_head(option).strip()}`: " in (usual if option in tables[0]["options"] else section)
            assert "\\fB\\-\\-" + long.replace("-", "\\-") + "\\fR" in man
            assert all(f"--{long}" in text for text in case.values())
            assert re.search(rf"__fish_seen_subcommand_from {verb}' (-s . )?-l {long}\b", fish)
            seen += 1
        for example in table["examples"]:
            assert f"\n{example['name']}   # " in reference and example["name"].replace("-", "\\-").replace("'", "\\(aq") in man
    assert seen > 140


def test_the_reference_is_fresh(repository: Path, tools: Tools, tmp_path: Path) -> None:
    tools.succeed([sys.executable, repository / "cli" / "pages.py", "--markdown", tmp_path / "commands.md", tools.heaptape])
    fresh = (tmp_path / "commands.md").read_text() == (repository / "docs" / "reference" / "commands.md").read_text()
    assert fresh, "an option has changed: cli/pages.py --markdown docs/reference/commands.md"


def test_man_pages_are_sound(pages: Path) -> None:
    checker = ["mandoc", "-T", "lint", "-W", "style"] if shutil.which("mandoc") else ["man", "--warnings", "-l", "-Tutf8"]
    if not shutil.which(checker[0]):
        pytest.skip("neither mandoc nor man is installed")
    done = run([*checker, *sorted((pages / "man").glob("heaptape*.1"))], env={"MANROFFSEQ": "", "MANPAGER": "cat"})
    said = done.stdout if checker[0] == "mandoc" else done.stderr
    assert [line for line in said.decode().splitlines() if "referenced manual not found" not in line] == []


class Shell:
    """An interactive one under a pseudo-terminal."""

    def __init__(self, command: list[str], begin: str, environment: dict[str, str]) -> None:
        self.process, self.said = pty.fork()
        if self.process == 0:
            os.execvpe(command[0], command, environment)
        self.send(f"{begin}\n")
        self.until("ready")

    def send(self, text: str) -> None:
        os.write(self.said, text.encode())

    def until(self, mark: str) -> str:
        """What is printed until an output line has <mark>."""
        text, end = "", time.monotonic() + 20
        while f"\n<{mark}" not in text.replace("\r", ""):
            assert time.monotonic() < end, text
            if select.select([self.said], [], [], 0.1)[0]:
                text += os.read(self.said, 65536).decode(errors="replace")
        return text.replace("\r", "")

    def completed(self, line: str) -> str:
        """The words of the line once Tab has been pressed at its end."""
        self.send(f"{line}\t")
        time.sleep(0.2)
        self.send("\x01printf '<%s' \x05 done; echo\n")
        return re.findall(r"^<(printf)?(.*)<done", self.until("heaptape" if line.startswith("heaptape") else "replay"), re.MULTILINE)[-1][1]

    def close(self) -> None:
        self.send("\x15exit\n")
        os.close(self.said)
        os.waitpid(self.process, 0)


CASES = {
    "heaptape sli": "heaptape<slice",
    "heaptape slice --from-t": "heaptape<slice<--from-time=",
    "replay --pass ver": "replay<--pass<verify",
    "replay --pass=mem": "replay<--pass=memory",
    "replay --alloc glibc:arena_m": "replay<--alloc<glibc:arena_max=",
    "replay --alloc mimalloc@3": "replay<--alloc<mimalloc@3.6.0",
    "replay --alloc glibc@2.43:arena_m": "replay<--alloc<glibc@2.43:arena_max=",
    "heaptape allocators rem": "heaptape<allocators<remove",
    "replay --alloc null,glib": "replay<--alloc<null,glibc",
    "heaptape info other.b": "heaptape<info<other.bin",
    "heaptape record -- /bin/ech": "heaptape<record<--</bin/echo",
    "heaptape ctl 1 pau": "heaptape<ctl<1<pause",
}


def check_completion(shell: str, command: list[str], begin: str, tools: Tools, folder: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (folder / "other.bin").touch()
    (folder / ".local/share/heaptape/allocators/mimalloc@3.6.0").mkdir(parents=True)
    environment = clean_environment() | {"TERM": "dumb", "HOME": str(folder), "PATH": f"{tools.build}:{os.environ['PATH']}", "PS1": "$ "}
    environment.pop("XDG_DATA_HOME")
    session = Shell(command, f"cd {folder}; {begin}; echo '<ready'", environment)
    try:
        found = {line: session.completed(line).rstrip("<,= ") for line in CASES}
    finally:
        session.close()
    assert found == {line: words.rstrip("<,= ") for line, words in CASES.items()}


@pytest.mark.thorough
def test_bash_completes(tools: Tools, pages: Path, tmp_path: Path) -> None:
    check_completion("bash", ["bash", "--norc", "--noprofile", "-i"], f"source {pages}/bash/heaptape", tools, tmp_path)


@pytest.mark.thorough
def test_zsh_completes(tools: Tools, pages: Path, tmp_path: Path) -> None:
    begin = f"bindkey -e; unsetopt prompt_cr prompt_sp; fpath=({pages}/zsh $fpath); autoload -Uz compinit; compinit -u"
    check_completion("zsh", ["zsh", "-f", "-i"], begin, tools, tmp_path)


@pytest.mark.thorough
def test_scripts_are_sound(pages: Path) -> None:
    for shell, name in (("bash", "bash/heaptape"), ("zsh", "zsh/_heaptape"), ("fish", "fish/heaptape.fish"), ("fish", "fish/replay.fish")):
        if shutil.which(shell):
            subprocess.run([shell, "-n", pages / name], check=True, timeout=60)

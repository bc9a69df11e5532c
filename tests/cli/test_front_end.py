# SPDX-License-Identifier: Apache-2.0
"""Help and version, the same way with every verb, in C or in Python; and the message where Python's packages are missing."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from quick_tier import quick
from tool_runner import Tools, clean_environment, run

VERBS = ("try", "record", "ctl", "convert", "names", "info", "dump", "slice", "extend", "share", "stats", "lint", "replay", "count", "calibrate", "compare", "report", "export",
         "sites", "diff", "explain", "walk", "forecast", "fleet", "bisect", "tune", "validate")
# Those in Python share what answers; one of them stands for all.
QUICK_VERBS = set(VERBS) - {"compare", "report", "export", "sites", "diff", "explain", "forecast", "fleet", "bisect", "tune", "validate"}


def test_the_table_is_whole(tools: Tools) -> None:
    listed = run([tools.heaptape, "--help"]).stdout.decode()
    assert tuple(re.findall(r"^  ([a-z]+) +\S", listed, re.MULTILINE)[: len(VERBS)]) == VERBS


@pytest.mark.parametrize("verb", quick(QUICK_VERBS, VERBS))
def test_help(tools: Tools, verb: str) -> None:
    said = [run([tools.heaptape, *words]) for words in ((verb, "--help"), (verb, "-h"), ("help", verb))]
    for done in said:
        assert (done.returncode, done.stderr) == (0, b"")
        assert re.match(rf"usage: heaptape {verb}( |$)", done.stdout.decode().splitlines()[0], re.IGNORECASE)
    # Where there are many options, -h prints those most used.
    assert len({done.stdout for done in (said[::2] if verb == "replay" else said)}) == 1 and said[0].stdout.count(b"\n") > 5


def test_a_screen_of_help(tools: Tools) -> None:
    """What -h prints of replay fits one of 24 lines, and begins as --help does."""
    brief, whole = (run([tools.heaptape, "replay", word], env={"COLUMNS": "80"}).stdout.decode().splitlines() for word in ("-h", "--help"))
    assert len(brief) <= 24 and brief[-1] == "All options: heaptape replay --help" and brief[:2] == whole[:2]
    options = [re.findall(r"--([\w-]+)", line)[0] for line in brief[:-1] if re.match(r" +(-\w, )?--", line)]
    assert options[:2] == ["alloc", "output"] and len(options) == 11


@pytest.mark.parametrize("verb", quick(QUICK_VERBS, VERBS))
def test_version(tools: Tools, verb: str) -> None:
    whole = run([tools.heaptape, "--version"]).stdout
    assert re.fullmatch(rb"heaptape \d+\.\d+\.\d+\n", whole)
    for option in ("--version", "-V"):
        done = run([tools.heaptape, verb, option])
        assert (done.returncode, done.stdout, done.stderr) == (0, whole, b"")


def test_replay_under_its_own_name(tools: Tools) -> None:
    for option in ("-h", "--help"):
        done = run([tools.replay_program, option])
        assert done.returncode == 0 and done.stderr == b"" and done.stdout.startswith(b"Usage: heaptape replay ")


def test_one_version(tools: Tools, repository: Path, tmp_path: Path) -> None:
    """Programs, the package, as it is here and as it is installed, logs and results."""
    number = (repository / "analysis" / "heaptape" / "VERSION").read_text().strip()
    whole = f"heaptape {number}\n".encode()
    assert run([tools.heaptape, "--version"]).stdout == run([tools.replay_program, "--version"]).stdout == whole
    assert metadata.version("heaptape") == number
    [log] = tools.record(["ls"], tmp_path / "logs").logs
    trace = tools.convert(log, tmp_path / "t.bin")
    assert tools.info(trace)["context"]["shim_version"] == number
    run([tools.replay_program, "--alloc", "null", "--rounds", "1", "-o", tmp_path / "results.jsonl", trace])
    assert {json.loads(line)["heaptape"] for line in (tmp_path / "results.jsonl").open()} == {number}
    environment = clean_environment() | {"PYTHONPATH": str(repository / "analysis")}
    for words in (["--version"], ["compare", "--version"]):
        assert run([sys.executable, "-m", "heaptape", *words], env=environment).stdout == whole


def test_help_of_what_is_no_verb(tools: Tools) -> None:
    for words in (["frob"], ["help", "frob"]):
        done = run([tools.heaptape, *words])
        assert done.returncode == 2 and done.stdout == b""
        assert done.stderr == b"heaptape: there is no verb 'frob'; heaptape --help lists them\n"


@pytest.mark.parametrize("words", [["help"], ["--help"], ["help", "--json"], ["replay", "--list"]], ids="_".join)
def test_help_that_cannot_be_printed(tools: Tools, words: list[str]) -> None:
    verb = "heaptape replay" if words[0] == "replay" else "heaptape"
    for redirection, why in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        done = run(["sh", "-c", f'exec "$0" "$@" {redirection}', tools.heaptape, *words])
        assert (done.returncode, done.stderr.decode()) == (1, f"{verb}: standard output: cannot write: {why}\n")


def test_words_of_the_program_stay_its_own(tools: Tools, tmp_path: Path) -> None:
    done = run([tools.heaptape, "record", "-q", "-o", tmp_path, "--", "/bin/echo", "-h", "--version"])
    assert done.stdout == b"-h --version\n"


@pytest.mark.thorough
@pytest.mark.parametrize("missing", ["numpy", "pandas", "rich"])
@pytest.mark.parametrize("verb", ["compare", "report"])
def test_a_missing_package_is_named(tools: Tools, tmp_path: Path, missing: str, verb: str) -> None:
    """As where python3 is found, and not what it needs: a module of that name that is not there."""
    if (missing, verb) == ("rich", "report"):
        pytest.skip("a report needs no rich")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / f"{missing}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{missing}'\", name='{missing}')\n")
    (tmp_path / "r.jsonl").write_text(
        '{"trace": {}, "allocator": {"name": "a"}, "pass": "time", "round": 0, "alloc_time_ns": 12, "machine": {}}\n')
    environment = clean_environment() | {"PYTHONPATH": f"{hidden}:{os.environ.get('PYTHONPATH', '')}"}
    done = run([tools.heaptape, verb, tmp_path / "r.jsonl"], env=environment, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1, done.stderr
    assert f"heaptape {verb}: the Python package {missing} is missing: ".encode() in done.stderr and b"pip install" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}])
@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_terminals_of_ascii(tools: Tools, tmp_path: Path, variables: dict[str, str], form: list[str]) -> None:
    lines = [f'{{"trace": {{"path": "t.bin"}}, "allocator": {{"name": "{name}"}}, "pass": "time", "round": {number}, '
             f'"alloc_time_ns": {time + number}}}\n' for number in range(8) for name, time in (("a", 9000), ("b\u00e9", 5000))]
    (tmp_path / "r.jsonl").write_text("".join(lines), encoding="utf-8")
    done = run([tools.heaptape, "compare", *form, tmp_path / "r.jsonl"], env=clean_environment() | variables)
    text = done.stdout.decode("ascii")
    assert done.returncode == 0 and done.stderr == b""
    assert " us" in text and "b\\xe9 is fastest, 1.80x as fast" in text.replace("\\\\", "\\")


@pytest.mark.parametrize(("words", "said"), [
    (["recrod"], "there is no verb 'recrod' (did you mean record?)"),
    (["replay", "--alloc", "tcmaloc", "x"], "--alloc: tcmaloc is not built"),
    (["replay", "--alloc", "glbc", "x"], " is not built (did you mean glibc?)"),
    (["replay", "--pass", "memroy", "x"], "--pass memroy: expected one of time, memory, both, verify, limit, count (did you mean memory?)"),
    (["replay", "--fail-if", "rss_peek>1", "x"], "such as time>1.05 (did you mean rss_peak?)"),
    (["replay", "--alloc", "jemalloc,glibc", "--baseline", "jemaloc", "TRACE"], "--baseline jemaloc: expected one of the allocators to replay (did you mean jemalloc?)"),
    (["compare", "--fail-if", "rss_peek>1", "x"], "such as time>1.05 (did you mean rss_peak?)"),
    (["compare", "--colour", "x"], "unrecognized option '--colour' (did you mean --color?)"),
    (["compare", "--to", "perfeto", "x"], "--to perfeto: expected one of bencher, github-action, hyperfine, perfetto (did you mean perfetto?)"),
    (["slice", "--from-time", "x", "y"], "--from-time x: expected a time such as 250ms or 1.5s"),
    (["forecast", "--to", "x", "y"], "--to x: expected a time such as "),
    (["extend", "--to", "x", "y"], "--to x: expected a time such as "),
    (["info"], "expected TRACE"), (["sites"], "expected TRACE"),
    (["info", "--foo"], "unrecognized option '--foo'"), (["sites", "--foo", "x"], "unrecognized option '--foo'"),
    (["extend", "--to"], "option '--to' requires an argument"), (["forecast", "--to"], "option '--to' requires an argument"),
])
def test_usage_errors_have_one_voice(tools: Tools, repository: Path, words: list[str], said: str) -> None:
    """The option as it was given, what was expected, and the name that was meant: in C and in Python."""
    done = run([tools.heaptape, *(str(repository / "traces" / "sqlite3-small.bin") if word == "TRACE" else word for word in words)])
    first = done.stderr.decode().splitlines()[0]
    assert done.returncode == 2 and done.stdout == b"" and said in first and first.startswith("heaptape"), first

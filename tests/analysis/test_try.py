# SPDX-License-Identifier: Apache-2.0
"""`heaptape try`: a program, the answer, and what is left in the folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import results_factory
import story
from heaptape import read_results
from heaptape.base.builds import broken
from heaptape.base.errors import HeaptapeError
from heaptape.base.programs import list_allocators
from heaptape.base.recorded_trace import RecordedProcess
from heaptape.report.html import write_report
from heaptape.results.comparison import experiments
from heaptape.results.malloc_share import Saving
from heaptape.results.summary import summarise
from heaptape.results.use import (
    also_set,
    no_reason,
    python_malloc,
    use_heading,
    use_lines,
    uses,
)
from heaptape.trial.allocators import choose
from heaptape.trial.answer import table
from heaptape.trial.recorded import Recorded, from_recording, record_logs, sharers_of
from heaptape.trial.verb import _notes
from verbs_here import run_here
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.path.realpath(sys.executable)
WORK = "x = [bytes(i % 3000) for i in range(20000)]; print('the program', len(x), flush=True)"


def _environment() -> dict[str, str]:
    return {**os.environ, "HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "analysis"), "PYTHONMALLOC": "malloc"}


def _try(binary: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary, "try", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, env=_environment(), timeout=200, check=False)


def _recorded(binary: Path, command: list[str], folder: Path) -> Recorded:
    return from_recording(str(binary), record_logs(str(binary), command, folder, None), folder / "trace.bin", None)


def test_from_a_command_to_the_answer(heaptape_binary: Path, tmp_path: Path) -> None:
    done = _try(heaptape_binary, tmp_path, "--alloc", "glibc,bump", "--budget", "2s", "--", PYTHON, "-S", "-c", WORK)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "the program 20000" and re.match(r"Keep glibc: |Not decided: |bump: ", lines[1])
    first = next(i for i, line in enumerate(lines) if line.startswith("allocator "))
    assert lines[first + 1].startswith("glibc") or lines[first + 2].startswith("glibc")
    folder = tmp_path / f"heaptape-{Path(PYTHON).name}"
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "results.jsonl", "trace.bin"]
    assert lines[-1] == f"Report:  {folder.name}/report.html"
    assert ("Use:  " in done.stdout) == lines[1].startswith("bump: ")
    assert re.search(r"^With the recorder the program took \S+ MB and \S+ m?s, without it \S+ MB and \S+ m?s \(peak RSS, CPU\)\.$", done.stdout, re.MULTILINE)
    assert ("Set PYTHONMALLOC=malloc too" in done.stdout) == ("Use:  " in done.stdout)


@pytest.mark.thorough
@pytest.mark.parametrize(("runs", "options", "stdin"), [(2, [], subprocess.DEVNULL), (1, ["--no-check"], subprocess.DEVNULL), (1, [], subprocess.PIPE),
                                                        (1, ["--seconds", "60"], subprocess.DEVNULL)])
def test_the_program_runs_once_more_where_it_can(heaptape_binary: Path, tmp_path: Path, runs: int, options: list[str], stdin: int) -> None:
    """Alone, if nobody asks that it does not, and its input comes twice."""
    script = f"{WORK}; open({str(tmp_path / 'runs')!r}, 'a').write('x')"
    done = subprocess.run([heaptape_binary, "try", "--alloc", "glibc", "--budget", "1s", *options, "--", PYTHON, "-S", "-c", script], cwd=tmp_path, stdin=stdin,
                          capture_output=True, text=True, env=_environment(), timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs").read_text() == "x" * runs
    assert ("With the recorder" in done.stdout) == (runs == 2) == ("--no-check leaves that out" in done.stderr)
    assert done.stdout.count("the program 20000") == 1


@pytest.mark.thorough
def test_the_answer_for_programs(heaptape_binary: Path, tmp_path: Path) -> None:
    """Of a run that was recorded, without recording again."""
    done = _try(heaptape_binary, tmp_path, "-q", "--alloc", "glibc,bump", "--budget", "1s", "-o", "first", "--", PYTHON, "-S", "-c", f"import os; os.fork(); {WORK}")
    assert done.returncode == 0 and "This is process" in done.stdout
    [other] = {line.split()[0] for line in done.stdout.splitlines() if PYTHON.rpartition("/")[2] in line and " *" not in line and line.startswith("  ")} - {"heaptape"}
    again = _try(heaptape_binary, tmp_path, "-q", "--json", "--alloc", "glibc,bump", "--budget", "1s", "--logs", "first", "-o", "second", "--process", other)
    answer = json.loads(again.stdout)
    assert again.returncode == 0 and len(again.stdout) < 3000 and "the program" not in again.stdout
    assert answer["process"]["pid"] == int(other) and answer["processes"] == 2 and answer["decision"] in ("use", "keep", "not decided")
    assert set(answer["changes"]) == {"bump"} and answer["changes"]["bump"]["memory"]["whole_bytes"] > 1e6


@pytest.mark.thorough
def test_what_ends_the_program_is_no_advice(heaptape_binary: Path, tmp_path: Path) -> None:
    """A library opened with RTLD_DEEPBIND has libc's malloc, and the program frees by jemalloc's free, which would save half of its
    memory: blocks of 16 bytes take 32 of glibc's heap."""
    (tmp_path / "made.c").write_text("#include <stdlib.h>\nvoid *made(void) { return malloc(20); }\n")
    (tmp_path / "app.c").write_text("""#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <string.h>
        int main(void) {
            for (int i = 0; i < 1000000; i++) memset(malloc(16), 1, 16);
            void *(*made)(void) = dlsym(dlopen("./libmade.so", RTLD_NOW | RTLD_DEEPBIND), "made");
            for (int i = 0; i < 100; i++) free(made());
            return 0;
        }""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libmade.so", "made.c"], cwd=tmp_path, check=True, timeout=60)
    subprocess.run(["cc", "-O0", "-o", "app", "app.c", "-ldl"], cwd=tmp_path, check=True, timeout=60)
    done = _try(heaptape_binary, tmp_path, "--alloc", "glibc,jemalloc", "--budget", "30s", "--", "./app")
    assert done.returncode == 0 and "running the program once under jemalloc" in done.stderr
    assert re.match(r"(Keep glibc|Not decided).*\n(.*\n)*?Under jemalloc the program is ended by SIG", done.stdout)


@pytest.mark.thorough
def test_recordings_of_several_runs(heaptape_binary: Path, tmp_path: Path) -> None:
    """Their sizes differ by a tenth and more, which widens the interval of memory."""
    script = "import os; n = 200000 + os.getpid() % 7 * 20000; x = [bytes(i % 3000) for i in range(n // 8)]; print('the program')"
    done = _try(heaptape_binary, tmp_path, "-q", "--json", "--alloc", "glibc,bump", "--budget", "3s", "--recordings", "3", "-o", "out", "--", PYTHON, "-S", "-c", script)
    answer = json.loads(done.stdout)
    assert done.stderr.count("the program\n") == 3  # what it prints is no part of the answer
    assert done.returncode == 0 and answer["recordings"] == 3 and any("over the program's own runs" in words for words in answer["unknown"])
    assert sorted(path.name for path in (tmp_path / "out").glob("trace*")) == ["trace-2.bin", "trace-3.bin", "trace.bin"]


@pytest.mark.thorough
def test_a_second_trial_leaves_the_first_one_alone(heaptape_binary: Path, tmp_path: Path) -> None:
    folder = tmp_path / f"heaptape-{Path(PYTHON).name}"
    folder.mkdir()
    again = _try(heaptape_binary, tmp_path, "-q", "--alloc", "glibc,bump", "--budget", "1s", "--", PYTHON, "-S", "-c", WORK)
    assert again.returncode == 0 and again.stderr == "" and f"{folder.name}-2/report.html" in again.stdout


@pytest.mark.parametrize(("status", "words", "arguments"), [
    (2, "COMMAND", []),
    (2, "no such program", ["--", "no-such-program"]),
    (2, "already exists", ["-o", ".", "--", "true"]),
    (2, "cannot create", ["-o", "no/such/folder", "--", "true"]),
    (2, "no-such-allocator", ["--alloc", "glibc,no-such-allocator", "--", "true"]),
    (1, "nothing was recorded", ["--", "/sbin/ldconfig", "--version"]),
    (2, "no such process was recorded, only", ["--process", "other", "--", "sort", "--version"]),
    (2, "expected raw logs", ["--logs", "."]),
    (2, "not both", ["--logs", ".", "--", "true"]),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_what_can_not_be_done(heaptape_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, words: str,
                              arguments: list[str]) -> None:
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(heaptape_binary.with_name("replay")))
    done = run_here("try", "-q", *arguments, cwd=tmp_path)
    assert done.returncode == status and words in done.stderr.splitlines()[-1], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["seconds", "interrupt"])
def test_a_server_is_ended(heaptape_binary: Path, tmp_path: Path, how: str) -> None:
    mark = tmp_path / "mark"
    script = f"{WORK}; import time; open({str(mark)!r}, 'w'); time.sleep(1000)"
    options = ["--seconds", "3s"] if how == "seconds" else []
    with subprocess.Popen([heaptape_binary, "try", *options, "--alloc", "glibc,bump", "--budget", "1s", "-o", "out", "--",
                           PYTHON, "-S", "-c", script], cwd=tmp_path, env=_environment(), text=True, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(mark.exists, "the program's work", process=process)
        if how == "interrupt":
            os.killpg(process.pid, signal.SIGINT)
        printed, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert "the program ended with status" in said and "peak RSS" in printed and (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(("specification", "kind", "alloc", "baseline"), [
    ("all", "glibc", "all", "glibc"),
    ("glibc=LIBC,bump", "glibc", "glibc=LIBC,bump", "glibc"),
    ("bump,x=LIBC", "glibc", "glibc,bump,x=LIBC", "glibc"),
    ("x=LIBC", "of its own", "x=LIBC", "x"),
    ("glibc:arena_max=1,tcache_count=0", "of its own", "glibc:arena_max=1,tcache_count=0", "glibc:arena_max=1,tcache_count=0"),
    ("bump,all", "of its own", "bump,all", "glibc")])
def test_what_is_compared(heaptape_binary: Path, specification: str, kind: str, alloc: str, baseline: str) -> None:
    """replay takes it: nothing is named twice, and the baseline is among them."""
    replay = str(heaptape_binary.with_name("replay"))
    [libc] = [item["path"] for item in list_allocators(replay, "glibc")]
    found, base, _ = choose(replay, specification.replace("LIBC", libc), {"allocator_name": kind, "allocator": "/usr/bin/app"})
    assert (found, base) == (alloc.replace("LIBC", libc), baseline)
    assert base in {item["name"] for item in list_allocators(replay, found)}


HERE = {"glibc": ("glibc", "2.36"), "jemalloc": ("jemalloc", "5.3.0"), "jemalloc531": ("jemalloc", "5.3.1"), "tcmalloc": ("tcmalloc", "2.10"), "gperftools": ("tcmalloc", "2.9"),
        "mimalloc": ("mimalloc", "2.0.9"), "mimalloc2": ("mimalloc", "2.5.2"), "mimalloc3": ("mimalloc", "3.6.0"), "tbbmalloc": ("tbbmalloc", "2021.8")}


@pytest.mark.parametrize(("missing", "recorded", "alloc", "baseline"), [
    ("tcmalloc gperftools jemalloc", ("glibc", "2.36"), "glibc,jemalloc531,mimalloc3", "glibc"),
    ("", ("glibc", "2.41"), "glibc,jemalloc531,tcmalloc,mimalloc3", "glibc"),
    ("mimalloc3 tcmalloc", ("glibc", "2.36"), "glibc,jemalloc531,gperftools,mimalloc2", "glibc"),
    ("mimalloc2 mimalloc3", ("mimalloc", "2.0.9"), "glibc,jemalloc531,tcmalloc,mimalloc", "mimalloc"),
    ("", ("jemalloc", "5.3.0"), "jemalloc,glibc,jemalloc531,tcmalloc,mimalloc3", "jemalloc"),
    ("", ("jemalloc", "5.3.1"), "glibc,jemalloc531,tcmalloc,mimalloc3", "jemalloc531"),
    ("", ("jemalloc", "5.2.1"), "jemalloc=PATH,glibc,jemalloc531,tcmalloc,mimalloc3", "jemalloc"),
    ("", ("tbbmalloc", "2021.8"), "tbbmalloc,glibc,jemalloc531,tcmalloc,mimalloc3", "tbbmalloc")])
def test_the_newest_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, recorded: tuple[str, str], alloc: str, baseline: str) -> None:
    """And the program's own."""
    here = [{"name": name, "kind": kind, "version": version, "problem": "is gone" if name in missing.split() else None} for name, (kind, version) in HERE.items()]
    monkeypatch.setattr("heaptape.base.builds.list_allocators", lambda *_: here)
    path = tmp_path / "libother.so"
    path.touch()
    context = {"allocator_name": recorded[0], "allocator_version": recorded[1], "allocator": str(path)}
    assert choose("replay", None, context) == (alloc.replace("PATH", str(path)), baseline, "")
    assert broken("replay") == ([f"{name} is left out: is gone" for name in ("tcmalloc", "gperftools")] if "gperf" in missing else [])


def test_a_recording_from_elsewhere_has_an_answer(heaptape_binary: Path) -> None:
    """Of musl, or of an allocator that is not installed here."""
    replay = str(heaptape_binary.with_name("replay"))
    for kind, path in (("musl", "/lib/ld-musl-x86_64.so.1"), ("other", "/nowhere/libother.so.2")):
        alloc, baseline, why = choose(replay, None, {"allocator_name": kind, "allocator": path})
        names = [item["name"] for item in list_allocators(replay, alloc)]
        assert baseline in names and (why == f"The program was recorded under {kind}, which is not here: {path}." or baseline == "mallocng")


def test_one_allocator_that_does_not_run_ends_nothing(heaptape_binary: Path, tmp_path: Path) -> None:
    for name in ("replay", "replay-glibc", "replay-null"):
        shutil.copy(heaptape_binary.with_name(name), tmp_path)
    gone = tmp_path / "replay-mimalloc"
    gone.write_text("#!/bin/sh\nexit 127\n")
    gone.chmod(0o755)
    replay = str(tmp_path / "replay")
    assert choose(replay, None, {"allocator_name": "glibc"})[:2] == ("glibc", "glibc")
    [sentence] = broken(replay)
    assert sentence.startswith("mimalloc is left out: ")
    with pytest.raises(HeaptapeError, match="mimalloc"):
        choose(replay, "mimalloc", {"allocator_name": "glibc"})


def test_the_table_has_a_line_for_each_allocator_but_no_more_than_eleven(tmp_path: Path) -> None:
    names = ("glibc", *(f"a{number}" for number in range(12)))
    rows = [row | {"allocator": row["allocator"] | {"name": name}} for name in names
            for row in results_factory.schedule(rounds=3, names=("glibc",))]
    summary = summarise(experiments(read_results(results_factory.write(tmp_path / "r.jsonl", rows)))[0], "glibc")
    lines = table(summary)
    assert len(lines) == 12 and lines[1].startswith("glibc") and all("less" in line or "more" in line or "same" in line or "not resolved" in line for line in lines[2:])


@pytest.mark.parametrize(("executable", "chosen", "keeps"), [
    ("/usr/bin/python3.11", None, True), ("/usr/bin/python3.11", "pymalloc", True), ("/usr/bin/python3.11", "malloc_debug", False),
    ("/usr/bin/ruby3.1", None, False)])
def test_python_keeps_small_objects(executable: str, chosen: str | None, keeps: bool) -> None:
    context = {"executable": executable, **({"env.PYTHONMALLOC": chosen} if chosen else {})}
    assert (python_malloc(context) == "") == keeps
    assert also_set(context).startswith("Set PYTHONMALLOC=malloc_debug too") == (chosen == "malloc_debug") == bool(also_set(context))


@pytest.mark.thorough
def test_processes_of_one_name(heaptape_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of the others are named, so that one of them can be compared instead."""
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    (tmp_path / "logs").mkdir()
    recorded = _recorded(heaptape_binary, [PYTHON, "-S", "-c", f"import os; os.fork(); {WORK}"], tmp_path)
    one, other = recorded.processes
    assert one == recorded.process and one.name == other.name and one.pid != other.pid == int(other.log.name.split(".")[1])
    assert recorded.sharers == "2 processes" and one.pid == recorded.context["pid"]


@pytest.mark.parametrize(("families", "chosen", "words"), [
    ([(1, 0, 0, 0)], 0, ""),
    ([(1, 0, 0, 0), (2, 0, 1, 0), (3, 0, 1, 0), (4, 0, 1, 0)], 2, "3 workers"),
    ([(1, 0, 0, 0), (2, 0, 1, 0), (3, 0, 1, 0), (4, 0, 1, 0)], 0, "4 processes"),
    ([(2, 0, 1, 0)], 0, "2 processes"),
    ([(1, 0, 0, 0), (2, 0, 1, 0), (3, 0, 2, 0)], 1, "3 processes"),
    ([(1, 0, 0, 0), (2, 0, 1, 0), (2, 1, 0, 0)], 2, ""),  # it executed another program
    ([(1, 0, 0, 0), (2, 0, 1, 0), (2, 1, 0, 0)], 0, ""),
    ([(1, 0, 0, 0), (2, 0, 1, 0), (2, 1, 1, 0), (3, 0, 1, 0)], 3, "2 workers"),  # the second log of one, after a pause
])
def test_who_shares_pages(families: list[tuple[int, ...]], chosen: int, words: str) -> None:
    """Of each log pid and sequence, and those of its parent's."""
    processes = [RecordedProcess(Path(), pid, sequence, (parent, parent_sequence), False, "", "", 1, None, None) for pid, sequence, parent, parent_sequence in families]
    assert sharers_of(processes[chosen], processes) == words


@pytest.mark.parametrize(("forked", "processes", "words"), [
    (False, "", ""), (True, "", "one of several processes; shared pages are not counted"),
    (True, "4 workers", "one of 4 workers; shared pages are not counted"),
    pytest.param(False, "5 processes", "one of 5 processes; shared pages are not counted", marks=pytest.mark.thorough)])
def test_advice_names_shared_pages(tmp_path: Path, forked: bool, processes: str, words: str) -> None:
    results, trace = story.write_story(tmp_path)
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    results_factory.write(results, [row | {"trace": row["trace"] | {"forked": forked}} for row in rows])
    frame = read_results(results)
    summary = summarise(experiments(frame)[0], "glibc", traces=[trace], processes=processes)
    assert summary.sharing == words
    assert summary.headline.endswith(f" {words[0].upper()}{words[1:]}." if words else ".")
    assert ("shared pages" in summary.headline) == bool(words)
    advised = uses(summary, "./app", "glibc")
    assert advised and [use_heading(use, summary.sharing) for use in advised] == [
        f"To use {use.allocator} ({words}):" if words else f"To use {use.allocator}:" for use in advised]
    page = write_report(frame, tmp_path / "r.html", [trace], processes=processes).read_text()
    assert (f"({words}):</p>" in page) == bool(words)


def test_a_script_around_the_program_is_not_compared(heaptape_binary: Path, tmp_path: Path) -> None:
    """Its shell makes more calls."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/bash\nfor i in {{1..60}}; do x="$x$i"; done\n"{PYTHON}" -S -c "list(map(str, range(9)))"\nexit 0\n')
    wrapper.chmod(0o755)
    (tmp_path / "logs").mkdir()
    recorded = _recorded(heaptape_binary, [str(wrapper)], tmp_path)
    assert recorded.executable.startswith("python") and len(recorded.processes) > 1 and recorded.sharers == ""


@pytest.mark.thorough
def test_a_small_saving_is_no_reason_to_change(tmp_path: Path) -> None:
    """Faster, but malloc took little of the program's time, and nobody needs less memory."""
    results, trace = story.write_story(tmp_path)
    whole = summarise(experiments(read_results(results))[0], "glibc", traces=[trace])
    assert uses(whole, "./app", "glibc")
    assert whole.malloc_share and whole.memory_share
    small = replace(whole, malloc_share=replace(whole.malloc_share, saving=Saving("mimalloc", 0.004)),
                    memory_share=replace(whole.memory_share, saving=Saving("jemalloc", 0.009)))
    assert not uses(small, "./app", "glibc") and no_reason(small).startswith("No allocator measured here saves 1 %")
    assert uses(replace(small, malloc_share=None), "./app", "glibc")


@pytest.mark.parametrize(("here", "says"), [("2.43", True), ("2.36", False), ("", False)])
def test_another_release_than_the_programs_is_said(here: str, says: bool) -> None:
    recorded = SimpleNamespace(info={"threads": 1}, context={"allocator_name": "glibc", "allocator_version": "2.36"})
    assert bool(_notes([recorded], {"glibc": here}, "glibc")) == says


def test_how_to_use_one(tmp_path: Path) -> None:
    library = ("jemalloc", "/usr/lib/libjemalloc.so.2")
    shell, systemd, install, docker = use_lines(*library, "libjemalloc2", ["MALLOC_CONF=narenas:2"], "./app 'a b'", "glibc")
    assert shell == ("shell", "LD_PRELOAD=/usr/lib/libjemalloc.so.2 MALLOC_CONF=narenas:2 ./app 'a b'")
    assert systemd == ("systemd", 'Environment="LD_PRELOAD=/usr/lib/libjemalloc.so.2" "MALLOC_CONF=narenas:2"')
    assert install == ("Docker", "RUN apt-get update && apt-get install -y libjemalloc2") and docker[1].startswith("ENV LD_PRELOAD=")
    assert use_lines(*library, "", [], "./app", "glibc")[-1] == ("Docker", "ENV LD_PRELOAD=/usr/lib/libjemalloc.so.2")
    (tmp_path / "replay-glibc").touch()
    shell, systemd, copied, docker = use_lines("mimalloc", str(tmp_path / "libmimalloc3.so"), "", [], "./app", "glibc")
    assert shell == ("shell", f"sudo cp {tmp_path}/libmimalloc3.so /usr/local/lib/ && LD_PRELOAD=/usr/local/lib/libmimalloc3.so ./app")
    assert copied == ("Docker", "COPY libmimalloc3.so /usr/local/lib/") and str(tmp_path) not in systemd[1] + docker[1]
    assert use_lines("x", "/opt/replay-x", "", [], "./app", "glibc") == []
    assert use_lines("glibc", "/lib/libc.so.6", "", [], "./app", "glibc") == []
    [(what, line)] = use_lines(*library, "libjemalloc2", [], "./app", "mimalloc", linked="mimalloc")
    assert use_lines("jemalloc", "", "", ["MALLOC_CONF=narenas:2"], "./app", "jemalloc", linked="jemalloc") == \
        [("program", "the linked jemalloc reads _RJEM_MALLOC_CONF=narenas:2")]
    assert what == "program" and line.startswith("link jemalloc in place of mimalloc: LD_PRELOAD does not reach")
    assert "LD_PRELOAD=/lib/libc.so.6" in use_lines("glibc", "/lib/libc.so.6", "", [], "./app", "jemalloc")[0][1]

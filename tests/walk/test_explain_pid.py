# SPDX-License-Identifier: Apache-2.0
"""`heaptape explain --pid`: what is said of a process that nobody recorded."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heaptape.explain.looks import LOOKS_MIN, Look, grown_of, rise_of
from heaptape.explain.running import object_of, text_of
from tool_runner import Tools, clean_environment
from verbs_here import run_here
from waiting import read_line


def explain(tools: Tools, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tools.heaptape, "explain", *words], capture_output=True, text=True, timeout=60, check=False, env=clean_environment())


@pytest.fixture(name="process")
def _process(tools: Tools) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([tools.build / "tests" / "walk" / "heap_shapes", "pin", "20"], env=clean_environment(), stdout=subprocess.PIPE) as started:
        read_line(started.stdout)
        yield started
        started.send_signal(signal.SIGKILL)


def test_what_it_says(tools: Tools, process: subprocess.Popen[bytes]) -> None:
    said = explain(tools, "--pid", str(process.pid))
    assert (said.returncode, said.stderr) == (0, "")
    verdict, unknown, helps, memory, live = said.stdout.splitlines()[:5]
    assert verdict.startswith("Fragmentation: ") and "that heap_shapes has in RAM are free gaps between blocks in use" in verdict
    assert unknown.startswith("Unknown after one look: whether live blocks become more")
    assert helps.startswith("malloc_trim would give back ") and "another allocator may help" in helps
    assert memory.startswith(f"Process {process.pid} (glibc 2.") and "MB of malloc, " in memory and live.startswith("Live blocks, which the program has not freed: ")
    assert "Do not rely" not in said.stdout and "Read without stopping the process, in " in said.stdout


OTHERS = {
    "leak": ("heap_shapes", ["leak", "5"], "Live: ", "next to nothing"),
    "ratchet": ("thread_heaps", ["ratchet", "5", "4"], "Retention: ", "MALLOC_ARENA_MAX=2 may help: now there are 5 arenas"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_verdicts_without_any_package(tools: Tools, repository: Path, name: str) -> None:
    """As where the process runs, in a container say."""
    program, words, verdict, helps = OTHERS[name]
    environment = clean_environment({"PYTHONPATH": str(repository / "analysis"), "HEAPTAPE_REPLAY": str(tools.build / "replay")})
    with subprocess.Popen([tools.build / "tests" / "walk" / program, *words], env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        read_line(process.stdout)
        said = subprocess.run([sys.executable, "-S", "-m", "heaptape", "explain", "--pid", str(process.pid)], capture_output=True, text=True, timeout=60,
                              check=False, env=environment)
        process.send_signal(signal.SIGKILL)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(verdict) and helps in said.stdout.splitlines()[2]


def test_json_has_the_keys_of_a_traces(tools: Tools, process: subprocess.Popen[bytes]) -> None:
    found = json.loads(explain(tools, "--pid", str(process.pid), "--json").stdout)
    assert set(found["accounts_bytes"]) == {"live", "rounding", "headers", "holes", "free_pages", "tables", "untouched"}
    assert found["accounts_bytes"]["rounding"] is None and found["verdict"] == "fragmentation" and found["doubts"] == [] and found["trend"] is None
    assert len(found["looks"]) == 1 and found["looks"][0]["blocks"] == found["blocks"] > 1000


def test_several_looks(tools: Tools, process: subprocess.Popen[bytes]) -> None:
    said = explain(tools, "--pid", str(process.pid), "--every", "100ms", "--for", "300ms", "--json")
    found = json.loads(said.stdout)
    assert len(found["looks"]) >= 2 and said.stderr.count("heaptape explain: look ") == len(found["looks"])
    assert found["trend"]["live_bytes"] == 0 and not found["trend"]["rises"]


@pytest.mark.parametrize("how", ["the process ends", "Ctrl-C"])
def test_looks_that_end_early(tools: Tools, process: subprocess.Popen[bytes], how: str) -> None:
    """What was seen till then is said."""
    with subprocess.Popen([tools.heaptape, "explain", "--pid", str(process.pid), "--every", "0.2s", "--for", "60s"], env=clean_environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as explaining:
        assert explaining.stderr is not None
        assert "look 1 at 0 s: " in explaining.stderr.readline()
        if how == "Ctrl-C":
            explaining.send_signal(signal.SIGINT)
        else:
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=60)
        printed, said = explaining.communicate(timeout=60)
    assert explaining.returncode == 0 and printed.startswith("Fragmentation: ") and "heaptape explain: ended after " in said


USAGE = {
    "two": (["trace.bin", "--pid", "1"], "expected one of TRACE, --pid and --core, found --pid and trace.bin"),
    "none": ([], "expected TRACE, --pid or --core"),
    "of a trace": (["--pid", "1", "--alloc", "glibc"], "--alloc: expected with TRACE, not with --pid"),
    "both": (["--pid", "1", "--core", "c"], "found --pid and --core"),
    "a moment": (["--core", "c", "--at", "end"], "--at: expected with TRACE, not with --core"),
    "no process": (["--pid", "4194305"], "expected a whole number from 1 to 4194304"),
    "no trace": (["4711"], "for the process of that number: --pid 4711"),
    "of a process": (["trace.bin", "--stop"], "--stop: expected with --pid, found with a trace"),
    "half": (["--pid", "1", "--every", "1s"], "expected --every and --for, found one of them"),
    "core": (["--core", "x", "--stop"], "--core: expected no --stop and --every"),
}


def test_a_core_is_not_overwritten(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.write_bytes(b"of a process")
    done = run_here("explain", "--core", core, "--blocks", core, cwd=tmp_path)
    assert (done.returncode, core.read_bytes()) == (2, b"of a process") and done.stderr.count("\n") == 1
    assert run_here("explain", "--core", core, "--blocks", "-", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("case", USAGE)
def test_usage(tmp_path: Path, case: str) -> None:
    words, said = USAGE[case]
    done = run_here("explain", *words, cwd=tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


def test_no_process(tools: Tools) -> None:
    done = explain(tools, "--pid", "4194304")
    assert done.returncode == 1 and done.stderr.startswith("heaptape explain: process 4194304: there is none") and done.stderr.count("\n") == 1


# ---- looks that no process is needed for ----

def found_of(live: int, rss: int = 100_000_000) -> dict[str, Any]:
    lists = {"bins": 0, "tcache": 0, "fastbins": 0, "top": 0, "other": 0}
    return {"pid": 1, "command": "app", "up_s": 10, "rss_bytes": rss, "rss_file_bytes": 0, "rss_shared_bytes": 0, "why_not": None, "stopped": False,
            "seconds": 0.1, "allocator": {"name": "glibc", "version": "2.36"}, "usable_bytes": live, "blocks": live // 100, "trim_bytes": 0,
            "not_resident_bytes": 0, "heap_swapped_bytes": 0, "outside_bytes": {"other": 0, "stacks": 0, "files": 0},
            "accounts_bytes": {"live": live, "headers": 0, "holes": 0, "free_pages": rss - live, "tables": 0, "unknown": 0},
            "holes_bytes": dict(lists), "free_pages_bytes": lists | {"bins": rss - live},
            "arenas": [{"system_bytes": rss, "live_bytes": live, "blocks": live // 100, "free_bytes": dict(lists)}],
            "holders": [{"arena": 0, "size_class": 3, "usable_low_bytes": 40, "usable_high_bytes": 40, "blocks": live // 100, "bytes": live,
                         "holes_bytes": 0, "begins_with": None, "begins_share": None}],
            "checks": {"heap_bytes": rss, "heap_bytes_said": rss, "mapped_blocks": 0, "mapped_blocks_said": 0, "mapped_bytes": 0, "mapped_bytes_said": 0,
                       "lost_bytes": 0, "read_again": 0, "torn_lists": 0, "locked_arenas": 0, "anonymous_bytes": rss, "anonymous_bytes_said": rss}}


def looks_of(*live: int) -> list[Look]:
    return [Look(found_of(size), float(number)) for number, size in enumerate(live)]


def test_a_rise_is_told_from_noise() -> None:
    rising, noisy = rise_of(looks_of(*range(50_000_000, 60_000_000, 1_000_000))), rise_of(looks_of(*[50_000_000, 51_000_000] * 5))
    assert rising and rising.rises and (rising.up, rising.steps, rising.live_bytes) == (9, 9, 9_000_000)
    assert noisy and not noisy.rises
    few = rise_of(looks_of(1_000_000, 2_000_000, 3_000_000))
    assert few and not few.rises  # three looks in order are no wonder
    assert rise_of(looks_of(1)) is None


def test_growth_is_a_verdict_of_live_blocks_that_rise() -> None:
    looks = looks_of(*range(90_000_000, 99_000_000, 1_000_000))
    assert object_of(looks)["verdict"] == "growth" and "Live bytes rise: +8.00 MB in 8.00 s" in "\n".join(text_of(looks))
    assert [grown.bytes for grown in grown_of(looks)] == [8_000_000]
    assert text_of(looks)[0].startswith("Growth: 98.0 MB (98 %) of the 100 MB that app has in RAM are blocks that the program has not freed, and they become")
    assert object_of(looks[-1:])["verdict"] == "live" and text_of(looks[-1:])[1].startswith("Unknown after one look")


def test_few_looks_show_no_trend() -> None:
    few, enough = looks_of(*range(90_000_000, 94_000_000, 1_000_000)), looks_of(90_000_000, 94_000_000, 91_000_000, 93_000_000, 92_000_000)
    assert len(few) == LOOKS_MIN - 1 and text_of(few)[1].startswith(f"Unknown after 4 looks: whether live blocks become more; it takes {LOOKS_MIN} or more")
    assert "do not clearly become more" not in text_of(few)[0] and "do not clearly become more" in text_of(enough)[0]
    assert text_of(enough)[1] == "Live bytes do not clearly rise: +2.00 MB in 4.00 s, up in 2 of 4 steps; RSS 0 B."


DOUBTS = {
    "heaps": ("heap_bytes", 90_000_000, "heaps of 90.0 MB were walked, malloc says 100 MB"),
    "mapped": ("mapped_bytes", 5_000_000, "0 mapped blocks of 5.00 MB were found, malloc says 0 of 0 B"),
    "lost": ("lost_bytes", 3_000_000, "3.00 MB of heaps could not be followed"),
    "pages": ("anonymous_bytes", 95_000_000, "pages of 95.0 MB were named, the kernel says 100 MB"),
}


@pytest.mark.parametrize("case", DOUBTS)
def test_a_check_that_fails_is_said_first(case: str) -> None:
    key, value, said = DOUBTS[case]
    found = copy.deepcopy(found_of(50_000_000))
    found["checks"][key] = value
    look = Look(found, 0.0)
    assert look.doubts == [said] and text_of([look])[0] == f"Do not rely on this: {said}."


def test_caches_are_a_verdict() -> None:
    found = found_of(10_000_000)
    found["free_pages_bytes"] |= {"bins": 10_000_000, "tcache": 80_000_000}
    assert Look(found, 0.0).verdict(False) == "caches"


def test_what_is_not_malloc_is_said() -> None:
    found = found_of(10_000_000)
    found |= {"rss_bytes": 1_000_000_000}
    found["outside_bytes"] |= {"other": 900_000_000}
    first, second = text_of([Look(found, 0.0)])[:2]
    assert first.startswith("Not malloc: 900 MB (90 %) of the 1.00 GB that app has in RAM are memory that the program maps itself, as the heaps of Java")
    assert second.startswith("Retention: 90.0 MB (90 %) of malloc's memory")


def test_an_unknown_heap_is_undecided(tools: Tools, tmp_path: Path) -> None:
    """A program without a C library that is known."""
    source, program = tmp_path / "app.c", tmp_path / "app"
    source.write_text('#include <unistd.h>\nint main(void) { write(1, "ready\\n", 6); for (;;) pause(); }\n')
    if subprocess.run(["gcc", "-static", "-o", program, source], capture_output=True, check=False, timeout=60).returncode:
        pytest.skip("no static C library here")
    with subprocess.Popen([program], env=clean_environment(), stdout=subprocess.PIPE) as process:
        read_line(process.stdout)
        done = explain(tools, "--pid", str(process.pid))
        process.send_signal(signal.SIGKILL)
    assert done.returncode == 5 and "Unknown: what the heap of app consists of: no malloc was found" in done.stdout

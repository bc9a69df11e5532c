# SPDX-License-Identifier: Apache-2.0
"""`heaptape walk` counts the live blocks of jemalloc, tcmalloc and mimalloc, and names what it does not know."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from test_walk import running, walk
from tool_runner import Tools, run

LIBRARIES = {"libjemalloc.so.2": "jemalloc", "libtcmalloc_minimal.so.4": "tcmalloc", "libmimalloc.so.2": "mimalloc"}

def library(tools: Tools, name: str) -> str:
    """What to preload: one that was built, or that is installed; or the test is skipped."""
    built = tools.build / name
    if built.exists():
        return str(built)
    if run(["true"], env={"LD_PRELOAD": name}).stderr:
        pytest.skip(f"{name} is not here")
    return name


def listed_in(path: Path) -> list[int]:
    return [int(line.split(",")[1]) for line in path.read_text().split()]


def skip_other_builds(found: dict[str, Any]) -> None:
    """The records of Debian 13's jemalloc 5.3.0 are not found: that is said, and no figure is told."""
    if platform.libc_ver()[1] != "2.36" and str(found["why_not"]).startswith("the records of this jemalloc were not found"):
        pytest.skip("the layout of this build's records is not known")


def check(found: dict[str, Any], pid: int) -> None:
    skip_other_builds(found)
    assert found["why_not"] is None and found["checks"]["lost_records"] == 0 < found["checks"]["records"]
    resident = next(int(line.split()[1]) << 10 for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon:"))
    assert found["checks"]["anonymous_bytes"] == found["checks"]["anonymous_bytes_said"] == resident
    accounts = found["accounts_bytes"]
    assert accounts["holes"] == sum(found["holes_bytes"].values()) and accounts["free_pages"] == sum(found["free_pages_bytes"].values())
    assert sum(holder["bytes"] for holder in found["holders"]) <= found["usable_bytes"]


@pytest.mark.parametrize("name", [*LIBRARIES, "libmimalloc2.so", "libmimalloc3.so", "libjemalloc531.so.2", "libtcmalloc_minimal-gperftools.so"])
@pytest.mark.parametrize("program", ["heap_shapes pin 5", "thread_heaps caches 5 8"])
def test_live_blocks(tools: Tools, tmp_path: Path, name: str, program: str) -> None:
    """As many as the program has, whatever threads' caches hold, in as many bytes as their size classes allow."""
    words, threads = program.split(), 8 if "thread" in program else 0
    with running([tools.build / "tests" / "walk" / words[0], *words[1:], tmp_path / "list"], LD_PRELOAD=library(tools, name)) as (pid, _):
        found = walk(tools, "--pid", str(pid))
        check(found, pid)
    sizes = listed_in(tmp_path / "list")
    allocator = found["allocator"]["name"]
    assert allocator in name and found["allocator"]["version"] and found["allocator"]["layout"].startswith(f"{'gperftools ' * (allocator == 'tcmalloc')}{allocator} ")
    assert len(sizes) <= found["blocks"] <= len(sizes) + 3 + 4 * threads
    assert sum(sizes) <= found["usable_bytes"] <= 1.25 * sum(sizes) + (1 + threads) * (100 << 10)
    assert found["cached_bytes"] is not None


SAYS = {"jemalloc": r"Allocated: (\d+)", "tcmalloc": r"MALLOC: +(\d+) .* Bytes in use by application"}


@pytest.mark.parametrize("name", LIBRARIES)
def test_it_can_be_asked(tools: Tools, tmp_path: Path, name: str) -> None:
    """The command that the walk names prints the allocator's own figures, which agree: jemalloc's include those of caches."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not here")
    program = [tools.build / "tests" / "walk" / "heap_shapes", "pin", "20", tmp_path / "list"]
    with (tmp_path / "said").open("wb") as said, running(program, stderr=said, LD_PRELOAD=library(tools, name)) as (pid, _):
        found = walk(tools, "--pid", str(pid))
        command, danger = found["allocator"]["ask"].split(" (stops", 1)
        assert danger.startswith(" the process")
        asked = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
        if "ptrace:" in asked.stderr:
            pytest.skip("gdb may not attach here")
    text = (tmp_path / "said").read_text()
    if name not in ("libmimalloc.so.2",):
        own = re.search(SAYS[found["allocator"]["name"]], text)
        assert own and 0 <= int(own[1]) - found["usable_bytes"] - ("jemalloc" in name) * found["cached_bytes"] < 100_000  # those of printing
    else:
        assert "heap stats:" in text


def test_jemalloc_within_a_program(tools: Tools, tmp_path: Path) -> None:
    """Of a program that is linked statically and exports nothing."""
    source = tmp_path / "program.c"
    source.write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) {\n"
                      "for (int i = 0; i < 10000; i++) if (!malloc(1000)) return 1;\nputs(\"ready\"); fflush(stdout); pause(); }\n")
    command = ["gcc", "-O1", "-static", "-fno-builtin-malloc", "-o", tmp_path / "program", source, "-Wl,--whole-archive", "-l:libjemalloc.a",
               "-Wl,--no-whole-archive", "-lstdc++", "-lm", "-lpthread", "-ldl"]
    if run(command).returncode:
        pytest.skip("the static libraries of jemalloc and C are not here")
    with running([tmp_path / "program"]) as (pid, _):
        found = walk(tools, "--pid", str(pid))
        check(found, pid)
    assert found["allocator"] | {"version": None} == {"name": "jemalloc", "version": None, "module": str(tmp_path / "program"), "in_program": True,
                                                      "within": "jemalloc", "layout": found["allocator"]["layout"], "ask": None}
    assert max(found["holders"], key=lambda holder: holder["bytes"])["usable_low_bytes"] == 1024 and 10000 <= found["blocks"] <= 10010


def test_one_that_is_not_known(tools: Tools, tmp_path: Path) -> None:
    """Its name is told, and the memory by kind."""
    source = tmp_path / "own.c"
    source.write_text("#include <stddef.h>\nstatic char room[1 << 24]; static size_t used;\n"
                      "void *malloc(size_t size) { used = (used + 15) & ~15ul; used += size; return room + used - size; }\n"
                      "void free(void *block) { (void)block; }\nvoid *scalable_malloc(size_t size) { return malloc(size); }\n"
                      "void *calloc(size_t count, size_t size) { return malloc(count * size); }\n"
                      "void *realloc(void *block, size_t size) { char *other = malloc(size);"
                      " for (size_t i = 0; block && i < size; i++) other[i] = ((char *)block)[i]; return other; }\n")
    assert run(["gcc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", tmp_path / "own.so", source]).returncode == 0
    with running([tools.build / "tests" / "walk" / "heap_shapes", "pin", "3", tmp_path / "list"], LD_PRELOAD=str(tmp_path / "own.so")) as (pid, _):
        found = walk(tools, "--pid", str(pid))
    assert found["allocator"]["name"] == "tbbmalloc" and found["allocator"]["ask"] is None and "usable_bytes" not in found
    assert found["why_not"] == "the program's allocator is tbbmalloc, the heap of which is not known"
    assert found["outside_bytes"]["files"] >= 3_000_000


def test_what_explain_says(tools: Tools, tmp_path: Path) -> None:
    """For people, and with the same keys as of glibc's heap: null where an allocator's counts do not tell."""
    program = [tools.build / "tests" / "walk" / "heap_shapes", "pin", "20", tmp_path / "list"]
    with running(program, LD_PRELOAD=library(tools, "libjemalloc.so.2")) as (pid, _):
        said = run([tools.heaptape, "explain", "--pid", pid])
        found = json.loads(run([tools.heaptape, "explain", "--pid", pid, "--json"]).stdout)
    skip_other_builds(found)
    text = said.stdout.decode()
    assert (said.returncode, said.stderr) == (0, b"") and text.startswith("Retention: ") and "Do not rely" not in text
    assert f"Process {pid} (jemalloc 5." in text and "malloc_trim" not in text and "rounding to size classes" in text
    assert "free blocks in threads' and other caches" in text and "  224  size class" in text and "; 0 contradict others" in text
    assert found["verdict"] == "retention" and found["doubts"] == [] and found["trim_bytes"] is None and found["checks"]["heap_bytes_said"] is None
    assert found["accounts_bytes"]["live"] <= found["usable_bytes"] == found["looks"][0]["usable_bytes"]

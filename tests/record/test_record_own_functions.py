# SPDX-License-Identifier: Apache-2.0
"""jemalloc's and mimalloc's own functions, which the full library has, and which programs get it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import recorded_tallies
from test_record_exact import assert_same_lines
from test_record_reach import compile_c
from tool_runner import (Recording, Tools, between_markers, by_birth, read_tallies, run, tallies_in)

JEMALLOC = {"mallocx", "rallocx", "xallocx", "dallocx", "sdallocx", "sallocx"}
# Of mimalloc's functions, those that ask or set something; the rest gives or takes blocks.
NO_BLOCKS = re.compile(r"""mi_( option | stats_ | thread_ | process_ | register_ | reserve_ | manage_ | is_ | debug_ | arenas?_
    | (heap_|theap_)?(get|set|visit|contains|guarded|check|stats|collect|profile) | subproc_ | abandoned_visit_ | any_heap_contains
    | pprof_ | unsafe_heap_page_is | version | good_size | malloc_good_size | heap_(main|of|theap)$ )""", re.VERBOSE)
# A heap that comes, passes to another thread, or goes and leaves its blocks; a function of Windows that fails elsewhere.
LEFT_OUT = {"mi_heap_new", "mi_heap_new_in_arena", "mi_heap_new_ex", "mi_heap_new_qsbr", "mi_heap_try_new", "mi_heap_unload",
            "mi_heap_reload", "mi_heap_delete", "mi_theap_delete", "mi_theap_quiescent_abandon", "mi_wdupenv_s"}
LIBRARY = """
#include <stdlib.h>
void *mallocx(size_t, int);
void dallocx(void *, int);
void work(void) { for (int i = 0; i < 10; i++) dallocx(mallocx(7720, 0), 0); }
"""
TELLS = """
#include <stdio.h>
#include <stdlib.h>
void *mallocx(size_t, int);
int main(void) { void *volatile p = CALL; free(p); fputs(getenv("LD_PRELOAD"), stdout); return 32; }
"""
THROWS = """
#include <new>
#include <stddef.h>
static char room[100 << 10];
static size_t used;
extern "C" void *mi_new(size_t size) {
    if (size > sizeof room - used) throw std::bad_alloc();
    return room + (used += 8192) - 8192;
}
extern "C" void mi_free(void *) {}
"""
CATCHES = """
#include <new>
#include <stddef.h>
extern "C" void *mi_new(size_t);
extern "C" void mi_free(void *);
int main(void) {
    int caught = 0;
    for (int i = 0; i < 10; i++) {
        try { mi_free(mi_new(1 << 20)); } catch (const std::bad_alloc &) { caught++; }
        mi_free(mi_new(7730));
    }
    return caught;
}
"""
CALLER = "void work(void);\nint main(void) { work(); return 31; }\n"


def full_shim(tools: Tools) -> Path:
    return tools.build / "libmalloc_wrap_full.so"


def exported(library: Path) -> set[str]:
    """Names of the functions that a library defines for others."""
    done = run(["nm", "-D", "--defined-only", library])
    assert done.returncode == 0, done.stderr
    words = [line.split() for line in done.stdout.decode().splitlines()]
    return {word[-1].partition("@")[0] for word in words if word[-2] in "TW"}


@pytest.mark.parametrize("library", ["libmalloc_wrap.so", "libmalloc_wrap_full.so"])
def test_other_names_are_the_programs(tools: Tools, library: str) -> None:
    """A debugger that is asked to stop in a function finds the program's alone: ours have no names, unless the build is for debugging."""
    if "CMAKE_BUILD_TYPE:STRING=Debug" in (tools.build / "CMakeCache.txt").read_text():
        pytest.skip("a build for debugging has names")
    assert {"malloc", "free"} <= exported(tools.build / library)
    assert not tools.succeed(["nm", "--defined-only", tools.build / library]).stdout


def installed(name: str) -> Path:
    """A library of the system, or the test is skipped."""
    done = run(["gcc", f"-print-file-name={name}"])
    path = Path(done.stdout.decode().strip())
    if not path.is_absolute():
        pytest.skip(f"{name} is not installed")
    return path


@pytest.mark.thorough
def test_which_library_has_the_names(tools: Tools) -> None:
    """The plain one must not have them: a program takes such a name for a sign of the allocator."""
    plain, full = exported(tools.shim), exported(full_shim(tools))
    assert {"malloc", "free", "_Znwm"} <= plain < full
    assert not [name for name in plain if name.startswith("mi_") or name.endswith("allocx")]
    assert JEMALLOC <= full - plain
    assert all(name.startswith(("mi_", "mallctl", "MallocExtension_")) for name in full - plain - JEMALLOC)


def test_no_name_of_mimalloc_is_forgotten(tools: Tools) -> None:
    offered = {n for n in exported(installed("libmimalloc.so")) if n.startswith("mi_")}
    blocks = {n for n in offered if not NO_BLOCKS.match(n)} - LEFT_OUT
    assert len(blocks) > 60 and not blocks - exported(full_shim(tools))


@pytest.mark.parametrize("by_record", quick([True], [True, False]))
@pytest.mark.parametrize("allocator", ["jemalloc", "mimalloc"])
def test_every_call_is_dumped(tools: Tools, tmp_path: Path, allocator: str,
                              by_record: bool) -> None:
    """Line for line as the standard function that does the same; `record` chooses by itself."""
    printed = tmp_path / "printed"
    command = [tools.target(f"own_functions_{allocator}"), printed, "100000"]
    if by_record:
        recording = tools.record(command, tmp_path / "logs")
    else:
        recording = tools.preload(command, tmp_path / "logs",
                                  env={"LD_PRELOAD": str(full_shim(tools))})
    assert recording.outcome.status == 0, recording.outcome.stderr
    [log] = recording.logs
    # When the process ends, mimalloc 3.6 frees two blocks of its own by mi_free, which it made by no public function.
    info = tools.convert_clean(log, tmp_path / "t.bin", 2 if allocator == "mimalloc" else 0)
    made = printed.read_text().splitlines()
    assert len(made) > 100_000
    dumped = tools.dump(tmp_path / "t.bin")
    assert_same_lines(made, list(by_birth(between_markers(dumped))))
    # A heap of a thousand blocks is destroyed in the end.
    assert info["end_live_objects"] < 100
    assert info["recorded_allocator"].startswith(allocator)


def asks(tools: Tools, folder: Path, environment: dict[str, str], by_record: bool) -> Recording:
    """What the asking program finds; its calls must be in the recording, whichever library serves them."""
    folder.mkdir()
    command = [tools.target("asks_for_jemalloc"), folder / "counts"]
    if by_record:
        recording = tools.record(command, folder / "logs", env=environment)
    else:
        recording = tools.preload(command, folder / "logs", env=environment)
    assert recording.outcome.status == 0, recording.outcome.stderr
    assert recorded_tallies(tools, recording.logs, folder) == read_tallies(folder / "counts")
    return recording


@pytest.mark.thorough
def test_program_that_asks_whether_jemalloc_is_there(tools: Tools, tmp_path: Path) -> None:
    """It gets the same answer with and without a recorder."""
    alone = run([tools.target("asks_for_jemalloc")])
    assert alone.stdout == b"no jemalloc\n"
    for by_record in (True, False):
        found = asks(tools, tmp_path / f"without-{by_record}", {}, by_record)
        assert found.outcome.stdout == alone.stdout
    jemalloc = {"LD_PRELOAD": str(installed("libjemalloc.so.2"))}
    alone = run([tools.target("asks_for_jemalloc")], env=jemalloc)
    assert alone.stdout == b"jemalloc\n"
    assert asks(tools, tmp_path / "with", jemalloc, True).outcome.stdout == alone.stdout


def test_full_library_without_the_allocator(tools: Tools, tmp_path: Path) -> None:
    """A program into which it is preloaded regardless gets blocks from the standard functions."""
    found = asks(tools, tmp_path / "t", {"LD_PRELOAD": str(full_shim(tools))}, False)
    assert found.outcome.stdout == b"jemalloc\n"


@pytest.mark.thorough
def test_library_that_calls_them(tools: Tools, tmp_path: Path) -> None:
    """The program itself need not: the libraries that it is linked with are searched too, by its RUNPATH."""
    installed("libjemalloc.so")
    (tmp_path / "lib").mkdir()
    compile_c(tmp_path / "lib", LIBRARY, "-shared", "-fPIC", "-ljemalloc", name="libworks.so")
    program = compile_c(tmp_path, CALLER, f"-L{tmp_path / 'lib'}", "-lworks",
                        "-Wl,-rpath,$ORIGIN/lib", "-Wl,--enable-new-dtags")
    recording = tools.record([program], tmp_path / "logs")
    assert recording.outcome.status == 31, recording.outcome.stderr
    [log] = recording.logs
    info = tools.convert_clean(log, tmp_path / "t.bin")
    assert tallies_in(tools.dump(tmp_path / "t.bin")) == {7720: 10}
    assert info["end_live_objects"] < 10


@pytest.mark.parametrize(("call", "library"), [
    ("malloc(7)", "libmalloc_wrap.so"), ("mallocx(7, 0)", "libmalloc_wrap_full.so")])
def test_who_gets_which_library(tools: Tools, tmp_path: Path, call: str, library: str) -> None:
    """Being linked with jemalloc is not enough: the program must call it by its own names."""
    installed("libjemalloc.so")
    program = compile_c(tmp_path, TELLS.replace("CALL", call), "-Wl,--no-as-needed", "-ljemalloc")
    recording = tools.record([program], tmp_path / "logs")
    assert recording.outcome.status == 32, recording.outcome.stderr
    assert recording.outcome.stdout.decode() == os.path.realpath(tools.build / library)


@pytest.mark.parametrize(("script", "library"), [("exec ./program", "libmalloc_wrap_full.so"), ("./program; exit $?", "libmalloc_wrap.so")])
def test_program_that_a_shell_starts(tools: Tools, tmp_path: Path, script: str, library: str) -> None:
    """A shell that becomes the program is the program. Of one that a script starts nothing is known before: it is named afterwards."""
    installed("libjemalloc.so")
    program = compile_c(tmp_path, TELLS.replace("CALL", "mallocx(7, 0)"), "-Wl,--no-as-needed", "-ljemalloc")
    outcome = run([tools.heaptape, "record", "-q", "-o", "logs", "--", "sh", "-c", script], cwd=tmp_path)
    assert outcome.returncode == 32, outcome.stderr
    assert outcome.stdout.decode() == os.path.realpath(tools.build / library)
    warning = (f"heaptape record: warning: {program} calls its allocator's own functions (mallocx, mi_malloc), which are not recorded; only the program that "
               "record itself starts gets the library that records them\n")
    assert outcome.stderr.decode() == ("" if library.endswith("full.so") else warning)


@pytest.mark.thorough
def test_allocator_that_is_loaded(tools: Tools, tmp_path: Path) -> None:
    """It is not linked in. Its own functions are missed only where the full library is missing."""
    installed("libjemalloc.so")
    program = compile_c(tmp_path, TELLS.replace("CALL", "malloc(7)") + "void jemalloc_purge(void) {}\n",
                        "-Wl,--no-as-needed", "-ljemalloc")
    assert b"jemalloc" not in tools.record([program], tmp_path / "logs").outcome.stderr
    (tmp_path / "bare").mkdir()
    for name in ("heaptape", "libmalloc_wrap.so"):
        shutil.copy2(tools.build / name, tmp_path / "bare")
    said = Tools(tmp_path / "bare").record([program], tmp_path / "bare logs").outcome.stderr.decode()
    assert "program loads jemalloc: calls of that allocator's own functions are not recorded, since" in said


@pytest.mark.parametrize("allocator", ["_jemalloc", "_tcmalloc", "_mimalloc"])
def test_cpp_new_under_the_full_library(tools: Tools, tmp_path: Path, allocator: str) -> None:
    """An operator new that is built on mi_new or mallocx is recorded once."""
    counts = tmp_path / "counts"
    recording = tools.preload([tools.target(f"cpp_new{allocator}"), counts], tmp_path / "logs",
                              env={"LD_PRELOAD": str(full_shim(tools))})
    assert recording.outcome.status == 16, recording.outcome.stderr
    assert recorded_tallies(tools, recording.logs, tmp_path) == read_tallies(counts)


@pytest.mark.thorough
def test_new_that_throws(tools: Tools, tmp_path: Path) -> None:
    """A mi_new that is left by an exception has failed; later calls are recorded."""
    compile_c(tmp_path, THROWS, "-shared", "-fPIC", compiler="g++", name="libthrows.so")
    program = compile_c(tmp_path, CATCHES, f"-L{tmp_path}", "-lthrows", "-Wl,-rpath,$ORIGIN",
                        compiler="g++")
    recording = tools.record([program], tmp_path / "logs")
    assert recording.outcome.status == 10, recording.outcome.stderr
    [log] = recording.logs
    info = tools.convert_clean(log, tmp_path / "t.bin")
    dumped = [line.split(maxsplit=1)[1] for line in tools.dump(tmp_path / "t.bin")]
    assert dumped.count("new(1048576) = NULL (failed)") == 10
    assert sum(line.startswith("new(7730) = #") for line in dumped) == 10
    assert info["end_live_objects"] < 20

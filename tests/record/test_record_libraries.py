# SPDX-License-Identifier: Apache-2.0
"""Libraries that come and go, other hooks, allocators, and programs with names of libc's."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from heaptape.results.caution import caution
from heaptape.results.reader import read_results
from quick_tier import quick
from safety_checks import compare, recorded_tallies
from test_record_reach import compile_c
from tool_runner import Argument, Tools, outcome_of, read_tallies, run

ALLOCATORS = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so"]


def with_counts(tools: Tools, name: str, *more: Argument) -> Callable[[Path], list[Argument]]:
    return lambda counts: [tools.target(name), counts, *more]


def preloads(tools: Tools, *others: Argument) -> dict[str, str]:
    """The shim before other libraries, as `record` puts it."""
    return {"LD_PRELOAD": ":".join(map(str, (tools.shim, *others)))}


def library(name: str) -> str:
    """The name of a shared library that the loader finds, or the test is skipped."""
    done = run(["true"], env={"LD_PRELOAD": name})
    if done.stderr:
        pytest.skip(f"{name} is not installed")
    return name


def test_cxx_comes_by_dlopen(tools: Tools, tmp_path: Path) -> None:
    """operator new arrives in a C program with a plugin and leaves with it, several times."""
    compared = compare(tools, tmp_path, with_counts(tools, "c_opens_cxx",
                                                    tools.targets / "cxx_plugin.so"))
    assert compared.recording.outcome.status == 100
    compared.assert_whole(processes=1)
    [log] = compared.recording.logs
    dumped = " ".join(tools.dump(tmp_path / f"{log.stem}.bin"))
    assert dumped.count(" new(7630) ") == dumped.count(" new[](7631) ") == dumped.count(" new(7632) ") == 1_000


def test_cxx_comes_by_a_thread_that_dlopen_waits_for(tools: Tools, tmp_path: Path) -> None:
    """Within dlopen the loader is locked; operator new is called for the first time by another thread."""
    command = with_counts(tools, "c_opens_cxx", tools.targets / "cxx_waiting_plugin.so")
    compared = compare(tools, tmp_path, command)
    assert compared.recording.outcome.status == 100
    compared.assert_whole(processes=1)


OPENS_AND_FILLS = r"""
#include <dlfcn.h>
#include <stdlib.h>
void count_for_plugin_size(unsigned long size) { (void)size; }
int main(int argc, char **argv) {
    (void)argc;
    void *plugin = dlopen(argv[1], RTLD_NOW), *(*run)(void) = dlsym(plugin, "plugin_run");
    if (!run) return 1;
    run();
    for (unsigned long size = 16; size < 1024; size += 8)
        for (int i = 0; i < 16; i++) if (!malloc(size)) return 1;
    return 0;
}
"""


def test_what_the_loader_frees_for_the_recorder_is_known(tools: Tools, tmp_path: Path) -> None:
    """The recorder keeps the C++ library, for which the loader frees what it allocated when the program opened a plugin. Blocks of all
    sizes then find its place: if that free were missed, one would come where a live block lies."""
    program = compile_c(tmp_path, OPENS_AND_FILLS, "-rdynamic", "-ldl")
    recording = tools.preload([program, tools.targets / "cxx_plugin.so"], tmp_path / "logs")
    assert recording.outcome.status == 0
    [log] = recording.logs
    assert tools.info(tools.convert(log, tmp_path / "t.bin"))["anomalies"] == 0


LIBRARY_THAT_ENDS_LATE = r"""
#include <pthread.h>
#include <stdlib.h>
void linked(void) {}
static void *work(void *unused) {
    for (int i = 0; i < CALLS; i++) free(aligned_alloc(64, 7777));
    return unused;
}
__attribute__((destructor)) static void end(void) {
    pthread_t worker;
    if (pthread_create(&worker, NULL, work, NULL) || pthread_join(worker, NULL)) _Exit(1);
}
"""


@pytest.mark.parametrize("calls", quick([1_500_000], [1_000, 1_500_000]))
def test_calls_of_a_pool_that_ends_behind_the_recorder(tools: Tools, tmp_path: Path, calls: int) -> None:
    """A library's destructor waits for its worker, whose calls the recorder sees after its own end: more than it keeps room for."""
    compile_c(tmp_path, LIBRARY_THAT_ENDS_LATE, "-shared", "-fPIC", "-pthread", f"-DCALLS={calls}", name="liblate.so")
    program = compile_c(tmp_path, "void linked(void); int main(void) { linked(); return 0; }",
                        f"-L{tmp_path}", "-llate", f"-Wl,-rpath,{tmp_path}")
    recording = tools.record([program], tmp_path / "logs")
    assert recording.outcome.status == 0 and b"warning" not in recording.outcome.stderr
    [log] = recording.logs
    assert tools.convert_clean(log, tmp_path / "t.bin")["events"] >= 2 * calls
    assert calls < 1_000_000 or log.stat().st_size > 17 << 20


def test_deepbind_goes_past_the_recorder(tools: Tools, tmp_path: Path) -> None:
    """A library opened with RTLD_DEEPBIND calls libc itself. Its calls are not seen; blocks that
    cross the border are foreign where they are freed, and never an anomaly."""
    command = with_counts(tools, "deepbind_main", tools.targets / "deepbind_plugin.so")
    alone = outcome_of(run(command(tmp_path / "alone")))
    recording = tools.preload(command(tmp_path / "counts"), tmp_path / "logs")
    assert recording.outcome == alone and alone.status == 101
    [log] = recording.logs
    info = tools.info(tools.convert(log, tmp_path / "t.bin"))
    sizes = [line.split()[1] for line in tools.dump(tmp_path / "t.bin")]
    assert sizes.count("malloc(7640)") == 2000 and sizes.count("malloc(7641)") == 200
    assert "malloc(7645)" not in sizes and "realloc" not in " ".join(sizes)
    # 100 blocks made unseen; of 100 moved unseen, those whose address is another's or nobody's.
    assert 100 <= info["foreign_frees"] <= 200
    recording = tools.record(command(tmp_path / "counts"), tmp_path / "logs")
    [said] = [line for line in recording.outcome.stderr.splitlines() if b"DEEPBIND" in line]
    assert said.endswith(b"deepbind_plugin.so") and b"libc" not in said


OPENS_AND_RUNS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    free(malloc(10));
    void *plugin = argc > 2 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : dlopen(argv[1], RTLD_NOW);
    void *(*run)(unsigned long) = plugin ? dlsym(plugin, argc > 2 ? "run" : "malloc") : NULL;
    if (!run || !run(100)) return 1;
    return argc > 3 ? dlclose(plugin) : 0;
}
"""
RUNS = "#include <stdlib.h>\nvoid *run(unsigned long n) { return malloc(n); }"
HAS_MALLOC = "static char arena[1 << 16];\nvoid *malloc(unsigned long n) { return n < sizeof arena ? arena : 0; }"


@pytest.mark.parametrize("source,words,said", [
    (HAS_MALLOC, [], b"by a library's handle"), (RUNS, ["namespace"], b"by dlmopen"),
    (RUNS, ["namespace", "close"], b"by dlmopen")])
def test_malloc_of_another_library_or_namespace(tools: Tools, tmp_path: Path, source: str, words: list[str],
                                                said: bytes) -> None:
    """Its calls never come to the recorder, and `record` says so."""
    plugin = compile_c(tmp_path, source, "-shared", "-fPIC", "-fno-builtin", name="libplugin.so")
    program = compile_c(tmp_path, OPENS_AND_RUNS, "-ldl")
    recording = tools.record([program, plugin, *words], tmp_path / "logs")
    warnings = [line for line in recording.outcome.stderr.splitlines() if b"warning" in line]
    if words and tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 35):
        pytest.skip("this C library does not list its namespaces")
    assert len(warnings) == 1 and said in warnings[0] and warnings[0].endswith(b"libplugin.so"), warnings


@pytest.mark.thorough
@pytest.mark.parametrize("recorder_first", [True, False])
def test_two_hooks(tools: Tools, tmp_path: Path, recorder_first: bool) -> None:
    """Both see the calls, the recorder each of them once, whichever comes first."""
    other = tools.targets / "other_hook.so"
    command = with_counts(tools, "thread_churn")
    alone = outcome_of(run(command(tmp_path / "alone"), env={"LD_PRELOAD": str(other)}))
    assert alone.status == 10 and alone.stderr == b"other hook: many calls\n"
    order = [tools.shim, other] if recorder_first else [other, tools.shim]
    recording = tools.preload(command(tmp_path / "counts"), tmp_path / "logs",
                              env={"LD_PRELOAD": ":".join(map(str, order))})
    assert recording.outcome == alone
    assert len(recording.logs) == 1
    assert recorded_tallies(tools, recording.logs, tmp_path) == read_tallies(tmp_path / "counts")


@pytest.mark.parametrize("name", quick(["cpp_new"], ["cpp_new", "tls_destructors", "fork_children"]))
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_allocator_preloaded_behind_the_recorder(tools: Tools, tmp_path: Path, allocator: str,
                                                 name: str) -> None:
    """The allocator serves the program, and the calls are recorded."""
    compared = compare(tools, tmp_path, with_counts(tools, name),
                       env=preloads(tools, library(allocator)))
    compared.assert_whole()
    short = allocator.removeprefix("lib").partition(".")[0].partition("_")[0]
    assert tools.info(tmp_path / f"{compared.recording.logs[0].stem}.bin")[
        "recorded_allocator"].startswith(short)


def test_allocator_is_named_by_what_serves(tools: Tools, tmp_path: Path) -> None:
    """Its own word for its version counts, not that of an allocator that is loaded besides."""
    serves = "void *__libc_malloc(unsigned long); void *malloc(unsigned long n) { return __libc_malloc(n); }"
    [other, serving] = [compile_c(tmp_path, source, "-shared", "-fPIC", name=name) for name, source in (
        ("libother.so", 'const char *tc_version(int *a, int *b, const char **c) { return "gperftools 2"; }'),
        ("libserving.so", f"int mi_version(void) {{ return 20303; }} {serves}"))]
    recording = tools.preload(["ls"], tmp_path / "logs", env=preloads(tools, other, serving))
    context = tools.info(tools.convert(recording.logs[0], tmp_path / "t.bin"))["context"]
    assert (context["allocator_name"], context["allocator_version"]) == ("mimalloc", "2.3.3")


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_allocator_that_calls_itself(tools: Tools, tmp_path: Path, allocator: str) -> None:
    """Nothing has gone past the recorder then, and `record` does not warn."""
    recording = tools.record([tools.target("thread_churn"), tmp_path / "counts", "16"], tmp_path / "logs",
                             env={"LD_PRELOAD": library(allocator)})
    assert recording.outcome.status == 10 and b"warning" not in recording.outcome.stderr


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_allocator_preloaded_before_the_recorder(tools: Tools, tmp_path: Path,
                                                 allocator: str) -> None:
    """Then the recorder is not asked, and does no harm."""
    command = with_counts(tools, "tls_destructors")
    recording = tools.preload(command(tmp_path / "counts"), tmp_path / "logs",
                              env={"LD_PRELOAD": f"{library(allocator)}:{tools.shim}"})
    assert recording.outcome == outcome_of(run(command(tmp_path / "alone"))), allocator


def test_record_keeps_what_was_preloaded(tools: Tools, tmp_path: Path) -> None:
    recording = tools.record([tools.target("exit_quick"), tmp_path / "counts"], tmp_path / "logs",
                             env={"LD_PRELOAD": library(ALLOCATORS[0])})
    assert recording.outcome.status == 14
    [log] = recording.logs
    info = tools.convert_clean(log, tmp_path / "t.bin")
    assert info["recorded_allocator"].startswith("jemalloc")


def test_program_that_looks_malloc_up(tools: Tools, tmp_path: Path) -> None:
    """RTLD_NEXT, RTLD_DEFAULT and a handle of the program itself all lead through the recorder."""
    compared = compare(tools, tmp_path, with_counts(tools, "next_malloc"))
    assert compared.recording.outcome.status == 102
    compared.assert_whole(processes=1)


def test_program_with_a_malloc_of_its_own(tools: Tools, tmp_path: Path) -> None:
    """No preloaded library sees its calls; `record` hooks them, or says that there was nothing."""
    command = with_counts(tools, "own_malloc")
    alone = outcome_of(run(command(tmp_path / "alone")))
    assert (alone.status, alone.stdout) == (0, b"all served\n")
    preloaded = tools.preload(command(tmp_path / "counts"), tmp_path / "logs")
    assert preloaded.outcome == alone
    hooked = tools.record(command(tmp_path / "hooked"), tmp_path / "logs-of-hooks")
    assert (hooked.outcome.status, hooked.outcome.stdout) == (alone.status, alone.stdout)
    # The compiler has put its functions where main calls them.
    assert b"no code in " in hooked.outcome.stderr or \
        recorded_tallies(tools, hooked.logs, tmp_path) == read_tallies(tmp_path / "hooked")
    recording = tools.record(command(tmp_path / "counts"), tmp_path / "logs-of-record", "--no-hooks")
    assert recording.outcome.status != 0
    assert re.search(rb"own_malloc.*(no call|own|itself)", recording.outcome.stderr)
    for log in [*preloaded.logs, *recording.logs]:
        assert tools.info(tools.convert(log, tmp_path / "t.bin"))["events"] == 0


@pytest.mark.thorough
def test_program_with_functions_of_libcs_names(tools: Tools, tmp_path: Path) -> None:
    """A program's own open, getenv, close, madvise... are not libc's:
    only the program calls them. It prints the names of those that other code called."""
    compared = compare(tools, tmp_path, with_counts(tools, "own_names"))
    assert compared.recording.outcome.stdout == b"end\n"
    compared.assert_whole(processes=2)


# ---- Libraries with an allocator compiled into them are named wherever the recorded heap explains little, with what turns it off.

LIBRARY = """
#include <string.h>
#include <sys/mman.h>
void take(void) {
    char *got = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(got, 1, 32 << 20);
}
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*take)(void) = library ? (void (*)(void))dlsym(library, "take") : abort;
    free(malloc(5000));
    take();
    free(malloc(5000));
    return argc - 2;
}
"""


def test_they_are_named(tools: Tools, tmp_path: Path) -> None:
    """Loaded late, in everything that says that most of the memory is not from malloc."""
    for name, source in (("library", LIBRARY), ("program", PROGRAM)):
        (tmp_path / f"{name}.c").write_text(source)
    for library in ("libarrow.so.9", "_polars_runtime.abi3.so"):
        tools.succeed(["gcc", "-O1", "-shared", "-fPIC", "-o", tmp_path / library, tmp_path / "library.c"])
    tools.succeed(["gcc", "-O1", "-o", tmp_path / "program", tmp_path / "program.c", "-ldl"])
    expected = {"libarrow.so.9": "; libarrow.so.9 has an allocator of its own, which is not recorded: ARROW_DEFAULT_MEMORY_POOL=system makes it call malloc",
                "_polars_runtime.abi3.so": "; _polars_runtime.abi3.so has an allocator of its own, which is not recorded"}
    for library, words in expected.items():
        recording = tools.record([tmp_path / "program", tmp_path / library], tmp_path / f"logs-{library}")
        assert recording.outcome.status == 0 and f"{words}\n" in recording.outcome.stderr.decode()
        trace, results = tmp_path / f"{library}.bin", tmp_path / f"{library}.jsonl"
        converted = run([tools.heaptape, "convert", recording.logs[0], "-o", trace])
        assert converted.returncode == 0 and f"{words}\n" in converted.stderr.decode()
        assert f"{words}\n" in tools.succeed([tools.heaptape, "info", trace]).stdout.decode().splitlines(keepends=True)[0]
        replayed = tools.succeed([tools.replay_program, "--pass", "memory", "--rounds", "1", "--alloc", "glibc", "-o", results, trace])
        assert f"{words}\n" in replayed.stdout.decode().splitlines(keepends=True)[0] and words in replayed.stderr.decode()
        assert json.loads(results.read_text().splitlines()[0])["trace"]["inner_allocators"] == words[2:]
        assert caution(read_results(results)).endswith(f"{words}.")

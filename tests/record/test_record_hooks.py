# SPDX-License-Identifier: Apache-2.0
"""Allocators in the program's own file, whose functions `record` finds and the recorder hooks at the program's start."""

from __future__ import annotations

import os
import platform
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import recorded_tallies
from test_record_exact import assert_same_lines
from test_record_reach import compile_c
from tool_runner import Argument, Recording, Tools, between_markers, by_birth, read_tallies, run, tallies_in

CALLS = 20_000
SIGKILL = -9
HOOKS = "MALLOC_WRAP_HOOKS"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="functions are hooked on x86-64 only")

# Forbids itself and its successor to make memory executable, or to put pages onto others from an address on.
REFUSES = """
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define WORD(n) offsetof(struct seccomp_data, args[n])
int main(int argc, char **argv) {
    unsigned number = !strcmp(argv[1], "protect") ? SYS_mprotect : SYS_mremap;
    unsigned from = (unsigned)strtoul(argv[2], NULL, 16);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(number == SYS_mprotect ? 2 : 4)),
        BPF_JUMP(BPF_JMP | (number == SYS_mprotect ? BPF_JSET : BPF_JGE) | BPF_K, number == SYS_mprotect ? 4 : from, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(number == SYS_mprotect ? 0 : 4) + 4),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, number == SYS_mprotect ? 0 : 1, number == SYS_mprotect ? 0 : 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 13),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 98;
    execv(argv[3], argv + 3);
    return 97;
}
"""
STARTS_THREAD = """
#include <pthread.h>
#include <unistd.h>
static void *wait_long(void *unused) { for (;;) pause(); return unused; }
__attribute__((constructor)) static void start(void) { pthread_t t; pthread_create(&t, NULL, wait_long, NULL); }
"""
# It replaces this program, whose hooks it must not take for its own.
BECOMES = """
#include <stdlib.h>
#include <unistd.h>
void *je_malloc(unsigned long size) {
    static char room[1 << 20];
    static unsigned long used;
    if (!size) abort();
    return room + (used += size);
}
void je_free(void *block) {
    if (!block) abort();
    *(volatile char *)block = 1;
}
int main(int argc, char **argv) { je_free(je_malloc(50)); execvp(argv[1], argv + 1); return argc; }
"""

# gcc knows which registers these functions leave alone, and keeps values there.
RELIES_ON_REGISTERS = """
#include <stdio.h>
#include <stdlib.h>
static char room[64 << 20];
static size_t used, frees;
__attribute__((noinline)) void *je_malloc(size_t size) { char *at = room + used; used += (size + 15) & ~15ul; return at; }
__attribute__((noinline)) void je_free(void *block) { frees++; if (block) *(volatile char *)block = 1; }
int main(void) {
    long x = 1, y = 3, z = 5;
    free(malloc(77));
    for (long i = 0; i < 100000; i++) {
        void *block = je_malloc(32 + (i & 31));
        x += i ^ y;
        y = y * 3 + z;
        z ^= x;
        je_free(block);
    }
    printf("%ld %ld %ld %zu %zu\\n", x, y, z, used, frees);
}
"""
# One function takes six arguments, as mimalloc's does; the program calls it, or not.
SIX_ARGUMENTS = """
#include <stdio.h>
#include <stdlib.h>
void *mi_malloc(size_t size) { return malloc(size); }
void mi_free(void *block) { free(block); }
__attribute__((noinline))
void *mi_heap_recalloc_aligned_at(void *heap, void *block, size_t count, size_t size, size_t alignment, size_t offset) {
    printf("%p %zu %zu %zu %zu\\n", heap, count, size, alignment, offset);
    return realloc(block, count * size + 1);
}
int main(int argc, char **argv) {
    void *block = mi_malloc(30);
    if (argc > 1) block = mi_heap_recalloc_aligned_at(argv, block, 2, 100, 64, 8);
    mi_free(block);
    return 7;
}
"""


def record(tools: Tools, folder: Path, *command: Argument, options: tuple[str, ...] = (),
           env: Mapping[str, str] | None = None) -> tuple[Recording, str]:
    recording = tools.record(command, folder / "logs", *options, env=env)
    return recording, recording.outcome.stderr.decode()


def assert_lines(tools: Tools, folder: Path, recording: Recording, printed: Path, allocator: str) -> None:
    [log] = recording.logs
    info = tools.convert_clean(log, folder / "t.bin")
    assert_same_lines(printed.read_text().splitlines(), list(by_birth(between_markers(tools.dump(folder / "t.bin")))))
    assert info["recorded_allocator"] == allocator
    assert info["context"]["linked_hooks"] == "set"


# ---- every call, once ----

def test_every_call_is_dumped(tools: Tools, tmp_path: Path) -> None:
    """Whatever the functions begin with, and although some call others."""
    recording, said = record(tools, tmp_path, tools.target("hooked"), "lines", tmp_path / "printed", str(CALLS))
    assert recording.outcome.status == 52
    assert f"hooks 11 functions of jemalloc, which is linked into {tools.target('hooked')}" in said
    assert "warning" not in said.replace("is in memory", "")
    # Its markers are libc's, and recorded as well.
    assert_lines(tools, tmp_path, recording, tmp_path / "printed", "jemalloc")
    run([tools.target("hooked"), "lines", tmp_path / "alone", str(CALLS)])
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "printed").read_bytes()


def as_jemalloc_has_it(lines: list[str]) -> list[str]:
    """What it lacks, the recorder makes of what it has."""
    lines = [re.sub(r"reallocarray\((.*), (\d+), (\d+)\)", lambda m: f"realloc({m[1]}, {int(m[2]) * int(m[3])})", line)
             for line in lines]
    lines = [re.sub(r"^(free_sized|free_aligned_sized|cfree)\((#\d+)[^)]*\)", r"free(\2)", line) for line in lines]
    return [line for line in lines if not re.search(r"\d{20}.*failed", line)]  # more than any size: no call is made


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["own_functions", "calls_printed"])
def test_jemalloc_itself(tools: Tools, tmp_path: Path, name: str) -> None:
    """Linked as programs link it: its malloc serves the libraries too."""
    printed = tmp_path / "printed"
    recording, said = record(tools, tmp_path, tools.target(f"{name}_in_jemalloc"), printed, str(CALLS))
    assert recording.outcome.status == 0, said
    if name == "calls_printed":
        printed.write_text("\n".join(as_jemalloc_has_it(printed.read_text().splitlines())))
    assert_lines(tools, tmp_path, recording, printed, "jemalloc")


def test_operators_of_jemalloc(tools: Tools, tmp_path: Path) -> None:
    """They throw through the hooks. What is allocated for the exceptions meanwhile, and what a new-handler frees, passes as
    the allocator's own."""
    recording, said = record(tools, tmp_path, tools.target("cpp_new_in_jemalloc"), tmp_path / "counts")
    assert recording.outcome.status == 16, said
    [log] = recording.logs
    tools.convert_clean(log, tmp_path / "t.bin", unseen_max=2)
    assert tallies_in(tools.dump(tmp_path / "t.bin")) == read_tallies(tmp_path / "counts")


@pytest.mark.thorough
@pytest.mark.parametrize("mode,processes", [("threads", 1), ("fork", 5)])
@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_lost(tools: Tools, tmp_path: Path, mode: str, processes: int, killed: bool) -> None:
    """The program's own counts are those of the trace: with threads, in forked children, up to SIGKILL."""
    recording, said = record(tools, tmp_path, tools.target("hooked"), mode, tmp_path / "counts", *(["kill"] if killed else []))
    assert recording.outcome.status == (128 + 9 if killed else 52), said
    assert len(recording.logs) == processes
    assert recorded_tallies(tools, recording.logs, tmp_path) == read_tallies(tmp_path / "counts")


@pytest.mark.thorough
def test_call_sites(tools: Tools, tmp_path: Path) -> None:
    """They begin at the hooked function's caller."""
    recording, _ = record(tools, tmp_path, tools.target("hooked"), "threads", tmp_path / "counts", options=("--sites",))
    [log] = recording.logs
    tools.convert_clean(log, tmp_path / "t.bin")
    said = tools.succeed([tools.heaptape, "stats", tmp_path / "t.bin"]).stdout.decode()
    assert "work" in said and "on_allocation" not in said, said


# ---- what cannot be hooked ----

@pytest.mark.parametrize("kind,words", quick(["short"], [
    ("short", "je_dallocx is too short, je_free is too short"),
    ("loop", "je_dallocx is too short, je_free jumps back to its beginning"),
    ("entry", "je_dallocx is too short, je_free is entered behind its beginning"),
    ("move", "je_dallocx is too short, je_free begins with an instruction that works in its place only")]))
def test_function_that_cannot_be_hooked(tools: Tools, tmp_path: Path, kind: str, words: str) -> None:
    """It is named, and then none is hooked."""
    program = tools.target(f"hooked_{kind}")
    recording, said = record(tools, tmp_path, program, "lines", tmp_path / "printed", "2000")
    assert recording.outcome.status == 52
    assert f"heaptape record: warning: {program} has jemalloc linked in" in said
    assert f"; cannot be hooked: {words}\n" in said and "hooks 1" not in said
    [log] = recording.logs
    info = tools.info(tools.convert(log, tmp_path / "t.bin"))
    assert "linked_allocator" not in info["context"] and "linked_hooks" not in info["context"]
    run([program, "lines", tmp_path / "alone", "2000"])
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "printed").read_bytes()


def test_registers_that_callers_rely_on(tools: Tools, tmp_path: Path) -> None:
    """Of functions that change few registers gcc's callers may keep values in the others."""
    source, program = tmp_path / "relies.c", tmp_path / "relies"
    source.write_text(RELIES_ON_REGISTERS)
    tools.succeed(["gcc", "-O2", "-o", program, source])
    recording, said = record(tools, tmp_path, program)
    assert "je_malloc changes few registers, which its callers may rely on" in said
    assert recording.outcome.stdout == run([program]).stdout and recording.outcome.status == 0


@pytest.mark.parametrize("calls", [False, True])
def test_function_of_six_arguments(tools: Tools, tmp_path: Path, calls: bool) -> None:
    """It is not hooked; where somebody calls it, neither are the others."""
    source, program = tmp_path / "six.c", tmp_path / "six"
    source.write_text(SIX_ARGUMENTS if calls else SIX_ARGUMENTS.replace("if (argc > 1)", "if (0)"))
    tools.succeed(["gcc", "-O1", "-fno-builtin", "-no-pie", "-o", program, source])
    recording, said = record(tools, tmp_path, program, *["x"] * calls)
    assert recording.outcome.status == 7
    assert (b" 2 100 64 8\n" in recording.outcome.stdout) is calls
    if calls:
        assert "cannot be hooked: mi_heap_recalloc_aligned_at takes more arguments than can be passed on" in said
    else:
        assert "hooks 2 functions of mimalloc" in said


@pytest.mark.thorough
def test_symbols_that_cannot_be_read(tools: Tools, tmp_path: Path) -> None:
    """The functions that are exported would be a part of them."""
    program = built(tools, tmp_path, "-rdynamic")
    content = bytearray(program.read_bytes())
    start, count = int.from_bytes(content[40:48], "little"), int.from_bytes(content[60:62], "little")
    [table] = [at for at in range(start, start + 64 * count, 64) if content[at + 4] == 2]  # SHT_SYMTAB
    content[table + 32:table + 40] = (1 << 40).to_bytes(8, "little")
    program.write_bytes(content)
    recording, said = record(tools, tmp_path, program, "lines", tmp_path / "printed", "100")
    assert recording.outcome.status == 52
    assert "cannot be hooked: its symbols cannot be read" in said and "hooks " not in said


def test_stripped_program(tools: Tools, tmp_path: Path) -> None:
    tools.succeed(["strip", "-o", tmp_path / "stripped", tools.target("hooked")])
    recording, said = record(tools, tmp_path, tmp_path / "stripped", "lines", tmp_path / "printed", "100")
    assert recording.outcome.status == 52 and "hooks" not in said


def test_option_that_leaves_them(tools: Tools, tmp_path: Path) -> None:
    recording, said = record(tools, tmp_path, tools.target("hooked"), "lines", tmp_path / "printed", "100",
                             options=("--no-hooks",))
    assert recording.outcome.status == 52
    assert "has jemalloc linked in, whose calls no preloaded library sees" in said and "hooks " not in said


def built(tools: Tools, folder: Path, *more: str) -> Path:
    """The program at fixed addresses, and without link-time optimization."""
    source = Path(__file__).parents[1] / "targets/hooked.c"
    tools.succeed(["gcc", "-O1", "-no-pie", "-D_GNU_SOURCE", "-fno-builtin", "-w", "-o", folder / "fixed", source,
                   "-pthread", *more])
    return folder / "fixed"


def address_of(program: Path, name: str) -> int:
    [word] = [line.split()[0] for line in run(["nm", program]).stdout.decode().splitlines() if line.endswith(f" {name}")]
    return int(word, 16)


def refusing(tools: Tools, folder: Path, what: str, start: int) -> list[Argument]:
    return [compile_c(folder, REFUSES), what, f"{start:x}", shutil.which("env") or "env"]


@pytest.mark.thorough
@pytest.mark.parametrize("what,words,options", [("protect", "the kernel refuses memory for code", ["--convert"]),
                                                ("replace", "the kernel refuses to replace code", [])])
def test_kernel_refuses(tools: Tools, tmp_path: Path, what: str, words: str, options: list[str]) -> None:
    """At once, or when some pages are replaced already: the program works as alone, and `record` gives the reason."""
    (tmp_path / "refuses").mkdir()
    program = built(tools, tmp_path)
    pages = sorted({address_of(program, name) // 4096 for name in ("je_malloc", "je_sdallocx", "je_posix_memalign")})
    # The function that lies across two pages is alone there.
    assert pages[-1] > pages[-2] + 1 or what == "protect", "the target has its functions too near to each other"
    logs = tmp_path / "logs"
    logs.mkdir()
    filtered = refusing(tools, tmp_path / "refuses", what, pages[-1] * 4096)[:-1]
    done = run([*filtered, tools.heaptape, "record", *options, "-o", logs, "--", program, "lines", tmp_path / "printed",
                "2000"])
    assert done.returncode == 52, done
    assert f"could not be hooked: {words}\n" in done.stderr.decode()
    run([program, "lines", tmp_path / "alone", "2000"])
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "printed").read_bytes()


def test_threads_before(tools: Tools, tmp_path: Path) -> None:
    """One of a library's constructor might be within a function that is to be changed."""
    library, source = tmp_path / "libstarts.so", tmp_path / "starts.c"
    source.write_text(STARTS_THREAD)
    tools.succeed(["gcc", "-shared", "-fPIC", "-o", library, source])
    program = built(tools, tmp_path, "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{tmp_path}")
    recording, said = record(tools, tmp_path, program, "lines", tmp_path / "printed", "2000")
    assert recording.outcome.status == 52
    assert "could not be hooked: threads are running already" in said


# ---- other programs ----

def becoming(tools: Tools, folder: Path, *command: Argument) -> Recording:
    folder.mkdir()
    return record(tools, folder, compile_c(folder, BECOMES), *command)[0]


def test_program_that_becomes_another(tools: Tools, tmp_path: Path) -> None:
    """That one has the plan in its environment and leaves it."""
    recording = becoming(tools, tmp_path / "one", "sh", "-c", "echo here; exit 7")
    assert (recording.outcome.status, recording.outcome.stdout) == (7, b"here\n")


@pytest.mark.thorough
def test_damaged_plans(tools: Tools, tmp_path: Path) -> None:
    """Of whatever is in the variable nothing is done, or all."""
    plan = run([tools.heaptape, "record", "-q", "-o", tmp_path, "--", compile_c(tmp_path, BECOMES), "printenv",
                HOOKS]).stdout.decode().strip()
    assert plan.startswith("1:jemalloc:")
    rng = random.Random(41635)
    program = compile_c(tmp_path, BECOMES)
    alone = run([program, "echo", "alive"])
    damaged = ["", ":", "1", "1:", "1:jemalloc", "2" + plan[1:], plan[:-1], plan + "x", plan + plan, "1:" * 2000]
    for _ in range(40):
        at = rng.randrange(len(plan))
        damaged.append(rng.choice([plan[:at], plan[:at] + rng.choice("0f:,;z") + plan[at + 1:], plan[:at] + plan[at + 1:]]))
    code = plan.split(":")
    for text in damaged:
        parts = text.split(":")
        if len(parts) > 7 and parts[6:8] != code[6:8]:
            continue  # other code than was prepared is run as it is: the variable is not an enemy's
        done = run([program, "echo", "alive"], env={"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(tmp_path), HOOKS: text})
        assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr), text


def test_recorded_program_that_records(tools: Tools, tmp_path: Path) -> None:
    """Hooks that were meant for the outer one are not passed on."""
    (tmp_path / "inner").mkdir()
    recording = becoming(tools, tmp_path / "one", tools.heaptape, "record", "-q", "-o", tmp_path / "inner", "--", "sh", "-c",
                         f"echo ${HOOKS}; echo done")
    assert recording.outcome.stdout == b"\ndone\n"
    assert os.listdir(tmp_path / "inner")


OF_A_VERSION = """
#include <stdlib.h>
#include <string.h>
void *PREFIX_malloc(size_t size) { return malloc(size); }
void PREFIX_free(void *block) { free(block); }
VERSION
int main(void) { void *block = PREFIX_malloc(strlen(NAMED)); PREFIX_free(block); return 7; }
"""


@pytest.mark.parametrize(("prefix", "version", "named", "expected"), [
    ("mi", "int mi_version(void) { return 209; }", "", "2.0.9"),
    ("mi", "int mi_version(void) { return 30302; }", "", "3.3.2"),
    ("mi", "int mi_version(void) { return rand(); }", "", None),
    ("je", "", "5.3.0-1-ge13ca993e8ccb9ba9847cc330696e02839f328f7", "5.3.0"),
    ("je", "", "5.3.0-1-gnone", None),
    ("tc", "", "gperftools 2.10", "2.10")])
def test_version_in_the_programs_file(tools: Tools, tmp_path: Path, prefix: str, version: str, named: str, expected: str | None) -> None:
    """It is the trace's, as far as the file has it; nothing in the program is called for it."""
    source, program = tmp_path / "own.c", tmp_path / "own"
    source.write_text(OF_A_VERSION.replace("PREFIX", prefix).replace("VERSION", version).replace("NAMED", f'"{named}"'))
    tools.succeed(["gcc", "-O2", "-fno-ipa-ra", "-fno-builtin", "-fno-inline", "-o", program, source])
    recording, said = record(tools, tmp_path, program)
    assert recording.outcome.status == 7 and "hooks 2" in said, said
    context = tools.info(tools.convert(recording.logs[0], tmp_path / "t.bin"))["context"]
    assert context["linked_allocator"] == context["allocator_name"] == {"mi": "mimalloc", "je": "jemalloc", "tc": "tcmalloc"}[prefix]
    assert context.get("allocator_version") == context.get("linked_version") == expected

# SPDX-License-Identifier: Apache-2.0
"""`record` says why a program cannot be recorded, or not all of it, before it makes an empty log."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from quick_tier import quick
from tool_runner import Argument, Recording, Tools, run

CALLS = """
#include <stdlib.h>
int main(void) { void *volatile p = malloc(7001); free(p); return 5; }
"""
OWN_MALLOC = """
#include <stddef.h>
static char room[1 << 20];
static size_t used;
void *malloc(size_t n) { size_t at = used; used += (n + 31) & ~(size_t)15; return room + at; }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
int main(void) { void *volatile p = malloc(7001); free(p); return 5; }
"""
PREFIXED = """
#include <stdlib.h>
__attribute__((noinline)) void *je_malloc(size_t n) { return malloc(n); }
int main(void) { void *volatile p = je_malloc(7001); free(p); return 5; }
"""
OWN_NEW = """
#include <stddef.h>
static char room[1 << 20];
static size_t used;
void *operator new(size_t n) { size_t at = used; used += (n + 31) & ~(size_t)15; return MEMORY; }
void operator delete(void *) noexcept {}
void operator delete(void *, size_t) noexcept {}
int main() { int *volatile p = new int[1750]; delete p; return 5; }
"""
RUST = """
use std::alloc::{GlobalAlloc, Layout};
struct Own;
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 { ALLOC }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) { DEALLOC }
}
#[global_allocator]
static GLOBAL: Own = Own;
static mut ROOM: [u8; 1 << 20] = [0; 1 << 20];
static USED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
fn main() { println!("{:?}", std::env::args().count()); }
"""
ARENA = ("(&raw mut ROOM as *mut u8).add(USED.fetch_add(layout.size() + 64, std::sync::atomic::Ordering::Relaxed) "
         "/ 64 * 64 + 64)")
SECURE = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
int main(void) { free(malloc(7001)); printf("%lu", getauxval(AT_SECURE)); return 0; }
"""
NO_CALL = "int main(void) { return 0; }\n"
NOBODY = 65534


def compile_c(folder: Path, source: str, *flags: str, compiler: str = "gcc",
              name: str = "program") -> Path:
    """A program made here; the test is skipped where the compiler cannot make such a one."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program = folder / name
    source_file = folder / f"{name}.c"
    source_file.write_text(source)
    done = run([compiler, "-O0", "-o", program, source_file, *flags])
    if done.returncode:
        pytest.skip(f"{compiler} {' '.join(flags)} makes no program here")
    return program


def record(tools: Tools, folder: Path, *command: Argument, words: Sequence[str] = (),
           env: dict[str, str] | None = None) -> tuple[Recording, str]:
    recording = tools.record(command, folder / "logs", *words, env=env)
    return recording, recording.outcome.stderr.decode()


def assert_refused(tools: Tools, folder: Path, program: Path, words: str, *options: str) -> None:
    recording, said = record(tools, folder, program, words=options)
    assert recording.outcome.status == 125
    assert said == f"heaptape record: {program} {words}: nothing to record\n"
    assert recording.logs == []


def assert_warned(tools: Tools, folder: Path, command: list[Argument], words: str) -> Recording:
    """One line of warning, and then the recording as ever; it may find that most memory was not seen."""
    recording, said = record(tools, folder, *command)
    warnings = [line for line in said.splitlines() if "warning" in line
                and "in memory" not in line and "does not come from malloc" not in line]
    assert len(warnings) == 1 and words in warnings[0], said
    assert "recorded" in said and recording.logs
    return recording


def test_within_reach(tools: Tools, tmp_path: Path) -> None:
    recording, said = record(tools, tmp_path, compile_c(tmp_path, CALLS))
    assert recording.outcome.status == 5
    warnings = [line for line in said.splitlines() if "warning" in line and "is in memory" not in line]
    assert not warnings and len(recording.logs) == 1


@pytest.mark.parametrize("flag", ["-static", "-static-pie"])
def test_static(tools: Tools, tmp_path: Path, flag: str) -> None:
    assert_refused(tools, tmp_path, compile_c(tmp_path, CALLS, flag),
                   "is statically linked: nothing can be preloaded into it")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("kind", ["address", "thread", "leak"])
def test_sanitizer(tools: Tools, tmp_path: Path, compiler: str, kind: str) -> None:
    program = compile_c(tmp_path, CALLS, f"-fsanitize={kind}", compiler=compiler)
    assert_refused(tools, tmp_path, program, f"is built with the {kind} sanitizer, whose runtime "
                   "has its own malloc and must be loaded first")


def test_malloc_of_its_own(tools: Tools, tmp_path: Path) -> None:
    assert_refused(tools, tmp_path, compile_c(tmp_path, OWN_MALLOC, "-fno-builtin"),
                   "has a malloc of its own linked in, whose calls no preloaded library sees "
                   "(heaptape/recorder.h hands its calls to the recorder)", "--no-hooks")


def test_jemalloc_linked_statically(tools: Tools, tmp_path: Path) -> None:
    program = compile_c(tmp_path, CALLS, "-Wl,--whole-archive", "-l:libjemalloc_pic.a",
                        "-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm", "-lstdc++")
    assert_refused(tools, tmp_path, program, "has a malloc of its own linked in (jemalloc), whose calls no preloaded "
                   "library sees (heaptape/recorder.h hands its calls to the recorder)", "--no-hooks")


def test_allocator_under_a_prefix(tools: Tools, tmp_path: Path) -> None:
    recording = assert_warned(tools, tmp_path, [compile_c(tmp_path, PREFIXED)],
                              "has jemalloc linked in")
    assert recording.outcome.status == 5


@pytest.mark.parametrize("options", [[], ["--convert"]])
@pytest.mark.parametrize("way", ["exec", ""])
def test_allocator_in_a_program_that_a_script_runs(tools: Tools, tmp_path: Path, way: str, options: list[str]) -> None:
    """Nothing is known of it before: its log says which program it is of. Once, however often it runs."""
    program, script = compile_c(tmp_path, PREFIXED), tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{program}\n{program}\n{way} {program}\n")
    script.chmod(0o755)
    recording, said = record(tools, tmp_path, script, words=["-q", *options])
    assert recording.outcome.status == 5
    warnings = [line for line in said.splitlines() if "linked in" in line]
    assert warnings == [f"heaptape record: warning: {program} has jemalloc linked in, whose calls no preloaded library sees: they are not "
                        "recorded (heaptape/recorder.h hands its calls to the recorder); only the program that record itself starts can be hooked"]


def test_children_of_a_program_with_an_allocator(tools: Tools, tmp_path: Path) -> None:
    """Of them record has spoken before it started the program."""
    compile_c(tmp_path, PREFIXED.replace("#include <stdlib.h>", "#include <stdlib.h>\n#include <unistd.h>").replace("{ void", "{ fork(); void"))
    said = run([tools.heaptape, "record", "-q", "--no-hooks", "-o", "logs", "./program"], cwd=tmp_path).stderr.decode()
    assert said.count("linked in") == 1 and "can be hooked" not in said, said


@pytest.mark.parametrize("memory,warns", [("room + at", True), ("used ? __builtin_malloc(n) : room + at", False)])
def test_operator_new_of_its_own(tools: Tools, tmp_path: Path, memory: str, warns: bool) -> None:
    """One that is built on malloc is seen there."""
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    (tmp_path / "new.cpp").write_text(OWN_NEW.replace("MEMORY", memory).replace("#include <stddef.h>",
                                                                               "#include <stddef.h>\n#include <stdlib.h>"))
    tools.succeed(["g++", "-O0", "-o", tmp_path / "program", tmp_path / "new.cpp"])
    _, said = record(tools, tmp_path, tmp_path / "program", words=["--no-hooks"])
    assert ("has an operator new of its own linked in that does not call malloc" in said) == warns, said


@pytest.mark.parametrize("lto", quick(["off"], ["off", "fat"]))
@pytest.mark.parametrize("alloc,dealloc,warns", [(ARENA, "", True), ("", "", False)])
def test_global_allocator(tools: Tools, tmp_path: Path, alloc: str, dealloc: str, warns: bool, lto: str) -> None:
    """Of an unknown kind: by what Rust leaves in the program. The default one is malloc, with optimization across crates too."""
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    source = RUST.replace("DEALLOC", dealloc).replace("ALLOC", alloc)
    if not warns:
        source = source.replace("static GLOBAL: Own = Own;", "static GLOBAL: std::alloc::System = std::alloc::System;")
        source = source.replace("{  }", "{ unimplemented!() }", 1)
    (tmp_path / "main.rs").write_text(source)
    tools.succeed(["rustc", "-O", "-A", "warnings", "-C", f"lto={lto}", "-o", tmp_path / "program", tmp_path / "main.rs"])
    _, said = record(tools, tmp_path, tmp_path / "program")
    assert ("has a #[global_allocator] of its own: what that does not take from malloc" in said) == warns, said
    assert ("the crate heaptape-alloc" in said) == warns


def test_musl_program(tools: Tools, tmp_path: Path) -> None:
    """A glibc shim would keep it from starting."""
    program = compile_c(tmp_path, CALLS, compiler="musl-gcc")
    assert run([program]).returncode == 5
    assert_refused(tools, tmp_path, program, "is built for musl; this shim for glibc")


def test_other_machine(tools: Tools, tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the cross compiler is for another machine than this one")
    program = compile_c(tmp_path, CALLS, compiler="aarch64-linux-gnu-gcc")
    assert_refused(tools, tmp_path, program, "is built for aarch64; this shim for x86-64")


def test_other_word_size(tools: Tools, tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("this machine runs programs of one word size only")
    program = compile_c(tmp_path, NO_CALL, "-m32", "-nostdlib", "-Wl,-e,main")
    assert_refused(tools, tmp_path, program, "is built for 32-bit x86; this shim for x86-64")


def go_program(folder: Path, source: str, cgo: bool) -> Path:
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    (folder / "main.go").write_text(source)
    (folder / "go.mod").write_text("module sample\n\ngo 1.16\n")
    settings = {"CGO_ENABLED": "1" if cgo else "0", "GOCACHE": str(folder / "cache"),
                "GOPATH": str(folder / "path"), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod",
                "HOME": str(folder)}
    done = run(["go", "build", "-o", "sample", "main.go"], env=settings, cwd=folder, timeout=300)
    if done.returncode:
        pytest.skip(f"go cannot build here: {done.stderr.decode()[:200]}")
    return folder / "sample"


@pytest.mark.thorough
def test_go_without_c(tools: Tools, tmp_path: Path) -> None:
    assert_refused(tools, tmp_path, go_program(tmp_path, "package main\nfunc main() {}\n", False),
                   "is statically linked: nothing can be preloaded into it")


@pytest.mark.slow  # the C half of Go's standard library is compiled anew: half a minute
def test_go_with_c(tools: Tools, tmp_path: Path) -> None:
    source = ('package main\n\n// #include <stdlib.h>\nimport "C"\n\n'
              "func main() { C.free(C.malloc(7001)) }\n")
    assert_warned(tools, tmp_path, [go_program(tmp_path, source, True)], "not the Go heap")


@pytest.mark.parametrize("name, arguments, words", [
    ("/usr/bin/python3", ["-c", "pass"], "PYTHONMALLOC=malloc"),
    ("java", ["-version"], "runs Java: only native allocations"),
    ("node", ["-e", "0"], "runs JavaScript in V8: only native allocations"),
])
def test_runtimes(tools: Tools, tmp_path: Path, name: str, arguments: list[str],
                  words: str) -> None:
    program = shutil.which(name)
    if not program:
        pytest.skip(f"{name} is not installed")
    assert_warned(tools, tmp_path, [program, *arguments], words)


def test_runtime_that_hands_over(tools: Tools, tmp_path: Path) -> None:
    recording, said = record(tools, tmp_path, "/usr/bin/python3", "-c", "pass",
                             env={"PYTHONMALLOC": "malloc"})
    assert recording.outcome.status == 0 and "PYTHONMALLOC" not in said


def write_script(folder: Path, name: str, text: str) -> Path:
    script = folder / name
    script.write_text(text)
    script.chmod(0o755)
    return script


def test_script_of_a_python(tools: Tools, tmp_path: Path) -> None:
    script = write_script(tmp_path, "script", "#!/usr/bin/env python3\npass\n")
    link = tmp_path / "python3"
    link.symlink_to("/usr/bin/python3")
    recording, said = record(tools, tmp_path, script,
                             env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert recording.outcome.status == 0
    assert f"{script} is run by {link}, which runs Python" in said


def test_wrapper_script_is_followed(tools: Tools, tmp_path: Path) -> None:
    """The shell is recorded and so is what it starts."""
    program = compile_c(tmp_path, CALLS)
    script = write_script(tmp_path, "wrapper", f"#!/bin/sh\n{program}\nexit 3\n")
    recording, said = record(tools, tmp_path, script)
    assert recording.outcome.status == 3 and "is run by" not in said
    dumps = [tools.dump(tools.convert(log, tmp_path / f"{log.stem}.bin"))
             for log in recording.logs]
    assert any("malloc(7001)" in line for lines in dumps for line in lines)


def test_script_of_a_sanitized_interpreter(tools: Tools, tmp_path: Path) -> None:
    program = compile_c(tmp_path, CALLS, "-fsanitize=address")
    inner = write_script(tmp_path, "inner", f"#!{program}\n")
    outer = write_script(tmp_path, "outer", f"#! {inner} -x\n")
    recording, said = record(tools, tmp_path, outer)
    assert recording.outcome.status == 125 and recording.logs == []
    assert f"{outer} is run by {program}, which is built with the address sanitizer" in said


@pytest.mark.thorough
def test_script_of_a_static_interpreter(tools: Tools, tmp_path: Path) -> None:
    """The interpreter hands LD_PRELOAD on to what it starts."""
    starts = ("#include <unistd.h>\n"
              "int main(int n, char **w) { return n ? execv(w[1], w + 1) : 1; }\n")
    interpreter = compile_c(tmp_path, starts, "-static", name="interpreter")
    program = compile_c(tmp_path, CALLS)
    script = write_script(tmp_path, "script", f"#!{interpreter} {program}\n")
    assert_warned(tools, tmp_path, [script], "only the programs that it starts can be recorded")


def test_no_call_at_all(tools: Tools, tmp_path: Path) -> None:
    recording, said = record(tools, tmp_path, compile_c(tmp_path, NO_CALL))
    assert recording.outcome.status == 125
    assert "made no call that could be recorded" in said and "next:" not in said


@pytest.mark.thorough
def test_static_program_behind_a_wrapper(tools: Tools, tmp_path: Path) -> None:
    """What came before the exec is recorded; that the rest is missing is said."""
    program = compile_c(tmp_path, CALLS, "-static")
    script = write_script(tmp_path, "wrapper", f"#!/bin/sh\nexec {program}\n")
    for command in ([script], ["sh", "-c", f"exec {program}"], ["env", program]):
        recording, said = record(tools, tmp_path, *command)
        assert recording.outcome.status == 5
        assert "the program became 'program', which was not recorded" in said


@pytest.mark.thorough
def test_wrapper_that_is_recorded_to_the_end(tools: Tools, tmp_path: Path) -> None:
    """No such warning after an exec into what is recorded, an end by _exit, or by a signal."""
    program = compile_c(tmp_path, CALLS)
    script = write_script(tmp_path, "wrapper", f"#!/bin/sh\n{program}\n")
    for command in ([script], ["sh", "-c", f"exec {program}"], ["env", program],
                    ["sh", script], ["sh", "-c", "kill -9 $$"], ["env", script]):
        recording, said = record(tools, tmp_path, *command)
        assert "recorded" in said and "nothing was recorded" not in said, command


# Mode, owner, capabilities, and whether nobody or root runs it. The program itself prints what the
# kernel passed to its loader.
RIGHTS = {
    "plain": (0o755, 0, "", NOBODY),
    "set-user root by root": (0o4755, 0, "", 0),
    "set-user nobody by root": (0o4755, NOBODY, "", 0),
    "set-user root by nobody": (0o4755, 0, "", NOBODY),
    "set-user nobody by nobody": (0o4755, NOBODY, "", NOBODY),
    "set-group by root": (0o2755, 0, "", 0),
    "set-group by nobody": (0o2755, 0, "", NOBODY),
    "set-group without group execution": (0o2745, 0, "", NOBODY),
    "capabilities by nobody": (0o755, 0, "cap_net_raw+ep", NOBODY),
    "permitted capabilities by nobody": (0o755, 0, "cap_net_raw+p", NOBODY),
    "inheritable capabilities by nobody": (0o755, 0, "cap_net_raw+i", NOBODY),
    "capabilities by root": (0o755, 0, "cap_net_raw+ep", 0),
}


@pytest.mark.parametrize("no_new_privileges", quick([False], [False, True]))
@pytest.mark.parametrize("name", RIGHTS)
def test_rights(tools_for_all: Tools, open_folder: Path, name: str, no_new_privileges: bool) -> None:
    """The loader ignores LD_PRELOAD exactly where the kernel sets AT_SECURE."""
    mode, owner, capabilities, user = RIGHTS[name]
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can hand out rights, and setpriv take them")
    program = compile_c(open_folder, SECURE)
    os.chown(program, owner, 0)
    program.chmod(mode)
    if capabilities and run(["setcap", capabilities, program]).returncode:
        pytest.skip("this file system keeps no capabilities")
    logs = open_folder / "logs"
    logs.mkdir()
    logs.chmod(0o777)
    caller: list[Argument] = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    if no_new_privileges:
        caller.append("--no-new-privs")
    # setpriv keeps capabilities over its change of user; the next program has none left.
    secure = run([*caller, "env", program]).stdout == b"1"
    done = run([*caller, tools_for_all.heaptape, "record", "-o", logs, "--", program])
    said = done.stderr.decode()
    assert ("runs with other rights than yours" in said) == secure
    assert (done.returncode == 125) == secure
    assert (list(logs.iterdir()) == []) == secure, said


def test_other_rights_by_the_loaders_own_file(tools: Tools, open_folder: Path) -> None:
    """/etc/ld.so.preload holds for set-user-id programs, too. Who starts one says in the environment where logs go: it is not
    recorded, and its functions are not hooked, whatever the environment asks."""
    if os.geteuid() != 0 or run(["unshare", "-m", "true"]).returncode:
        pytest.skip("only root may put a file of the loader's there")
    shim = Path(shutil.copy(tools.shim, open_folder))
    program = Path(shutil.copy(tools.target("exit_quick"), open_folder))
    logs = open_folder / "logs"
    logs.mkdir()
    logs.chmod(0o777)
    script = ('mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" && '
              'mount -t overlay -o lowerdir=/etc,upperdir="$1/upper",workdir="$1/work" none /etc && '
              'echo "$2" >/etc/ld.so.preload && export MALLOC_WRAP_OUT="$4" MALLOC_WRAP_HOOKS=damaged MALLOC_WRAP_ONLY=exit_quick || exit 88; '
              'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$3" "$4/../counts"')
    hidden = open_folder / "mount"
    hidden.mkdir()
    open_folder.chmod(0o777)
    for mode, recorded in ((0o755, True), (0o4755, False)):
        program.chmod(mode)
        done = run(["unshare", "-m", "sh", "-c", script, "sh", hidden, shim, program, logs])
        if done.returncode == 88:
            pytest.skip(f"cannot mount over /etc here: {done.stderr.decode().strip()}")
        assert done.returncode == 14, done
        (open_folder / "counts").unlink()
        assert [log.stat().st_uid for log in logs.iterdir()] == [NOBODY] * recorded
        for log in logs.iterdir():
            log.unlink()


SANITIZED = """
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    char *volatile block = malloc(7760);
    memset(block, 1, 7760);
    free(block);
    if (argc > 1) block[5] = 2;
    return 3 + !strcmp(getenv("ASAN_OPTIONS"), "verify_asan_link_order=0:exitcode=9");
}
"""


@pytest.mark.parametrize("compiler,flags", [("gcc", ["-fsanitize=address"]), ("gcc", ["-fsanitize=address", "-static-libasan"]),
                                            ("clang", ["-fsanitize=address"]), ("gcc", ["-fsanitize=leak"]),
                                            ("gcc", ["-fsanitize=undefined"]), ("clang", ["-fsanitize=thread"])])
def test_sanitized_program_that_a_recorded_one_starts(tools: Tools, tmp_path: Path, compiler: str,
                                                      flags: list[str]) -> None:
    """It starts, and the sanitizer finds the fault; the user's options of the sanitizer are kept."""
    program = compile_c(tmp_path, SANITIZED, *flags, compiler=compiler)
    options = {"ASAN_OPTIONS": "exitcode=9"}
    if run([program], env=options).returncode != 3:
        pytest.skip("the sanitizer does not run here")
    recording, _ = record(tools, tmp_path, "sh", "-c", f"{program}; exit $?", env=options)
    assert recording.outcome.status == 4, recording.outcome.stderr
    if "-fsanitize=address" in flags:
        (tmp_path / "bug").mkdir()
        recording, reported = record(tools, tmp_path / "bug", "sh", "-c", f"{program} bug; exit $?", env=options)
        assert recording.outcome.status == 9 and "heap-use-after-free" in reported

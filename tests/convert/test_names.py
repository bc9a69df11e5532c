# SPDX-License-Identifier: Apache-2.0
"""Names of call sites: from symbols, DWARF, debug links, perf maps; and the verbs that show them."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tool_runner import Tools, run

SITES = {"MALLOC_WRAP_SITES": "64"}

PROGRAM = """\
#include <cstdlib>
static inline __attribute__((always_inline)) void *own_malloc(size_t size) { return malloc(size); }
namespace farm {
template <class T> struct Barn {
    __attribute__((noinline)) static T *build(int extra) { T *made = (T *)own_malloc(sizeof(T) + extra); *made = extra; return made; }
};
}
int main() {
    void *volatile kept;
    for (int i = 0; i < 40; i++) kept = farm::Barn<long>::build(i);
    for (int i = 0; i < 10; i++) { kept = malloc(100); free(kept); }
    kept = realloc(malloc(1000), 2000);
    return 0;
}
"""
BUILD_LINE, FIRST_CALL, LOOP_CALL, RESIZE = 5, 10, 11, 12

RUST_PROGRAM = """\
struct Node { value: u64 }
#[inline(never)] fn plant(value: u64) -> Box<Node> { Box::new(Node { value }) }
fn main() { let all: Vec<Box<Node>> = (0..50).map(plant).collect(); std::process::exit((all[7].value == 8) as i32); }
"""


def compiled(folder: Path, name: str, *options: str) -> Path:
    source = folder / "barn.cc"
    source.write_text(PROGRAM)
    subprocess.run(["g++", "-O2", *options, "-o", folder / name, source], check=True, timeout=120)
    return folder / name


def recorded(tools: Tools, program: Path, logs: Path) -> Path:
    recording = tools.preload([program], logs, env=SITES)
    assert recording.outcome.status == 0
    return recording.logs[0]


@pytest.fixture(scope="module")
def log(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    return recorded(tools, compiled(folder, "barn", "-g"), folder / "logs")


@pytest.fixture(scope="module")
def trace(tools: Tools, log: Path) -> Path:
    return tools.convert(log, log.parent / "named.bin")


def sites_of(tools: Tools, trace: Path) -> list[dict[str, Any]]:
    sites: list[dict[str, Any]] = json.loads(tools.succeed([tools.heaptape, "stats", "--json", trace]).stdout)["sites"]
    return sites


def by_line(sites: list[dict[str, Any]], program: str = "barn.cc") -> dict[int, dict[str, Any]]:
    return {site["caller"]["line"]: site for site in sites if Path(site["caller"]["file"] or "").name == program}


def test_functions_lines_and_what_was_inlined(tools: Tools, trace: Path) -> None:
    found = by_line(sites_of(tools, trace))
    assert set(found) == {BUILD_LINE, LOOP_CALL, RESIZE}
    frames = [(frame["function"], frame["line"], frame["inlined"]) for frame in found[BUILD_LINE]["frames"][:3]]
    assert frames == [("own_malloc", 2, True), ("farm::Barn<long>::build", BUILD_LINE, False), ("main", FIRST_CALL, False)]
    assert found[LOOP_CALL]["caller"]["function"] == "main"


def test_what_stats_counts(tools: Tools, trace: Path) -> None:
    found = by_line(sites_of(tools, trace))
    kept = sum(8 + i for i in range(40))
    figures = {line: tuple(site[key] for key in ("calls", "bytes", "live_peak_bytes", "live_end_bytes", "live_end"))
               for line, site in found.items()}
    # A block belongs to the call that resized it last.
    assert figures == {BUILD_LINE: (40, kept, kept, kept, 40), LOOP_CALL: (10, 1000, 0, 0, 0), RESIZE: (2, 3000, 2000, 2000, 1)}
    lines = tools.succeed([tools.heaptape, "stats", trace]).stdout.decode().splitlines()
    first = next(i for i, line in enumerate(lines) if line.endswith("  call site"))
    assert any(re.fullmatch(r" +40 .* farm::Barn<long>::build barn\.cc:5, by own_malloc", line) for line in lines[first + 1:])
    assert lines[first + 11:] in ([], [f"{'...':>14}"])


def test_dump_info_and_lint(tools: Tools, trace: Path) -> None:
    lines = tools.dump(trace)
    assert sum(re.search(r"malloc\(\d+\) = #\d+ site \d+ \(farm::Barn<long>::build barn\.cc:5\)$", line) is not None for line in lines) == 40
    assert not any(" site " in line for line in lines if " free(" in line)
    info = tools.info(trace)
    assert info["sites"] == len({match[1] for line in lines if (match := re.search(r" site (\d+)", line))})
    assert info["site_modules"] >= 2
    assert run([tools.heaptape, "lint", trace]).returncode == 0


def test_a_slice_keeps_the_sites_of_its_blocks(tools: Tools, trace: Path, tmp_path: Path) -> None:
    lines = tools.dump(trace)
    cut = next(i for i, line in enumerate(lines) if "malloc(1000)" in line)
    tools.succeed([tools.heaptape, "slice", "-q", trace, "-o", tmp_path / "s.bin", "--from-event", str(cut)])
    found = by_line(sites_of(tools, tmp_path / "s.bin"))
    assert set(found) == {BUILD_LINE, RESIZE}
    assert (found[BUILD_LINE]["calls"], found[BUILD_LINE]["live_end"]) == (0, 40)
    assert tools.info(tmp_path / "s.bin")["sites"] < tools.info(trace)["sites"]


@pytest.mark.thorough
def test_names_can_be_looked_up_later(tools: Tools, log: Path, trace: Path, tmp_path: Path) -> None:
    plain = tools.convert(log, tmp_path / "plain.bin", "--no-names")
    assert not by_line(sites_of(tools, plain))
    done = tools.succeed([tools.heaptape, "names", plain, "-o", tmp_path / "later.bin"])
    assert re.search(rb"later\.bin: names of \d+ of \d+ locations", done.stderr)
    for verb in ("stats", "dump"):
        assert (tools.succeed([tools.heaptape, verb, tmp_path / "later.bin"]).stdout
                == tools.succeed([tools.heaptape, verb, trace]).stdout)
    tools.succeed([tools.heaptape, "names", "-q", tmp_path / "later.bin", "-o", tmp_path / "again.bin"])
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "later.bin").read_bytes()


@pytest.mark.thorough
def test_names_that_are_not_found_stay(tools: Tools, log: Path, tmp_path: Path) -> None:
    program = compiled(tmp_path, "moved", "-g")
    trace = tools.convert(recorded(tools, program, tmp_path / "logs"), tmp_path / "t.bin")
    program.unlink()
    tools.succeed([tools.heaptape, "names", "-q", trace, "-o", tmp_path / "u.bin"])
    assert set(by_line(sites_of(tools, tmp_path / "u.bin"))) == {BUILD_LINE, LOOP_CALL, RESIZE}


@pytest.mark.thorough
def test_another_program_in_the_place_of_the_recorded_one_gives_no_names(tools: Tools, tmp_path: Path) -> None:
    program = compiled(tmp_path, "barn", "-g")
    log = recorded(tools, program, tmp_path / "logs")
    program.unlink()
    compiled(tmp_path, "barn", "-g", "-fno-inline", "-DOTHER")
    sites = sites_of(tools, tools.convert(log, tmp_path / "t.bin"))
    own = [site["caller"] for site in sites if site["caller"]["module"] == str(program)]
    assert own and all(caller["function"] is None for caller in own)
    text = tools.succeed([tools.heaptape, "stats", tmp_path / "t.bin"]).stdout.decode()
    assert re.search(r"barn\+0x[0-9a-f]+$", text, re.MULTILINE)


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["symbols", "debug link", "split", "fixed address"])
def test_where_names_come_from(tools: Tools, tmp_path: Path, how: str) -> None:
    options = {"symbols": ["-g0"], "split": ["-g", "-gsplit-dwarf"], "fixed address": ["-g", "-no-pie"]}.get(how, ["-g"])
    program = compiled(tmp_path, "barn", *options)
    if how == "debug link":
        for command in (["--only-keep-debug", program, f"{program}.debug"], ["--strip-all", program],
                        [f"--add-gnu-debuglink={program}.debug", program]):
            subprocess.run(["objcopy", *command], check=True, timeout=60)
    sites = sites_of(tools, tools.convert(recorded(tools, program, tmp_path / "logs"), tmp_path / "t.bin"))
    if how == "symbols":
        functions = {site["caller"]["function"] for site in sites if site["calls"] == 40}
        assert functions == {"farm::Barn<long>::build"}
    else:
        assert set(by_line(sites)) == {BUILD_LINE, LOOP_CALL, RESIZE}


@pytest.mark.thorough
def test_rust(tools: Tools, tmp_path: Path) -> None:
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    (tmp_path / "plant.rs").write_text(RUST_PROGRAM)
    for mangling, options in [("usual", []), ("v0", ["-C", "symbol-mangling-version=v0"])]:
        subprocess.run(["rustc", "-g", "-O", *options, "-o", tmp_path / mangling, tmp_path / "plant.rs"], check=True, timeout=300, capture_output=True)
        log = recorded(tools, tmp_path / mangling, tmp_path / f"logs-{mangling}")
        found = by_line(sites_of(tools, tools.convert(log, tmp_path / f"{mangling}.bin")), "plant.rs")
        assert found[2]["caller"]["function"] == "plant::plant" and found[2]["calls"] == 50


@pytest.mark.thorough
def test_generated_code_by_its_perf_map(tools: Tools, tmp_path: Path) -> None:
    """Machine code on a page that the program maps: the runtime's own file says what it is."""
    (tmp_path / "jit.c").write_text(r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const unsigned char call[] = {0x50, 0xbf, 48, 0, 0, 0, 0x48, 0xb8};  /* push; mov edi, 48; mov rax, malloc */
    static const unsigned char rest[] = {0xff, 0xd0, 0x59, 0xc3};               /* call rax; pop; ret */
    void *(*function)(size_t) = malloc;
    memcpy(code, call, sizeof call);
    memcpy(code + sizeof call, &function, 8);
    memcpy(code + sizeof call + 8, rest, sizeof rest);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %x py::plough field.py\n", (unsigned long)code, 20);
    fclose(map);
    ((void (*)(void))code)();
    return 0;
}
""")
    subprocess.run(["gcc", "-o", tmp_path / "jit", tmp_path / "jit.c"], check=True, timeout=60)
    log = recorded(tools, tmp_path / "jit", tmp_path / "logs")
    pid = re.findall(r"\d+", log.name)[0]
    kept = Path(f"/tmp/perf-{pid}.map")
    try:
        found = tools.dump(tools.convert(log, tmp_path / "t.bin"))
        map_file = tmp_path / "perf.map"
        map_file.write_bytes(kept.read_bytes())
        os.utime(kept, (1, 1))
        old = tools.dump(tools.convert(log, tmp_path / "old.bin"))
    finally:
        kept.unlink()
    assert [line for line in found if "(py::plough field.py)" in line and "malloc(48)" in line]
    assert not [line for line in old if "py::plough" in line], "the map of an earlier process with the same number"
    tools.succeed([tools.heaptape, "names", "-q", tmp_path / "old.bin", "--perf-map", map_file, "-o", tmp_path / "new.bin"])
    assert tools.dump(tmp_path / "new.bin") == found


@pytest.mark.thorough
def test_a_forked_child_inherits_call_sites(tools: Tools, tmp_path: Path) -> None:
    """Also those that no call of its own comes from, over two generations."""
    (tmp_path / "heirs.c").write_text("""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile kept[4];
static __attribute__((noinline)) void sow(int i) { kept[i] = malloc(1000 + i); }
static __attribute__((noinline)) void reap(void) { kept[2] = malloc(77); kept[1] = realloc(kept[1], 3000); }
int main(void) {
    sow(0), sow(1);
    if (fork()) return wait(NULL) < 0;
    reap();
    if (fork()) return wait(NULL) < 0;
    kept[3] = malloc(55);
    return 0;
}
""")
    subprocess.run(["gcc", "-g", "-O1", "-o", tmp_path / "heirs", tmp_path / "heirs.c"], check=True, timeout=60)
    recording = tools.preload([tmp_path / "heirs"], tmp_path / "logs", env=SITES)
    tools.succeed([tools.heaptape, "record", "-q", "--sites", "--convert", "-o", tmp_path / "followed", "--", tmp_path / "heirs"])
    afterwards = [tools.convert(log, tmp_path / f"{log.name}.bin") for log in recording.logs]
    for traces in (afterwards, list((tmp_path / "followed").iterdir())):
        lines = [line for trace in traces for line in tools.dump(trace) if "heirs.c" in line]
        said = sorted(re.sub(r"^t\d+ (.*) = #\d+ site \d+ ", r"\1 ", line) for line in lines)
        assert said == INHERITED


INHERITED = sorted([
    "malloc(1000) (sow heirs.c:6)", "malloc(1001) (sow heirs.c:6)",
    "inherit(1000) (sow heirs.c:6)", "inherit(1001) (sow heirs.c:6)", "malloc(77) (reap heirs.c:7)", "realloc(#2, 3000) (reap heirs.c:7)",
    "inherit(1000) (sow heirs.c:6)", "inherit(77) (reap heirs.c:7)", "inherit(3000) (reap heirs.c:7)", "malloc(55) (main heirs.c:13)"])


def test_refusals(tools: Tools, log: Path, trace: Path, repository: Path, tmp_path: Path) -> None:
    without = repository / "traces" / "sqlite3-small.bin"
    (tmp_path / "cut.bin").write_bytes(trace.read_bytes()[:-40])
    cases: list[tuple[list[Any], int, str]] = [
        (["names", trace, "-o", trace], 2, "the trace would overwrite its input"),
        (["names", trace], 2, "expected -o FILE"),
        (["names", without, "-o", tmp_path / "o.bin"], 2, "no call sites; record with --sites"),
        (["names", trace, "--perf-map", tmp_path / "no.map", "-o", tmp_path / "o.bin"], 1, "no.map: cannot open: No such file or directory"),
        (["names", trace, "--perf-map", tmp_path, "-o", tmp_path / "o.bin"], 1, "cannot open: Is a directory"),
        (["names", tmp_path / "cut.bin", "-o", tmp_path / "o.bin"], 3, "cut short or damaged"),
        (["names", trace, "-o", tmp_path / "none" / "o.bin"], 1, "No such file or directory"),
        (["convert", repository / "tests" / "golden" / "imports" / "android.txt", "--no-names", "-o", tmp_path / "o.bin"], 3,
         "expected stacks, for --no-names, found Android memory_replay, which has none"),
    ]
    for command, status, said in cases:
        done = run([tools.heaptape, *command])
        assert (done.returncode, said in done.stderr.decode()) == (status, True), done.stderr.decode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.bin"]


class Frame(ctypes.Structure):
    """struct heaptape_frame."""

    _fields_ = [("function", ctypes.c_char_p), ("file", ctypes.c_char_p), ("offset", ctypes.c_uint64),
                ("module", ctypes.c_uint32), ("line", ctypes.c_uint32), ("inlined", ctypes.c_uint8)]


def test_the_reader_library_lists_frames(build: Path, tools: Tools, trace: Path) -> None:
    library = ctypes.CDLL(str(build / "parts" / "reader" / "libheaptape.so"))
    library.heaptape_open.restype = ctypes.c_void_p
    library.heaptape_modules.restype = ctypes.c_char_p
    library.heaptape_frames.restype = ctypes.c_size_t
    library.heaptape_frames.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]
    for function in (library.heaptape_modules, library.heaptape_sites, library.heaptape_close):
        function.argtypes = [ctypes.c_void_p]
    reader = library.heaptape_open(str(trace).encode())
    assert library.heaptape_sites(reader) == tools.info(trace)["sites"]
    modules = json.loads(library.heaptape_modules(reader))["modules"]
    frames = (Frame * 64)()
    stacks = []
    for site in range(1, library.heaptape_sites(reader) + 1):
        count = library.heaptape_frames(reader, site, frames, 64)
        assert 0 < count == library.heaptape_frames(reader, site, None, 0)
        stacks.append([(frame.function, frame.line, bool(frame.inlined), Path(modules[frame.module - 1]["path"]).name)
                       for frame in frames[:count]])
    assert [stack for stack in stacks if stack[:3] == [(b"own_malloc", 2, True, "barn"), (b"farm::Barn<long>::build", BUILD_LINE, False, "barn"),
                                                       (b"main", FIRST_CALL, False, "barn")]]
    assert library.heaptape_frames(reader, len(stacks) + 1, frames, 64) == library.heaptape_frames(reader, 0, frames, 64) == 0
    library.heaptape_close(reader)

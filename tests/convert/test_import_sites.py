# SPDX-License-Identifier: Apache-2.0
"""Call sites of other recorders' traces: what real recorders write of a program whose stacks are known, and what is looked up."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from heaptape import read_trace
from heaptape.sites.figures import site_figures
from heaptape.sites.frames import Stacks
from tool_runner import Tools, run

IMPORTS = Path(__file__).resolve().parent.parent / "golden" / "imports"

PROGRAM = """\
#include <mcheck.h>
#include <stdlib.h>
static __attribute__((noinline)) void *dig(size_t size) { void *volatile made = malloc(size); return made; }
__attribute__((noinline)) void *shed(int i) { void *volatile made = dig(100 + i % 2); return made; }
__attribute__((noinline)) void *barn(void) { void *volatile made = dig(5000); return made; }
int main(void) {
    void *volatile kept[3];
    if (getenv("MALLOC_TRACE")) mtrace();
    for (int i = 0; i < 3; i++) kept[i] = shed(i);
    for (int i = 0; i < 20; i++) free(barn());
    free(kept[0]);
    return 0;
}
"""
DIG, SHED, BARN, IN_MAIN = 3, 4, 5, 9


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("farm")
    (folder / "farm.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O1", "-o", folder / "farm", folder / "farm.c"], check=True, timeout=60)
    return folder / "farm"


@pytest.fixture(scope="module")
def recorded(program: Path) -> dict[str, Path]:
    """heaptrack's file with names, and the raw one."""
    if not shutil.which("heaptrack"):
        pytest.skip("heaptrack is not installed")
    found = {}
    for name, options in (("named", []), ("raw", ["--raw"])):
        done = run(["heaptrack", *options, "-o", program.parent / name, program])
        [found[name]] = [path for path in program.parent.iterdir() if path.name.startswith(f"{name}.")]
        assert done.returncode == 0, done.stderr
    return found


def of_stacks(path: Path) -> dict[str, dict[str, int]]:
    """Figures of stacks with the same three innermost frames."""
    with read_trace(path) as trace:
        figures, stacks = site_figures(trace).sites, Stacks(trace.sites)
    found: dict[str, dict[str, int]] = {}
    for site, row in figures.iloc[1:].iterrows():
        name = " ".join(f"{frame.function}:{frame.line}" for frame in stacks.of(int(str(site)))[:3])
        sums = found.setdefault(name, dict.fromkeys(row.index, 0))
        for figure, value in row.items():
            sums[str(figure)] += int(value)
    return found


def functions(path: Path) -> set[str]:
    with read_trace(path) as trace:
        return set(trace.sites.names["function"])


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["named", "raw"])
def test_heaptrack(tools: Tools, recorded: dict[str, Path], tmp_path: Path, kind: str) -> None:
    trace = tools.convert(recorded[kind], tmp_path / "t.bin")
    info = tools.info(trace)
    assert (info["anomalies"], info["foreign_frees"], info["context"]["time"]) == (0, 0, "ticks")
    assert info["context"].get("frees") == ("assumed" if kind == "named" else None)
    assert info["command"].endswith("/farm")
    found = of_stacks(trace)
    shed, barn = found[f"dig:{DIG} shed:{SHED} main:{IN_MAIN}"], found[f"dig:{DIG} barn:{BARN} main:{IN_MAIN + 1}"]
    assert (shed["calls"], shed["bytes"], shed["end_blocks"], shed["end_bytes"]) == (3, 301, 2, 201)
    assert (barn["calls"], barn["bytes"], barn["peak_blocks"], barn["end_blocks"]) == (20, 100_000, 1, 0)
    said = tools.succeed([tools.heaptape, "info", trace]).stdout.decode()
    assert "ticks: each call 32 ns after" in said and ("of one size and stack, the block allocated last" in said) == (kind == "named")


@pytest.mark.thorough
def test_names_of_heaptracks_raw_file(tools: Tools, recorded: dict[str, Path], program: Path, tmp_path: Path) -> None:
    """Of files that were there before it; later, too; or not at all."""
    plain = tools.convert(recorded["raw"], tmp_path / "plain.bin", "--no-names")
    assert not functions(plain)
    with read_trace(plain) as trace:
        modules = {Path(module.path).name: module.build_id for module in trace.sites.modules}
        assert len(modules["farm"]) == 40
    tools.succeed([tools.heaptape, "names", plain, "-o", tmp_path / "later.bin"])
    assert functions(tmp_path / "later.bin") >= {"dig", "shed", "barn", "main"}
    older = tmp_path / recorded["raw"].name
    shutil.copyfile(recorded["raw"], older)
    os.utime(older, (program.stat().st_mtime - 10, program.stat().st_mtime - 10))
    assert not functions(tools.convert(older, tmp_path / "older.bin")) & {"dig", "shed", "barn"}



def test_mtrace(tools: Tools, program: Path, tmp_path: Path) -> None:
    """One frame: where the call came from."""
    log = tmp_path / "mtrace.log"
    done = run([program], env={"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_TRACE": str(log)})
    if not log.exists():
        pytest.skip(f"this C library's mtrace needs another library: {done.stderr.decode()}")
    trace = tools.convert(log, tmp_path / "t.bin")
    [(name, figures)] = [(name, figures) for name, figures in of_stacks(trace).items() if figures["calls"] == 23]
    assert figures["bytes"] == 100_301
    if "[0x1" in log.read_text():  # since glibc 2.35 the address is one in the file
        assert name == f"dig:{DIG} [deeper than recorded]:0"
    with read_trace(trace) as opened:
        assert (opened.sites.sites["flags"] == 1).all()


@pytest.mark.thorough
def test_tables_of_a_written_file(tools: Tools, tmp_path: Path) -> None:
    """Inlined frames; code of modules without more; frames above a stack that is known; the module's bias taken off."""
    with read_trace(tools.convert(IMPORTS / "heaptrack.txt", tmp_path / "named.bin")) as trace:
        stacks = Stacks(trace.sites)
        texts = [[frame.text for frame in stacks.of(site)] for site in (1, 2, 3)]
    assert texts == [["twice (twice.h:7)", "main (main.c:32)", "main (main.c:31)"], ["[lib two.so]", *texts[0]], ["twice", "main (main.c:31)"]]
    with read_trace(tools.convert(IMPORTS / "heaptrack_raw.txt", tmp_path / "raw.bin")) as trace:
        assert [module.path for module in trace.sites.modules] == ["/nothing/a program", "linux-vdso.so.1", "/nothing/lib a.so"]
        assert trace.sites.locations.to_numpy().tolist() == [[1, 0x11a0], [1, 0x11d0], [3, 0x26001], [0, 0x7F3415DCF005]]
        assert trace.context["executable"] == "/nothing/a program" and trace.context["command"] == "./a program --quick  --twice"


def test_older_heaptracks(tools: Tools, tmp_path: Path) -> None:
    """Before 1.3 addresses are return addresses already; before file version 3 strings have no length."""
    for version, first in (("10200 2", 0x5010), ("10400 2", 0x5011)):
        source = tmp_path / "t.txt"
        source.write_text(f"v {version}\nx /a b\nm /lib/q.so 5000 0 100\nt 5010 0\n+ 8 1 9000\n")
        with read_trace(tools.convert(source, tmp_path / "t.bin")) as trace:
            assert trace.sites.locations["offset"].tolist() == [first - 0x5000]
            assert trace.context["executable"] == "/a b"


def test_frees_of_blocks_that_are_not_known_apart(tools: Tools, tmp_path: Path) -> None:
    """The one allocated last ends; none where none lives."""
    source = tmp_path / "t.txt"
    source.write_text("v 10400 3\na 40 0\na 41 0\n+ 0\n+ 0\n+ 1\n- 0\n+ 0\n- 0\n- 0\n- 1\n")
    assert tools.dump(tools.convert(source, tmp_path / "t.bin")) == [
        "t0 malloc(64) = #1", "t0 malloc(64) = #2", "t0 malloc(65) = #3", "t0 free(#2)", "t0 malloc(64) = #2", "t0 free(#2)", "t0 free(#1)", "t0 free(#3)"]
    source.write_text("v 10400 3\na 40 0\n+ 0\n- 0\n- 0\n")
    done = run([tools.heaptape, "convert", source, "-o", tmp_path / "none.bin"])
    assert done.returncode == 3 and b"offset 25: line 5: expected - ALLOCATION, of which a block lives, found '- 0'" in done.stderr


@pytest.mark.thorough
def test_more_frames_than_a_trace_may_have(tools: Tools, tmp_path: Path) -> None:
    """Millions of frames in a file of a few bytes: readers would refuse the trace."""
    frames = 1_200_000
    source = tmp_path / "t.txt"
    source.write_text("v 10400 3\nm 1 -\n" + "".join(f"t 1 {parent:x}\n" for parent in range(frames)) + f"+ 1 {frames:x} 5000\n")
    done = run([tools.heaptape, "convert", source, "-o", tmp_path / "t.bin"])
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1
    assert b"expected stacks in proportion to the calls, found 1200000 frames" in done.stderr
    assert list(tmp_path.iterdir()) == [source]


def test_assumed_lifetimes_are_called_so(tools: Tools, tmp_path: Path) -> None:
    for name, assumed in (("heaptrack", True), ("heaptrack_raw", False)):
        trace = tools.convert(IMPORTS / f"{name}.txt", tmp_path / f"{name}.bin")
        assert (b"lifetimes are assumed" in tools.succeed([tools.heaptape, "stats", trace]).stdout) == assumed

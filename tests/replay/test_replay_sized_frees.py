"""Frees that name the block's size are replayed by the allocator's own function for that."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dump_lines import events_of
from tool_runner import Tools, run

SOURCE = """
#include <cstddef>
#include <new>
struct small { char bytes[40]; };
struct alignas(64) aligned { char bytes[128]; };
int main() {
    small *one[64] = {};
    aligned *other[64] = {};
    for (int i = 0; i < 4000; i++) {
        int k = i * 31 % 64;
        delete one[k];
        one[k] = new small;
        delete other[k];
        other[k] = new aligned;
        // Of another size than it has, which some allocators forgive and the replay must not repeat.
        if (i % 100 == 0) ::operator delete(::operator new(24), std::size_t(20));
    }
}
"""
OWN = {"tcmalloc": r"operator delete(\[\])?\(void\*, unsigned long\)", "jemalloc": r"sdallocx"}


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded under an allocator whose operators are its own: of libstdc++'s the recorder sees malloc and free."""
    folder = tmp_path_factory.mktemp("sized")
    library = run(["gcc", "-print-file-name=libmimalloc.so"]).stdout.decode().strip()
    if not Path(library).is_absolute():
        pytest.skip("mimalloc is not installed")
    (folder / "sized.cpp").write_text(SOURCE)
    tools.succeed(["g++", "-std=c++17", "-O0", "-fsized-deallocation", "-Wno-sized-deallocation", "-o", folder / "sized",
                   folder / "sized.cpp", "-Wl,--no-as-needed", library])
    [log] = tools.preload([folder / "sized"], folder / "logs").logs
    return tools.convert(log, folder / "sized.bin")


def test_they_are_recorded_as_what_they_are(tools: Tools, trace: Path) -> None:
    ops = tools.info(trace)["ops"]
    assert ops["delete_sized"] == 4_000 - 64 + 40 and ops["delete_sized_aligned"] == 4_000 - 64
    assert sum(event.function == "delete_sized" and event.size == 20 for event in events_of(tools, trace)) == 40


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "mimalloc", "tcmalloc"])
def test_blocks_stay_whole(tools: Tools, trace: Path, allocator: str) -> None:
    if not (tools.build / f"replay-{allocator}").exists():
        pytest.skip(f"replay-{allocator} was not built")
    done = run([tools.build / "replay", "-q", "--verify", "--alloc", allocator, "--rounds", "1", trace])
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("allocator", sorted(OWN))
def test_the_allocators_own_functions_serve_them(tools: Tools, trace: Path, tmp_path: Path, allocator: str) -> None:
    if not shutil.which("callgrind_annotate") or not (tools.build / f"replay-{allocator}").exists():
        pytest.skip(f"valgrind or replay-{allocator} is not there")
    counts = tmp_path / "callgrind"
    wrap = f"valgrind -q --tool=callgrind --callgrind-out-file={counts}.$HEAPTAPE_ALLOCATOR.%p --toggle-collect=ht_engine_run"
    tools.succeed([tools.build / "replay", "-q", "--rounds", "1", "--pass", "time", "--alloc", allocator, "--wrap", wrap, trace],
                  timeout=300)
    called = b"".join(run(["callgrind_annotate", "--threshold=100", path]).stdout
                      for path in tmp_path.glob(f"callgrind.{allocator}.*")).decode()
    assert re.search(OWN[allocator], called)
    assert re.search(r"operator delete(\[\])?\(void\*, unsigned long, std::align_val_t\)", called)

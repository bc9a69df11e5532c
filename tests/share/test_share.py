# SPDX-License-Identifier: Apache-2.0
"""heaptape share: what a copy has, and that nothing else is in it."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import naive_writer
import pytest
import zstandard
from dump_lines import Event, events_of
from heaptape.results.curves import recorded_curves
from heaptape.trace.reader import read_trace
from naive_writer import ColumnSpec, TraceSpec, sites_of
from quick_tier import quick
from recorded_traces import NAMES
from tool_runner import Tools, clean_environment, logs_in, run

CONTEXT = {"allocator_name", "allocator_version", "page_bytes", "pid", "shared", "shim_version", "thp"}
UNKNOWN_KIND = 99


# Every secret has a number of its own, and is short enough for the name of a thread.
def secret(number: int) -> str:
    return f"hush{number:02}hush"


PROGRAM = f"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
static void *kept[64];
__attribute__((noinline)) void {secret(1)}(void) {{ for (int i = 0; i < 32; i++) kept[i] = strdup(getenv("MALLOC_{secret(2)}")); }}
static void *work(void *name) {{ prctl(PR_SET_NAME, name); {secret(1)}(); return NULL; }}
int main(int argc, char **argv) {{
    pthread_t first, second;
    void (*inside)(void **) = (void (*)(void **))dlsym(dlopen(argv[argc - 1], RTLD_NOW), "{secret(3)}");
    pthread_create(&first, NULL, work, "{secret(4)}");
    pthread_create(&second, NULL, work, "{secret(5)}");
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    inside(kept);
    return 0;
}}
"""
MODULE = f"""
#include <stdlib.h>
void {secret(3)}(void **kept) {{ for (int i = 32; i < 64; i++) kept[i] = malloc(100 + i); kept[0] = calloc(300, 1000); }}
"""
SECRETS = [secret(number).encode() for number in range(1, 10)]


def values_of(raw: bytes, width: int, count: int, transform: int) -> bytes:
    """A column's values one after another, as they would lie in a file without planes."""
    values, before = [], 0
    for row in range(count):
        value = sum(raw[plane * count + row] << 8 * plane for plane in range(width))
        if transform == 1:
            value = before = (before + (value >> 1 ^ -(value & 1))) % (1 << 64)
        values.append(value)
    return b"".join(value.to_bytes(8, "little") for value in values)


def columns_of(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The kind of each section, each of its columns as it is stored, unpacked, and with its values put together."""
    at = 64
    while data[at: at + 4] == b"HTBK":
        kind, count, payload_bytes = data[at + 4], data[at + 5], struct.unpack_from("<I", data, at + 8)[0]
        place = at + 48 + 16 * count
        for column in range(count):
            _, width, transform, compression, values, stored = struct.unpack_from("<BBBBII", data, at + 48 + 16 * column)
            raw = data[place: place + stored]
            place += stored
            unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(raw) if compression else raw
            # Two columns of threads hold a name together, and one of words may be in either order.
            yield kind, unpacked, b"" if transform == 2 or kind == UNKNOWN_KIND else values_of(unpacked, width, values, transform)
        at += 48 + payload_bytes
    assert data[at: at + 8] == b"HTAPEEND"


def names_of_threads(data: bytes) -> list[bytes]:
    columns = [values for kind, _, values in columns_of(data) if kind == 5]
    halves = [[part[at: at + 8] for at in range(0, len(part), 8)] for part in columns[-2:]]
    return [first + second for first, second in zip(*halves, strict=True)] if len(columns) > 6 else []


def found_in(path: Path, secrets: list[bytes]) -> set[bytes]:
    data = path.read_bytes()
    texts = [data, *names_of_threads(data)]
    for _, *column in columns_of(data):
        texts += column
    return {word for word in secrets if any(word in text for text in texts)}


def share(tools: Tools, trace: Path, copy: Path, *options: str) -> Path:
    tools.succeed([tools.heaptape, "share", "-q", trace, "-o", copy, *options])
    return copy


@pytest.fixture(name="planted")
def _planted(tools: Tools, tmp_path: Path) -> Path:
    """A recording with secrets wherever a program can have them."""
    folder = tmp_path / secret(6)
    folder.mkdir()
    for name, source, flags in ((secret(7), PROGRAM, ["-rdynamic"]), (f"{secret(8)}.so", MODULE, ["-shared", "-fPIC"])):
        (folder / "source.c").write_text(source)
        subprocess.run(["gcc", "-g", "-O1", *flags, "-o", folder / name, folder / "source.c", "-ldl", "-lpthread"], check=True, timeout=60)
    value = {f"MALLOC_{secret(2)}": "a text that the program copies"}
    tools.succeed([tools.heaptape, "record", "--sites", "-o", tmp_path / "logs", "--", folder / secret(7), secret(9), folder / f"{secret(8)}.so"], env=value)
    return tools.convert(logs_in(tmp_path / "logs")[0], tmp_path / "planted.bin")


def test_no_planted_secret_is_left(tools: Tools, planted: Path, tmp_path: Path) -> None:
    assert found_in(planted, SECRETS) == set(SECRETS), "the search finds what is there"
    old = tools.info(planted)["context"]
    numbers = [f'"{key}":{old[key]}'.encode() for key in ("pid", "start_realtime_ns", "clock_hz")]
    numbers += [str(old[key]).encode() for key in ("build_id", "allocator_build_id", "kernel", "cpu", "allocator")]
    numbers += [os.uname().nodename.encode()] if len(os.uname().nodename) > 5 else []
    for options in ([], ["--coarsen", "sizes=3,times=1ms"]):
        copy = share(tools, planted, tmp_path / "copy.bin", *options)
        assert found_in(copy, [*SECRETS, *numbers, b"/tmp", b".so", b"main"]) == set()
        assert options or [re.sub(r" site .*", "", line) for line in tools.dump(planted)] == tools.dump(copy)
        info = tools.info(copy)
        assert set(info["context"]) <= CONTEXT and info["sites"] == info["site_modules"] == 0
        assert {kind for kind, *_ in columns_of(copy.read_bytes())} <= {1, 2, 3, 4, 5, 6, 7, 8}


def test_what_is_not_known_is_left_out(tools: Tools, tmp_path: Path) -> None:
    """Secrets where only a file of another version, or a damaged one, has any."""
    calls = [naive_writer.Event(1, 0, 0, 10, 1, 100, site=1), naive_writer.Event(5, 0, 0, 20, 1)]
    hidden: dict[str, object] = {
        "command": secret(1), "host": secret(2), secret(3): 1, "allocator_name": secret(4), "allocator_version": f"5.3 {secret(5)}",
        "sliced_from": {"trace": secret(6), "only": secret(6), "threads": secret(6), "from_event": 3, "sliced_from": {"trace": secret(6)}},
        "extended": {"trace": secret(7), "why": secret(7), "from_ns": 1, "until_ns": 2, "to_ns": 3}, "thp": f"[{secret(8)}]", "stopped": f"size limit {secret(8)}",
        "source_format": secret(9), "time": secret(9), "pid": 7, "page_bytes": 4096}
    spec = TraceSpec(calls, hidden, {"events": 2, "records": 2, "repairs": secret(1), secret(2): 3}, threads=[(7, 0, 10, 2, 20, 1, secret(3))],
                     sites=sites_of([[f"{secret(4)}@{secret(5)}.c:1"]]))
    data, ends = naive_writer.build(spec)
    sections = [data[begin:end] for begin, end in zip(ends, ends[1:-1], strict=False)]
    # An events section with a column, and a file with a section, that no version has had yet.
    events = next(number for number, section in enumerate(sections) if section[4] == 2)
    sections[events] = with_column(sections[events], ColumnSpec(77, list(secret(6).encode()), width=1))
    sections.insert(-1, naive_writer.encode_section(UNKNOWN_KIND, [ColumnSpec(1, list(secret(7).encode()), width=1)], 0))
    path = tmp_path / "hidden.bin"
    path.write_bytes(naive_writer.assemble(naive_writer.encode_header(), sections)[0])
    assert found_in(path, SECRETS) == set(SECRETS)
    done = tools.succeed([tools.heaptape, "share", path, "-o", tmp_path / "copy.bin"])
    assert b"left out: 1 section unknown to this version\n" in done.stderr
    assert found_in(tmp_path / "copy.bin", SECRETS) == set()
    context = tools.info(tmp_path / "copy.bin")["context"]
    assert context == {"page_bytes": 4096, "stopped": "size limit", "pid": 1, "shared": {}, "sliced_from": {"from_event": 3, "sliced_from": {}},
                       "extended": {"from_ns": 1, "until_ns": 2, "to_ns": 3}}


def with_column(section: bytes, column: ColumnSpec) -> bytes:
    """The section with another column behind its own."""
    kind, count, rows = section[4], section[5], struct.unpack_from("<I", section, 12)[0]
    first_event, first_time = struct.unpack_from("<QQ", section, 16)
    entry, stored = naive_writer.encode_column(column)
    payload = section[48: 48 + 16 * count] + entry + section[48 + 16 * count:] + stored
    head = struct.pack("<4sBBHIIQQQ", b"HTBK", kind, count + 1, 0, len(payload), rows, first_event, first_time, 0)
    return head + struct.pack("<Q", naive_writer.xxhash.xxh64_intdigest(head + payload)) + payload


@pytest.mark.parametrize("name", quick({"made"}, NAMES))
def test_the_calls_are_the_same(tools: Tools, recorded: dict[str, Path], dumped: dict[str, list[Event]], tmp_path: Path, name: str) -> None:
    copy = share(tools, recorded[name], tmp_path / "copy.bin")
    assert events_of(tools, copy) == dumped[name]
    old, new = tools.info(recorded[name]), tools.info(copy)
    same = set(old) - {"command", "context", "parent_pid", "file_bytes", "valid_bytes", "bytes_per_event", "sites", "site_modules", "slots"}
    assert {key: new[key] for key in same} == {key: old[key] for key in same}
    assert new["context"]["shared"] == {} and new["command"] is None
    assert b"shared copy              sizes exact, times exact\n" in tools.succeed([tools.heaptape, "info", copy]).stdout
    again = share(tools, copy, tmp_path / "again.bin")
    assert again.read_bytes() == copy.read_bytes()


@pytest.mark.thorough  # that its calls are the same is shown above
def test_it_replays_alike(tools: Tools, recorded: dict[str, Path], tmp_path: Path) -> None:
    copy = share(tools, recorded["golden"], tmp_path / "copy.bin")
    [old], [new] = ([line for line in tools.replay(trace, "glibc", tmp_path / f"{trace.stem}.jsonl", "--pass", "memory") if line["allocator"]["name"] == "glibc" and not line["control"]]
                    for trace in (recorded["golden"], copy))
    for key in ("calls", "live_peak_bytes", "failures"):
        assert old[key] == new[key]
    assert old["timeline"]["live_bytes"][-1] == new["timeline"]["live_bytes"][-1]


def rounded(size: int, bits: int) -> int:
    """The least number with so many significant bits that is not less."""
    step = 1 << max(size.bit_length() - bits, 0)
    return -(-size // step) * step


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_coarse_sizes_and_times(tools: Tools, recorded: dict[str, Path], dumped: dict[str, list[Event]], tmp_path: Path, name: str) -> None:
    unit_ns = tools.info(recorded[name])["time_unit_ns"]
    step_ns = 50_000 // unit_ns * unit_ns
    copy = share(tools, recorded[name], tmp_path / "copy.bin", "--coarsen", f"sizes=3,times={step_ns}ns")
    counted = {"calloc", "reallocarray"}
    expected = []
    for event in dumped[name]:
        size, extra = event.size, event.extra
        if event.function in counted:
            size, extra = size * extra, 1
        expected.append(event._replace(time_ns=event.time_ns // step_ns * step_ns, size=None if size is None else rounded(size, 3), extra=extra))
    assert events_of(tools, copy) == expected
    info = tools.info(copy)
    assert info["context"]["shared"] == {"size_bits": 3, "time_ns": step_ns}
    old = tools.info(recorded[name])
    for key in {"duration_ns", "recorded_cpu_ns"} & set(old):
        assert info[key] == old[key] // step_ns * step_ns
    for key in {"recorded_rss_peak_bytes", "recorded_own_peak_bytes", "recorded_heap_rss_peak_bytes"} & set(old):
        assert info[key] is None, "the blocks of the copy are not the program's"
    assert b"sizes rounded up to 3 significant bits, times rounded down to " in tools.succeed([tools.heaptape, "info", copy]).stdout
    finer = share(tools, copy, tmp_path / "finer.bin", "--coarsen", "sizes=8")
    assert tools.info(finer)["context"]["shared"] == {"size_bits": 3, "time_ns": step_ns}, "a copy of a copy is as coarse"
    with read_trace(copy) as opened:
        assert not opened.samples[["rss_anon_bytes", "own_rss_bytes"]].to_numpy().any()
        assert not recorded_curves(opened)
    lines = tools.replay(copy, "glibc", tmp_path / "r.jsonl", "--pass", "memory")
    assert all(line["failures"] == 0 and line["trace"]["rss_peak_bytes"] is None for line in lines)


def test_filled_blocks_stay_filled(tools: Tools, tmp_path: Path) -> None:
    """One page more than the size takes says that all were resident that the block lay in, also of the size that is rounded up."""
    calls = [naive_writer.Event(1, 0, 0, at, slot, size) for at, (slot, size) in enumerate([(1, 17 * 4096), (2, 17 * 4096), (3, 17 * 4096 - 100), (4, 70_000)])]
    spec = TraceSpec(calls, residency=[(0, 0, 18), (1, 18, 17), (2, 3, 9), (3, 18, 19), (9, 9, 9)], steps=[(0, 1, 18), (1, 2, 17), (1, 3, 18)],
                     threads=[(7, 0, 0, 4, 9, 0, "")])
    trace = tmp_path / "trace.bin"
    trace.write_bytes(naive_writer.build(spec)[0])
    with read_trace(share(tools, trace, tmp_path / "copy.bin", "--coarsen", "sizes=3")) as copy:
        assert copy.residency.to_numpy().tolist() == [[0, 0, 21], [1, 21, 20], [2, 3, 10], [3, 20, 21], [9, 10, 10]]
        assert copy.residency_steps["pages"].tolist() == [21, 20, 21]


@pytest.mark.thorough
def test_three_bits_keep_the_size_class_of_jemalloc() -> None:
    """As commands.md promises; nallocx is the class of a size."""
    path = next(iter(sorted(Path("/usr/lib").glob("*/libjemalloc.so.2"))), None)
    if not path:
        pytest.skip("libjemalloc.so.2 is not installed")
    # A library of this kind cannot be loaded later.
    ask = "import ctypes, sys; nallocx = ctypes.CDLL(None).nallocx; nallocx.restype, nallocx.argtypes = ctypes.c_size_t, (ctypes.c_size_t, ctypes.c_int)\n" \
          "print(*(nallocx(int(size), 0) for size in sys.stdin.read().split()))"
    sizes = [*range(1, 9000), *range(9000, 9_000_000, 9973)]
    asked = [size for exact in sizes for size in (exact, rounded(exact, 3), rounded(exact, 2))]
    done = subprocess.run([sys.executable, "-c", ask], input=" ".join(map(str, asked)), env=clean_environment({"LD_PRELOAD": str(path)}),
                          capture_output=True, text=True, check=True, timeout=60)
    classes = list(map(int, done.stdout.split()))
    exact, three, two = classes[::3], classes[1::3], classes[2::3]
    assert exact == three and exact != two


@pytest.mark.parametrize(("value", "expected"), [
    ("sizes=0", "significant bits from 1 to 32"), ("sizes=33", "significant bits from 1 to 32"), ("times=0", "a time above 0"),
    ("sizes=3,sizes=4", "each key once"), ("bytes=3", "sizes=BITS or times=TIME"), ("", "sizes=BITS or times=TIME")])
def test_odd_coarsening(tools: Tools, recorded: dict[str, Path], tmp_path: Path, value: str, expected: str) -> None:
    done = run([tools.heaptape, "share", recorded["golden"], "-o", tmp_path / "x.bin", "--coarsen", value])
    assert done.returncode == 2 and expected in done.stderr.decode() and not (tmp_path / "x.bin").exists()


def test_times_that_are_none(tools: Tools, recorded: dict[str, Path], tmp_path: Path) -> None:
    nominal = tmp_path / "nominal.bin"
    nominal.write_bytes(naive_writer.build(TraceSpec([naive_writer.Event(1, 0, 0, 10, 1, 100)], {"time": "nominal"}))[0])
    for trace, value, expected in ((nominal, "1ms", "expected measured times, found nominal ones"),
                                   (recorded["golden"], "1ns", "expected more than the trace's unit of ")):
        done = run([tools.heaptape, "share", trace, "-o", tmp_path / "x.bin", "--coarsen", f"times={value}"])
        assert done.returncode == 1 and expected in done.stderr.decode() and not (tmp_path / "x.bin").exists()


def test_refusals(tools: Tools, recorded: dict[str, Path], tmp_path: Path) -> None:
    short = tmp_path / "short.bin"
    short.write_bytes(recorded["golden"].read_bytes()[:-40])
    done = run([tools.heaptape, "share", short, "-o", tmp_path / "x.bin"])
    assert done.returncode == 3 and b"cut short" in done.stderr and not (tmp_path / "x.bin").exists()
    twice = tmp_path / "twice.bin"
    twice.write_bytes(naive_writer.build(TraceSpec([naive_writer.Event(1, 0, 0, at, 1, 8) for at in (1, 2)], threads=[(7, 0, 1, 2, 2, 0, "")]))[0])
    done = run([tools.heaptape, "share", twice, "-o", tmp_path / "x.bin"])
    assert done.returncode == 3 and not (tmp_path / "x.bin").exists()
    assert re.search(rb"offset \d+: event 1: expected an allocation into a free slot, found 1", done.stderr)
    done = run([tools.heaptape, "share", short, "-o", short])
    assert done.returncode == 2 and b"would overwrite its input" in done.stderr


def test_it_says_what_is_left(tools: Tools, recorded: dict[str, Path], tmp_path: Path) -> None:
    said = tools.succeed([tools.heaptape, "share", recorded["threads"], "-o", tmp_path / "copy.bin"]).stderr.decode()
    calls = f"{tools.info(recorded['threads'])['events']:,}"
    assert re.search(rf"^  calls +{calls} in their order", said, re.MULTILINE)
    assert {line.split()[0] for line in said.splitlines()[2:]} == {"calls", "sizes", "times", "threads", "memory", "allocator"}
    whole = tools.succeed([tools.heaptape, "share", recorded["threads"], "-o", "-"])
    assert whole.stdout == (tmp_path / "copy.bin").read_bytes()
    assert json.loads(tools.succeed([tools.heaptape, "info", "--json", tmp_path / "copy.bin"]).stdout)["context"]["shared"] == {}

# SPDX-License-Identifier: Apache-2.0
"""Traces of other recorders: every format, every way in, and what is said of those that are bad."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import foreign_writers as fw
from foreign_writers import Call
from tool_runner import Tools, run
from convert_refuses import A_CALL, refused, write

IMPORTS = Path(__file__).resolve().parent.parent / "golden" / "imports"
FORMAT_OF = {
    "android": "android",
    "android_timed": "android",
    "logalloc": "logalloc",
    "logalloc_munged": "logalloc",
    "malloc_lab": "rep",
    "malloc_wrap": "malloc_wrap",
    "heaptrack": "heaptrack",
    "heaptrack_first": "heaptrack",
    "heaptrack_raw": "heaptrack",
    "malloc_wrap_raw": "malloc_wrap_raw",
    "mtrace": "mtrace",
}
SOURCES = sorted(path for path in IMPORTS.iterdir() if path.suffix != ".dump")


# ---- what the formats hold ----


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_golden(tools: Tools, tmp_path: Path, source: Path) -> None:
    expected = source.with_suffix(".dump").read_text().splitlines()
    form = FORMAT_OF[source.stem]
    sniffed = tools.convert(source, tmp_path / "sniffed.bin")
    assert tools.dump(sniffed) == expected
    named = tools.convert(source, tmp_path / "named.bin", "--from", form)
    assert named.read_bytes() == sniffed.read_bytes()
    context = tools.info(sniffed)["context"]
    assert (context["source"], context["source_format"]) == (source.name, form)
    assert context["time"] == ("recorded" if "timed" in source.stem else "ticks" if form == "heaptrack" else "nominal")


def test_every_golden_file_is_judged() -> None:
    assert sorted(FORMAT_OF) == [source.stem for source in SOURCES]


def test_nominal_time(tools: Tools, tmp_path: Path) -> None:
    """A file without times: a time unit from call to call, and info says so."""
    trace = tools.convert(IMPORTS / "android.txt", tmp_path / "t.bin", "--time-unit", "50")
    lines = tools.succeed([tools.heaptape, "dump", trace]).stdout.decode().splitlines()
    assert [int(line.split()[1]) for line in lines] == [50 * i for i in range(9)]
    said = tools.succeed([tools.heaptape, "info", trace]).stdout.decode()
    assert "android.txt (android)" in said
    assert "nominal: each call 50 ns after the one before" in said
    assert re.search(r"recorded CPU time +unknown", said)
    assert tools.info(trace)["recorded_cpu_ns"] is None


def test_recorded_time_and_residency(tools: Tools, tmp_path: Path) -> None:
    heaptape = pytest.importorskip("heaptape")
    trace = tools.convert(IMPORTS / "android_timed.txt", tmp_path / "t.bin", "--time-unit", "1")
    lines = tools.succeed([tools.heaptape, "dump", trace]).stdout.decode().splitlines()
    # Allocations when they ended, frees when they began, from the first on.
    assert [int(line.split()[1]) for line in lines] == [0, 60, 210, 1810, 2310, 2810]
    with heaptape.read_trace(trace) as opened:
        rows = opened.residency.to_dict("list")
        ends = opened.threads["end_ns"].tolist()
        ended = opened.threads["ended"].tolist()
    # Event 2 ended with 8,192 resident bytes, event 0 with 4,097; small blocks do not matter.
    assert sorted(zip(rows["birth_event"], rows["pages_at_end"], strict=True)) == [(0, 2), (2, 2)]
    assert ended == [False, True] and ends[1] == 5000009000 - 5000000190


def test_an_ended_threads_id_is_another_thread(tools: Tools, tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", A_CALL + b"1: thread_done 0x0\n1: free 0x1000\n")
    assert tools.dump(tools.convert(source, tmp_path / "t.bin")) == [
        "t0 malloc(16) = #1",
        "t1 free(#1)",
    ]


@pytest.mark.parametrize("thread", [1, 93, 224, 225])
def test_a_thread_id_is_not_taken_for_lzma(tools: Tools, tmp_path: Path, thread: int) -> None:
    """A file without the first record begins with a thread's id, as what lzma wrote does with a byte below 225."""
    content = fw.record(fw.RECORD_TYPES["malloc"], thread, ptr2=0x1000, size=70)
    packed = lzma.compress(fw.record(fw.RECORD_TYPES["magic"], ptr1=0x1234, size=8) + content, format=lzma.FORMAT_ALONE)
    for name, bytes_ in (("raw.mtrace", content), ("raw.lzma", packed)):
        tools.succeed([tools.heaptape, "convert", "-q", "--from", "trace_utils", write(tmp_path / name, bytes_), "-o", tmp_path / "t.bin"])
        assert tools.dump(tmp_path / "t.bin") == ["t0 malloc(70) = #1"]


def test_trace_utils(tools: Tools, tmp_path: Path) -> None:
    kinds = fw.RECORD_TYPES
    source = write(
        tmp_path / "raw.mtrace",
        b"".join(
            [
                fw.record(kinds["magic"], ptr1=0x1234, size=8),
                fw.record(kinds["malloc"], 0x80000001, ptr2=0x1000, size=70),
                fw.record(kinds["unused"]),
                fw.record(kinds["calloc"], 5, ptr2=0x2000, size=30),
                fw.record(kinds["memalign"], 5, ptr2=0x3000, size=31, size2=64),
                fw.record(kinds["posix_memalign"], 5, ptr1=0, ptr2=0x4000, size=32, size2=128),
                fw.record(kinds["posix_memalign"], 5, ptr1=22, ptr2=0x4000, size=33, size2=3),
                fw.record(kinds["valloc"], 5, ptr2=0x5000, size=34),
                fw.record(kinds["pvalloc"], 5, ptr2=0x6000, size=35),
                fw.record(kinds["realloc"], 5, ptr1=0x1000, ptr2=0x7000, size=36),
                fw.record(kinds["free"], 0x80000001, ptr1=0x7000),
                fw.record(kinds["free"], 5, ptr1=0),
            ]
        ),
    )
    assert tools.dump(tools.convert(source, tmp_path / "t.bin")) == [
        "t0 malloc(70) = #1",
        "t1 calloc(1, 30) = #9",
        "t1 memalign(64, 31) = #10",
        "t1 posix_memalign(128, 32) = #11",
        "t1 posix_memalign(3, 33) = NULL (failed)",
        "t1 valloc(34) = #12",
        "t1 pvalloc(35) = #13",
        "t1 realloc(#1, 36) = #1",
        "t0 free(#1)",
        "t1 free(NULL)",
    ]


def test_workload_respects_syncs(tools: Tools, tmp_path: Path) -> None:
    """The first thread waits for the third, the third for the second, which runs longest."""
    op = fw.operation
    first = op("sync_r", 2) + op("free", 1) + op("done")
    second = b"".join(op("malloc", 3, 10) + op("free", 3) for _ in range(100))
    second += op("malloc", 1, 11) + op("sync_w", 1) + op("memalign", 4, 64, 13) + op("done")
    third = (
        op("sync_r", 1)
        + op("realloc", 1, 1, 12)
        + op("sync_w", 2)
        + op("calloc", 2, 300)
        + op("done")
    )
    source = write(tmp_path / "a.wl", fw.workload([first, second, third], 4, 2))
    trace = tools.convert(source, tmp_path / "t.bin")
    lines = tools.dump(trace)
    calls = [re.sub(r"#\d+", "#", line.split(" ", 1)[1]) for line in lines]
    for before, after in [
        ("malloc(11) = #", "realloc(#, 12) = #"),
        ("realloc(#, 12) = #", "free(#)"),
    ]:
        last_free = len(calls) - 1 - calls[::-1].index("free(#)")
        assert calls.index(before) < (last_free if after == "free(#)" else calls.index(after))
    info = tools.info(trace)
    assert (info["threads"], info["events"]) == (3, 205)
    assert (info["anomalies"], info["foreign_frees"], info["end_live_objects"]) == (0, 0, 2)
    again = tools.convert(source, tmp_path / "again.bin")
    assert again.read_bytes() == trace.read_bytes()


@pytest.mark.parametrize(
    "content, expected",
    [
        (
            lambda op: fw.workload([op("sync_r", 1) + op("done")], 1, 1),
            "offset 9: expected SYNC_W 1 in another",
        ),
        (lambda op: fw.workload([op("malloc", 2, 8) + op("done")], 1, 0), "id within ALLOC_PTRS"),
        (lambda op: fw.workload([op("sync_w", 3) + op("done")], 1, 2), "sync within ALLOC_SYNCS"),
        (lambda op: fw.workload([op("malloc", 1, 8)], 1, 0), "expected an operation, or DONE"),
        (lambda op: fw.workload([op("malloc", 1, 8) + b"\x10"], 1, 0), "operation from 0 to 15"),
        (lambda op: fw.workload([op("malloc", 1) + b"\xff" * 11], 1, 0), "number below 2^64"),
        (lambda op: fw.workload([op("nthreads", 1) + op("done")], 1, 0), "operation of a thread"),
        (
            lambda op: op("nthreads", 2) + op("start_thread", 4) + op("done") + op("done"),
            "as NTHREADS says",
        ),
        (
            lambda op: op("nthreads", 1) + op("start_thread", 99) + op("done"),
            "offset of one of NTHREADS",
        ),
    ],
    ids=["deadlock", "id", "sync", "cut", "code", "number", "main_operation", "threads", "offset"],
)
def test_bad_workload(tools: Tools, tmp_path: Path, content, expected: str) -> None:
    source = write(tmp_path / "bad.wl", content(fw.operation))
    assert expected in refused(tools, source, "--from", "wl", "--lenient", "-o", tmp_path / "t.bin")
    assert list(tmp_path.iterdir()) == [source]


def test_logalloc_of_several_processes(tools: Tools, tmp_path: Path) -> None:
    one = [Call("malloc", 1, 100, thread=3), Call("free", 1, thread=3)]
    other = [Call("malloc", 1, 7, thread=9)] * 1 + [Call("free", thread=8)] * 3
    source = write(tmp_path / "both.log", fw.logalloc(one, 11) + fw.logalloc(other, 12))
    said = refused(tools, source, "-o", tmp_path / "t.bin")
    assert "12 (4 calls), 11 (2 calls): choose by --pid" in said
    trace = tools.convert(source, tmp_path / "t.bin", "--pid", "12")
    assert tools.dump(trace) == ["t0 malloc(7) = #1", *["t1 free(NULL)"] * 3]
    assert tools.info(trace)["context"]["pid"] == 12
    assert "expected calls of process 13" in refused(
        tools, source, "--pid", "13", "-o", tmp_path / "t.bin"
    )
    assert "names none" in refused(
        tools, IMPORTS / "android.txt", "--pid", "1", "-o", tmp_path / "t.bin"
    )


def test_real_mtrace(tools: Tools, tmp_path: Path) -> None:
    """What the C library itself writes."""
    log = tmp_path / "mtrace.log"
    done = run(
        [tools.target("traces_itself")],
        env={"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_TRACE": str(log)},
    )
    if not log.exists():
        pytest.skip(f"this C library's mtrace needs another library: {done.stderr.decode()}")
    assert done.returncode == 0
    calls = [line.split(" ", 1)[1] for line in tools.dump(tools.convert(log, tmp_path / "t.bin"))]
    assert fw.named_by_birth(["t0 " + call for call in calls]) == [
        f"t0 {call}"
        for call in [
            "malloc(7001) = #1",
            "malloc(3000) = #2",
            "realloc(#1, 100000) = #1",
            "realloc(?, 4611686018427387904) = NULL (failed)",
            "malloc(4611686018427387904) = NULL (failed)",
            "malloc(0) = #3",
            "free(#3)",
            "malloc(7002) = #4",
            "free(#4)",
            "malloc(7003) = #5",
            "free(#5)",
            "malloc(7004) = #6",
            "free(#6)",
            "free(#1)",
            "free(#2)",
            "malloc(7005) = #7",
        ]
    ]


# ---- ways in ----


def packed(tmp_path: Path, how: str) -> Path:
    content = (IMPORTS / "android.txt").read_bytes()
    path = tmp_path / f"packed.txt.{how}"
    if how == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("folder")
            archive.writestr("folder/trace.txt", content)
    elif how == "zst":
        if not shutil.which("zstd"):
            pytest.skip("no zstd program to pack with")
        subprocess.run(["zstd", "-q", "-o", path, IMPORTS / "android.txt"], check=True, timeout=60)
    else:
        path.write_bytes({"gz": gzip, "xz": lzma, "bz2": bz2}[how].compress(content))
    return path


@pytest.mark.parametrize("how", ["gz", "xz", "bz2", "zst", "zip"])
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_packed(tools: Tools, tmp_path: Path, how: str, piped: bool) -> None:
    source = packed(tmp_path, how)
    expected = (IMPORTS / "android.dump").read_text().splitlines()
    trace = tmp_path / "packed.bin"
    if piped:
        done = run([tools.heaptape, "convert", "-", "-o", trace], stdin=source.read_bytes())
    else:
        done = run([tools.heaptape, "convert", source])  # beside it, without the endings
    assert done.returncode == 0, done.stderr
    assert tools.dump(trace) == expected
    assert tools.info(trace)["context"]["source"] == ("standard input" if piped else source.name)


def test_workload_from_a_pipe(tools: Tools, tmp_path: Path) -> None:
    stream = fw.operation("malloc", 1, 9) + fw.operation("done")
    content = gzip.compress(fw.workload([stream], 1, 0))
    done = run(
        [tools.heaptape, "convert", "-", "-o", tmp_path / "t.bin"],
        stdin=content,
        env={"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert tools.dump(tmp_path / "t.bin") == ["t0 malloc(9) = #1"]
    assert list(tmp_path.iterdir()) == [tmp_path / "t.bin"]


def test_zip_of_several(tools: Tools, tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", A_CALL)
        archive.writestr("b.txt", A_CALL + b"1: free 0x1000\n")
        archive.writestr("c\nd.txt", A_CALL)
    said = refused(tools, path, "-o", tmp_path / "t.bin")
    assert "--member" in said and "b.txt" in said
    trace = tools.convert(path, tmp_path / "t.bin", "--member", "b.txt")
    assert len(tools.dump(trace)) == 2
    assert len(tools.dump(tools.convert(path, tmp_path / "t.bin", "--member", "c\nd.txt"))) == 1
    assert "no member c.txt" in refused(tools, path, "--member", "c.txt", "-o", tmp_path / "t.bin")
    plain = write(tmp_path / "a.txt", A_CALL)
    assert "expected a zip" in refused(tools, plain, "--member", "c.txt", "-o", tmp_path / "u.bin")


@pytest.mark.parametrize("how", ["gz", "xz", "zip"])
def test_cut_or_flipped_packing(tools: Tools, tmp_path: Path, how: str) -> None:
    source = packed(tmp_path, how)
    content = bytearray(source.read_bytes())
    cut = write(tmp_path / f"cut.{how}", bytes(content[: len(content) // 2]))
    content[len(content) // 2] ^= 0xFF
    flipped = write(tmp_path / f"flipped.{how}", bytes(content))
    for bad in (cut, flipped):
        assert str(bad) in refused(tools, bad, "--from", "android", "-o", tmp_path / "t.bin")
    assert not (tmp_path / "t.bin").exists()


def test_odd_ends_of_lines(tools: Tools, tmp_path: Path) -> None:
    """Ends as Windows writes them, blank lines, and none at the last line."""
    source = write(
        tmp_path / "a.txt", b"\r\n" + A_CALL.replace(b"\n", b"\r\n") + b"\r\n  \n1: free 0x1000  "
    )
    assert tools.dump(tools.convert(source, tmp_path / "t.bin")) == [
        "t0 malloc(16) = #1",
        "t0 free(#1)",
    ]


@pytest.mark.thorough
def test_lines_across_every_buffer_end(tools: Tools, tmp_path: Path) -> None:
    lines = [
        Call("malloc", 1, i, thread=1) if i % 2 else Call("free", 1, thread=1)
        for i in range(1, 200_001)
    ]
    trace = tools.convert(write(tmp_path / "a.txt", fw.android(lines)), tmp_path / "t.bin")
    info = tools.info(trace)
    assert info["ops"] == {"malloc": 100_000, "free": 100_000}
    assert (info["anomalies"], info["foreign_frees"], info["peak_live_bytes"]) == (0, 0, 199_999)


# ---- a real one ----


@pytest.fixture(scope="module")
def systemui(repository: Path) -> Path:
    data = Path(os.environ.get("HEAPTAPE_DATA", repository.parent / "shared" / "data"))
    path = data / "android" / "systemui.zip"
    if not path.exists():
        pytest.skip(
            f"{path} is not there; $HEAPTAPE_DATA names the folder of other people's traces"
        )
    return path


@pytest.fixture(scope="module")
def systemui_trace(tools: Tools, systemui: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tools.convert(systemui, tmp_path_factory.mktemp("systemui") / "systemui.bin")


def test_systemui(tools: Tools, systemui_trace: Path) -> None:
    info = tools.info(systemui_trace)
    assert info["ops"] == {
        "malloc": 383_154,
        "calloc": 7_847,
        "realloc": 29_167,
        "free": 364_863,
        "memalign": 1_066,
    }
    assert info["events"] == 786_454 - 357
    assert info["threads"] == 393
    assert round(info["peak_live_bytes"] / 1e6, 2) == 10.44
    assert info["end_live_objects"] == 53_645
    assert (info["anomalies"], info["foreign_frees"], info["failed_calls"], info["skipped"]) == (
        0,
        0,
        0,
        0,
    )


def test_systemui_calls(tools: Tools, systemui_trace: Path) -> None:
    """Whose blocks were freed by whom, as dump has it, and which threads ended."""
    heaptape = pytest.importorskip("heaptape")
    maker: dict[bytes, bytes] = {}
    null = crossing = 0
    done = tools.succeed([tools.heaptape, "dump", "--no-time", systemui_trace])
    for line in done.stdout.splitlines():
        thread, call = line.split(b" ", 1)
        if call == b"free(NULL)":
            null += 1
        elif call.startswith(b"free("):
            crossing += maker[call[5:-1]] != thread
        else:
            maker[call.rpartition(b" = ")[2]] = thread
    assert (null, crossing) == (15_818, 39_466)
    with heaptape.read_trace(systemui_trace) as trace:
        assert int(trace.threads["ended"].sum()) == 357


@pytest.mark.slow
def test_systemui_replays(tools: Tools, systemui_trace: Path, tmp_path: Path) -> None:
    listed = tools.succeed([tools.replay_program, "--list"]).stdout.decode().splitlines()
    rows = tools.replay(systemui_trace, "all", tmp_path / "results.jsonl")
    replayed = {row["allocator"]["name"] for row in rows}
    assert len(replayed) >= 2 and replayed >= {line.split()[0] for line in listed} - {"bump"}
    assert not any(row["failures"] for row in rows)

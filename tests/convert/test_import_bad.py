# SPDX-License-Identifier: Apache-2.0
"""Damaged, hostile or unknown traces of other recorders: what is said, and what --lenient does."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

import foreign_writers as fw
from convert_refuses import A_CALL, refused, write
from tool_runner import Tools, run

BAD_LINES = {
    "malloc_wrap_raw": [
        "x10 = malloc(5)",
        "x10 = malloc(-5);",
        "y10 = malloc(5);",
        "free(10);",
        "x10 = calloc(5);",
        "x10 = realloc(x5);",
        "x10 = malloc(18446744073709551616);",
        "x11112222333344445 = malloc(5);",
        "x10 = malloc(5); x20",
        "= malloc(5);",
    ],
    "malloc_wrap": [
        "m 1",
        "m 1 2 3",
        "c 1 2",
        "r 1 2",
        "f",
        "x 1 2",
        "m 9 5",
        "m 01 -5",
        "r 1 9 5",
    ],
    "android": [
        "1: malloc 0x10",
        "1: malloc 10 20",
        "1 malloc 0x10 20",
        "1: mallocs 0x10 20",
        "x: malloc 0x10 20",
        "1: calloc 0x10 20",
        "1: realloc 0x10 20",
        "1: free",
        "1: memalign 0x10 8",
        "1: thread_done",
        "1: malloc 0x10 20 5",
        "1: free 0x10 5 6",
        "1: free 0x10 5 6 7 8",
        "1: malloc 0x10 99999999999999999999",
        "4294967296: free 0x0",
        "1: malloc 0x10 72057594037927937",
        "1: calloc 0x10 4294967296 4294967296",
        ": free 0x0",
    ],
    "logalloc": [
        "1 1 malloc(32)",
        "1 malloc(32)=0x10",
        "1 1 malloc(32)=10",
        "1 1 calloc(32)=0x10",
        "1 1 realloc(32)=0x10",
        "1 1 free(0x10)=0x10",
        "1 1 strdup(0x10)",
        "1 1 malloc(x)=#1",
        "1 1 malloc(0x)=#1",
    ],
    "heaptrack": [
        "+ 10",
        "+ 10 1",
        "+ 10 2 5000",
        "+ 10 1 0",
        "+ 10 1 5000 6",
        "+ x 1 5000",
        "- ",
        "- 0",
        "- 5000 1",
        "t 5000 2",
        "t 5000",
        "s 4 main",
        "i 5000 0",
        "a 10 1",
        "m 4 abc 10",
        "m 99 abc 10",
        "m 3 abc",
        "m 3 abc 10 20",
        "c",
        "c 80000000000",
        "I 1000",
        "I 0 5",
        "v 10400 3",
        "x 99 /a",
        "x 1 /a",
        "Q 1",
        "+ 100000000000001 1 5000",
    ],
    "rep": ["a 0", "a 9 16", "f 9", "r 0", "b 0 16", "a 0 16 9", "f -2", "a -1 5"],
    "mtrace": [
        "@ a:[0x1] + 0x10",
        "@ a:[0x1] * 0x10 0x20",
        "+ 10 0x20",
        "- 0x10 0x20",
        "> 0x10 0x20",
        "@ a:[0x1]",
        "= Stop",
        "! 0x10",
        "+ 0x 0x1",
        "@",
    ],
}
GOOD_LINES = {
    "malloc_wrap_raw": "x10 = malloc(5);\n",
    "malloc_wrap": "3\nm 1 5\n",
    "android": "1: free 0x0\n",
    "logalloc": "1 1 free(0x0)\n",
    "heaptrack": "v 10400 3\nm 1 -\nt 5000 0\n+ 10 1 6000\n",
    "rep": "9\n2\n1\n1\na 0 5\n",
    "mtrace": "= Start\n+ 0x10 0x5\n",
}


@pytest.mark.parametrize(
    "form, line", [(form, line) for form, lines in BAD_LINES.items() for line in lines]
)
def test_bad_line(tools: Tools, tmp_path: Path, form: str, line: str) -> None:
    good = GOOD_LINES[form]
    source = write(tmp_path / "bad.txt", f"{good}{line}\n".encode())
    said = refused(tools, source, "--from", form, "-o", tmp_path / "t.bin")
    number = good.count("\n") + 1
    assert said.startswith(f"heaptape convert: {source}: offset {len(good)}: line {number}: ")
    assert "expected" in said and f"found '{line[:20]}" in said
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("form", BAD_LINES)
def test_lenient_counts_bad_lines(tools: Tools, tmp_path: Path, form: str) -> None:
    bad = BAD_LINES[form]
    source = write(tmp_path / "bad.txt", (GOOD_LINES[form] + "\n".join(bad)).encode())
    done = run(
        [tools.heaptape, "convert", source, "--from", form, "--lenient", "-o", tmp_path / "t.bin"]
    )
    assert done.returncode == 0, done.stderr
    assert f", {len(bad)} parts of the input skipped".encode() in done.stderr
    info = tools.info(tmp_path / "t.bin")
    assert (info["events"], info["skipped"]) == (1, len(bad))
    said = tools.succeed([tools.heaptape, "info", tmp_path / "t.bin"]).stdout.decode()
    assert re.search(rf"skipped on import +{len(bad)}\n", said)


def test_bad_records(tools: Tools, tmp_path: Path) -> None:
    magic = fw.record(255, ptr1=0x1234, size=8)
    good = fw.record(fw.RECORD_TYPES["malloc"], ptr2=16, size=5)
    source = write(tmp_path / "bad.raw", magic + good + fw.record(9) + good[:63])
    said = refused(tools, source, "-o", tmp_path / "t.bin")
    assert "offset 128: record 3: expected a type from 0 to 8 or 255" in said
    trace = tools.convert(source, tmp_path / "t.bin", "--lenient")
    assert tools.dump(trace) == ["t0 malloc(5) = #1"]
    assert tools.info(trace)["skipped"] == 2
    write(source, magic + good + good[:63])
    assert "offset 128: record 3: expected 64 bytes" in refused(
        tools, source, "-o", tmp_path / "t.bin"
    )


def test_mixed_times(tools: Tools, tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", A_CALL + b"1: free 0x1000 5 6\n")
    assert "line 2: expected no times" in refused(tools, source, "-o", tmp_path / "t.bin")
    write(source, b"1: free 0x0 5 6\n" + A_CALL)
    assert "line 2: expected times" in refused(tools, source, "-o", tmp_path / "t.bin")


def test_header_that_lies(tools: Tools, tmp_path: Path) -> None:
    source = write(tmp_path / "a.rep", b"9\n2\n5\n1\na 0 5\nf 0\n")
    assert "expected 5 operations" in refused(tools, source, "-o", tmp_path / "t.bin")


def test_a_line_without_end(tools: Tools, tmp_path: Path) -> None:
    """Megabytes without a newline are one bad line, whatever the buffer's size."""
    source = write(tmp_path / "a.txt", A_CALL + b"1" * 3_000_000 + b"\n1: free 0x1000\n")
    assert "line 2: expected a line of at most 65,536 bytes" in refused(
        tools, source, "-o", tmp_path / "t.bin"
    )
    trace = tools.convert(source, tmp_path / "t.bin", "--lenient")
    assert tools.dump(trace) == ["t0 malloc(16) = #1", "t0 free(#1)"]
    write(source, A_CALL + b"1" * 3_000_000)
    assert tools.info(tools.convert(source, tmp_path / "t.bin", "--lenient"))["skipped"] == 1


@pytest.mark.parametrize("long", ["s 70000 " + "x" * 70_000, "s 2000000 " + "x" * 2_000_000, "s 70000 " + "x" * 70_000 + "\r"])
def test_a_long_string_keeps_its_number(tools: Tools, tmp_path: Path, long: str) -> None:
    """heaptrack's strings are numbered by their lines: those behind one that is passed over keep their meaning."""
    lines = ["v 10400 3", "s a /nothing/a", "s 5 early", long, "s 4 late", "s 6 late.c", "i 4011cf 1 4 5 7", "t 1 0", "a 40 1", "+ 0"]
    source = write(tmp_path / "a.txt", "\n".join([*lines, ""]).encode())
    assert "line 4: expected a line of at most 65,536 bytes" in refused(tools, source, "-o", tmp_path / "t.bin")
    trace = tools.convert(source, tmp_path / "t.bin", "--lenient")
    assert tools.dump(trace) == ["t0 malloc(64) = #1 site 1 (late late.c:7)"]
    assert tools.info(trace)["skipped"] == 1


@pytest.mark.thorough
def test_bomb_stays_small(tools: Tools, tmp_path: Path) -> None:
    """What unpacks to 200 MB in one line takes its buffer: 128 MiB are enough."""
    packer = lzma.LZMACompressor(preset=0)
    content = packer.compress(A_CALL) + b"".join(
        packer.compress(b"7" * 10_000_000) for _ in range(20)
    )
    source = write(tmp_path / "bomb.txt.xz", content + packer.flush())
    tools.succeed(
        [
            "sh",
            "-c",
            'ulimit -v 131072; exec "$@"',
            "sh",
            tools.heaptape,
            "convert",
            source,
            "--lenient",
            "-q",
            "-o",
            tmp_path / "t.bin",
        ]
    )
    assert tools.info(tmp_path / "t.bin")["skipped"] == 1


def test_many_threads(tools: Tools, tmp_path: Path) -> None:
    source = write(
        tmp_path / "a.txt",
        b"".join(b"%d: malloc 0x%x 16\n" % (i, i << 4) for i in range(1, 50_001)),
    )
    info = tools.info(tools.convert(source, tmp_path / "t.bin"))
    assert (info["threads"], info["events"]) == (50_000, 50_000)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"this is no recording\n" * 500, bytes(range(256)) * 300],
    ids=["empty", "blank", "words", "bytes"],
)
def test_unknown(tools: Tools, tmp_path: Path, content: bytes) -> None:
    source = write(tmp_path / "what", content)
    said = refused(tools, source, "-o", tmp_path / "t.bin")
    assert f"{source}: offset 0: " in said
    if content:
        assert all(name in said for name in ["heaptape", *BAD_LINES, "trace_utils", "wl", "--from"])


@pytest.mark.parametrize(("content", "what"), [
    (b"malloc(472)                                        = 0x55e4c8d3b2a0\nfree(0x55e4c8d3b2a0)  = <void>\n", "ltrace's output"),
    (b"==7== Memcheck, a memory error detector\n--7-- free(0x0)\n", "the output of valgrind --trace-malloc=yes"),
    (b"==7== Memcheck, a memory error detector\n", "valgrind's output"),
    (b'execve("/bin/true", ["true"], 0x7ffd) = 0\nbrk(NULL) = 0x55\n', "strace's output"),
    (b"desc: (none)\ncmd: ./a\ntime_unit: i\n", "massif's file"), (b"PERFILE2" + bytes(100), "perf's file"),
], ids=["ltrace", "trace-malloc", "memcheck", "strace", "massif", "perf"])
def test_what_many_have_and_none_can_read(tools: Tools, tmp_path: Path, content: bytes, what: str) -> None:
    said = refused(tools, write(tmp_path / "what", content), "-o", tmp_path / "t.bin")
    assert f", found {what}, which " in said and "heaptape record -- PROGRAM" in said


@pytest.mark.parametrize("form", [*BAD_LINES, "trace_utils"])
def test_nothing_in_it(tools: Tools, tmp_path: Path, form: str) -> None:
    content = {
        "malloc_wrap": b"1\n",
        "rep": b"1\n0\n0\n1\n",
        "mtrace": b"= Start\n= End\n",
        "android": b"1: thread_done 0x0\n",
        "logalloc": b"1 1 jemalloc_stats()\n",
        "trace_utils": fw.record(255, ptr1=0x1234, size=8),
    }.get(form, b"\n")
    source = write(tmp_path / "a", content)
    assert "expected at least one call" in refused(
        tools, source, "--from", form, "-o", tmp_path / "t.bin"
    )

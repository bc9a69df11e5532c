# SPDX-License-Identifier: Apache-2.0
"""convert --to: each exported file, read by a plain parser of its own, says what the dump says,
less what the format cannot hold; and a message names what that was."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import naive_writer
import pytest

from dump_lines import ALIGNED, PSEUDO, Event, events_of
from heaptape import Trace, read_trace
from tool_runner import Tools, run

REPOSITORY = Path(__file__).resolve().parents[2]

FORMATS = ["malloc_wrap", "android", "rep"]
PAGE_BYTES = 4096
POINTER_BASE, POINTER_STEP = 0x10000000, 16
Call = tuple[str | int, ...]


@dataclass
class Expected:
    """The calls that a file must hold, and how many of what was lost."""

    calls: list[Call]
    lost: Counter[str]


def _renamed(event: Event, known: tuple[str, ...]) -> bool:
    return event.function not in (*known, *PSEUDO)


def _leave_out(event: Event, lost: Counter[str]) -> bool:
    if event.variant == "failed":
        lost["failed"] += 1
    elif event.function == "malloc_usable_size":
        lost["query"] += 1
    elif event.variant == "foreign" and event.is_free:
        lost["foreign free"] += 1
    else:
        return False
    return True


def _count_losses(event: Event, lost: Counter[str]) -> None:
    lost["foreign realloc"] += event.variant == "foreign"
    lost["drop"] += event.function == "drop"
    lost["inherit"] += event.function == "inherit"
    lost["freed size"] += event.is_free and (event.size is not None or event.extra is not None)


def _is_aligned(event: Event) -> bool:
    return event.function in (*ALIGNED, "valloc", "pvalloc")


def expected_malloc_wrap(events: list[Event], trace: Trace) -> Expected:
    calls: list[Call] = []
    lost: Counter[str] = Counter()
    for event in events:
        if _leave_out(event, lost):
            continue
        _count_losses(event, lost)
        lost["function"] += _renamed(event, ("malloc", "calloc", "realloc", "free"))
        lost["alignment"] += _is_aligned(event)
        if event.is_free:
            calls.append(("f", event.slot))
        elif event.function in ("realloc", "reallocarray"):
            old = 0 if event.variant in ("null", "foreign") else event.slot
            new = 0 if event.variant == "released" else event.slot
            calls.append(("r", new, old, event.size_bytes))
        elif event.function == "calloc":
            calls.append(("c", event.slot, event.extra, event.size))
        else:
            calls.append(("m", event.slot, event.size_bytes))
    return Expected(calls, lost)


def parse_malloc_wrap(text: str) -> Iterator[Call]:
    first, *lines = text.splitlines()
    assert re.fullmatch(r"\d+ *", first)
    ids = int(first)
    largest = 0
    for line in lines:
        assert re.fullmatch(r"m \d+ \d+|c \d+ \d+ \d+|r \d+ \d+ \d+|f \d+", line), line
        letter, *numbers = line.split()
        largest = max(largest, int(numbers[0]))
        yield letter, *map(int, numbers)
    assert ids == largest + 1


def expected_rep(events: list[Event], trace: Trace) -> Expected:
    calls: list[Call] = []
    lost: Counter[str] = Counter()
    ids: dict[int, int] = {}
    births = 0
    for event in events:
        if _leave_out(event, lost):
            continue
        if event.is_free and event.variant == "null":
            lost["null free"] += 1
            continue
        _count_losses(event, lost)
        null_realloc = event.function == "realloc" and event.variant == "null"
        released = event.function == "realloc" and event.variant == "released"
        lost["function"] += (_renamed(event, ("malloc", "realloc", "free")) or null_realloc
                             or released)
        lost["alignment"] += _is_aligned(event)
        if event.makes:
            ids[event.slot] = births
            births += 1
        if event.is_free or event.variant == "released":
            calls.append(("f", ids.pop(event.slot)))
            continue
        lost["size 0"] += event.size_bytes == 0
        calls.append(("a" if event.makes else "r", ids[event.slot], event.size_bytes or 1))
    return Expected(calls, lost)


def parse_rep(text: str) -> Iterator[Call]:
    lines = text.splitlines()
    _heap, ids, operations, weight = (int(line) for line in lines[:4])
    births = 0
    for line in lines[4:]:
        assert re.fullmatch(r"[ar] \d+ \d+|f \d+", line), line
        letter, *numbers = line.split()
        if letter == "a":
            assert int(numbers[0]) == births, "each id is given once, in order"
            births += 1
        yield letter, *map(int, numbers)
    assert (ids, operations, weight) == (births, len(lines) - 4, 1)


def _pointer(slot: int) -> int:
    return POINTER_BASE + slot * POINTER_STEP if slot else 0


def _android_call(event: Event, lost: Counter[str]) -> Call:
    pointer = _pointer(event.slot)
    if event.is_free:
        return "free", pointer
    if event.function in ("realloc", "reallocarray"):
        old = 0 if event.variant in ("null", "foreign") else pointer
        return "realloc", 0 if event.variant == "released" else pointer, old, event.size_bytes
    if event.function == "calloc":
        return "calloc", pointer, event.extra or 0, event.size or 0
    if _is_aligned(event):
        alignment = PAGE_BYTES if event.extra is None else event.extra
        return "memalign", pointer, alignment, event.size_bytes
    return "malloc", pointer, event.size_bytes


def expected_android(events: list[Event], trace: Trace) -> Expected:
    """Of every line: thread, function, operands, the time, the bytes that were resident. The
    threads' ends are not among them."""
    calls: list[Call] = []
    lost: Counter[str] = Counter()
    pages = dict(zip(trace.residency["birth_event"], trace.residency["pages_at_end"], strict=True))
    birth: dict[int, int] = {}
    tids = list(trace.threads["tid"])
    for event in events:
        if _leave_out(event, lost):
            continue
        _count_losses(event, lost)
        lost["function"] += _renamed(event, ("malloc", "calloc", "realloc", "free", "memalign"))
        call = _android_call(event, lost)
        ended = birth.pop(event.slot, None)
        resident = pages.get(ended, -1) if ended is not None and not event.makes else -1
        if not event.is_free and event.variant != "released":
            birth[event.slot] = event.number
        present = () if resident < 0 else (int(resident) * PAGE_BYTES,)
        calls.append((int(tids[event.thread]), *call, event.time_ns, event.time_ns, *present))
    return Expected(calls, lost)


ANDROID = re.compile(r"(\d+): (?:(malloc) (0x[\da-f]+) (\d+)|(calloc) (0x[\da-f]+) (\d+) (\d+)|"
                     r"(memalign) (0x[\da-f]+) (\d+) (\d+)|"
                     r"(realloc) (0x[\da-f]+) (0x[\da-f]+) (\d+)|(free) (0x[\da-f]+)) "
                     r"(\d+) (\d+)(?: (\d+))?$")
DONE = re.compile(r"(\d+): thread_done 0x0 (\d+)$")


def parse_android(text: str) -> Iterator[Call]:
    over: dict[int, int] = {}
    for line in text.splitlines():
        done = DONE.match(line)
        if done:
            over[int(done[1])] = int(done[2])
            continue
        match = ANDROID.match(line)
        assert match, line
        words = [word for word in match.groups() if word is not None]
        assert words[1] in ("free", "realloc") or match[match.lastindex or 0] == words[-1]
        over.pop(int(words[0]), None)  # the kernel has given the number to another thread
        yield int(words[0]), words[1], *(int(word, 0) for word in words[2:])


EXPECTED: dict[str, Callable[[list[Event], Trace], Expected]] = {
    "malloc_wrap": expected_malloc_wrap, "android": expected_android, "rep": expected_rep}
PARSERS: dict[str, Callable[[str], Iterator[Call]]] = {
    "malloc_wrap": parse_malloc_wrap, "android": parse_android, "rep": parse_rep}
WORDS = {
    "function": r"calls? written as the nearest function", "alignment": r"alignments? left out",
    "freed size": r"frees? without (?:its|their) size or alignment",
    "size 0": r"sizes? of 0 written as 1", "inherit": r"inherited blocks? written as malloc",
    "drop": r"blocks? dropped by the trace written as freed",
    "foreign realloc": r"reallocs? of (?:a )?foreign blocks? written as (?:an )?allocations?",
    "foreign free": r"foreign frees? left out", "null free": r"frees? of NULL left out",
    "failed": r"failed calls? left out", "query": r"quer(?:y|ies) of (?:a )?usable sizes? left out"}


def said_losses(said: str) -> Counter[str]:
    """What the one line on stderr counts."""
    assert said.count("\n") == 1, said
    found: Counter[str] = Counter()
    for part in said.split("; ")[2:]:
        number, words = part.strip().split(" ", 1)
        names = [name for name, pattern in WORDS.items() if re.fullmatch(pattern, words)]
        assert len(names) == 1, part
        found[names[0]] = int(number.replace(",", ""))
    return found


def check(tools: Tools, trace_path: Path, name: str, output: Path) -> Counter[str]:
    done = tools.succeed([tools.heaptape, "convert", trace_path, "--to", name, "-o", output])
    assert done.stdout == b""
    events = events_of(tools, trace_path)
    with read_trace(trace_path) as trace:
        expected = EXPECTED[name](events, trace)
    assert list(PARSERS[name](output.read_text())) == expected.calls
    assert said_losses(done.stderr.decode()) == +expected.lost
    return expected.lost


@pytest.fixture(scope="module")
def traces(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Recorded: an old one, CPython's, of threads, of the family's edges; and one of every op."""
    folder = tmp_path_factory.mktemp("traces")
    programs: dict[str, list[str | Path]] = {
        "python": [Path(sys.executable).resolve(), "-c",
                   "import json; json.loads('[' + '{},' * 500 + '0]')"],
        "threads": [tools.target("threads_exchange"), folder / "exchanged", "20000", "3"],
        "edges": [tools.target("edge_calls"), folder / "edge_counts"],
        "big": [tools.target("big_blocks"), folder / "big_counts"],
        "churn": [tools.target("thread_churn"), folder / "churned", "40"]}
    found = {"golden": REPOSITORY / "tests" / "golden" / "sqlite3.bin",
             "every op": folder / "every.bin"}
    found["every op"].write_bytes(every_op())
    for name, command in programs.items():
        recording = tools.preload(command, folder / name)
        assert recording.outcome.status != 99, recording.outcome  # the targets' own complaint
        found[name] = tools.convert(recording.logs[0], folder / f"{name}.bin")
    return found


def every_op() -> bytes:
    """Random calls of every function and variant that a program could make, by three threads,
    one of which ends."""
    source, live = random.Random(12), list(range(5_001, 5_101))
    events = [naive_writer.Event(31, 0, 0, 0, slot, slot % 300) for slot in live]
    kinds = sorted(key for key in naive_writer.CARRIES if key[0] not in (28, 29, 31))
    frees = {5, 11, 12, 13, 30, *range(18, 26)}
    for number in range(4_000):
        function, variant = source.choice(kinds)
        needs = ((function in frees or function in (3, 4, 26)) and variant == 0) or variant == 3
        if needs and not live:
            continue
        ends = (function in frees and variant == 0) or variant == 3
        slot = live[source.randrange(len(live))] if needs else number + 1
        if ends:
            live.remove(slot)
        elif not needs and "S" in naive_writer.CARRIES[function, variant]:
            live.append(slot)
        extra = source.randrange(1, 20) if function in (2, 4) else 1 << source.randrange(3, 12)
        size = source.randrange(5_000) if variant != 3 else 0
        thread = source.randrange(3 if number < 2_000 else 2)
        events.append(naive_writer.Event(function, variant, thread, number * 7, slot, size, extra))
    calls = [sum(e.thread == thread and e.function < 28 for e in events) for thread in range(3)]
    # Of the third thread the last calls come after its end, as those of destructors do.
    threads = [(100 + thread, thread, thread, calls[thread], end, int(thread == 2), "worker")
               for thread, end in enumerate((28_000, 28_000, 13_000))]
    births = [number for number, event in enumerate(events) if naive_writer.makes_object(event)]
    residency = [(birth, 1, source.randrange(9)) for birth in births[::7]]
    spec = naive_writer.TraceSpec(events, threads=threads, residency=residency, block=900,
                                  unit_ns=3)
    return naive_writer.build(spec)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMATS)
def test_exports_say_what_the_dump_says(tools: Tools, tmp_path: Path, traces: dict[str, Path],
                                        name: str) -> None:
    losses: Counter[str] = Counter()
    for trace in traces.values():
        losses += check(tools, trace, name, tmp_path / "out")
    never = {"malloc_wrap": {"null free", "size 0"},
             "android": {"null free", "size 0", "alignment"}}
    assert set(losses) == set(WORDS) - never.get(name, set())  # the traces have every loss there is


def ended_threads(text: str) -> list[int]:
    return [int(match[1]) for match in map(DONE.match, text.splitlines()) if match]


@pytest.mark.thorough
def test_android_threads_are_done_once_and_after_their_last_call(tools: Tools, tmp_path: Path,
                                                                 traces: dict[str, Path]) -> None:
    seen_done = 0
    for trace_path in traces.values():
        out = tmp_path / "out"
        tools.succeed([tools.heaptape, "convert", "-q", trace_path, "--to", "android", "-o", out])
        text = out.read_text()
        with read_trace(trace_path) as trace:
            table = trace.threads
        assert sorted(ended_threads(text)) == sorted(table["tid"][table["ended"]])
        seen_done += int(table["ended"].sum())
        calls_left = Counter(match[1] for match in map(ANDROID.match, text.splitlines()) if match)
        if table["tid"].nunique() != len(table):
            continue  # a tid that came twice
        for line in text.splitlines():
            thread = line.partition(":")[0]
            if DONE.match(line):
                assert calls_left[thread] == 0, line
            else:
                calls_left[thread] -= 1
    assert seen_done >= 40


def test_threads_without_tids_of_their_own_are_numbered(tools: Tools, tmp_path: Path) -> None:
    """Two threads of one tid at once, as in traces made from formats without threads' numbers."""
    events = [naive_writer.Event(1, 0, thread, number, number + 1, 8)
              for number, thread in enumerate([0, 1, 0, 1])]
    threads = [(77, 0, 0, 2, 2, 0, ""), (77, 1, 1, 2, 3, 0, "")]
    (tmp_path / "t.bin").write_bytes(
        naive_writer.build(naive_writer.TraceSpec(events, threads=threads))[0])
    done = tools.succeed([tools.heaptape, "convert", tmp_path / "t.bin", "--to", "android",
                          "-o", "-"])
    assert [line.split(b":")[0] for line in done.stdout.splitlines()] == [b"1", b"2", b"1", b"2"]


@pytest.mark.parametrize("name", FORMATS)
def test_standard_output_has_the_same(tools: Tools, tmp_path: Path, traces: dict[str, Path],
                                      name: str) -> None:
    command = [tools.heaptape, "convert", traces["every op"], "--to", name]
    tools.succeed([*command, "-o", tmp_path / "file"])
    done = tools.succeed([*command, "-o", "-"])
    assert done.stdout == (tmp_path / "file").read_bytes()
    assert tools.succeed([*command, "-q", "-o", tmp_path / "file"]).stderr == b""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_raw_log_goes_the_same_way(tools: Tools, tmp_path: Path, name: str) -> None:
    log = REPOSITORY / "tests" / "golden" / "sqlite3.mraw"
    trace = tools.convert(log, tmp_path / "t.bin")
    for source, output in ((log, "from_log"), (trace, "from_trace")):
        tools.succeed([tools.heaptape, "convert", source, "--to", name, "-o", tmp_path / output])
    assert (tmp_path / "from_log").read_bytes() == (tmp_path / "from_trace").read_bytes()
    piped = tools.succeed([tools.heaptape, "convert", "-q", log, "--to", name, "-o", "-"])
    assert piped.stdout == (tmp_path / "from_log").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from_log", "from_trace", "t.bin"]


def test_the_default_name_is_beside(tools: Tools, tmp_path: Path, traces: dict[str, Path]) -> None:
    (tmp_path / "job.bin").write_bytes(traces["golden"].read_bytes())
    suffixes = {"malloc_wrap": "malloc_wrap.txt", "android": "android.txt", "rep": "rep"}
    for name, suffix in suffixes.items():
        tools.succeed([tools.heaptape, "convert", "-q", tmp_path / "job.bin", "--to", name])
        assert (tmp_path / f"job.{suffix}").stat().st_size > 0


def test_bad_usage_and_bad_input(tools: Tools, tmp_path: Path, traces: dict[str, Path]) -> None:
    whole = traces["golden"].read_bytes()
    (tmp_path / "torn.bin").write_bytes(whole[:-40])
    (tmp_path / "text").write_text("no recording\n" * 99)
    (tmp_path / "own.bin").write_bytes(whole)
    cases = [(["torn.bin", "--to", "rep", "-o", "out"], 3, "export takes whole traces only"),
             (["text", "--to", "rep", "-o", "out"], 3, "text"),
             (["missing", "--to", "rep", "-o", "out"], None, "missing"),
             (["own.bin", "--to", "rep", "-o", "own.bin"], 2, "overwrite"),
             (["own.bin", "--to", "rep", "-o", "no/such/out"], 1, "no/such/out"),
             (["text", "--to", "rep", "-o", "no/such/out"], 1, "no/such/out"),
             (["own.bin", "--to", "rep", "-o", "/dev/full"], 1, "No space left"),
             (["own.bin", "--to", "rep", "-o", "out", "-u", "8"], 2, "only --to"),
             (["own.bin", "--to", "rep", "-o", "out", "--lenient"], 2, "only --to")]
    before = sorted(tmp_path.iterdir())
    for words, status, said in cases:
        done = run([tools.heaptape, "convert", *words], cwd=tmp_path)
        assert done.returncode == status if status else done.returncode in (1, 3), words
        assert done.stderr.decode().count("\n") == 1 and said in done.stderr.decode(), words
        assert sorted(tmp_path.iterdir()) == before, words
    assert (tmp_path / "own.bin").read_bytes() == whole
    for words, said in ((["--to", "nonsense"], b"--to nonsense: expected malloc_wrap"),
                        (["--to", "rep", "-l", "max"], b"--level")):
        done = run([tools.heaptape, "convert", "own.bin", *words], cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr


def test_another_recorders_trace_goes_the_same_way(tools: Tools, tmp_path: Path) -> None:
    """From one foreign format to another in one command; and several inputs into a folder."""
    source = tmp_path / "one.rep"
    source.write_text("100\n2\n5\n1\na 0 24\na 1 8\nr 0 100\nf 1\nf 0\n")
    (tmp_path / "two.rep").write_text(source.read_text())
    done = tools.succeed([tools.heaptape, "convert", source, "--to", "malloc_wrap", "-o", "-"])
    assert list(parse_malloc_wrap(done.stdout.decode())) == [
        ("m", 1, 24), ("m", 2, 8), ("r", 1, 1, 100), ("f", 2), ("f", 1)]
    (tmp_path / "both").mkdir()
    tools.succeed([tools.heaptape, "convert", "-q", source, tmp_path / "two.rep", "--to", "rep",
                   "-o", tmp_path / "both"])
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == ["one.rep", "two.rep"]
    assert list(parse_rep((tmp_path / "both" / "two.rep").read_text())) == list(
        parse_rep(source.read_text()))


def test_the_largest_slot_that_nobody_made(tools: Tools, tmp_path: Path) -> None:
    """A file can claim the largest slot there is: that costs neither memory nor a crash."""
    top = 2**32 - 1
    (tmp_path / "t.bin").write_bytes(naive_writer.build(naive_writer.TraceSpec(
        [naive_writer.Event(5, 0, 0, 0, top)], threads=[(1, 0, 0, 1, 0, 0, "")]))[0])
    done = run([tools.heaptape, "convert", tmp_path / "t.bin", "--to", "rep", "-o",
                tmp_path / "out"])
    assert done.returncode == 3 and b"allocated before" in done.stderr
    done = run([tools.heaptape, "convert", tmp_path / "t.bin", "--to", "android", "-o", "-"])
    assert done.stdout == f"1: free {POINTER_BASE + top * POINTER_STEP:#x} 0 0\n".encode()

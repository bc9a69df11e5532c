# SPDX-License-Identifier: Apache-2.0
"""Writes calls the way other recorders do, and says what must come of them: the tests' own idea of
the formats and of the heap."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

COUNTED = ("calloc",)
ALIGNED = ("memalign", "posix_memalign", "aligned_alloc")


@dataclass(frozen=True)
class Call:
    """One call; 0 is NULL. function thread_done is the end of a thread."""

    function: str
    address: int = 0  # returned, or freed
    size: int = 0
    extra: int = 0  # calloc's count, an alignment
    old: int = 0
    thread: int = 1


@dataclass
class Heap:
    """What heaptape must make of the calls: dump's lines, with objects named by birth."""

    lines: list[str] = field(default_factory=list)
    blocks: dict[int, tuple[int, int]] = field(default_factory=dict)  # address: birth, bytes
    threads: dict[int, int] = field(default_factory=dict)
    threads_seen: int = 0
    births: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    anomalies: int = 0
    foreign: int = 0
    failed: int = 0

    def _put(self, thread: int, text: str) -> None:
        self.lines.append(f"t{thread} {text}")

    def _place(self, call: Call, thread: int, birth: int | None) -> int:
        if call.address in self.blocks:
            self._put(thread, f"drop(#{self._end(call.address)})")
            self.anomalies += 1
        if birth is None:
            self.births += 1
            birth = self.births
        size = call.size * (call.extra if call.function in COUNTED else 1)
        self.blocks[call.address] = birth, size
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return birth

    def _end(self, address: int) -> int:
        birth, size = self.blocks.pop(address)
        self.live_bytes -= size
        return birth

    def take(self, call: Call) -> None:
        if call.function == "thread_done":
            self.threads.pop(call.thread, None)
            return
        if call.thread not in self.threads:
            self.threads[call.thread] = self.threads_seen
            self.threads_seen += 1
        thread = self.threads[call.thread]
        if call.function == "free":
            self._free(call, thread)
        elif call.function == "realloc":
            self._realloc(call, thread)
        else:
            operands = f"{call.size}"
            if call.function in (*COUNTED, *ALIGNED):
                operands = f"{call.extra}, {operands}"
            if call.address:
                birth = self._place(call, thread, None)
                self._put(thread, f"{call.function}({operands}) = #{birth}")
            else:
                self.failed += 1
                self._put(thread, f"{call.function}({operands}) = NULL (failed)")

    def _free(self, call: Call, thread: int) -> None:
        if not call.address:
            self._put(thread, "free(NULL)")
        elif call.address in self.blocks:
            self._put(thread, f"free(#{self._end(call.address)})")
        else:
            self.foreign += 1
            self._put(thread, "free(?) (foreign)")

    def _realloc(self, call: Call, thread: int) -> None:
        known = call.old in self.blocks
        if not call.address and known and not call.size:
            self._put(thread, f"realloc(#{self._end(call.old)}, 0) = NULL (released)")
        elif not call.address:
            self.failed += 1
            self._put(thread, f"realloc(?, {call.size}) = NULL (failed)")
        elif known:
            birth = self._place(call, thread, self._end(call.old))
            self._put(thread, f"realloc(#{birth}, {call.size}) = #{birth}")
        else:
            self.foreign += call.old != 0
            birth = self._place(call, thread, None)
            old, note = ("?", " (foreign)") if call.old else ("NULL", "")
            self._put(thread, f"realloc({old}, {call.size}) = #{birth}{note}")


def expected_of(calls: Iterable[Call]) -> Heap:
    heap = Heap()
    for call in calls:
        heap.take(call)
    return heap


def named_by_birth(lines: Sequence[str]) -> list[str]:
    """Dump's lines with births in place of slots."""
    births: dict[str, int] = {}
    born = 0
    named = []
    for line in lines:
        left, equals, result = re.sub(r" site \d+( \(.*)?$", "", line).partition(" = ")
        name, bracket, operands = left.partition("(")
        operand = operands.split(",")[0].rstrip(")")
        if operand.startswith("#"):
            left = f"{name}({operands.replace(operand, f'#{births[operand]}', 1)}"
            if not result.startswith("#"):
                del births[operand]
        if result.startswith("#"):
            slot, space, note = result.partition(" ")
            if not operand.startswith("#"):
                born += 1
                assert slot not in births, f"a slot was given twice: {line}"
                births[slot] = born
            result = f"#{births[slot]}{space}{note}"
        named.append(f"{left}{equals}{result}")
    return named


# ---- the formats ----


def malloc_wrap_raw(calls: Iterable[Call]) -> bytes:
    forms = {
        "malloc": "x{c.address:x} = malloc({c.size});",
        "calloc": "x{c.address:x} = calloc({c.extra}, {c.size});",
        "realloc": "x{c.address:x} = realloc(x{c.old:x}, {c.size});",
        "free": "free(x{c.address:x});",
    }
    return text(forms, calls)


def malloc_wrap(calls: Sequence[Call]) -> bytes:
    ids = max((max(c.address, c.old) for c in calls), default=0) + 1
    forms = {
        "malloc": "m {c.address} {c.size}",
        "calloc": "c {c.address} {c.extra} {c.size}",
        "realloc": "r {c.address} {c.old} {c.size}",
        "free": "f {c.address}",
    }
    return f"{ids:<20}\n\n".encode() + text(forms, calls)


def android(calls: Iterable[Call]) -> bytes:
    head = "{c.thread}: {c.function} 0x{c.address:x}"
    forms = {
        "malloc": head + " {c.size}",
        "calloc": head + " {c.extra} {c.size}",
        "memalign": head + " {c.extra} {c.size}",
        "realloc": head + " 0x{c.old:x} {c.size}",
        "free": head,
        "thread_done": "{c.thread}: thread_done 0x0",
    }
    return text(forms, calls)


def logalloc(calls: Iterable[Call], pid: int = 7, pointer: str = "0x{:x}") -> bytes:
    result = "=" + pointer.replace("{", "{c.address")
    two = "({c.extra},{c.size})" + result
    forms = {
        "malloc": "({c.size})" + result,
        "valloc": "({c.size})" + result,
        "calloc": two,
        "memalign": two,
        "posix_memalign": two,
        "aligned_alloc": two,
        "realloc": "(" + pointer.replace("{", "{c.old") + ",{c.size})" + result,
        "free": "(" + pointer.replace("{", "{c.address") + ")",
    }
    return text(
        {name: f"{pid} {{c.thread}} {{c.function}}{form}" for name, form in forms.items()}, calls
    )


def logalloc_munged(calls: Iterable[Call]) -> bytes:
    return logalloc(calls, 1, "#{}")


def rep(calls: Sequence[Call]) -> bytes:
    ids = max((c.address for c in calls), default=0)
    lines = []
    for call in calls:
        word = "-1" if not call.address else str(call.address - 1)
        letter = {"malloc": "a", "realloc": "r", "free": "f"}[call.function]
        lines.append(f"{letter} {word}" + ("" if letter == "f" else f" {call.size}"))
    return "\n".join(["20000", str(ids), str(len(calls)), "1", *lines, ""]).encode()


def mtrace(calls: Iterable[Call]) -> bytes:
    where = "@ ./program:(main+0x1c)[0x11e0] "
    lines = ["= Start"]
    for call in calls:
        new = f"{call.address:#x}" if call.address else "(nil)"
        size = f"{call.size:#x}" if call.size else "0"
        if call.function == "free":
            lines.append(f"{where}- {new}")
        elif call.function == "malloc":
            lines.append(f"{where}+ {new} {size}")
        elif not call.address:
            lines.append(f"{where}! {call.old:#x} {size}")
        else:
            lines += [f"{where}< {call.old:#x}", f"{where}> {new} {size}"]
    return "\n".join([*lines, "= End", ""]).encode()


HEAPTRACK_STACKS = ((0x11e0, 0), (0x11f0, 1), (0x1200, 1), (0x9000, 2))
"""Of calls, from the outermost on: where in the program (the last one: beyond it), and the number of its caller."""


def heaptrack_raw(calls: Iterable[Call]) -> bytes:
    """A tick every 100 calls."""
    lines = ["v 10400 3", "x a /nothing/p", "X ./p --all of it", "I 1000 5e298f", "m 1 -", "m 1 x 5000000 0 2000", "m c /nothing/q.s 6000000 0 10 1000 10"]
    lines += [f"t {0x5000000 + offset:x} {parent:x}" for offset, parent in HEAPTRACK_STACKS]
    for i, call in enumerate(calls):
        lines += [f"c {i:x}", "R 400"] if i % 100 == 99 else []
        lines.append(f"- {call.address:x}" if call.function == "free" else f"+ {call.size:x} {i % 5:x} {call.address:x}")
    return "\n".join([*lines, "# the end", ""]).encode()


def heaptrack_named(calls: Iterable[Call]) -> bytes:
    """Each block has a stack of its own: a file with names says only of which size and stack a freed block is."""
    lines = ["v 10400 3", "X ./p", "I 1000 5e298f", "s 7 libq.so", "s 4 main", "s 8 a file.c", "i 5001000 1 2 3 7", "t 1 0"]
    live: dict[int, int] = {}
    made = 0
    for i, call in enumerate(calls):
        if call.function == "free":
            lines.append(f"- {live.pop(call.address):x}")
            continue
        lines += [f"i {0x6000000 + i:x} 1", f"t {made + 2:x} 1", f"a {call.size:x} {made + 2:x}", f"+ {made:x}"]
        live[call.address], made = made, made + 1
    return "\n".join([*lines, ""]).encode()


RECORD_TYPES = {
    "malloc": 1,
    "calloc": 2,
    "free": 3,
    "realloc": 4,
    "memalign": 5,
    "valloc": 6,
    "pvalloc": 7,
    "posix_memalign": 8,
    "magic": 255,
    "unused": 0,
}


def record(
    kind: int, thread: int = 0, ptr1: int = 0, ptr2: int = 0, size: int = 0, size2: int = 0
) -> bytes:
    return struct.pack("<IB3s7Q", thread, kind, b"\x15\0\x80", ptr1, ptr2, size, size2, 99, 5, 6)


def trace_utils(calls: Iterable[Call]) -> bytes:
    records = [record(RECORD_TYPES["magic"], ptr1=0x1234, size=8)]
    for call in calls:
        kind = RECORD_TYPES[call.function]
        if call.function == "free":
            records.append(record(kind, call.thread, ptr1=call.address, size2=48))
        elif call.function == "posix_memalign":
            records.append(
                record(
                    kind,
                    call.thread,
                    0 if call.address else 12,
                    call.address,
                    call.size,
                    call.extra,
                )
            )
        else:
            records.append(record(kind, call.thread, call.old, call.address, call.size, call.extra))
        records.append(record(RECORD_TYPES["unused"]))
    return b"".join(records)


def number(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


CODES = {
    "nop": 0,
    "done": 1,
    "malloc": 2,
    "calloc": 3,
    "realloc": 4,
    "free": 5,
    "sync_w": 6,
    "sync_r": 7,
    "alloc_ptrs": 8,
    "alloc_syncs": 9,
    "nthreads": 10,
    "start_thread": 11,
    "memalign": 12,
    "valloc": 13,
    "pvalloc": 14,
    "posix_memalign": 15,
}


def operation(name: str, *operands: int) -> bytes:
    return bytes([CODES[name]]) + b"".join(map(number, operands))


def workload(streams: Sequence[bytes], ids: int, syncs: int) -> bytes:
    """The main stream and the threads' behind it; offsets depend on the main stream's length."""
    main, length = b"", -1
    while len(main) != length:
        length = at = len(main)
        main = (
            operation("alloc_ptrs", ids)
            + operation("alloc_syncs", syncs)
            + operation("nthreads", len(streams))
        )
        for stream in streams:
            main += operation("start_thread", at)
            at += len(stream)
        main += operation("done")
    return main + b"".join(streams)


def wl(calls: Sequence[Call]) -> bytes:
    stream = b""
    for call in calls:
        operands = {
            "free": [call.address],
            "realloc": [call.address, call.old, call.size],
            "memalign": [call.address, call.extra, call.size],
            "posix_memalign": [call.address, call.extra, call.size],
        }.get(call.function, [call.address, call.size])
        stream += operation(call.function, *operands) + operation("nop")
    ids = max((max(c.address, c.old) for c in calls), default=0)
    return workload([stream + operation("done")], ids, 0)


def text(forms: dict[str, str], calls: Iterable[Call]) -> bytes:
    return "".join(forms[c.function].format(c=c) + "\n" for c in calls).encode()


@dataclass(frozen=True)
class Format:
    """What a format can hold, besides malloc, realloc and free."""

    name: str
    write: Callable[[Sequence[Call]], bytes]
    functions: tuple[str, ...]
    threads: bool = False
    thread_ends: bool = False
    fails: bool = True
    null_operands: bool = True  # free(NULL), realloc(NULL, n)
    released: bool = True
    foreign: bool = True
    moves: bool = True  # realloc may return another address
    count_is_one: bool = False
    splits: bool = False  # a realloc is a free and a malloc
    doubles: bool = True  # an address may be handed out while it is live


FORMATS = [
    Format("malloc_wrap_raw", malloc_wrap_raw, ("malloc", "calloc")),
    Format("malloc_wrap", malloc_wrap, ("malloc", "calloc")),
    Format("android", android, ("malloc", "calloc", "memalign"), threads=True, thread_ends=True),
    Format("logalloc", logalloc, ("malloc", "calloc", *ALIGNED, "valloc"), threads=True),
    Format("logalloc", logalloc_munged, ("malloc", "calloc", *ALIGNED, "valloc"), threads=True),
    Format("rep", rep, ("malloc",), fails=False, released=False, foreign=False, moves=False),
    Format("mtrace", mtrace, ("malloc",), null_operands=False, released=False),
    Format(
        "trace_utils",
        trace_utils,
        ("malloc", "calloc", "memalign", "valloc", "pvalloc", "posix_memalign"),
        threads=True,
        count_is_one=True,
    ),
    Format("heaptrack", heaptrack_raw, ("malloc",), fails=False, null_operands=False, released=False, splits=True),
    Format("heaptrack", heaptrack_named, ("malloc",), fails=False, null_operands=False, released=False, foreign=False,
           splits=True, doubles=False),
    Format(
        "wl",
        wl,
        ("malloc", "calloc", "memalign", "valloc", "pvalloc", "posix_memalign"),
        count_is_one=True,
    ),
]


def random_calls(form: Format, seed: int, count: int) -> list[Call]:
    """Calls that the format can hold: few addresses, so that each is used again and again, with
    whatever else it allows: failures, strangers, addresses handed out twice."""
    random = Random(seed)
    live: set[int] = set()
    calls = []

    def size() -> int:
        return random.choice([0, 1, 24, 100, 4096, 70_000, random.randrange(1 << 20)])

    def result(free_only: bool = False) -> int:
        if form.fails and random.random() < 0.05:
            return 0
        free = [address for address in range(1, 30 if form.doubles else 3000) if address not in live]
        if free and (free_only or not form.doubles or random.random() < 0.97):
            return random.choice(free)
        return random.choice(sorted(live)) if live else 1

    def operand() -> int:
        if form.null_operands and random.random() < 0.05:
            return 0
        if not live or (form.foreign and random.random() < 0.05):
            return random.randrange(30, 40) if form.foreign else 0
        return random.choice(sorted(live))

    while len(calls) < count:
        thread = random.randrange(1, 5) if form.threads else 0
        kind = random.random()
        if kind < 0.45:
            function = random.choice(form.functions)
            extra = random.choice([16, 64, 4096]) if function in ALIGNED else 0
            if function in COUNTED:
                extra = 1 if form.count_is_one else random.randrange(1, 5)
            call = Call(function, result(), size(), extra, 0, thread)
        elif kind < 0.8:
            call = Call("free", operand(), thread=thread)
        elif form.thread_ends and kind < 0.83:
            call = Call("thread_done", thread=thread)
        elif form.moves:
            old = operand()
            live.discard(old)
            call = Call("realloc", result(), size(), 0, old, thread)
            if not call.address and (old or call.size == 0):
                if form.released or call.size:
                    live |= {old} - {0} if call.size else set()
                else:
                    call = Call("realloc", call.address, 1, 0, old, thread)
                    live |= {old}
        else:
            address = random.randrange(1, 30)  # in place, or a new one if nothing is there
            call = Call("realloc", address, size(), 0, address if address in live else 0, thread)
        if (
            call.function in ("free", "realloc")
            and not form.null_operands
            and not (call.address if call.function == "free" else call.old)
        ):
            continue
        if call.function == "free":
            live.discard(call.address)
        elif call.address:
            live.add(call.address)
        if form.splits and call.function == "realloc":
            calls.append(Call("free", call.old, thread=thread))
            call = Call("malloc", call.address, call.size, thread=thread)
        calls.append(call)
    return calls

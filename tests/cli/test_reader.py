# SPDX-License-Identifier: Apache-2.0
"""libheaptape: the same events, and the same complaints, as the verbs of the one program."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import refresh
from dump_lines import ALIGNED, COUNTED, Event, events_of
from tool_runner import Tools, run

EFFECTS = ("none", "makes", "resizes", "ends")
VARIANTS = ("plain", "null", "failed", "released", "foreign")


class ReaderEvent(ctypes.Structure):
    """struct heaptape_event."""

    _fields_ = [*((name, ctypes.c_uint64) for name in ("number", "time_ns", "size", "count", "alignment")),
                *((name, ctypes.c_uint32) for name in ("slot", "thread")),
                *((name, ctypes.c_uint8) for name in ("function", "variant", "effect"))]


@pytest.fixture(scope="module")
def library(build: Path) -> Any:
    loaded = ctypes.CDLL(str(build / "parts" / "reader" / "libheaptape.so"))
    for name, result in [("open", ctypes.c_void_p), ("next", ctypes.POINTER(ReaderEvent)), ("error", ctypes.c_char_p),
                         ("context", ctypes.c_char_p), ("totals", ctypes.c_char_p), ("sites", ctypes.c_uint32), ("close", None)]:
        function = getattr(loaded, f"heaptape_{name}")
        function.restype = result
        function.argtypes = [ctypes.c_char_p if name == "open" else ctypes.c_void_p]
    loaded.heaptape_function_name.restype = ctypes.c_char_p
    return loaded


def read(library: Any, path: Path) -> Iterator[tuple[ReaderEvent, str]]:
    """The events with their functions' names; what went wrong raises ValueError after them."""
    reader = library.heaptape_open(str(path).encode())
    try:
        while event := library.heaptape_next(reader):
            yield event.contents, library.heaptape_function_name(event.contents.function).decode()
        if not library.heaptape_error(reader):
            library.heaptape_context(reader), library.heaptape_totals(reader), library.heaptape_sites(reader)
        if error := library.heaptape_error(reader):
            assert not library.heaptape_next(reader)
            raise ValueError(error.decode())
    finally:
        library.heaptape_close(reader)


def as_dumped(event: ReaderEvent, function: str) -> tuple[object, ...]:
    extra = event.count if function in COUNTED else event.alignment
    return (event.number, event.time_ns, event.thread, function, VARIANTS[event.variant], event.slot, event.size, extra,
            EFFECTS[event.effect])


def expected(event: Event) -> tuple[object, ...]:
    effect = "makes" if event.makes else "ends" if event.ends else "resizes" if event.resizes else "none"
    return (event.number, event.time_ns, event.thread, event.function, event.variant, event.slot, event.size or 0,
            event.extra or 0, effect)


def test_the_same_events_as_dump(tools: Tools, library: Any, tmp_path: Path) -> None:
    recording = tools.preload([tools.target("calls_printed"), tmp_path / "printed", "3000"], tmp_path / "logs")
    trace = tools.convert(recording.logs[0], tmp_path / "t.bin")
    found = [as_dumped(event, function) for event, function in read(library, trace)]
    assert found == [expected(event) for event in events_of(tools, trace)]
    functions = {row[3] for row in found}
    assert functions >= {"calloc", "realloc", "free"} and functions & set(ALIGNED)


def test_context_and_totals(tools: Tools, library: Any, repository: Path) -> None:
    trace = repository / "traces" / "sqlite3-small.bin"
    reader = library.heaptape_open(str(trace).encode())
    info = json.loads(run([tools.heaptape, "info", "--json", trace]).stdout)
    assert json.loads(library.heaptape_context(reader))["command"] == info["context"]["command"]
    assert json.loads(library.heaptape_totals(reader))["peak_live_bytes"] == info["peak_live_bytes"]
    library.heaptape_close(reader)


def complaint(library: Any, path: Path) -> str:
    try:
        list(read(library, path))
    except ValueError as error:
        return str(error)
    return ""


def test_the_same_complaints_as_dump(library: Any, tmp_path: Path) -> None:
    """Of every damaged trace but those that only `info` or a replay refuses."""
    said = {name: words.strip() for name, (_, words) in refresh.messages().items()
            if name.endswith(".bin") and not name.startswith(("info-", "replay-"))}
    assert len(said) > 50
    for name, content in refresh.damaged().items():
        if name in said:
            (tmp_path / name).write_bytes(content)
            assert said[name].partition(": ")[2] == complaint(library, tmp_path / name).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("name", ["replay-slot.bin", "replay-thread.bin"])
def test_numbers_that_no_table_could_hold(library: Any, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="expected slot and thread numbers without a gap"):
        list(read(library, refresh.write(tmp_path, name)))


def test_a_file_that_is_not_there_and_no_reader_at_all(library: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file or directory"):
        list(read(library, tmp_path / "none.bin"))
    assert not library.heaptape_next(None) and library.heaptape_error(None) == b"not enough memory"
    assert library.heaptape_context(None) is None and library.heaptape_function_name(255) is None
    library.heaptape_close(None)


def test_it_neither_prints_nor_ends_the_program(build: Path) -> None:
    done = subprocess.run(["nm", "-D", build / "parts" / "reader" / "libheaptape.so"], capture_output=True, text=True, timeout=60, check=True)
    symbols = [line.split()[-2:] for line in done.stdout.splitlines()]
    exported = {name.partition("@")[0] for kind, name in symbols if kind == "T"}
    assert exported == {f"heaptape_{name}" for name in ("open", "close", "next", "error", "context", "totals", "function_name",
                                                      "frames", "sites", "modules")}
    imported = {name.partition("@")[0] for kind, name in symbols if kind == "U"}
    # __assert_fail: of what cannot happen, whatever the file.
    assert not {name for name in imported if name in ("abort", "exit", "_exit", "stderr", "stdout") or "print" in name.replace("snprintf", "")}

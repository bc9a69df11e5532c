# SPDX-License-Identifier: Apache-2.0
"""Are the recorded call sites the stacks that a full unwinding of every call finds? A program is recorded with call sites in front of an
allocator that unwinds every call itself (tests/targets/unwind_every_call.c); the two are compared, call by call of each thread, down to 62 frames."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heaptape.trace import ops
from heaptape.trace.reader import Trace, read_trace

FRAMES_MAX = 62
REALLOCARRAY = next(function for function, name in ops.FUNCTIONS.items() if name == "reallocarray")
RECORD = np.dtype([("size", "<u8"), ("hash", "<u8"), ("tid", "<u4"), ("frames", "<u4")])
MASK = (1 << 64) - 1


def mixed(hash_: int, value: int) -> int:
    hash_ = ((hash_ ^ value) * 0x100000001B3) & MASK
    return hash_ ^ hash_ >> 29


def hash_of_name(path: str) -> int:
    hash_ = 0xCBF29CE484222325
    for byte in path.rsplit("/", 1)[-1].encode():
        hash_ = mixed(hash_, byte)
    return hash_


def hashes(trace: Trace) -> NDArray[np.uint64]:
    """By site number the hash that unwind_every_call.c makes of its stack; 0 for site 0."""
    table = trace.sites
    executable = trace.context.get("executable")
    # The loader has no name for the executable.
    names = [0, *(hash_of_name("" if module.path == executable else module.path) for module in table.modules)]
    module, offset = (table.locations[name].tolist() for name in ("module", "offset"))
    parent, location = (table.callers[name].tolist() for name in ("parent", "location"))
    found = [0]
    for caller in table.sites["caller"].tolist():
        hash_, frames, at = 0, 0, caller
        while at and frames < FRAMES_MAX:
            place = location[at - 1]
            hash_ = mixed(mixed(hash_, names[module[place]]), offset[place])
            at, frames = parent[at - 1], frames + 1
        found.append(hash_)
    return np.array(found, dtype=np.uint64)


def allocations(trace: Trace) -> dict[str, NDArray[Any]]:
    """Site, size and thread of every allocation, in the trace's order. The recorder asks the allocator of a reallocarray for a
    realloc of all its elements."""
    names = ("site", "size", "thread")
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for arrays in trace.event_arrays(("op", "function", "extra", *names)):
        arrays["size"] = np.where(arrays["function"] == REALLOCARRAY, arrays["size"] * arrays["extra"], arrays["size"])
        for name in names:
            parts[name].append(arrays[name][ops.OP_HAS_SITE[arrays["op"]]])
    return {name: np.concatenate(values) for name, values in parts.items()}


def compare(folder: Path, build: Path, log: Path) -> dict[str, Any]:
    """Of one recording: allocations, how many have the right stack, how many no stack, and the number of stacks."""
    subprocess.run([build / "heaptape", "convert", "-q", "--no-names", log, "-o", folder / "sites.bin"], check=True, timeout=60)
    with read_trace(folder / "sites.bin") as trace:
        found, wanted, right = allocations(trace), hashes(trace), 0
        truth = np.fromfile(folder / "truth", dtype=RECORD, count=found["size"].size + (1 << 16))
        truth = truth[truth["frames"] > 0]
        for thread, tid in enumerate(trace.threads["tid"]):
            mine, theirs = found["thread"] == thread, truth[truth["tid"] == tid]
            if not np.array_equal(found["size"][mine], theirs["size"]):
                raise SystemExit(f"{log}: thread {tid}: the two recordings are of different calls")
            right += int(np.count_nonzero(wanted[found["site"][mine]] == theirs["hash"]))
        return {"allocations": found["size"].size, "right": right, "unknown": int(np.count_nonzero(found["site"] == 0)),
                "stacks": wanted.size - 1}


def record(command: Sequence[str], build: Path) -> dict[str, Any]:
    """Runs the program and compares its main process: that with the longest log. SystemExit if it fails."""
    with tempfile.TemporaryDirectory(prefix="heaptape-truth-") as name:
        folder = Path(name)
        environment = os.environ | {
            "LD_PRELOAD": f"{build}/libmalloc_wrap.so:{build}/tests/targets/libunwind_every_call.so", "MALLOC_WRAP_OUT": name,
            "MALLOC_WRAP_SITES": "64", "MALLOC_WRAP_ONLY": Path(command[0]).name, "UNWIND_OUT": str(folder / "truth")}
        try:
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"sites_truth: {error}") from error
        logs = sorted(folder.glob("*.mraw"), key=lambda path: path.stat().st_size)
        if not logs:
            raise SystemExit(f"sites_truth: {command[0]}: nothing was recorded")
        return compare(folder, build, logs[-1])

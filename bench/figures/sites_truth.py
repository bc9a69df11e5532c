#!/usr/bin/env python3
"""Are the recorded call sites the stacks that a full unwinding of every call finds?

    bench/figures/sites_truth.py [--build B] [--json] [--] PROGRAM [ARGUMENT...]

Records PROGRAM with call sites in front of an allocator that unwinds every call itself (bench/programs/unwind_every_call.c),
and compares the two, call by call of each thread, down to 62 frames. Prints the share of allocations with the right stack.
Exit status 1 below 95 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from heaptape.trace.reader import Trace, read_trace  # noqa: E402

FRAMES_MAX = 62
RIGHT_SHARE_MIN = 0.95
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


def hashes(trace: Trace, executable: str) -> NDArray[np.uint64]:
    """By site number the hash that unwind_every_call.c makes of its stack; 0 for site 0."""
    sites, callers, locations = trace.site_tables()
    # The loader has no name for the executable.
    names = [hash_of_name("") if path == executable else hash_of_name(path) for path in trace.modules()]
    found = [0]
    for caller in sites:
        hash_, frames, at = 0, 0, int(caller)
        while at and frames < FRAMES_MAX:
            parent, location = callers[at - 1]
            module, offset = locations[location]
            hash_ = mixed(mixed(hash_, names[module - 1] if module else 0), int(offset))
            at, frames = int(parent), frames + 1
        found.append(hash_)
    return np.array(found, dtype=np.uint64)

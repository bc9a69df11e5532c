# SPDX-License-Identifier: Apache-2.0
"""A small service: a master with blocks and holes between them, and workers that write into some of what they inherited."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tool_runner import Tools

PYTHON = os.path.realpath(sys.executable)
WORKERS = 3

# A worker allocates into the master's holes, and counts references of a fifth of its blocks, which writes to them.
_SCRIPT = """
import os, time
kept = [bytes(100 + i % 200) for i in range(60000)]
del kept[::4]
def work():
    mine = [bytes(100 + i % 150) for i in range(3000)]
    time.sleep({ready_s} / 2)
    used = kept[:9000]
    time.sleep({stays_s})
    os._exit(0)
for _ in range({workers}):
    if not os.fork():
        work()
time.sleep({ready_s} + {stays_s} / 2)
for _ in range({workers}):
    os.wait()
"""


def command(stays_s: float) -> list[str]:
    """Needs PYTHONMALLOC=malloc in its environment. Its workers stay so long when all is done."""
    return [PYTHON, "-S", "-c", _SCRIPT.format(workers=WORKERS, ready_s=0.2, stays_s=stays_s)]


def write_group(tools: Tools, folder: Path) -> Path:
    """The trace of a recorded group, with at least one snapshot of all."""
    logs, trace = folder / "group", folder / "service.bin"
    tools.succeed([tools.build / "heaptape", "record", "-q", "--group", "-o", logs, "--", *command(1.0)], env={"PYTHONMALLOC": "malloc"})
    tools.succeed([tools.build / "heaptape", "convert", "-q", "--group", "-o", trace, logs])
    return trace

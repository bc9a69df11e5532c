# SPDX-License-Identifier: Apache-2.0
"""A few traces for the tests of the verbs that look at traces, recorded once for all of them."""

from __future__ import annotations

from pathlib import Path

from tool_runner import Tools

NAMES = ("golden", "threads", "made", "python", "child")


def record_traces(tools: Tools, folder: Path) -> None:
    """golden: sqlite3 as it always was. threads: four that free each other's blocks, as far as the
    machine lets them run at once. made: six that certainly do. python: reallocs and large blocks.
    child: a forked process, which begins with inherited blocks."""
    command = [tools.target("threads_exchange"), folder / "counts", "30000", "4", "7"]
    exchange = tools.preload(command, folder / "threads")
    tools.convert(exchange.logs[0], folder / "threads.bin")
    tools.succeed([tools.build / "bench" / "make_trace", folder / "made.bin", "20000", "300", "6", "3"])
    work = "import json; x = [json.loads(json.dumps({str(i): [i] * i})) for i in range(15)]; " \
           "b = bytearray(); [b.extend(bytes(5000)) for i in range(40)]"
    script = tools.preload(["/usr/bin/python3", "-c", work], folder / "python",
                           env={"PYTHONMALLOC": "malloc"})
    tools.convert(script.logs[0], folder / "python.bin")
    fork = "import os, json; x = [str(i) * 9 for i in range(500)]\n" \
           "if os.fork(): os.wait()\n" \
           "else: y = json.dumps(x); del x; os._exit(0)"
    forked = tools.preload(["/usr/bin/python3", "-c", fork], folder / "child",
                           env={"PYTHONMALLOC": "malloc"})
    for log in forked.logs:
        trace = tools.convert(log, folder / f"{log.stem}.bin")
        if tools.info(trace)["inherited_objects"] > 0:
            trace.rename(folder / "child.bin")


def traces_in(repository: Path, folder: Path) -> dict[str, Path]:
    """What record_traces has made there, and the golden one, by name."""
    golden = repository / "tests" / "golden" / "sqlite3.bin"
    return {name: golden if name == "golden" else folder / f"{name}.bin" for name in NAMES}

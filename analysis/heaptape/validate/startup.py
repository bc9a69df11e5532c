# SPDX-License-Identifier: Apache-2.0
"""What starting a program costs under each allocator: loading the library and what it depends on, and its first steps."""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from ..base.errors import HeaptapeError
from ..base.programs import run_tool
from .observed_run import ObservedRun, Start
from .rounds import Contender, shuffled

STARTS = 25
"""How often the program that does nothing is started under each allocator."""

NOTHING = "/bin/true"
_SLEEP = "/bin/sleep"
_SLEEPS = 3
_LIMIT_S = 20.0
_NEEDED = re.compile(r"=> (/[^ :]+) \(")


def needed_libraries(path: str) -> list[str]:
    """All that the loader brings with an executable or a library; nothing where that cannot be known."""
    try:
        return _NEEDED.findall(run_tool(["ldd", path]))
    except HeaptapeError:
        return []


def shared_libraries(contenders: list[Contender], executable: str) -> list[str]:
    """What an allocator depends on, such as the C++ library, and the executable brings anyway, costs that nothing: the program that
    does nothing gets it under each."""
    wanted = {path for item in contenders if item.library for path in needed_libraries(item.library)}
    return [path for path in needed_libraries(executable) if path in wanted and "/libc.so" not in path]


def environment_of_nothing(contender: Contender, libraries: list[str]) -> dict[str, str]:
    """For the program that does nothing."""
    preload = ":".join(filter(None, [contender.environment.get("LD_PRELOAD", ""), *libraries]))
    return contender.environment | ({"LD_PRELOAD": preload} if preload else {})


def startup_costs(contenders: list[Contender], executable: str, seed: int, problems: dict[str, str]) -> dict[str, float]:
    """By allocator: the median of the CPU time of a program that does nothing. Adds to the problems."""
    common = shared_libraries(contenders, executable)
    found: dict[str, list[int]] = {item.allocator.name: [] for item in contenders}
    order = random.Random(seed)
    for contender in [item for _ in range(STARTS) for item in shuffled(contenders, order)]:
        name = contender.allocator.name
        if name in problems:
            continue
        try:
            found[name].append(_start_nothing(contender, common))
        except HeaptapeError as error:
            problems[name] = str(error)
    return {name: float(median(values)) for name, values in found.items() if name not in problems}


def _start_nothing(contender: Contender, libraries: list[str]) -> int:
    """CPU time in ns."""
    with ObservedRun(Start([NOTHING], environment_of_nothing(contender, libraries))) as run:
        run.watch(None, _LIMIT_S, NOTHING)
    if run.exit_status:
        raise HeaptapeError(f"{NOTHING} ended with status {run.exit_status}")
    return run.cpu_ns


def library_memory_bytes(contenders: list[Contender], executable: str) -> dict[str, int]:
    """What each preloaded library, with what it depends on and the executable does not bring, adds to the anonymous memory of a
    program: its data. What it has mapped for its heap is not among it."""
    common = shared_libraries(contenders, executable)
    plain = _data_bytes(os.environ | {"LD_PRELOAD": ":".join(common)})
    return {item.allocator.name: max(_data_bytes(environment_of_nothing(item, common)) - plain, 0) for item in contenders if item.library}


def _data_bytes(environment: Mapping[str, str]) -> int:
    """The bytes of data of the mapped files of a program that sleeps. Zero-initialised data are not among it: the kernel joins them with what the
    allocator maps, and what of them an allocator fills is part of its heap in a replay."""
    seen = 0
    with subprocess.Popen([_SLEEP, "0.1"], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sleeper:
        while sleeper.poll() is None:
            try:
                # Until it sleeps it loads, and there is less.
                seen = max(seen, _data_bytes_of(Path(f"/proc/{sleeper.pid}/smaps").read_text()))
            except OSError:
                break
            time.sleep(0.01)
    return seen


def _data_bytes_of(smaps: str) -> int:
    total, of_file = 0, False
    for line in smaps.splitlines():
        words = line.split(maxsplit=5)
        if "-" in words[0]:
            of_file = len(words) > 5 and words[5].startswith("/")
        elif words[0] == "Anonymous:" and of_file:
            total += int(words[1]) * 1024
    return total


def recorder_memory_bytes(heaptape: str, folder: Path) -> int:
    """What the recorder's library adds to the anonymous memory of a program that only sleeps. It is in all that was recorded, and
    in no program that runs without any preloaded library."""
    logs = folder / "idle"
    logs.mkdir(exist_ok=True)
    recorder = [heaptape, "record", "-q", "-o", str(logs), "--"]
    seen: dict[bool, list[int]] = {False: [], True: []}
    for _ in range(_SLEEPS):
        for recorded in seen:
            argv = [*(recorder if recorded else []), _SLEEP, "0.05"]
            with ObservedRun(Start(argv, dict(os.environ)), os.path.basename(os.path.realpath(_SLEEP))) as run:
                run.watch(None, _LIMIT_S, _SLEEP)
            readings = [item.rss_bytes[-1] for item in run.watched if item.rss_bytes]
            seen[recorded] += readings[-1:]
    if not all(seen.values()):
        return 0
    return max(int(median(seen[True]) - median(seen[False])), 0)

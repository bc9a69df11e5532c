"""What starting a program costs under each allocator: loading the library and what it depends on, and its first steps."""

from __future__ import annotations

import re
from statistics import median

from .errors import HeaptapeError
from .observed_run import ObservedRun, Start
from .tuning_replay import run_tool
from .validation_rounds import Contender, Startup, rounds_of

STARTS = 25
"""How often the program that does nothing is started under each allocator."""

_NOTHING = "/bin/true"
_LIMIT_S = 20.0
_NEEDED = re.compile(r"=> (/[^ :]+) \(")


def needed_libraries(path: str) -> list[str]:
    """All that the loader brings with an executable or a library; nothing where that can't be known."""
    try:
        return _NEEDED.findall(run_tool(["ldd", path]))
    except HeaptapeError:
        return []


def startup_costs(contenders: list[Contender], executable: str, seed: int, problems: dict[str, str]) -> dict[str, Startup]:
    """By allocator: the median of the CPU time of a program that does nothing. What an allocator depends on, such as the C++
    library, and the executable brings anyway, costs that nothing: it is loaded under each. Adds to the problems."""
    wanted = {path for item in contenders if item.library for path in needed_libraries(item.library)}
    common = [path for path in needed_libraries(executable) if path in wanted and "/libc.so" not in path]
    found: dict[str, list[tuple[int, int]]] = {item.allocator.name: [] for item in contenders}
    for _, contender in rounds_of(contenders, STARTS, seed):
        name = contender.allocator.name
        if name in problems:
            continue
        try:
            found[name].append(_start_nothing(contender, common))
        except HeaptapeError as error:
            problems[name] = str(error)
    return {name: Startup(median(cpu for cpu, _ in values), max(rss for _, rss in values))
            for name, values in found.items() if name not in problems}


def _start_nothing(contender: Contender, libraries: list[str]) -> tuple[int, int]:
    """CPU time in ns and highest RSS in KiB."""
    preload = ":".join(filter(None, [contender.environment.get("LD_PRELOAD", ""), *libraries]))
    environment = contender.environment | ({"LD_PRELOAD": preload} if preload else {})
    with ObservedRun(Start([_NOTHING], environment)) as run:
        run.watch(None, _LIMIT_S, _NOTHING)
    if run.exit_status:
        raise HeaptapeError(f"{_NOTHING} ended with status {run.exit_status}")
    return run.cpu_ns, run.max_rss_kb

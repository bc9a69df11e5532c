# SPDX-License-Identifier: Apache-2.0
"""From the verdicts on releases, in their order, to the first bad one; and the real program's figures. No replay, no cargo."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOLDS, REFUTED = "holds", "refuted"
POLL_S = 0.005
_ANONYMOUS = re.compile(r"^RssAnon:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Dated:
    """Between which releases a figure became worse. `between`: those in the middle, of which nothing is clear."""

    last_good: str
    first_bad: str
    between: tuple[str, ...]

    def __str__(self) -> str:
        if self.between:
            return f"after {self.last_good}, at the latest in {self.first_bad} (undecided: {', '.join(self.between)})"
        return f"in {self.first_bad}; {self.last_good} is the last good release"


def date(baseline: str, outcomes: list[tuple[str, str]]) -> Dated | None:
    """The first release for which the condition holds, and the last before it for which it is refuted (the baseline, if there is none). None: it
    holds for no release."""
    bad = next((i for i, (_, outcome) in enumerate(outcomes) if outcome == HOLDS), None)
    if bad is None:
        return None
    good = max((i for i in range(bad) if outcomes[i][1] == REFUTED), default=-1)
    return Dated(outcomes[good][0] if good >= 0 else baseline, outcomes[bad][0], tuple(name for name, _ in outcomes[good + 1:bad]))


@dataclass(frozen=True)
class Real:
    """A run of the real program: anonymous memory at its peak and as it ended, CPU time, page faults."""

    peak: float
    end: float
    cpu: float
    faults: float


def run_real(command: list[str], library: Path, who: dict[str, Any], limit_s: float) -> Real:
    """Runs the program with the library preloaded. Raises RuntimeError where it fails."""
    who = who | {"env": who["env"] | {"LD_PRELOAD": str(library)}}
    peak = end = 0
    until = time.monotonic() + limit_s
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who) as process:
        try:
            while True:
                gone, status, usage = os.wait4(process.pid, os.WNOHANG)
                if gone:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    break
                if time.monotonic() > until:
                    raise RuntimeError(f"{command[0]} took more than {limit_s:.0f} s")
                if now := _anonymous_bytes(process.pid):
                    peak, end = max(peak, now), now
                time.sleep(POLL_S)
        except BaseException:
            if process.returncode is None:
                process.kill()
            raise
    if process.returncode:
        raise RuntimeError(f"{command[0]} under {library.name} ended with status {process.returncode}")
    return Real(peak, end, usage.ru_utime + usage.ru_stime, usage.ru_minflt)


def _anonymous_bytes(pid: int) -> int:
    """0 where the process is about to go."""
    try:
        found = _ANONYMOUS.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found.group(1)) * 1024 if found else 0

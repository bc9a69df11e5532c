# SPDX-License-Identifier: Apache-2.0
"""The side of `replay` of the talk with a judge that has started it (analysis/heaptape/judge/attached.py), for figures that a test makes up."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from heaptape.judge.model import Context

Answer = dict[str, Any]


def serve(context: Context, turn: Callable[[Answer], Answer], counts: Callable[[], Answer] | None = None) -> int:
    """turn: the answer to a job of a turn but for what all have. Returns the exit status that the judge gives."""
    line = socket.socket(fileno=int(os.environ["HEAPTAPE_JUDGE_FD"])).makefile("rwb")

    def read() -> Answer:
        found: Answer = json.loads(line.readline())
        return found

    def write(said: Answer) -> None:
        line.write(json.dumps(said).encode() + b"\n")
        line.flush()

    assert read() == {"hello": 1}
    write(asdict(replace(context, machine=replace(context.machine, cores=1))))
    assert read() == {"ready": True}
    write({"refused": 0, "limits": [], "warnings": [], "random": "1"})
    unknown = dict.fromkeys(("busy_s", "own_s", "stolen_s", "throttled_s", "swapped_bytes"))
    while "status" not in (job := read()):
        answer: Answer = {"warnings": [], "interrupted": False, "results_failed": False}
        if job["job"] == "turn":
            answer |= {"random": job["random"]} | turn(job)
        elif job["job"] == "counts" and counts:
            answer |= counts()
        elif job["job"] == "activity":
            answer["activity"] = unknown | {"wall_s": time.monotonic()}
        elif job["job"] == "figures":
            answer["figures"] = [{} for _ in context.choices]
        write(answer)
    return int(job["status"])

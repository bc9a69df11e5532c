# SPDX-License-Identifier: Apache-2.0
"""The line to the runner (replay/jobs/judged_runs.c): one JSON object a line, a job from here, an answer from there."""

from __future__ import annotations

import json
import socket

from .model import Context, Json


class Ended(Exception):
    """The runner is gone: nobody waits for a word of ours."""


class Talk:
    """Answers leave these behind: interrupted, the user asked to stop; results_failed, a line of results could not be written."""

    def __init__(self, line: socket.socket) -> None:
        self._file = line.makefile("rwb")
        self.interrupted = False
        self.results_failed = False

    def write(self, said: Json) -> None:
        try:
            self._file.write(json.dumps(said, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise Ended from error

    def read(self) -> Json:
        try:
            line = self._file.readline()
        except OSError as error:  # it ended with a word of ours unread
            raise Ended from error
        if not line.endswith(b"\n"):
            raise Ended
        found: Json = json.loads(line)
        return found

    def meet(self) -> Context:
        """Both first say hello; the runner says of itself what is returned."""
        self.write({"hello": 1})
        return Context.of(self.read())

    def ask(self, job: str, **details: object) -> Json:
        self.write({"job": job, **details})
        answer = self.read()
        self.interrupted = bool(answer["interrupted"])
        self.results_failed = bool(answer["results_failed"])
        return answer

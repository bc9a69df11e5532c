# SPDX-License-Identifier: Apache-2.0
"""A fleet's results: whole rounds in one file, which only the process that runs the verb writes."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ..base.errors import HeaptapeError, ResultsError, UsageError
from ..base.files import final_path, refuse_inputs
from ..results.schema import SchemaError, is_count, parse_line
from .plan import Plan
from .unit import Outcome, Unit, builds_here, file_sha256, terms_of

Key = tuple[str, str, int]

_LINE_BEGIN = b'{"schema":'

# All that a summary needs: the curves of thousands of runs would fill the memory.
_KEPT = ("allocator", "pass", "round", "seed", "control", "failures", "problem", "host", "configuration", "alloc_time_ns",
         "rss_peak_bytes", "rss_mean_bytes", "rss_end_bytes", "process_rss_peak_bytes", "baseline_check", "counts")


def key_of(row: dict[str, Any]) -> Key:
    """The unit that a line of results belongs to."""
    return row["trace"]["sha256"], row["configuration"], row["round"]


def _check_key(row: dict[str, Any]) -> None:
    """Checks the key that a plain line of replay's does not have. Raises SchemaError."""
    fleet = row.get("fleet")
    if not isinstance(fleet, dict) or not is_count(fleet.get("lines")):
        raise SchemaError('expected an object "fleet" with a number of lines')
    if not (isinstance(row.get("configuration"), str) and isinstance(row["trace"].get("sha256"), str)):
        raise SchemaError('expected a text "configuration" and the trace\'s "sha256"')


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Number, size in bytes and content of each whole line; a last one that was cut short is none, but begins as one."""
    file.seek(0)
    for number, line in enumerate(file, start=1):
        if not line.endswith(b"\n") and line.startswith(_LINE_BEGIN[: len(line)]):
            return
        try:
            row = parse_line(line)
            _check_key(row)
        except SchemaError as error:
            raise ResultsError(path, number, f"expected a line of a fleet's results; name another file by -o ({error})") from error
        yield number, len(line), row


class FleetResults:
    """The results file, open for appending; nobody else writes it meanwhile.

    `done` holds the units that the file has whole, and whether a run of theirs failed; `rows` what the summary needs.
    A round of which lines are missing, as where the machine went down, is removed, and so are, if asked for, those with
    failed runs."""

    def __init__(self, path: Path, plan: Plan, retry_failed: bool = False) -> None:
        self.path = final_path(path)
        refuse_inputs(path, [plan.path, *(trace.path for trace in plan.traces)])
        self.done: dict[Key, bool] = {}
        self.rows: list[dict[str, Any]] = []
        self._file = self._open()
        try:
            self._read(plan, retry_failed)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> FleetResults:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _open(self) -> BinaryIO:
        try:
            if self.path.exists() and not self.path.is_file():
                raise UsageError(f"{self.path}: expected a regular file, as fleet reads it too")
            file = open(self.path, "a+b", buffering=0)
        except OSError as error:
            raise HeaptapeError(f"{self.path}: cannot write: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise HeaptapeError(f"{self.path}: another heaptape fleet is writing it") from error
        return file

    def _reader(self) -> BinaryIO:
        return open(self.path, "rb")

    def _read(self, plan: Plan, retry_failed: bool) -> None:
        terms = {(trace.sha256, configuration.name): terms_of(configuration, plan.allocators, plan.baseline, plan.baseline_files.get(trace.sha256))
                 for configuration in plan.configurations for trace in plan.traces}
        counts: Counter[Key] = Counter()
        expected: dict[Key, int] = {}
        failed: set[Key] = set()
        kept: list[tuple[Key, dict[str, Any]]] = []
        builds = _Builds(plan)
        with self._reader() as file:
            for number, _, row in _lines(self.path, file):
                key = key_of(row)
                counts[key] += 1
                expected[key] = row["fleet"]["lines"]
                if row.get("problem"):
                    failed.add(key)
                if key[:2] in terms:
                    self._check_terms(number, row, terms[key[:2]])
                    builds.check(self.path, number, row)
                    kept.append((key, _light(row)))
        for key, count in counts.items():
            if count > expected[key]:
                raise ResultsError(self.path, 0, f"round {key[2] + 1} of trace {key[0][:12]} is there twice")
        dropped = {key for key, count in counts.items() if count < expected[key]} | (failed if retry_failed else set())
        self.done = {key: key in failed for key in counts if key not in dropped}
        self.rows = [row for key, row in kept if key not in dropped]
        self._drop(dropped)

    def _check_terms(self, number: int, row: dict[str, Any], terms: dict[str, Any]) -> None:
        for name, value in terms.items():
            if row["fleet"].get(name) != value:
                raise ResultsError(self.path, number, f"was measured with another {name} than the plan's; name another "
                                                      "file by -o")

    def _drop(self, dropped: set[Key]) -> None:
        """Remove lines, and what stands behind the last whole one: a copy without them takes the file's place."""
        size, whole = os.fstat(self._file.fileno()).st_size, 0
        with self._reader() as file:
            for _, length, _ in _lines(self.path, file):
                whole += length
        if not dropped and whole == size:
            return
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            # Locked before it has its name, so that nobody finds it free.
            copy = open(temporary, "a+b", buffering=0)
            fcntl.flock(copy, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with self._reader() as file:
                for line in file:
                    if line.endswith(b"\n") and key_of(json.loads(line)) not in dropped:
                        _write_all(copy, line)
            os.fsync(copy.fileno())
            os.replace(temporary, self.path)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise HeaptapeError(f"{self.path}: cannot write: {error.strerror}") from error
            raise
        self._file.close()
        self._file = copy

    def add(self, unit: Unit, outcome: Outcome) -> None:
        """Append a unit's lines, all or none; of one that is there already, nothing."""
        if unit.key in self.done or not outcome.lines:
            return
        size = os.fstat(self._file.fileno()).st_size
        try:
            _write_all(self._file, "".join(outcome.lines).encode())
        except OSError as error:
            os.ftruncate(self._file.fileno(), size)
            raise HeaptapeError(f"{self.path}: cannot write: {error.strerror}; run the same command to resume") \
                from error
        self.done[unit.key] = bool(outcome.problems)
        self.rows += [_light(json.loads(line)) for line in outcome.lines]


class _Builds:
    """The allocators as they are on this machine now. Rounds that were measured here with other builds are not the plan's,
    whatever their names; those of other machines have builds of their own, which the summary names."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._host = plan, socket.gethostname()
        self._files: dict[str, str] = {}
        self._now: dict[str, str] | None = None

    def check(self, path: Path, number: int, row: dict[str, Any]) -> None:
        """Raises ResultsError where the row is of another build."""
        if row.get("host") != self._host:
            return
        identity = row["allocator"]
        was, now = self._identities(str(identity["name"]), identity.get("build_id") or "", identity.get("path") or "", row)
        if was and now and was != now:
            raise ResultsError(path, number, f"was measured with another build of {identity['name']} ({was[:12]}, now {now[:12]}); "
                                             "name another file by -o")

    def _identities(self, name: str, build_id: str, path: str, row: dict[str, Any]) -> tuple[str, str]:
        if build_id:
            if self._now is None:
                self._now = builds_here(self._plan)
            return build_id, self._now.get(name, "")
        files = row["fleet"].get("files")
        was = str(files.get(path) or "") if isinstance(files, dict) else ""
        if was and path not in self._files:
            self._files[path] = file_sha256(path)
        return was, self._files.get(path, "")


def _write_all(file: BinaryIO, data: bytes) -> None:
    while data:
        data = data[file.write(data):]


def _light(row: dict[str, Any]) -> dict[str, Any]:
    light = {name: row.get(name) for name in _KEPT}
    identity = row["allocator"]
    return light | {"allocator": identity["name"], "version": identity.get("version") or "",
                    "build_id": identity.get("build_id") or "", "trace_sha256": row["trace"]["sha256"], "forked": row["trace"].get("forked") is True}

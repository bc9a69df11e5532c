# SPDX-License-Identifier: Apache-2.0
"""The plan of a fleet: which traces, allocators and configurations, how many rounds (docs/reference/fleet.md)."""

from __future__ import annotations

import glob
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import EXIT_BAD_INPUT, HeaptapeError
from ..base.files import sha256_of
from ..judge.baseline_file import BaselineFileError
from .baselines import BaselineFile, read_baseline

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROUNDS = 10
SEED = 1
DEFAULT_CONFIGURATION = "default"

# Options of replay that a configuration may set, and of what type each is in a plan; replay itself checks the values.
_TEXT, _FLAG = (str, int, float), (bool,)
OPTIONS: dict[str, tuple[type, ...]] = {
    "pass": _TEXT, "touch": _TEXT, "touch-free": _TEXT, "threads": _TEXT, "pace": _TEXT, "scale": _TEXT,
    "repeats": _TEXT, "window-ns": _TEXT, "pollute": _TEXT, "points": _TEXT, "timeout": _TEXT, "max-live": _TEXT,
    "decoded-memory": _TEXT, "wrap": _TEXT, "thp": _TEXT, "cpus": _TEXT, "instructions": _FLAG, "verify": _FLAG,
}
_KEYS = ("traces", "allocators", "rounds", "baseline", "baseline-files", "seed", "options", "configurations")


class PlanError(HeaptapeError):
    """A plan that cannot be run: names the file, the key and what was expected there."""

    exit_status = EXIT_BAD_INPUT

    def __init__(self, path: Path, key: str, why: str) -> None:
        super().__init__(f"{path}: {key}: {why}" if key else f"{path}: {why}")


@dataclass(frozen=True)
class TraceFile:
    """A trace of the plan; the name is short and no other trace's."""

    name: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Configuration:
    """A way to replay: a name, and options of replay."""

    name: str
    options: dict[str, Any]

    @property
    def has_rounds(self) -> bool:
        """Whether replay compares in rounds; it refuses options of rounds and of the comparison where it does not."""
        return self.options.get("pass", "both") in ("time", "memory", "both")

    def arguments(self, number: int = 0) -> list[str]:
        """The options as replay wants them in a round. Instructions are the same in each: the first alone counts them, beside
        passes of rounds."""
        counts = number == 0 or self.options.get("pass") == "count"
        return [f"--{key}" if value is True else f"--{key}={value}"
                for key, value in self.options.items() if value is not False and (counts or key != "instructions")]


@dataclass(frozen=True)
class Plan:
    """A plan of runs. `allocators` are specs as in --alloc, without `all` (see `with_allocators`)."""

    path: Path
    traces: list[TraceFile]
    allocators: list[str]
    configurations: list[Configuration]
    rounds: int
    baseline: str
    seed: int
    baseline_files: dict[str, BaselineFile] = field(default_factory=dict)
    """By the trace's sha256: of every trace or of none."""

    @property
    def names(self) -> list[str]:
        """The allocators' names in results."""
        return [allocator_name(spec) for spec in self.allocators]


def allocator_name(spec: str) -> str:
    """What replay calls the allocator that it is asked for by `spec`: its label, else the spec itself."""
    label, equals, _ = spec.partition("=")
    return label if equals and label and not spec.startswith("/") and ":" not in label else spec


def read_plan(path: Path, built: list[str], rounds: int | None = None) -> Plan:
    """The plan, checked as far as one can without replay. `built` is what `all` stands for; `rounds` overrides the
    plan's. Raises PlanError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(path, "", f"cannot read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(path, "", f"expected TOML: {error}") from error
    for key in table:
        if key not in _KEYS:
            raise PlanError(path, key, f"expected a key of a plan, one of {', '.join(_KEYS)}")
    allocators = _allocators(path, table.get("allocators", ["all"]), built)
    names = [allocator_name(spec) for spec in allocators]
    baseline = table.get("baseline", "glibc" if "glibc" in names else names[0])
    if baseline not in names:
        raise PlanError(path, "baseline", f"expected one of the allocators {', '.join(names)}, found {baseline!r}")
    traces, configurations = _traces(path, table.get("traces")), _configurations(path, table)
    if "baseline-files" in table and ("baseline" in table or len(configurations) > 1):
        raise PlanError(path, "baseline-files", "expected it without " + ("baseline" if "baseline" in table else "several configurations"))
    return Plan(
        path=path, traces=traces, allocators=allocators, baseline=baseline, configurations=configurations,
        baseline_files=_baseline_files(path, table["baseline-files"], traces, names) if "baseline-files" in table else {},
        rounds=rounds or _whole(path, "rounds", table.get("rounds", ROUNDS), 1),
        seed=_whole(path, "seed", table.get("seed", SEED), 0))


def _whole(path: Path, key: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlanError(path, key, f"expected a whole number of at least {least}, found {value!r}")
    return value


def _texts(path: Path, key: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        raise PlanError(path, key, "expected a list of texts" + (", with one at least" if value == [] else ""))
    return value


def _traces(path: Path, value: Any) -> list[TraceFile]:
    if value is None:
        raise PlanError(path, "traces", "missing: expected a list of files or patterns")
    found: dict[str, None] = {}
    for number, pattern in enumerate(_texts(path, "traces", value)):
        whole = os.path.join(path.parent.resolve(), os.path.expanduser(pattern))
        matches = sorted(glob.glob(whole, recursive=True)) if glob.has_magic(pattern) else [whole]
        if not matches:
            raise PlanError(path, f"traces[{number}]", f"no file matches {pattern}")
        for match in matches:
            try:
                found[os.path.realpath(match)] = None
                digest = _sha256(match)
            except OSError as error:
                raise PlanError(path, f"traces[{number}]", f"{pattern}: cannot read: {error.strerror}") from error
            if digest is None:
                raise PlanError(path, f"traces[{number}]", f"{pattern}: no file")
    return _named(path, list(found))


def _named(path: Path, files: list[str]) -> list[TraceFile]:
    traces: dict[str, TraceFile] = {}
    names = [Path(file).stem for file in files]
    for file, stem in zip(files, names, strict=True):
        name = stem if names.count(stem) == 1 else file
        digest = _sha256(file) or ""
        if digest in traces:
            raise PlanError(path, "traces", f"{file} and {traces[digest].path} are the same trace")
        traces[digest] = TraceFile(name, file, digest)
    return list(traces.values())


def _sha256(file: str) -> str | None:
    if not os.path.isfile(file):
        if not os.path.exists(file):
            raise FileNotFoundError(2, os.strerror(2), file)
        return None
    return sha256_of(file)


def _baseline_files(path: Path, value: Any, traces: list[TraceFile], names: list[str]) -> dict[str, BaselineFile]:
    """A text with {trace} in it, or a table by the trace's name."""
    if isinstance(value, str) and "{trace}" in value:
        value = {trace.name: value.replace("{trace}", Path(trace.path).stem) for trace in traces}
    if not isinstance(value, dict) or not all(isinstance(file, str) and file for file in value.values()):
        raise PlanError(path, "baseline-files", "expected a table of files by the traces' names, or a text with {trace} for the name")
    if odd := sorted(set(value) ^ {trace.name for trace in traces}):
        raise PlanError(path, "baseline-files", f"expected a file for each trace and no other, {'found' if odd[0] in value else 'missing'}: {odd[0]}")
    found = {}
    for trace in traces:
        file = value[trace.name]
        try:
            found[trace.sha256] = read_baseline(file, path.parent.resolve() / os.path.expanduser(file), trace.sha256, names)
        except BaselineFileError as error:
            raise PlanError(path, f"baseline-files.{trace.name}", str(error)) from error
    return found


def _allocators(path: Path, value: Any, built: list[str]) -> list[str]:
    specs: list[str] = []
    for number, spec in enumerate(_texts(path, "allocators", value)):
        key = f"allocators[{number}]"
        if "," in spec and ":" not in spec:
            raise PlanError(path, key, f"{spec!r}: expected one allocator in each text")
        if spec == "null":
            raise PlanError(path, key, "null is always replayed")
        names = [allocator_name(known) for known in specs]
        if spec == "all":
            specs += [name for name in built if name not in names]
        elif allocator_name(spec) in names:
            raise PlanError(path, key, f"{allocator_name(spec)} is named twice")
        else:
            specs.append(_absolute(path, spec))
    if not specs:
        raise PlanError(path, "allocators", "none is built")
    return specs


def _absolute(path: Path, spec: str) -> str:
    """Paths of libraries are relative to the plan; a spec has one where there is a slash before any knob."""
    label = allocator_name(spec) if allocator_name(spec) != spec else ""
    what = spec[len(label) + 1:] if label else spec
    if "/" not in what.partition(":")[0] or what.startswith("/"):
        return spec
    return f"{label}=" * bool(label) + os.path.normpath(os.path.join(path.parent.resolve(), what))


def _configurations(path: Path, table: dict[str, Any]) -> list[Configuration]:
    common = _options(path, "options", table.get("options", {}))
    found = table.get("configurations", {DEFAULT_CONFIGURATION: {}})
    if not isinstance(found, dict) or not found:
        raise PlanError(path, "configurations", "expected tables, such as [configurations.NAME]")
    return [Configuration(name, common | _options(path, f"configurations.{name}", options))
            for name, options in found.items()]


def _options(path: Path, key: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise PlanError(path, key, "expected a table of options of replay")
    for name, value in table.items():
        if name not in OPTIONS:
            raise PlanError(path, f"{key}.{name}", f"expected an option for a fleet, one of {', '.join(OPTIONS)}")
        flag = OPTIONS[name] == _FLAG
        if isinstance(value, bool) != flag or not isinstance(value, OPTIONS[name]):
            raise PlanError(path, f"{key}.{name}", f"expected {'true or false' if flag else 'a text or number'}")
    return dict(table)

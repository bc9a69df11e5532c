# SPDX-License-Identifier: Apache-2.0
"""What is judged: what the runner says of plan, trace and allocators, and the cells of all rounds. A figure that is not known
is NaN here, and null in JSON."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

Made = TypeVar("Made")
Json = dict[str, Any]

CHOICE_NULL = 0
"""Who takes a turn: the null replayer is 0, the allocators 1 to their number, the baseline's second run one more."""


@dataclass(frozen=True)
class FigureWords:
    """A figure by which allocators are compared, less being better."""

    name: str
    key: str
    of_time: bool
    less: str
    more: str


FIGURES = (
    FigureWords("time", "alloc_time_ns", True, "faster", "slower"),
    FigureWords("rss_peak", "rss_peak_bytes", False, "smaller", "larger"),
    FigureWords("rss_mean", "rss_mean_bytes", False, "smaller", "larger"),
    FigureWords("rss_end", "rss_end_bytes", False, "smaller", "larger"),
    FigureWords("process_rss_peak", "process_rss_peak_bytes", False, "smaller", "larger"),
)
TIME, PEAK, MEAN, END, PROCESS = FIGURES


def known(value: float | None) -> float:
    """NaN where it is null."""
    return math.nan if value is None else float(value)


def with_bytes(found: Any) -> Any:
    """Python's form of what is no UTF-8, such as a path: the runner sends its bytes as characters."""
    if isinstance(found, dict):
        if found.keys() == {"latin1"}:
            return str(found["latin1"]).encode("latin-1").decode("utf-8", "surrogateescape")
        return {key: with_bytes(value) for key, value in found.items()}
    return [with_bytes(value) for value in found] if isinstance(found, list) else found


def made(kind: type[Made], found: Mapping[str, Any]) -> Made:
    """A dataclass of the keys that are its fields: what is a float there and null in JSON is NaN."""
    values = {}
    for item in fields(kind):  # type: ignore[arg-type]
        value = found[item.name]
        values[item.name] = known(value) if item.type == "float" else value
    return kind(**values)


@dataclass(frozen=True)
class Condition:
    """A condition of --fail-if. figure: the name of one of FIGURES; else counted: a key of the simulation's counts."""

    text: str
    figure: str | None
    counted: str | None
    of_calls: bool
    function: str
    size_bytes: int | None
    above: bool
    inclusive: bool
    limit: float


@dataclass(frozen=True)
class Plan:
    """The plan that was asked for. rounds, repeats: 0 is auto; budget_ns, processors, purge_ns: 0 is none. latest_ns: when the first rounds end
    at the latest, if there is a budget; loading_ns: of it, what is over when this is said. thp: the mode asked for, or
    None. *_real: real ns that pass for a ns of the trace, 0 where nothing waits."""

    trace_path: str
    results_path: str | None
    baseline_file: str | None
    write_baseline: str | None
    rounds: int
    budget_ns: int
    repeats: int
    repeats_max: int
    seed: int
    layouts: int
    layout_fixed: bool
    time_pass: bool
    memory_pass: bool
    count_pass: bool
    instructions: bool
    verbose: bool
    quiet: bool
    json: bool
    scale: int
    processors: int
    thp: str | None
    time_real: float
    memory_real: float
    age_occupancy: float
    aged_blocks: int
    aged_kept_bytes: int
    pollutes: bool
    touch: str
    budget_given: bool = False
    latest_ns: int = 0
    loading_ns: int = 0

    @property
    def in_rounds(self) -> bool:
        """Whether allocators are measured in rounds; else some are counted alone."""
        return self.time_pass or self.memory_pass


@dataclass(frozen=True)
class Trace:
    """The figures are those of all copies; the threads are the replay's."""

    calls: int
    usable_size_calls: int
    inherited_objects: int
    has_prelude: bool
    streamed: bool
    threads: int
    fresh_objects: int
    touched_peak_bytes: int
    zeroed_peak_bytes: int
    unmeasured_peak_bytes: int


@dataclass(frozen=True)
class Program:
    """The recorded program. share_words: where most of its memory is not malloc's, what that is; else empty."""

    command: str
    allocator: str
    allocator_version: str
    linked: bool
    forked: bool
    has_samples: bool
    sliced: bool
    rss_peak_bytes: float
    heap_peak_bytes: float
    heap_low_bytes: float
    heap_high_bytes: float
    cpu_ns: float
    thp: str
    lost_calls: int
    anomalies: int
    foreign_frees: int
    repairs: int
    extended_words: str
    share_words: str
    share_anon_bytes: int
    share_explained_bytes: int
    share_own_bytes: int


@dataclass(frozen=True)
class Choice:
    """An allocator that takes part. shown: its name with the settings of the recorded program; serves: it is the one that
    the program ran under; refusal: what it refuses of the program's calls, in words."""

    name: str
    shown: str
    version: str
    path: str
    build_id: str
    settings: Json
    serves: bool
    purges_soon: bool
    is_floor: bool
    by_processors: str | None
    lacks_operators: bool
    skips_queries: bool
    refusal: str
    refused_calls: int


@dataclass(frozen=True)
class Machine:
    """thp: the mode of transparent huge pages in all runs, empty where not known; thp_choices: those that a process can ask for."""

    cores: int
    governor: str
    turbo: bool | None
    turbo_off: str
    thp: str
    thp_choices: list[str]


@dataclass(frozen=True)
class Warning:
    """kind: its name in JSON."""

    kind: str
    message: str
    remedy: str


@dataclass(frozen=True)
class ControlCall:
    """A control call of the program (mallopt, madvise). changes: it changes what an allocator does; is_kernels: the kernel obeys it,
    whoever serves; obeyed_by: names of allocators."""

    name: str
    calls: int
    changes: bool
    is_kernels: bool
    obeyed_by: list[str]


@dataclass(frozen=True)
class Context:
    """All that is known before the first round. cpus: to pin the time runs of a round to one of; none where they are not pinned.
    baseline_facts: what --baseline-file has to have in common with this run."""

    version: str
    plan: Plan
    trace: Trace
    program: Program
    choices: list[Choice]
    baseline: int
    machine: Machine
    cpus: list[int]
    conditions: list[Condition]
    control_calls: list[ControlCall]
    baseline_facts: Json

    @staticmethod
    def of(found: Json) -> Context:
        """From the runner's line of JSON."""
        found = with_bytes(found)
        return Context(found["version"], made(Plan, found["plan"]), made(Trace, found["trace"]), made(Program, found["program"]),
                       [made(Choice, one) for one in found["choices"]], found["baseline"], made(Machine, found["machine"]),
                       found["cpus"], [made(Condition, one) for one in found["conditions"]],
                       [made(ControlCall, one) for one in found["control_calls"]], found["baseline_facts"])


@dataclass
class Cell:
    """The showing of one participant in one round: the line of results of each pass, None where it did not run or failed, and
    `exact`, the figures that the line has rounded, by the same keys."""

    time: Json | None = None
    memory: Json | None = None
    exact_time: Json = field(default_factory=dict)
    exact_memory: Json = field(default_factory=dict)

    def figure(self, key: str, *, of_time: bool) -> Any:
        """The figure of a pass, as JSON has it; None if it is not known."""
        line, exact = (self.time, self.exact_time) if of_time else (self.memory, self.exact_memory)
        if line is None:
            return None
        return exact[key] if key in exact else line[key]

    def value(self, key: str, *, of_time: bool) -> float:
        """A figure of a pass that is a number; NaN where it is not known."""
        return known(self.figure(key, of_time=of_time))

    def faults(self, *, of_time: bool) -> float:
        """Minor and major."""
        return self.value("minor_faults", of_time=of_time) + self.value("major_faults", of_time=of_time)


@dataclass
class Failing:
    """Runs of an allocator that failed. rounds_in_a_row: with a failure each, up to last_round."""

    runs: int = 0
    failed: int = 0
    rounds_in_a_row: int = 0
    last_round: int = -1
    problem: str = ""


@dataclass
class Measurements:
    """All cells: rounds[number][who], see CHOICE_NULL. figures: for each choice what is known of it besides rounds, as JSON.
    counts: of the simulation, by the allocator's name; None: nothing was counted."""

    rounds: list[list[Cell]] = field(default_factory=list)
    figures: list[Json] = field(default_factory=list)
    failing: list[Failing] = field(default_factory=list)
    failed_runs: int = 0
    repeats: int = 0
    counts: Json | None = None
    limits: list[Json | None] = field(default_factory=list)
    """The limit pass of each choice, as results have it; empty if it did not run."""

    def values(self, who: int, words: FigureWords) -> list[float]:
        """One for each round."""
        return [cells[who].value(words.key, of_time=words.of_time) for cells in self.rounds]


HIDDEN_SHARE = 0.1
"""If a greater share of the rounds is hidden, the median is off by more than 1 % (docs/method/method.md)."""


@dataclass(frozen=True)
class Interval:
    """The median of paired ratios and its interval; count: of how many. NaN where there is nothing to compare with. hidden: the
    share of rounds in which the harness hides one of the two figures."""

    estimate: float
    low: float
    high: float
    count: int
    hidden: float = 0.0

    @property
    def is_hidden(self) -> bool:
        """Whether that is so in too many rounds for a verdict."""
        return self.hidden >= HIDDEN_SHARE


LESS, MORE, SAME, UNRESOLVED, NONE = "less", "more", "same", "unresolved", "none"


@dataclass(frozen=True)
class Estimate:
    """One figure of one allocator. ratio: to the baseline, as shown; widened: by the control, what the verdict (LESS, MORE, SAME,
    UNRESOLVED; NONE: nothing to compare) goes by; more_rounds: about how many would resolve it, NaN unless unresolved;
    outliers: rounds whose run stands out."""

    median: float
    minimum: float
    ratio: Interval
    widened: Interval
    verdict: str
    more_rounds: float
    outliers: list[int]


@dataclass(frozen=True)
class Interim:
    """The result of an analysis on the way: base_ns is the baseline's median time, estimates have time and peak RSS, by the names of
    FIGURES, of each other allocator."""

    base_ns: float
    estimates: Mapping[str, Mapping[str, Estimate]]


Matters = Callable[[Interim], Collection[str]]
"""Says in which figures more rounds may matter to whoever asked for the replay."""


@dataclass(frozen=True)
class FunctionFigures:
    """Calls of one function, and medians of the time of all of them together and of the first touch of what they returned."""

    count: int
    time_ns: float
    touch_ns: float


@dataclass(frozen=True)
class AllocatorEstimates:
    """Medians over the rounds. unwatched: why RSS was not read within calls in some run; None: it was in all."""

    time_runs: int
    memory_runs: int
    estimates: dict[str, Estimate]
    """By the names of FIGURES."""
    rss_between_calls_peak: float
    unwatched: str | None
    ns_per_call: float
    faults: float
    wait_ns: float
    fragmentation: list[float]
    functions: dict[str, FunctionFigures]

    @property
    def peaks_within_call(self) -> bool:
        """Whether its peak lies between two readings, within a call as a rule, in which more was resident than at any reading."""
        return self.rss_between_calls_peak < 0.95 * self.estimates["rss_peak"].median


@dataclass(frozen=True)
class Comparison:
    """All runs set against each other. check: baseline_check of the round whose peak error is the median, or None; harness_ns,
    null_rss_bytes, clock_cost_ns: the null replayer's medians; controls: by the names of FIGURES, the ratio of the
    baseline's second run to its first."""

    context: Context
    measurements: Measurements
    allocators: list[AllocatorEstimates]
    controls: dict[str, Interval]
    check: Json | None
    harness_ns: float
    null_rss_bytes: float
    clock_cost_ns: float
    timed_calls: int
    warnings: list[Warning] = field(default_factory=list)
    earlier: Json | None = None
    """"allocators" of --baseline-file: the run to compare with instead of the baseline."""
    spent_s: float = math.nan
    """How long warm-up and rounds took."""

    @property
    def names(self) -> list[str]:
        return [choice.name for choice in self.context.choices]

    @property
    def rounds(self) -> int:
        return len(self.measurements.rounds)

    @property
    def controlled(self) -> bool:
        """The baseline ran twice in each round."""
        return len(self.context.choices) > 1

    def instructions(self, choice: int) -> float:
        """In calls of the allocator; NaN where not counted."""
        counts = (self.measurements.counts or {}).get(self.names[choice]) or {}
        return known((counts.get("allocator") or {}).get("instructions"))


# ---- the line to the runner (replay/jobs/judged_runs.c): one JSON object a line, a job from here, an answer from there ----

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

# SPDX-License-Identifier: Apache-2.0
"""The search itself: the front, which configuration is tried next, and a study in SQLite that outlives its process."""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import EXIT_BAD_INPUT, HeaptapeError, UsageError
from ..results.comparison import SAME_WITHIN
from .space import KNOBS_SET_MAX, Config, SearchedKnob, config_text

if TYPE_CHECKING:
    import optuna


Point = Sequence[float]


def dominates(one: Point, other: Point) -> bool:
    """Whether one is nowhere worse than the other and somewhere better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and any(a < b for a, b in zip(one, other, strict=True))


def front_of(points: Sequence[Point]) -> list[int]:
    """Indices of the points that no other dominates, in their order; of equal points the first."""
    return [i for i, one in enumerate(points)
            if not any(dominates(other, one) for other in points) and one not in points[:i]]


def simplest_front(points: Sequence[Point], sizes: Sequence[int], tolerance: float) -> list[int]:
    """Indices of a front on which whatever is larger has to be a gain: the smallest come first, and what is in no objective
    better by more than the tolerance (a share) than one of those before it is left out."""
    kept: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (sizes[i], points[i])):
        if not any(all(a <= b * (1 + tolerance) for a, b in zip(points[j], points[i], strict=True)) for j in kept):
            kept.append(i)
    kept.sort()
    return [kept[i] for i in front_of([points[i] for i in kept])]


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """What is dominated by the points within the reference: the area for two objectives, and so on. By slices along the
    last objective, which is quick enough for a few dozen points."""
    inside = [point for point in points if all(a < b for a, b in zip(point, reference, strict=True))]
    if not inside:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(point[0] for point in inside)
    inside.sort(key=lambda point: point[-1])
    total = 0.0
    for i, point in enumerate(inside):
        above = inside[i + 1][-1] if i + 1 < len(inside) else reference[-1]
        if above > point[-1]:
            total += (above - point[-1]) * hypervolume([other[:-1] for other in inside[: i + 1]], reference[:-1])
    return total


def spread(points: Sequence[Point], count: int) -> list[int]:
    """Indices of at most so many points of a front that together dominate the most, the best first: one after the
    other is taken that adds most to the volume that they dominate."""
    if len(points) <= count:
        return list(range(len(points)))
    reference = [1.1 * max(values) for values in zip(*points, strict=True)]
    taken: list[int] = []
    while len(taken) < count:
        rest = [i for i in range(len(points)) if i not in taken]
        taken.append(max(rest, key=lambda i: hypervolume([points[j] for j in [*taken, i]], reference)))
    return taken


SCREENED_SHARE = 3
"""One trial in so many of those planned varies one knob at a time before the sampler takes over."""

SIMPLIFIED_SHARE = 3
"""In the last of so many parts of those planned every other trial leaves knobs of a good configuration out."""

CHANGED_IN_SCREENING = 2
ASKED_IN_VAIN_MAX = 20
REFUSALS_UNTIL_HOPELESS = 2
CANNOT_WRITE = ("database or disk is full", "disk I/O error")
"""SQLite's words then; Python 3.10 does not have its error codes."""

_NAME = "heaptape"
_IDENTITY, _CONFIG, _RATIOS, _PROBLEM, _ENVIRONMENT = "identity", "config", "ratios", "problem", "environment"


class StudyError(HeaptapeError):
    """The file is no study of ours."""

    exit_status = EXIT_BAD_INPUT


@dataclass(frozen=True)
class Trial:
    """A configuration that was tried: its objectives as ratios to the default, or why there are none."""

    number: int
    config: Config
    ratios: tuple[float, ...] | None
    problem: str = ""
    environment: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return self.number

    @property
    def label(self) -> str:
        return f"trial-{self.number}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else may work on the study: two searches on one machine would disturb each other's measurements."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise HeaptapeError(f"{path}: cannot write: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HeaptapeError(f"{path}: another heaptape tune uses this study") from error
        yield
        if os.fstat(handle).st_size == 0:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


class Study:
    """What was tried so far, kept in SQLite by Optuna, and what is to be tried next. Numbers of trials are Optuna's."""

    def __init__(self, study: optuna.Study, space: list[SearchedKnob], planned: int) -> None:
        self._study, self._space, self._planned = study, space, planned
        self._measured = {config_text(trial.config) for trial in self.trials()}
        self._refused: dict[tuple[str, str], int] = {}
        self._worked: set[tuple[str, str]] = set()
        for trial in self.trials():
            self._learn(trial)

    def trials(self) -> list[Trial]:
        """Those that were measured or refused, in order; not those that were cut short."""
        found = []
        for trial in self._study.get_trials(deepcopy=False):
            config = trial.user_attrs.get(_CONFIG)
            ratios, problem = trial.user_attrs.get(_RATIOS), trial.user_attrs.get(_PROBLEM, "")
            if config is not None and trial.state.is_finished() and (ratios or problem):
                found.append(Trial(trial.number, config, tuple(ratios) if ratios else None, problem,
                                   tuple(trial.user_attrs.get(_ENVIRONMENT, ()))))
        return found

    def front(self) -> list[Trial]:
        """The trials that no other, nor the default, was better than in all objectives, nor as good with fewer knobs."""
        good = [(trial, trial.ratios) for trial in self.trials() if trial.ratios]
        if not good:
            return []
        points = [(1.0,) * len(good[0][1]), *(ratios for _, ratios in good)]
        sizes = [0, *(len(trial.config) for trial, _ in good)]
        return [good[i - 1][0] for i in simplest_front(points, sizes, SAME_WITHIN) if i > 0]

    def next(self) -> tuple[optuna.trial.Trial, Config] | None:
        """A configuration that was not tried before and is not known to be refused; None if none is found any more. Where
        the sampler has none, a neighbour of the front is taken."""
        simpler = self._simpler(random.Random(len(self._measured)))
        if simpler is not None:
            self._study.enqueue_trial(_params(self._space, simpler))
        for _ in range(ASKED_IN_VAIN_MAX):
            trial = self._study.ask()
            config = {}
            for knob in self._space:
                value = _suggest(trial, knob)
                if value is not None:
                    config[knob.name] = value
            if self._is_new(config):
                trial.set_user_attr(_CONFIG, config)
                return trial, config
            self._close(trial)
            near = self._near_front(random.Random(trial.number))
            if near is None:
                return None
            self._study.enqueue_trial(_params(self._space, near))
        return None

    def _is_new(self, config: Config) -> bool:
        return 0 < len(config) <= KNOBS_SET_MAX and config_text(config) not in self._measured \
            and not any(self._hopeless(pair) for pair in config.items())

    def _simpler(self, rng: random.Random) -> Config | None:
        """Towards the end every other trial checks whether a configuration of the front needs all of its knobs: the sampler
        sets many that make no difference. None when it is not the time, or nothing to check."""
        done = len(self._measured)
        if done < self._planned - self._planned // SIMPLIFIED_SHARE or done % 2:
            return None
        front = [trial for trial in self.front() if len(trial.config) > 1]
        for trial in rng.sample(front, len(front)):
            kept = set(rng.sample(list(trial.config), len(trial.config) // 2))
            config = {name: value for name, value in trial.config.items() if name in kept}
            if self._is_new(config):
                return config
        return None

    def _near_front(self, rng: random.Random) -> Config | None:
        """A configuration of the front (or the default) with one knob changed or left alone; None if all were tried."""
        front = self.front()
        bases: list[Config] = [trial.config for trial in rng.sample(front, len(front))]
        for base in [*bases, {}]:
            moves = [(knob, value) for knob in self._space for value in knob.values if value != base.get(knob.name)]
            for moved, value in rng.sample(moves, len(moves)):
                changed = base | {moved.name: value}
                config = {knob.name: text for knob in self._space if (text := changed.get(knob.name)) is not None}
                if self._is_new(config):
                    return config
        return None

    def tell(
        self, trial: optuna.trial.Trial, config: Config, ratios: dict[str, float] | None, problem: str = "",
        environment: tuple[str, ...] = (),
    ) -> Trial:
        """Tells the study the outcome: ratios, or the reason for which there are none."""
        values = tuple(ratios.values()) if ratios else ()
        if not values or not all(math.isfinite(value) and value > 0 for value in values):
            problem = problem or "a figure is missing or 0"
            trial.set_user_attr(_PROBLEM, problem)
            self._close(trial)
            finished = Trial(trial.number, config, None, problem)
        else:
            trial.set_user_attr(_RATIOS, list(values))
            trial.set_user_attr(_ENVIRONMENT, list(environment))
            # Logarithms, so that half as much and twice as much are equally far from the default.
            self._study.tell(trial, [math.log(value) for value in values])
            finished = Trial(trial.number, config, values, environment=environment)
        self._measured.add(config_text(config))
        self._learn(finished)
        return finished

    def cut_short(self, trial: optuna.trial.Trial) -> None:
        """It was not measured to the end, so it comes again first when the search goes on."""
        self._study.enqueue_trial(trial.params)
        self._close(trial)

    def _close(self, trial: optuna.trial.Trial) -> None:
        import optuna

        self._study.tell(trial, state=optuna.trial.TrialState.FAIL)

    def _learn(self, trial: Trial) -> None:
        if trial.ratios:
            self._worked.update(trial.config.items())
        else:
            for pair in trial.config.items():
                self._refused[pair] = self._refused.get(pair, 0) + 1

    def _hopeless(self, pair: tuple[str, str]) -> bool:
        """The sampler learns nothing from what is refused, so that it would go on to ask for it."""
        return pair not in self._worked and self._refused.get(pair, 0) >= REFUSALS_UNTIL_HOPELESS

    def begin(self, seed: int) -> None:
        """Queues the first configurations of a new study: a few knobs are changed at a time, each as often as the others.
        Had all been drawn at random, as samplers do, next to every configuration would have some ruinous value, and
        little could be learnt of the other knobs."""
        rng = random.Random(seed)
        deck: list[SearchedKnob] = []
        for _ in range(max(self._planned // SCREENED_SHARE, 1)):
            params: dict[str, Any] = {knob.name: _position(knob, knob.alone) for knob in self._space}
            for _ in range(min(CHANGED_IN_SCREENING, len(self._space))):
                deck = deck or rng.sample(self._space, len(self._space))
                knob = deck.pop()
                others = [i for i in range(len(knob.values)) if i != knob.alone]
                params[knob.name] = _position(knob, rng.choice(others))
            self._study.enqueue_trial(params)

    def go_on(self) -> None:
        """Trials that somebody was at when he was killed come again first."""
        import optuna

        for trial in self._study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
            if trial.user_attrs.get(_CONFIG) is not None:
                self._study.enqueue_trial(trial.params)
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def _params(space: list[SearchedKnob], config: Config) -> dict[str, Any]:
    return {knob.name: _position(knob, knob.values.index(config.get(knob.name))) for knob in space}


def _position(knob: SearchedKnob, index: int) -> Any:
    return index if knob.ordered else str(knob.values[index] or "")


def _suggest(trial: optuna.trial.Trial, knob: SearchedKnob) -> str | None:
    """Integers by their place among the values that are tried, so that the sampler knows which are near each other."""
    if knob.ordered:
        return knob.values[trial.suggest_int(knob.name, 0, len(knob.values) - 1)]
    return trial.suggest_categorical(knob.name, [str(value or "") for value in knob.values]) or None


def require_packages() -> None:
    """Raises ImportError where one is missing, before anything is measured."""
    import optuna  # noqa: F401
    import sqlalchemy  # noqa: F401


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """A full or failing device is no fault of the study, whatever its libraries make of that error."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not (isinstance(cause, sqlite3.OperationalError) and str(cause) in CANNOT_WRITE):
            cause = getattr(cause, "orig", None) or cause.__cause__
        if cause is None:
            raise
        raise HeaptapeError(f"{path}: cannot write: {cause}") from error


@contextmanager
def open_study(
    path: Path, identity: dict[str, Any], space: list[SearchedKnob], planned: int, seed: int | None,
) -> Iterator[tuple[Study, int]]:
    """The study in a file, made if there is none, with its seed. Raises UsageError where it is one of something else."""
    import optuna
    import sqlalchemy

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    try:
        url = sqlalchemy.URL.create("sqlite", database=str(path.resolve())).render_as_string()
    except UnicodeEncodeError as error:
        raise UsageError(f"{path}: cannot keep a study there: expected a path in UTF-8; --study names another") from error
    with _locked(path), _written(path):
        _refuse_foreign(path)
        try:
            # What is written ahead needs no wait for the disk at every step, and is still there after a kill.
            with closing(sqlite3.connect(path)) as plain:
                plain.execute("PRAGMA journal_mode=WAL")
            storage = optuna.storages.RDBStorage(url)
            storage.engine.dispose()
            sqlalchemy.event.listen(storage.engine, "connect", _do_not_wait)
            study = optuna.create_study(study_name=_NAME, storage=storage, load_if_exists=True,
                                        directions=["minimize"] * len(identity["objectives"]))
            known = study.user_attrs.get(_IDENTITY)
        except (sqlite3.Error, sqlalchemy.exc.SQLAlchemyError, RuntimeError, ValueError) as error:
            raise StudyError(f"{path}: expected a study of heaptape tune: {str(error).splitlines()[0]}") from error
        if known is None:
            seed = random.randrange(1_000_000) if seed is None else seed
            study.set_user_attr("seed", seed)
        else:
            _check_identity(path, json.loads(json.dumps(identity)), known)
            seed = int(study.user_attrs["seed"]) if seed is None else seed
        study.sampler = optuna.samplers.TPESampler(n_startup_trials=max(planned // SCREENED_SHARE // 2, 2), multivariate=True,
                                                   seed=seed + len(study.get_trials(deepcopy=False)))
        ours = Study(study, space, planned)
        if known is None:
            ours.begin(seed)
            # Last, so that a study that is known has its queue.
            study.set_user_attr(_IDENTITY, identity)
        else:
            ours.go_on()
        try:
            yield ours, seed
        finally:
            storage.remove_session()
            storage.engine.dispose()


def _refuse_foreign(path: Path) -> None:
    """Somebody else's database, or a study of Optuna's that is not ours, is read and left as it is."""
    if path.stat().st_size == 0:
        return
    # Without a log of what was written ahead nothing need be made beside the file to read it.
    ahead = path.with_name(f"{path.name}-wal").exists()
    url = f"{path.resolve().as_uri()}?mode=ro{'' if ahead else '&immutable=1'}"
    try:
        with closing(sqlite3.connect(url, uri=True)) as plain:
            tables = {name for (name,) in plain.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            studies = [name for (name,) in plain.execute("SELECT study_name FROM studies")] if "studies" in tables else []
    except sqlite3.Error as error:
        raise StudyError(f"{path}: expected a study of heaptape tune: {error}") from error
    if (studies and _NAME not in studies) or (tables and not {"studies", "trials", "version_info"} <= tables):
        found = f"studies named {', '.join(map(ascii, studies[:3]))}" if studies else f"tables named {', '.join(map(ascii, sorted(tables)[:3]))}"
        raise StudyError(f"{path}: expected a study of heaptape tune, found a database with {found}")


def _do_not_wait(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous=NORMAL")


def _check_identity(path: Path, identity: dict[str, Any], known: dict[str, Any]) -> None:
    for key, value in identity.items():
        if known.get(key) == value:
            continue
        was, now = (_in_words(key, item) for item in (known.get(key), value))
        raise UsageError(f"{path}: this study is of another {key} ({was}, now {now}): name another file by --study, or "
                         "remove this one")


def _in_words(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    text = str(value)
    return text[:12] if key == "trace" else text or "none"

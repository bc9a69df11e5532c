# SPDX-License-Identifier: Apache-2.0
"""Fixtures that every test may use: where the build is, and a runner for its tools. What holds for every test:
signals act, and its time is limited."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from any_parent import be_ordinary, kill_children, let_signals_act, mark_children
from dump_lines import Event, events_of
from recorded_traces import record_traces, traces_in
from shared_folder import shared_folder
from tool_runner import Tools

REPOSITORY = Path(__file__).resolve().parent.parent
# What the tests start keeps what it has compiled, or each of hundreds of processes would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# xdist gives its workers a width of 80: tables and sentences would be folded.
os.environ.pop("COLUMNS", None)
# Hypothesis keeps its examples in the working directory by default; the tree must not change.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(tempfile.gettempdir()) / "heaptape-hypothesis"))
# The user's own allocators (heaptape allocators add) are no part of the tests.
os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir()) / "heaptape-tests-have-no-data")
SMALL_BYTES = 100_000
LIMITS_S = {"slow": 2 * 60 * 60, "thorough": 30 * 60}  # pytest.ini has the limit of the others


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return  # starts nothing but the workers, which are to inherit what it inherited
    let_signals_act()
    mark_children()
    be_ordinary()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for tier, limit_s in LIMITS_S.items():
            if item.get_closest_marker(tier) and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(limit_s))


@pytest.hookimpl(hookwrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> Generator[None, None, None]:
    """The children of a late test are killed before the test fails, so that nothing waits for them
    at its end."""
    yield
    previous = signal.getsignal(signal.SIGALRM)

    def out_of_time(number: int, frame: object) -> None:
        kill_children()
        previous(number, frame)

    if callable(previous):
        signal.signal(signal.SIGALRM, out_of_time)


@pytest.fixture(scope="session")
def tools_for_all(build: Path) -> Iterator[Tools]:
    """The tools where every user may run them: the tree may lie in a folder that only its owner may enter."""
    with tempfile.TemporaryDirectory(prefix="heaptape-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for path in build.iterdir():
            if path.suffix == ".so" or path.name == "heaptape" or path.name.startswith("replay"):
                shutil.copy2(path, folder, follow_symlinks=False)
        for above in folder.parents:
            if not above.stat().st_mode & 0o001:
                pytest.skip(f"other users may not enter {above}, which has the temporary files")
        yield Tools(folder)


@pytest.fixture(scope="session")
def build() -> Path:
    """The build folder under test: $HEAPTAPE_BUILD, or the release preset's."""
    folder = Path(os.environ.get("HEAPTAPE_BUILD", REPOSITORY / "build")).resolve()
    if not (folder / "heaptape").exists():
        # No skip: a suite that tests nothing must not look green.
        pytest.fail(f"{folder}/heaptape is not there; build it with: cmake --preset release && "
                    "cmake --build --preset release", pytrace=False)
    return folder


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter. pytest's own are the user's alone, and stay so: tests rely on it."""
    with tempfile.TemporaryDirectory(prefix="heaptape-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def tools(build: Path) -> Tools:
    return Tools(build)


@pytest.fixture(scope="session")
def recorded_folder(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What record_traces leaves: each trace, and the logs in a folder of its name. For reading only."""
    return shared_folder(tmp_path_factory, "recorded", lambda folder: record_traces(tools, folder))


@pytest.fixture(scope="session")
def recorded(repository: Path, recorded_folder: Path) -> dict[str, Path]:
    return traces_in(repository, recorded_folder)


class Dumps(dict[str, list[Event]]):
    """The events of each of the traces, read when they are asked for first."""

    def __init__(self, tools: Tools, traces: dict[str, Path]) -> None:
        super().__init__()
        self.tools, self.traces = tools, traces

    def __missing__(self, name: str) -> list[Event]:
        self[name] = events_of(self.tools, self.traces[name])
        return self[name]


@pytest.fixture(scope="session")
def dumped(tools: Tools, recorded: dict[str, Path]) -> Dumps:
    return Dumps(tools, recorded)


@pytest.fixture(scope="session")
def heaptape_binary() -> Path:
    """The built front end; tests that need it are skipped, with the reason, where it was not built."""
    binary = Path(os.environ.get("HEAPTAPE_BUILD", REPOSITORY / "build")) / "heaptape"
    if not binary.is_file():
        pytest.skip(f"{binary} was not built")
    return binary


@pytest.fixture(scope="session")
def recorded_traces() -> list[Path]:
    """Real traces of the repository, with those that HEAPTAPE_TEST_TRACES names (separated by colons). What goes
    through them event by event takes a second for 100,000, so of the repository's only the small ones."""
    named = [Path(name) for name in os.environ.get("HEAPTAPE_TEST_TRACES", "").split(":") if name]
    shipped = sorted([*(REPOSITORY / "traces").glob("*.bin"), *(REPOSITORY / "tests/golden").glob("*.bin")])
    found = named + [path for path in shipped if path.stat().st_size < SMALL_BYTES]
    if not found:
        pytest.skip("there is no small trace in traces/ and HEAPTAPE_TEST_TRACES names none")
    return found

# SPDX-License-Identifier: Apache-2.0
"""What an installation without the extras does: all but the verbs that need them, which say what to install."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import heaptape
import pytest
import story
from heaptape.base import environment
from heaptape.fleet.plan import tomllib  # of whichever name this Python has

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "analysis" / "pyproject.toml").read_text())["project"]

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
# Knows one allocator with one knob; what it is given to replay is no trace.
REPLAY = """#!/bin/sh
case "$*" in
*--json*) echo '[{"name": "fake", "knobs": [{"name": "k", "type": "boolean", "value": "0", "search": true}]}]' ;;
*--list*) echo "glibc 2.36 /libc.so.6" ;;
*) exit 3 ;;
esac
"""
MAIN = "from heaptape.__main__ import run; sys.exit(run())"


def _without(missing: set[str], code: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the code where these packages cannot be imported."""
    path = os.pathsep.join([str(ROOT / "analysis"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    replay = cwd / "replay"
    replay.write_text(REPLAY)
    replay.chmod(0o755)
    return subprocess.run([sys.executable, "-c", WITHOUT.format(missing=missing) + code, *map(str, arguments)], cwd=cwd,
                          env=os.environ | {"PYTHONPATH": path, "HEAPTAPE_REPLAY": str(replay)},
                          capture_output=True, text=True, timeout=120, check=False)


def _packages(requirements: list[str]) -> set[str]:
    return {requirement.partition(">=")[0] for requirement in requirements}


def _extras() -> dict[str, str]:
    return {package: extra for extra in ("fleet", "tune", "parquet", "pprof")
            for package in _packages(PROJECT["optional-dependencies"][extra])}


def test_the_extras_named_are_those_of_the_project() -> None:
    assert environment.EXTRAS == _extras()
    assert not environment.EXTRAS.keys() & _packages(PROJECT["dependencies"])


WAYS = [["compare", "r.jsonl"], ["compare", "--json", "r.jsonl"], ["report", "r.jsonl", "-o", "r.html"]]


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS, ids=["compare", "compare --json", "report"])
def test_comparing_and_reporting_need_no_extra(tmp_path: Path, way: list[str]) -> None:
    results, _ = story.write_story(tmp_path)
    results.rename(tmp_path / "r.jsonl")
    done = _without(set(_extras()), MAIN, *way, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mimalloc is fastest" in ((tmp_path / "r.html").read_text() if way[0] == "report" else done.stdout)


@pytest.mark.thorough
def test_the_package_needs_no_extra(tmp_path: Path) -> None:
    """Every public name, and all modules but those that are Dask's, Parquet's and protobuf's."""
    modules = [".".join(path.relative_to(ROOT / "analysis").with_suffix("").parts)
               for path in (ROOT / "analysis" / "heaptape").rglob("*.py") if path.stem not in ("__init__", "__main__", "parquet", "cluster", "profile_message")]
    code = f"import heaptape, importlib\nfor name in heaptape.__all__: getattr(heaptape, name)\n" \
           f"for name in {modules!r}: importlib.import_module(name)"
    done = _without(set(_extras()), code, cwd=tmp_path)
    assert done.returncode == 0 and len(modules) > 50, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("verb", "missing", "packages"), [
    (["export", "t.bin"], "pyarrow", "pyarrow"), (["tune", "t.bin", "--alloc", "fake"], "optuna", "optuna sqlalchemy"),
    (["tune", "t.bin", "--alloc", "fake", "--splice", "absent"], "sqlalchemy", "optuna sqlalchemy"),
    (["fleet", "plan.toml"], "dask", "dask distributed"), (["sites", "absent.bin", "--to", "pprof", "-o", "x"], "google", "protobuf"),
    (["compare", "absent.jsonl", "--to", "perfetto", "-o", "x"], "google", "protobuf"),
], ids=["export", "tune", "tune without sqlalchemy", "fleet", "sites", "compare"])
def test_a_verb_names_what_it_lacks(tmp_path: Path, verb: list[str], missing: str, packages: str) -> None:
    """Before it reads, let alone replays: what some are given is not there."""
    (tmp_path / "t.bin").write_bytes(b"good")
    (tmp_path / "plan.toml").write_text('traces = ["t.bin"]\nallocators = ["glibc"]\nrounds = 1\n')
    done = _without({missing}, MAIN, *verb, cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    name = missing.replace("google", "protobuf")
    assert done.stderr.startswith(f"heaptape {verb[0]}: the Python package {name} is missing: {sys.executable} -m pip install {packages}; ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml", "replay", "t.bin"]


def _missing(name: str) -> str:
    return environment.missing_package(ModuleNotFoundError(f"No module named {name!r}", name=name))


def test_pip_is_sent_for_packages_that_an_index_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for heaptape with an extra, even where this very package is installed."""
    monkeypatch.setattr(environment.sys, "base_prefix", "/elsewhere")
    for package, extra in _extras().items():
        others = [one for one in environment.EXTRAS if _extras()[one] == extra]
        assert f"is missing: {sys.executable} -m pip install {' '.join(others)}; " in _missing(package)
    assert "pip install numpy; " in _missing("numpy")


def test_in_a_checkout_the_script_that_installs_all_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes the environment that the front end takes, unless another is named."""
    monkeypatch.setattr(environment.sys, "argv", [f"{ROOT}/build/../analysis/run_verb.py"])
    monkeypatch.delenv("HEAPTAPE_PYTHON", raising=False)
    for package in _extras():
        assert _missing(package) == f"the Python package {package} is missing: run {ROOT}/setup.sh --extras"
    for extra in set(_extras().values()):
        assert extra in (ROOT / "setup.sh").read_text().partition("for_all_verbs=")[2].partition("\n")[0].split(",")
    assert "setup.sh" not in _missing("numpy")
    monkeypatch.setenv("HEAPTAPE_PYTHON", sys.executable)
    assert "setup.sh" not in _missing("pyarrow")


@pytest.mark.parametrize("ready", [True, False])
def test_pip_is_not_sent_where_the_distribution_forbids_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ready: bool) -> None:
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(environment.sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: ready or None)
    said = _missing("optuna")
    assert " -m venv --system-site-packages " in said and "/bin/pip install optuna sqlalchemy; then HEAPTAPE_PYTHON=" in said
    assert ("is missing: apt-get install python3-venv && " in said) == (not ready)


def test_the_script_is_there_and_hides_no_command() -> None:
    """`heaptape` is the C program."""
    assert list(PROJECT["scripts"]) == ["heaptape-analysis"]
    module, _, function = PROJECT["scripts"]["heaptape-analysis"].partition(":")
    assert callable(getattr(import_module(module), function))


def test_public_names_are_where_a_type_checker_finds_them() -> None:
    tree = ast.parse(Path(heaptape.__file__).read_text())
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    reported = {alias.name: node.module for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(reported) == heaptape.__all__
    assert reported == heaptape._MODULES | {"ops": "trace"}
    assert all(getattr(heaptape, name) is not None for name in heaptape.__all__)

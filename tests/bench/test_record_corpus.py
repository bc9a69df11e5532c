# SPDX-License-Identifier: Apache-2.0
"""The corpus of real programs: the list names what there is, and one command records, converts and plans."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from tool_runner import Tools

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.compatibility.compatibility import PROGRAMS  # noqa: E402
from bench.corpus.record_corpus import read_corpus, runs_of  # noqa: E402
from bench.programs.workloads import NAMES  # noqa: E402
from bench.validity.validate import read_programs  # noqa: E402
from traces.record_traces import RECIPES  # noqa: E402

LIST = """
[small.lists]
command = ["ls", "made"]
needs = ["ls"]
setup = "mkdir made && touch made/one"

[small.absent]
command = ["no-such-program"]
needs = ["no-such-program"]

[small.fails]
command = ["ls", "nothing"]
needs = ["ls"]

[other.never]
command = ["ls"]
"""


def test_the_list_names_what_there_is() -> None:
    measured = read_programs()
    names = {"program": {program.name for program in PROGRAMS}, "measured": {name for name, one in measured.items() if "command" in one},
             "recipe": set(RECIPES), "workload": set(NAMES)}
    programs = read_corpus()
    assert len(programs) >= 30
    assert [name for name, one in programs.items() if one["kind"] != "command" and one[one["kind"]] not in names[one["kind"]]] == []
    shared = [names for names in runs_of(list(programs), programs) if len(names) > 1]
    assert all(programs[name].get("executable") for names in shared for name in names)


def corpus(tools: Tools, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "bench" / "corpus" / "record_corpus.py", "--build", tools.build, "--corpus", folder / "list.toml",
                           *more, folder / "out"], capture_output=True, text=True, check=False, timeout=120)


def test_recorded_converted_planned_and_kept(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(LIST)
    done = corpus(tools, tmp_path, "--only", "small")
    assert done.returncode == 1 and "passed over: absent: no-such-program missing" in done.stdout and "failed: fails: its status is 2" in done.stdout
    (facts,) = [json.loads(line) for line in (tmp_path / "out" / "corpus.jsonl").read_text().splitlines()]
    info = tools.info(tmp_path / "out" / "lists.bin")
    assert (facts["name"], facts["program"], facts["events"]) == ("lists", "ls", info["events"]) and facts["anomalies"] == info["anomalies"] == 0
    plan = tomllib.loads((tmp_path / "out" / "corpus.toml").read_text())
    assert plan["traces"] == ["lists.bin"] and sorted(path.name for path in (tmp_path / "out").iterdir()) == ["corpus.jsonl", "corpus.toml", "lists.bin"]
    before = (tmp_path / "out" / "lists.bin").stat().st_mtime_ns
    again = corpus(tools, tmp_path, "--only", "lists,absent")
    assert again.returncode == 0 and (tmp_path / "out" / "lists.bin").stat().st_mtime_ns == before
    logged = corpus(tools, tmp_path, "--only", "lists", "--logs")
    assert logged.returncode == 0 and (tmp_path / "out" / "lists.mraw").stat().st_size > 0


def test_shared_traces_have_no_names(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "list.toml").write_text(LIST)
    assert corpus(tools, tmp_path, "--only", "lists", "--share").returncode == 0
    shared = tmp_path / "out" / "shared"
    assert sorted(path.name for path in shared.iterdir()) == ["README.md", "corpus.jsonl", "corpus.toml", "lists.bin"]
    whole, copy = tools.info(tmp_path / "out" / "lists.bin"), tools.info(shared / "lists.bin")
    assert copy["events"] == whole["events"] and whole["command"] and not copy["command"]
    assert "CC0 1.0" in (shared / "README.md").read_text() and tomllib.loads((shared / "corpus.toml").read_text())["traces"] == ["lists.bin"]
    assert corpus(tools, tmp_path, "--only", "unknown").returncode == 2

# SPDX-License-Identifier: Apache-2.0
"""`heaptape validate --count`: what becomes of counts, planted ones and those of a tiny program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from heaptape.__main__ import main
from heaptape.base.errors import HeaptapeError
from heaptape.validate.allocators import of_equal_size
from heaptape.validate.count_runs import Counted, add_counts, recorded_process
from heaptape.validate.table import validation_text

ROOT = Path(__file__).resolve().parents[2]


def process(allocator: int, program: int, loader: int = 0, command: str = "app", calls: int = 100, threads: int = 1,
            forked: bool = False) -> dict[str, Any]:
    """Every part has a fault for each ten instructions."""
    parts = {name: {"instructions": value, "l1d_misses": 0, "l2_misses": 0, "l1i_misses": 0, "dtlb_misses": 0, "stlb_misses": 0,
                    "faults": value // 10, "modelled_ns": {"total": value / 4}} for name, value in (("allocator", allocator), ("program", program), ("loader", loader))}
    return {"command": command, "forked": forked, "threads": threads, "calls": {"malloc": calls // 2, "free": calls - calls // 2}, **parts}


def counted(**more: Any) -> Counted:
    """Start-up: 100 of the allocator, and of the program 1,000, under b 1,500."""
    found = Counted("a", instructions_alone=False, geometry={"geometry": "", "caches_known": True, "tlbs_known": False})
    found.nothing = {"a": process(100, 1_000, 5_000, calls=0), "b": process(100, 1_500, 9_000, calls=0)}
    found.real = {"a": process(50_100, 901_000, 15_000), "b": process(30_100, 906_500, 19_000)}
    found.replayed = {"null": process(1_000, 0), **{name: process(allocator, program) | {"time": process(allocator + touches, 0)["allocator"]}
                                                    for name, allocator, program, touches in (("a", 50_000, 7, 600), ("b", 31_600, 8, 1_000))}}
    found.again = found.real["a"]
    for name, value in more.items():
        setattr(found, name, value)
    return found


def document_of(found: Counted, calls: int = 100) -> dict[str, Any]:
    document: dict[str, Any] = {
        "program": "app", "server": False, "baseline": "a", "rounds": 0, "warnings": [],
        "recorded": {"calls": calls, "allocator": "glibc", "allocator_version": "2.36", "cpu_ns": 1e6},
        "allocators": [{"name": name, "problem": None} for name in ("a", "b", "c")]}
    add_counts(document, found)
    return document


def test_a_forked_process_has_no_startup() -> None:
    found = counted(real={"a": process(50_000, 900_000, forked=True), "b": process(30_000, 905_000, forked=True)})
    _, other, _ = document_of(found)["allocators"]
    assert other["instructions_delta_real"] == -15_000
    assert [other["counts"][part]["instructions"] for part in ("allocator", "program")] == [30_000, 905_000]


def test_differences_are_exact_and_without_startup() -> None:
    document = document_of(counted(problems={"c": "killed"}))
    base, other, failed = document["allocators"]
    # 30,000 less 50,000 in malloc, 905,000 less 900,000 outside.
    assert other["instructions_delta_real"] == -15_000 and other["instructions_delta_predicted"] == -18_400
    assert other["instructions_error"] == pytest.approx(3_400 / 15_000)
    apart = other["count_differences"]
    assert [apart[part]["instructions"] for part in ("allocator", "program", "loader", "replayed")] == [-20_000, 5_000, 0, -18_400]
    assert apart["replayed_time"]["modelled_ns"] == {"total": -4_500}
    assert apart["allocator"]["modelled_ns"] == {"total": -5_000} and apart["allocator"]["faults"] == -2_000 and apart["program"]["faults"] == 500
    assert base["instructions_delta_real"] is None and base["counts"]["program"]["instructions"] == 900_000
    assert failed["problem"] == "killed" and "counts" not in failed
    assert document["count"]["repeat_difference"] == 0 and document["warnings"] == []


def test_tables_of_counts() -> None:
    text = validation_text(document_of(counted()))
    row = next(line for line in text.splitlines() if line.startswith("b "))
    assert row.split() == ["b", "935,000", "-18,400", "-15,000", "23", "%", "-20,000", "+5,000", "0"]
    assert ["predicted", *["0"] * 6, "-1,840"] in [line.split() for line in text.splitlines()]
    assert "rank correlation" not in text and "rounds" not in text
    alone = counted(instructions_alone=True)
    assert "L2 misses" in text and "L2 misses" not in validation_text(document_of(alone))


@pytest.mark.parametrize(("more", "calls", "words"), [
    ({"again": process(50_100, 901_002, 0)}, 100, "does not repeat: two counted runs under a are 2 instructions apart, 0.013 % of b's difference"),
    ({"real": {"a": process(50_100, 901_000, threads=3), "b": process(30_100, 906_500, threads=3)}}, 100, "3 threads"),
    ({}, 200, "the program made 100 calls under a, but 200 when recorded"),
    ({"different": ["b"]}, 100, "output differs from the recording's under b"),
    ({"geometry": {"caches_known": False}}, 100, "the processor's caches are not known"),
])
def test_warnings(more: dict[str, Any], calls: int, words: str) -> None:
    assert words in " ".join(document_of(counted(**more), calls)["warnings"])


def test_less_than_a_ten_thousandth_repeats() -> None:
    assert document_of(counted(again=process(50_100, 901_001, 99)))["warnings"] == []


def test_the_recorded_process_is_found_by_its_command_else_by_calls() -> None:
    shell, app, brief = process(1, 1, command="sh", calls=500), process(2, 2, calls=90), process(3, 3, calls=2)
    assert recorded_process([shell, brief, app], "app") is app
    assert recorded_process([shell, brief, app], "other") is shell
    with pytest.raises(HeaptapeError, match="no process was counted"):
        recorded_process([], "app")


def test_environments_of_equal_size() -> None:
    made = of_equal_size({"a": {"HOME": "/"}, "b": {"HOME": "/", "LD_PRELOAD": "/lib/b.so", "B_CONF": "x:1"}})
    assert len({(len(item), sum(map(len, [*item, *item.values()]))) for item in made.values()}) == 1
    assert made["a"]["LD_PRELOAD"].strip(":") == "" and made["b"]["LD_PRELOAD"].rstrip(":") == "/lib/b.so" and made["b"]["B_CONF"] == "x:1"


@pytest.mark.parametrize("arguments", [["-o", "curves"], ["--budget", "5m"]], ids=" ".join)
def test_what_only_rounds_have_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--count", *arguments, "--", "true"]) == 2
    assert "expected --rounds with it" in capsys.readouterr().err


PROGRAM = """
#include <stdlib.h>
int main(void) {
    static void *volatile block[1000];
    for (int i = 0; i < 5000; i++) {
        free(block[i % 1000]);
        block[i % 1000] = malloc(16 + i % 500);
    }
}
"""


@pytest.mark.thorough
def test_a_tiny_program(heaptape_binary: Path, tmp_path: Path) -> None:
    if not (heaptape_binary.parent / "valgrind" / "heaptape-amd64-linux").exists():
        pytest.skip("the simulation is not built: it takes the package valgrind, on x86-64")
    subprocess.run(["gcc", "-O1", "-x", "c", "-o", tmp_path / "app", "-"], input=PROGRAM, text=True, check=True,
                   timeout=60)
    environment = {**os.environ, "HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "analysis")}
    done = subprocess.run([heaptape_binary, "validate", "--count", "--json", "--alloc", "glibc,bump", "--", tmp_path / "app"],
                          capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["warnings"] == [] and document["count"]["repeat_difference"] == 0 and "agreement" not in document
    base, bump = document["allocators"]
    assert base["counted_calls"] == document["recorded"]["calls"] == 10_000
    assert bump["instructions_delta_real"] < -50_000 and bump["instructions_error"] < 0.02
    # What it never reuses it must fault in.
    assert bump["count_differences"]["allocator"]["faults"] + bump["count_differences"]["program"]["faults"] > 200

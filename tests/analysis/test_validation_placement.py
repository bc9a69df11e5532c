# SPDX-License-Identifier: Apache-2.0
"""`heaptape validate --accesses`: CPU time predicted with the effect of placement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from heaptape.__main__ import main
from heaptape.validate.figures import _modelled_object
from heaptape.validate.placement import ModelledChange
from heaptape.validate.table import _cpu_table

ROOT = Path(__file__).resolve().parents[2]


def test_the_share_is_of_the_real_time() -> None:
    cpu = {"resolved": True, "real_difference_ns": -100e6}
    found = _modelled_object(ModelledChange(-0.1, -0.12, -0.08), 1e9, 2e6, cpu)
    assert found["modelled_difference_ns"] == pytest.approx(-98e6) and found["modelled_over_real"] == pytest.approx(0.98)
    assert (found["modelled_low_ns"], found["modelled_high_ns"]) == (pytest.approx(-118e6), pytest.approx(-78e6))
    assert _modelled_object(ModelledChange(-0.1, -0.12, -0.08), 1e9, 0, cpu | {"resolved": False})["modelled_over_real"] is None


def cpu_rows(**more: float | None) -> list[str]:
    base = {"real_ns": 1e9, "predicted_difference_ns": 0.0}
    other = {"real_ns": 9e8, "predicted_difference_ns": -50e6, "real_difference_ns": -100e6, "real_low_ns": -120e6, "real_high_ns": -80e6,
             "resolved": True, "sign_agrees": True, "predicted_over_real": 0.5, **more}
    good: list[dict[str, Any]] = [{"name": "glibc", "cpu": base}, {"name": "mimalloc", "cpu": other}]
    return _cpu_table(good, "glibc", False)


def test_columns_stand_beside_those_of_calls_alone() -> None:
    assert "accesses" not in "\n".join(cpu_rows())
    head, *rows = cpu_rows(modelled_difference_ns=-97e6, modelled_over_real=0.97)
    assert "with accesses" in head and rows[-1].split()[-2:] == ["0.50", "0.97"] and "-97.0" in rows[-1]


def test_it_takes_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--count", "--accesses", "--", "true"]) == 2
    assert "--accesses: --count alone runs no rounds: expected --rounds with it" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_shuffled_list(heaptape_binary: Path) -> None:
    """Under mimalloc the nodes share pages: calls alone do not know that. The program waits, so that it seems long enough to be
    sampled, and is not: then all is recorded."""
    for part in ("valgrind/heaptape-amd64-linux", "replay-mimalloc"):
        if not (heaptape_binary.parent / part).exists():
            pytest.skip(f"{part} is not built")
    environment = {**os.environ, "HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "analysis")}
    done = subprocess.run([heaptape_binary, "validate", "--accesses", "--json", "--rounds", "2", "--replay-rounds", "1", "--alloc", "glibc,mimalloc",
                           "--", "sh", "-c", 'sleep 0.6; exec "$0" list', heaptape_binary.parent / "tests" / "targets" / "placement"],
                          capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert not [line for line in document["warnings"] if "accesses" in line]
    base, mimalloc = (item["cpu"] for item in document["allocators"])
    assert "modelled_difference_ns" not in base
    assert mimalloc["modelled_low_ns"] <= mimalloc["modelled_difference_ns"] <= mimalloc["modelled_high_ns"]
    assert mimalloc["modelled_difference_ns"] < -0.05 * base["real_ns"]

# SPDX-License-Identifier: Apache-2.0
"""What replay, compare and report make of known figures is frozen to the byte: scenarios.py has the figures, asking.py says what
is left out because it is the machine's, freeze.py freezes anew. A change of the judgement shows here, and is to be meant."""

from __future__ import annotations

from pathlib import Path

import frozen
import pytest
from asking import Oracle, Scenario
from scenarios import FAMILIES, scenarios

# Of most families what is told soonest. Failed runs and damaged results have quick tests of their own.
QUICK = ("time of 1 rounds", "condition time>0.5", "counts: instructions alone", "baseline file: less memory then", "verified: seven violations")


@pytest.fixture(scope="module")
def oracle(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(build, tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="module")
def said() -> dict[str, frozen.Said]:
    return frozen.load()


def check(oracle: Oracle, said: dict[str, frozen.Said], asked: list[Scenario]) -> None:
    """The first that differs in full, of the others the names."""
    differing: list[str] = []
    first = ""
    for scenario in asked:
        found = frozen.difference(scenario.name, said.get(scenario.name, {}), oracle.ask(scenario))
        if found:
            first = first or found
            differing.append(scenario.name)
    assert not differing, f"{len(differing)} of {len(asked)} scenarios differ: {'; '.join(differing)}\n{first}"


def test_a_few_scenarios(oracle: Oracle, said: dict[str, frozen.Said]) -> None:
    check(oracle, said, [scenarios()[name] for name in QUICK])


@pytest.mark.thorough
@pytest.mark.parametrize("family", FAMILIES)
def test_all_scenarios(oracle: Oracle, said: dict[str, frozen.Said], family: str) -> None:
    check(oracle, said, list(FAMILIES[family]()))


def test_each_scenario_is_frozen(said: dict[str, frozen.Said]) -> None:
    assert said.keys() == scenarios().keys()

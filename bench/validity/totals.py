"""What all programs together say of the predictions: errors, signs, ranks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from heaptape.validate.figures import spearman

Result = dict[str, Any]


@dataclass(frozen=True)
class Worst:
    """Errors of many pairs of program and allocator: as shares of the real figure, without sign."""

    median: float
    most: float
    whose: str
    count: int


@dataclass(frozen=True)
class Totals:
    """None where no program has it."""

    programs: int
    peak: Worst | None
    mean: Worst | None
    peak_ranks: tuple[int, int]  # programs whose least and most agree, of so many
    mean_ranks: tuple[int, int]
    signs: tuple[int, int]  # differences of CPU time with the right sign, of those resolved
    pairs: int
    spearman: float | None
    saving_off: float | None
    curve: float | None


def measured(result: Result) -> list[Result]:
    """The allocators under which the program could be measured."""
    return [item for item in result["validation"]["allocators"] if "memory" in item]


def differences(result: Result) -> Iterator[tuple[str, Result]]:
    """Of each allocator but the baseline what there is about CPU time."""
    for item in measured(result):
        if item["name"] != result["validation"]["baseline"] and item["cpu"].get("real_difference_ns") is not None:
            yield item["name"], item["cpu"]


def baseline_ns(result: Result) -> float | None:
    """The CPU time that the real program takes under the baseline."""
    name = result["validation"]["baseline"]
    return next((item["cpu"]["real_ns"] for item in measured(result) if item["name"] == name), None)


def _worst(results: list[Result], figure: str) -> Worst | None:
    errors = [(abs(item["memory"][figure]["error"]), f"{result['name']} under {item['name']}")
              for result in results for item in measured(result) if item["memory"][figure]["error"] is not None]
    if not errors:
        return None
    most, whose = max(errors)
    return Worst(statistics.median(error for error, _ in errors), most, whose, len(errors))


def ranks_agree(result: Result, figure: str) -> bool | None:
    """Whether who has least and who has most is as predicted."""
    ends = result["validation"]["agreement"].get(figure)
    # Neither a hit nor a miss where the allocators do not differ: there was nothing to predict.
    known = [ends[end]["agrees"] for end in ("best", "worst") if ends[end]["agrees"] is not None] if ends else []
    return all(known) if known else None


def _ranks(results: list[Result], figure: str) -> tuple[int, int]:
    agreed = [ranks_agree(result, figure) for result in results]
    return agreed.count(True), len(agreed) - agreed.count(None)


def _correlation(results: list[Result]) -> float | None:
    """Of all differences to the baseline, each as a share of the CPU time that the program takes under it."""
    predicted, real = [], []
    for result in results:
        own_ns = baseline_ns(result)
        for _, cpu in differences(result):
            if own_ns and cpu["predicted_difference_ns"] is not None:
                predicted.append(cpu["predicted_difference_ns"] / own_ns)
                real.append(cpu["real_difference_ns"] / own_ns)
    return spearman(predicted, real)


def totals(results: list[Result]) -> Totals:
    """Of all programs, of which one counts as much as any other."""
    pairs = [cpu for result in results for _, cpu in differences(result)]
    resolved = [cpu for cpu in pairs if cpu["resolved"]]
    off = [abs(cpu["predicted_over_real"] - 1) for cpu in resolved if cpu["predicted_over_real"] is not None]
    curves = [result["validation"]["curve"]["difference"] for result in results if result["validation"]["curve"]]
    curves = [value for value in curves if value is not None]
    return Totals(
        programs=len(results), peak=_worst(results, "peak"), mean=_worst(results, "mean"),
        peak_ranks=_ranks(results, "peak"), mean_ranks=_ranks(results, "mean"),
        signs=(sum(cpu["sign_agrees"] is True for cpu in resolved), len(resolved)), pairs=len(pairs),
        spearman=_correlation(results), saving_off=statistics.median(off) if off else None,
        curve=statistics.median(curves) if curves else None)

# SPDX-License-Identifier: Apache-2.0
"""The allocators that had settings of the recorded program, and what of these no replay has."""

from __future__ import annotations

import pandas as pd

from ..base.recorded_settings import left_out_sentence, shown_name


def _first(runs: pd.DataFrame, column: str) -> dict[str, object]:
    """By allocator."""
    return {str(name): rows[column].iloc[0] for name, rows in runs.groupby("allocator", sort=False)} if column in runs else {}


def shown_names(runs: pd.DataFrame) -> dict[str, str]:
    """What tables call each allocator: its name, with the settings of the program."""
    return {name: shown_name(name, settings if isinstance(settings, dict) else None) for name, settings in _first(runs, "allocator_settings").items()}


def settings_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for those that ran as the program's allocator was set, and one for what is missing of that."""
    names = [shown for name, shown in shown_names(runs).items() if shown != name]
    left = [left for left in _first(runs, "allocator_left_out").values() if isinstance(left, list) and left]
    return [*([f"As the program's allocator was set: {', '.join(names)}."] if names else []), *([left_out_sentence(left[0])] if left else [])]

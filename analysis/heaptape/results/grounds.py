# SPDX-License-Identifier: Apache-2.0
"""What an experiment's figures rest on: what was measured, what is extrapolated from that, and what is not known."""

from __future__ import annotations

from ..base.units import counted
from .comparison import Experiment


def grounds(experiment: Experiment, placement_known: bool) -> list[str]:
    """A sentence for each of the three. placement_known: the program's accesses were replayed, too."""
    extrapolated = _extrapolated(experiment)
    return [
        "Measured: each allocator's time and memory for the calls of this trace, on this machine.",
        f"Extrapolated: {'; '.join(extrapolated)}." if extrapolated else "Extrapolated: nothing.",
        "Not known: other inputs and machines" + ("." if placement_known else
                                                  "; what the program gains by where its blocks lie (record with --accesses)."),
    ]


def _extrapolated(experiment: Experiment) -> list[str]:
    """What was replayed but not recorded, by its assumption."""
    settings, found = experiment.settings, []
    if "extended" in settings:
        found.append(f"time after the recording, {settings['extended']}, as if the load stayed as in that stretch (heaptape forecast has intervals)")
    if "scale" in settings:
        found.append(f"a greater load, as {settings['scale']} copies of the program side by side")
    if "age" in settings:
        found.append("a used heap, of blocks of the trace's sizes freed in random order")
    if "processors" in settings:
        found.append(f"a machine with {counted(int(settings['processors']), 'processor')}, by what allocators do when they are shown so many")
    return found

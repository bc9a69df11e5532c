# SPDX-License-Identifier: Apache-2.0
"""A slope with an interval that allows for a level that wanders: extend/steady/slope.c, for curves of RSS."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import toeplitz

POINTS = 64
_LIKELY = 1.0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Slope:
    step: float
    half: float

    @property
    def resolved(self) -> bool:
        return abs(self.step) > self.half

    def text(self, unit: float) -> str:
        return f"{self.step / unit:+.2f} [{(self.step - self.half) / unit:+.2f}, {(self.step + self.half) / unit:+.2f}]"


def _covariances(back: float, share: float, count: int) -> Floats:
    """Of noise and of means of an Ornstein-Uhlenbeck process that comes back in so many steps."""
    stays = math.exp(-1 / back)
    scale = (1.0 if math.isinf(share) else share) / (2 * (1 - stays))
    made = scale * back * back * (1 / stays - 1) * (1 - stays) * stays ** np.arange(count, dtype=float)
    made[0] = scale * 2 * back * (1 - back * (1 - stays)) + (0 if math.isinf(share) else 1)
    return np.asarray(made)


@cache
def _kinds(count: int) -> list[tuple[Floats, Floats, float, float]]:
    """For each kind of wander: the quadratic form of the residuals, what gives the slope, its variance, the log of the volume."""
    x = np.stack([np.ones(count), np.arange(count) - (count - 1) / 2], axis=1)
    made = []
    for back, share in [(1.0, 0.0), *((back, share) for back in (2.0, 8.0, 32.0, 1000.0) for share in (0.01, 0.1, 1.0, math.inf))]:
        covariance = toeplitz(_covariances(back, share, count))
        inverse = np.linalg.inv(covariance)
        inner = np.linalg.inv(x.T @ inverse @ x)
        gain = inner @ x.T @ inverse
        volume = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(inner)[1]
        made.append((inverse - inverse @ x @ gain, gain[1], float(inner[1, 1]), float(volume)))
    return made


def slope_of(values: Floats, step: float) -> Slope:
    """Of equally spaced values, this far apart; of the kinds of wander that are likely the one that says least."""
    if np.ptp(values) == 0:
        return Slope(0.0, 0.0)
    around, df = values - values.mean(), values.size - 2
    plain = np.polyfit(np.arange(values.size), values, 1)
    if np.abs(values - np.polyval(plain, np.arange(values.size))).max() <= 1e-9 * np.abs(values).max():
        return Slope(float(plain[0]) / step, 0.0)
    fits = []
    for form, gain, variance, volume in _kinds(values.size):
        residuals = float(around @ form @ around)
        half = float(stats.t.ppf(0.975, df)) * math.sqrt(residuals / df * variance)
        fits.append((-(volume + df * math.log(residuals)) / 2, float(gain @ around), half))
    best = max(likelihood for likelihood, _, _ in fits)
    _, slope, half = max((fit for fit in fits if fit[0] >= best - _LIKELY), key=lambda fit: fit[2])
    return Slope(slope / step, half / step)

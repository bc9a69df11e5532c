# SPDX-License-Identifier: Apache-2.0
"""Pareto fronts, all objectives being ratios of which less is better."""

from __future__ import annotations

from collections.abc import Sequence

Point = Sequence[float]


def dominates(one: Point, other: Point) -> bool:
    """Whether one is nowhere worse than the other and somewhere better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and any(a < b for a, b in zip(one, other, strict=True))


def front_of(points: Sequence[Point]) -> list[int]:
    """Indices of the points that no other dominates, in their order; of equal points the first."""
    return [i for i, one in enumerate(points)
            if not any(dominates(other, one) for other in points) and one not in points[:i]]


def simplest_front(points: Sequence[Point], sizes: Sequence[int], tolerance: float) -> list[int]:
    """Indices of a front on which whatever is larger has to be a gain: the smallest come first, and what is in no objective
    better by more than the tolerance (a share) than one of those before it is left out."""
    kept: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (sizes[i], points[i])):
        if not any(all(a <= b * (1 + tolerance) for a, b in zip(points[j], points[i], strict=True)) for j in kept):
            kept.append(i)
    kept.sort()
    return [kept[i] for i in front_of([points[i] for i in kept])]


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """What is dominated by the points within the reference: the area for two objectives, and so on. By slices along the
    last objective, which is quick enough for a few dozen points."""
    inside = [point for point in points if all(a < b for a, b in zip(point, reference, strict=True))]
    if not inside:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(point[0] for point in inside)
    inside.sort(key=lambda point: point[-1])
    total = 0.0
    for i, point in enumerate(inside):
        above = inside[i + 1][-1] if i + 1 < len(inside) else reference[-1]
        if above > point[-1]:
            total += (above - point[-1]) * hypervolume([other[:-1] for other in inside[: i + 1]], reference[:-1])
    return total


def spread(points: Sequence[Point], count: int) -> list[int]:
    """Indices of at most so many points of a front that together dominate the most, the best first: one after the
    other is taken that adds most to the volume that they dominate."""
    if len(points) <= count:
        return list(range(len(points)))
    reference = [1.1 * max(values) for values in zip(*points, strict=True)]
    taken: list[int] = []
    while len(taken) < count:
        rest = [i for i in range(len(points)) if i not in taken]
        taken.append(max(rest, key=lambda i: hypervolume([points[j] for j in [*taken, i]], reference)))
    return taken

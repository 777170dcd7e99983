"""The hypervolume of a front: how much of the space between a reference point and the ideal it dominates. Exact.

Points are oriented (higher is better). Swept from the best value of the last coordinate to the worst: between two of
them lies a slab whose height is their distance, and whose base is the hypervolume of the points so far in one dimension
less (Zitzler and Thiele 1998; by slicing, as While, Hingston, Barone, Huband 2006 describe it). ``O(n log n)`` for two
objectives, ``O(n^2 log n)`` for three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Point = Sequence[float]
MOST_OBJECTIVES = 3
"""More than these take too long by slices."""


def hypervolume(points: Sequence[Point], reference: Point) -> float | None:
    """Volume of the union of the boxes between `reference` and each of `points`, which are oriented.

    A point that is not better than the reference in every coordinate adds nothing. None where there are no coordinates
    or more than `MOST_OBJECTIVES`, or the volume is beyond a double.

    >>> hypervolume([(1.0, 3.0), (2.0, 2.0)], (0.0, 0.0))
    5.0
    """
    if not 1 <= len(reference) <= MOST_OBJECTIVES:
        return None
    inside = [tuple(p) for p in points if all(a > b for a, b in zip(p, reference, strict=True))]
    volume = _volume(inside, tuple(reference))
    return volume if math.isfinite(volume) else None


def _volume(points: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    if not points:
        return 0.0
    if len(reference) == 1:
        return max(p[0] for p in points) - reference[0]
    if len(reference) == 2:
        return _area(points, reference)
    ordered = sorted(points, key=lambda p: p[-1], reverse=True)
    slabs: list[float] = []
    for i, point in enumerate(ordered):
        below = ordered[i + 1][-1] if i + 1 < len(ordered) else reference[-1]
        if point[-1] > below:
            slabs.append((point[-1] - below) * _volume([p[:-1] for p in ordered[: i + 1]], reference[:-1]))
    return _sum(slabs)


def _area(points: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    strips: list[float] = []
    height = reference[1]
    for x, y in sorted(points, reverse=True):
        if y > height:
            strips.append((x - reference[0]) * (y - height))
            height = y
    return _sum(strips)


def _sum(parts: Sequence[float]) -> float:
    try:
        return math.fsum(parts)
    except (OverflowError, ValueError):  # beyond a double, by one part or by all
        return math.inf

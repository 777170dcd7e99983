"""When planes should land that use one runway in a given order.

Planes are dicts with ``earliest``, ``target``, ``latest``, ``penalty_early``, ``penalty_late``; ``separation[i][j]`` is
the least time from the landing of i to that of j.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Planes = Sequence[Mapping[str, float]]
Separation = Sequence[Sequence[float]]
_WINDOW = 1e9
"""Slope of the cost outside a window: more than all penalties together."""


def timed(row: Sequence[int], planes: Planes, separation: Separation) -> tuple[list[float], float]:
    """Landing times of the planes of `row` in this order, and what they cost; infinite if a rule cannot be kept.

    Only neighbours are kept apart. That is enough, and the times are the best, if no plane in between is a short cut
    (separations obey the triangle inequality); else the cost may be infinite where it need not be. Planes that push
    each other are merged into blocks, and each block stands where it costs least (Garey, Tarjan, Wilfong, 1988).
    """
    blocks: list[tuple[list[int], list[float], float]] = []  # planes, their offsets in the block, its start
    for plane in row:
        block = ([plane], [0.0], _best_start([plane], [0.0], planes))
        while blocks:
            members, offsets, start = blocks[-1]
            shift = offsets[-1] + separation[members[-1]][block[0][0]]
            if start + shift <= block[2]:
                break
            blocks.pop()
            members, offsets = members + block[0], offsets + [shift + offset for offset in block[1]]
            block = (members, offsets, _best_start(members, offsets, planes))
        blocks.append(block)
    times = [start + offset for _, offsets, start in blocks for offset in offsets]
    return times, _cost(row, times, planes, separation)


def improved(row: Sequence[int], planes: Planes, separation: Separation) -> tuple[list[int], float]:
    """A better order, by exchanging neighbours while that helps (five times around at most), and its cost.

    A row of more than 40 planes is only timed: that takes long enough.
    """
    best, cost = list(row), timed(row, planes, separation)[1]
    for _ in range(5 if len(row) <= 40 else 0):
        before = cost
        for place in range(len(best) - 1):
            trial = [*best[:place], best[place + 1], best[place], *best[place + 2 :]]
            found = timed(trial, planes, separation)[1]
            if found < cost:
                best, cost = trial, found
        if cost == before:
            break
    return best, cost


def _best_start(members: Sequence[int], offsets: Sequence[float], planes: Planes) -> float:
    """Where a block costs least: the slope of its cost changes its sign there."""
    corners, slope = [], 0.0
    for number, offset in zip(members, offsets, strict=True):
        plane = planes[number]
        slope -= plane["penalty_early"] + _WINDOW
        corners.append((plane["earliest"] - offset, _WINDOW))
        corners.append((plane["target"] - offset, plane["penalty_early"] + plane["penalty_late"]))
        corners.append((plane["latest"] - offset, _WINDOW))
    for at, change in sorted(corners):
        slope += change
        if slope >= 0:
            return at
    return corners[-1][0]  # only if rounding left the slope below zero


def _cost(row: Sequence[int], times: Sequence[float], planes: Planes, separation: Separation) -> float:
    total = 0.0
    for place, (number, time) in enumerate(zip(row, times, strict=True)):
        plane = planes[number]
        if not plane["earliest"] <= time <= plane["latest"]:
            return math.inf
        if any(time - times[k] < separation[row[k]][number] for k in range(place)):
            return math.inf
        early, late = max(0.0, plane["target"] - time), max(0.0, time - plane["target"])
        total += plane["penalty_early"] * early + plane["penalty_late"] * late
    return total

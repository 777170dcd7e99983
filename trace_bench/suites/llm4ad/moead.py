"""MOEA/D on DTLZ4: a multiobjective evolutionary algorithm whose decomposition is a program, and the hypervolume.

DTLZ4 (Deb, Thiele, Laumanns, Zitzler, 2005) has three objectives to be minimized; its Pareto front is the part of the
unit sphere with no negative coordinate, and its solutions crowd at the edges of that.

MOEA/D (Zhang, Li, 2007) here goes by generations: each weight vector has one solution; each generation makes a child
for each of them, and then each weight vector keeps the best of its solution and the children of its neighbours, by the
value of the decomposition. So one call scores a whole generation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Decomposition = Callable[[Floats, Floats, Floats], Floats]

OBJECTIVES = 3
NEIGHBOURS = 15
"""Weight vectors that mate with, and learn from, one another."""
REFERENCE = 1.1
"""Each coordinate of the point that the hypervolume reaches to."""

_BIAS = 100.0
_AT_HOME = 0.9
_CROSSOVER, _MUTATION = 20.0, 20.0


def dtlz4(x: Floats) -> Floats:
    """Objectives, shape (n, 3), of solutions within 0 .. 1, shape (n, variables)."""
    grown = 1 + np.square(x[:, OBJECTIVES - 1 :] - 0.5).sum(axis=1)
    angles = x[:, : OBJECTIVES - 1] ** _BIAS * (np.pi / 2)
    rise, turn = angles[:, 0], angles[:, 1]
    sphere = (np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise))
    objectives: Floats = grown[:, None] * np.stack(sphere, axis=1)
    return objectives


def directions(partitions: int) -> Floats:
    """Weight vectors that sum to 1, on a lattice (Das, Dennis, 1998): shape ((p + 1)(p + 2) / 2, 3)."""
    found = [(i, j, partitions - i - j) for i in range(partitions + 1) for j in range(partitions + 1 - i)]
    return np.array(found, dtype=np.float64) / partitions


def evolved(
    decompose: Decomposition, rng: np.random.Generator, *, variables: int, generations: int, partitions: int
) -> Floats:
    """The objectives of the last generation, one row for each weight vector.

    Args:
        decompose: values, shape (n,), of objectives (n, 3) for weights (n, 3) and an ideal point (3,); less is better.
    """
    weights = directions(partitions)
    size = len(weights)
    between: Floats = np.square(weights[:, None] - weights[None]).sum(axis=2)
    near = np.argsort(between, axis=1, kind="stable")[:, : min(NEIGHBOURS, size)]
    solutions = rng.random((size, variables))
    values = dtlz4(solutions)
    ideal = values.min(axis=0)
    for _ in range(generations):
        children = _children(rng, solutions, near)
        found = dtlz4(children)
        ideal = np.minimum(ideal, found.min(axis=0))
        offered = np.concatenate([values[:, None], found[near]], axis=1)
        wanted = np.repeat(weights, offered.shape[1], axis=0)
        cost = decompose(offered.reshape(-1, OBJECTIVES), wanted, ideal).reshape(size, -1)
        best = cost.argmin(axis=1)
        taken = np.concatenate([solutions[:, None], children[near]], axis=1)
        rows = np.arange(size)
        solutions, values = taken[rows, best], offered[rows, best]
    return values


def _children(rng: np.random.Generator, solutions: Floats, near: NDArray[np.int64]) -> Floats:
    """One child for each weight vector: simulated binary crossover of two mates, then polynomial mutation."""
    size, variables = solutions.shape
    mates = near[np.arange(size)[:, None], rng.integers(near.shape[1], size=(size, 2))]
    away = rng.random((size, 1)) >= _AT_HOME
    mates = np.where(away, rng.integers(size, size=(size, 2)), mates)
    one, two = solutions[mates[:, 0]], solutions[mates[:, 1]]

    u = rng.random((size, variables))
    spread = np.where(u < 0.5, 2 * u, 1 / (2 - 2 * u)) ** (1 / (_CROSSOVER + 1))
    spread = np.where(rng.random((size, variables)) < 0.5, spread, 1.0)
    side = np.where(rng.random((size, variables)) < 0.5, 1.0, -1.0)
    child = 0.5 * ((one + two) + side * spread * (one - two))

    u = rng.random((size, variables))
    low, high = (2 * u) ** (1 / (_MUTATION + 1)) - 1, 1 - (2 - 2 * u) ** (1 / (_MUTATION + 1))
    mutated = rng.random((size, variables)) < 1 / variables
    return np.clip(child + np.where(mutated, np.where(u < 0.5, low, high), 0.0), 0.0, 1.0)


def front(points: Floats) -> Floats:
    """The points that no other dominates, each once, in ascending order."""
    found: Floats = np.unique(points, axis=0)
    no_worse = np.all(found[:, None] <= found[None], axis=2) & ~np.eye(len(found), dtype=bool)
    kept: Floats = found[~no_worse.any(axis=0)]
    return kept


def hypervolume(points: Floats, reference: float = REFERENCE) -> float:
    """The volume of what the points (n, 3) dominate below (reference, reference, reference): exact.

    A plane sweeps along the third objective; between two points it adds the area that those passed dominate.
    """
    points = points[(points < reference).all(axis=1)]
    points = points[np.argsort(points[:, 2], kind="stable")]
    levels = [*points[:, 2].tolist(), reference]
    slices = [_area(points[: k + 1, :2], reference) * (levels[k + 1] - levels[k]) for k in range(len(points))]
    return math.fsum(slices)


def _area(points: Floats, reference: float) -> float:
    """The same in the plane."""
    ordered = points[np.argsort(points[:, 0], kind="stable")]
    lowest = np.minimum.accumulate(ordered[:, 1])
    widths = np.diff(np.append(ordered[:, 0], reference))
    return float((widths * (reference - lowest)).sum())


def best_hypervolume() -> float:
    """Of the whole front: what lies in the cube below the reference point, less the octant of the unit ball."""
    return REFERENCE**OBJECTIVES - math.pi / 6

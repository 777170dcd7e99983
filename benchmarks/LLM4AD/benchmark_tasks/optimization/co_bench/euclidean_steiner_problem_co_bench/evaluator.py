"""Euclidean Steiner trees: a candidate adds points, the tree is built here, its length compared with one without
them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import reading, routing

CHUNG_GRAHAM = 0.82416
"""A proven bound of the Steiner ratio (0.824168…, Chung and Graham, 1985), rounded down. That it is 0.866 is
conjectured."""
MARGIN = 1e-9
"""Of the box, as a share of its longer side: a point that is on its edge may lie outside by rounding. A point outside
gains nothing: brought to the edge it is nearer to every other."""


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """Terminals drawn uniformly from the unit square; half to all of `problem_size` of them."""
    n = int(rng.integers(max(3, (problem_size + 1) // 2), problem_size, endpoint=True))
    return _of(rng.random((n, 2)))


def _of(points: np.ndarray) -> dict[str, Any]:
    return {"points": points, "mst": _tree(points)[0]}


def _tree(points: np.ndarray) -> tuple[float, np.ndarray]:
    """Length and edges of a minimum spanning tree."""
    _, edges = routing.spanning_tree_of_points(points)
    legs = points[edges[:, 0]] - points[edges[:, 1]]
    return math.fsum(np.hypot(legs[:, 0], legs[:, 1]).tolist()), edges


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's estein files: the number of problems; of each the number of terminals, then their coordinates."""
    numbers = Numbers(text)
    found = []
    for _ in range(reading.some(numbers, "the number of problems", most=10_000)):
        n = numbers.count("the number of terminals", most=20_000)
        if n < 2:
            raise DataError(f"has a problem of {n} terminals; a tree takes two")
        found.append(_of(np.array(numbers.reals(2 * n, "a coordinate")).reshape(n, 2)))
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    points = instance["points"]
    added = checks.sequence(program(points), "the Steiner points", longest=len(points) - 2)
    if not added:
        return np.empty((0, 2))
    return checks.float_array(added, "the Steiner points", shape=(len(added), 2))


def violations(instance: dict[str, Any], added: np.ndarray) -> Iterator[str]:
    """Points that lie outside the box around the terminals."""
    low, high = instance["points"].min(axis=0), instance["points"].max(axis=0)
    margin = MARGIN * float(max(high - low))
    out = ((added < low - margin) | (added > high + margin)).any(axis=1)
    for number in np.flatnonzero(out).tolist():
        x, y = added[number].tolist()
        yield (
            f"Steiner point {number} at ({x:.6g}, {y:.6g}) lies outside the box around the terminals, "
            f"{low[0]:.6g} .. {high[0]:.6g} by {low[1]:.6g} .. {high[1]:.6g}"
        )


def score(instance: dict[str, Any], added: np.ndarray) -> float:
    """Length of the tree over terminals and Steiner points, as a share of that over the terminals alone."""
    if instance["mst"] == 0:
        return 1.0
    return _tree(np.vstack([instance["points"], added]))[0] / float(instance["mst"])


def worst(instance: dict[str, Any]) -> float:
    """Each of as many points as there may be hangs at the tree of the terminals by an edge as long as the box's
    diagonal."""
    points = instance["points"]
    if instance["mst"] == 0:
        return 1.0
    diagonal = float(np.hypot(*np.ptp(points, axis=0))) * (1 + 4 * MARGIN)
    return 1 + (len(points) - 2) * diagonal / float(instance["mst"])


def bound(instance: dict[str, Any]) -> float:
    return CHUNG_GRAHAM if instance["mst"] > 0 else 1.0


def normalised(instance: dict[str, Any], score: float) -> float:
    """What is saved, as a share of what can be saved at most."""
    return max(0.0, 1 - score) / (1 - CHUNG_GRAHAM)


def remark(instance: dict[str, Any], added: np.ndarray) -> str:
    points = np.vstack([instance["points"], added])
    length, edges = _tree(points)
    n = len(instance["points"])
    degrees = np.bincount(edges.ravel(), minlength=len(points))[n:]
    text = f"The tree is {length:.6g} long, {instance['mst']:.6g} without Steiner points ({n} terminals)."
    if not len(added):
        return text
    idle = int((degrees < 3).sum())
    return f"{text} Of {len(added)} Steiner points {idle} have fewer than three edges, and should go."


def draw(instance: dict[str, Any], added: np.ndarray) -> Drawing:
    points = np.vstack([instance["points"], added])
    low, high = points.min(axis=0), points.max(axis=0)
    drawing = Drawing(low[0], high[0], low[1], high[1])
    for a, b in _tree(points)[1].tolist():
        drawing.path(points[[a, b]], thick=1.5)
    drawing.dots(instance["points"], size=3.5)
    drawing.dots(added, fill="#ee6677", size=3)
    return drawing

"""What routing tasks share: distances, lengths of tours, bounds, and the checks of a construction step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks

Floats = NDArray[np.float64]
MANY = 1200
"""Points for which all distances are too many to work with."""


def distances(points: Floats) -> Floats:
    """Euclidean distances between the rows of `points`, shape (n, 2): symmetric, with a diagonal of exactly 0."""
    x, y = points[:, 0], points[:, 1]
    return np.hypot(x[:, None] - x[None, :], y[:, None] - y[None, :])


def tour_length(tour: Sequence[int], between: Floats) -> float:
    """Length of the closed tour."""
    order = np.asarray(tour)
    return float(between[order, np.roll(order, -1)].sum())


def chosen(answer: Any, offered: Sequence[int], step: int) -> int:
    """The node that a construction step answered, which must be one that was on offer."""
    node = checks.integer(answer, f"the node of step {step}", low=-(2**62), high=2**62)
    if node not in offered:
        raise checks.refuse(f"step {step}: node {node} is not among the {len(offered)} nodes on offer")
    return node


def tour_bound(between: Floats, steps: int = 40) -> float:
    """A lower bound for every closed tour: the 1-tree bound of Held and Karp (1970), raised by subgradient steps."""
    n = len(between)
    if n < 3:
        return float(between[0].sum() * 2) if n == 2 else 0.0
    before: Floats = np.zeros(n)
    prices: Floats = np.zeros(n)
    best, step = 0.0, 0.0
    for turn in range(steps):
        weights = between + prices[:, None] + prices[None, :]
        length, degrees = _one_tree(weights)
        best = max(best, length - 2 * float(prices.sum()))
        off = np.asarray(degrees - 2.0, dtype=np.float64)
        if not off.any():
            break
        step = 0.4 * length / n if turn == 0 else step * 0.06 ** (1 / steps)
        prices = prices + step * (0.6 * off + 0.4 * before)
        before = off
    return best * (1 - 1e-12)


def step_lengths(points: Floats) -> Floats:
    """Lengths of the steps of a closed tour through the rows of `points`; the last one returns to the first row."""
    way = np.roll(points, -1, axis=0) - points
    return np.hypot(way[:, 0], way[:, 1])


def nearest(points: Floats, count: int) -> NDArray[np.int64]:
    """The `count` other rows nearest to each row of `points`, the nearest first."""
    from scipy.spatial import cKDTree

    found = cKDTree(points).query(points, k=count + 1)[1].reshape(len(points), -1)
    others = found != np.arange(len(points))[:, None]
    others[others.all(axis=1), -1] = False  # many rows in one place: the row itself need not be among them
    return np.asarray(found[others].reshape(len(points), count), dtype=np.int64)


def tour_bound_of_points(points: Floats) -> float:
    """A lower bound for closed tours: `tour_bound`, or for `MANY` points and more half the way of each to its nearest
    two."""
    if len(points) < MANY:
        return tour_bound(distances(points), steps=25)
    from scipy.spatial import cKDTree

    reached = cKDTree(points).query(points, k=3)[0]
    return float(reached[:, 1:].sum()) / 2 * (1 - 1e-12)


def spanning_tree(weights: Floats) -> tuple[float, NDArray[np.int64]]:
    """Weight and edges, shape (n - 1, 2), of a least spanning tree of the complete graph (Prim); weights may be
    negative. Ties go to the lower number."""
    n = len(weights)
    edges = np.empty((max(0, n - 1), 2), dtype=np.int64)
    if n < 2:
        return 0.0, edges
    reach = weights[0].copy()
    parent = np.zeros(n, dtype=np.int64)
    outside = np.ones(n, dtype=bool)
    outside[0] = False
    reach[0] = np.inf
    total = 0.0
    for step in range(n - 1):
        node = int(reach.argmin())
        total += float(reach[node])
        edges[step] = parent[node], node
        reach[node] = np.inf
        outside[node] = False
        closer = (weights[node] < reach) & outside
        reach[closer] = weights[node][closer]
        parent[closer] = node
    return total, edges


def degrees_in(edges: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """How many of `edges` end in each of `nodes` nodes."""
    return np.bincount(edges.ravel(), minlength=nodes)


def _one_tree(weights: Floats) -> tuple[float, NDArray[np.int64]]:
    """Weight and degrees of a least spanning tree of nodes 1 … n-1 and the two lightest edges of node 0."""
    total, edges = spanning_tree(weights[1:, 1:])
    degrees = degrees_in(edges + 1, len(weights))
    two = np.argsort(weights[0][1:], kind="stable")[:2] + 1
    degrees[two] += 1
    degrees[0] += 2
    return total + float(weights[0][two].sum()), degrees

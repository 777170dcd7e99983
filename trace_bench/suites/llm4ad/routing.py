"""What routing tasks share: distances, lengths of tours, bounds, and the checks of a construction step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks

Floats = NDArray[np.float64]


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
    prices, best = np.zeros(n), 0.0
    step = float(between.mean()) * 0.15
    for _ in range(steps):
        weights = between + prices[:, None] + prices[None, :]
        length, degrees = _one_tree(weights)
        best = max(best, length - 2 * float(prices.sum()))
        if (degrees == 2).all():
            break
        prices += step * (degrees - 2)
        step *= 0.93
    return best * (1 - 1e-12)


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

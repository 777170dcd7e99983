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


def _one_tree(weights: Floats) -> tuple[float, NDArray[np.int64]]:
    """Weight and degrees of a least spanning tree of nodes 1 … n-1 and the two lightest edges of node 0 (Prim)."""
    n = len(weights)
    degrees = np.zeros(n, dtype=np.int64)
    reach = weights[1].copy()
    parent = np.ones(n, dtype=np.int64)
    reach[:2] = np.inf
    total = 0.0
    for _ in range(n - 2):
        node = int(reach.argmin())
        total += float(reach[node])
        degrees[node] += 1
        degrees[parent[node]] += 1
        reach[node] = np.inf
        closer = (weights[node] < reach) & np.isfinite(reach)
        reach[closer] = weights[node][closer]
        parent[closer] = node
    two = np.argsort(weights[0][1:], kind="stable")[:2] + 1
    degrees[two] += 1
    degrees[0] += 2
    return total + float(weights[0][two].sum()), degrees

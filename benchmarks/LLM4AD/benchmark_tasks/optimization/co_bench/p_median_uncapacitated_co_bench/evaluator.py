"""Uncapacitated p-median: distances of all vertices to the nearest of p chosen ones; less is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import location, reading


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """Like OR-Library's pmed files: a random connected graph, lengths 1 .. 100; a fiftieth to a tenth are medians."""
    n = int(rng.integers(max(3, problem_size // 2), problem_size + 1))
    p = int(rng.integers(max(1, n // 50), max(1, n // 10) + 1))
    order = rng.permutation(n)
    tree = [(int(order[i]), int(order[rng.integers(i)])) for i in range(1, n)]
    others = rng.integers(n, size=(2 * n, 2))
    edges = tree + [(u, v) for u, v in others.tolist() if u != v]
    lengths = rng.integers(1, 101, len(edges)).tolist()
    return {"p": p, "dist": _shortest(n, [(u, v, w) for (u, v), w in zip(edges, lengths, strict=True)])}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's pmed files: n, the number of edges, p; the ends (from 1) and the length of each edge, of which the
    last counts where a pair is listed again."""
    numbers = Numbers(text)
    n, m = reading.some(numbers, "the number of vertices", most=5000), numbers.count("the number of edges")
    p = numbers.count("the number of medians", most=n)
    edges: dict[tuple[int, int], float] = {}
    for _ in range(m):
        u, v, length = numbers.integer("a vertex"), numbers.integer("a vertex"), numbers.real("a length")
        if not (1 <= u <= n and 1 <= v <= n and length >= 0):
            raise DataError(f"has an edge {u} {v} of length {length:g}; ends must lie within 1 .. {n}, lengths above 0")
        edges[min(u, v) - 1, max(u, v) - 1] = length
    numbers.end()
    dist = _shortest(n, [(u, v, length) for (u, v), length in edges.items()])
    if p < 1 or not np.isfinite(dist).all():
        raise DataError("has no median, or vertices that no path joins")
    return [{"p": p, "dist": dist}]


def _shortest(n: int, edges: list[tuple[int, int, float]]) -> np.ndarray:
    """Lengths of shortest paths (Dijkstra); whole numbers where all lengths are."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    best: dict[tuple[int, int], float] = {}
    for u, v, length in edges:
        ends = min(u, v), max(u, v)
        best[ends] = min(best.get(ends, np.inf), length)
    rows, columns = np.array(list(best), dtype=np.int32).reshape(-1, 2).T
    graph = csr_array((np.array(list(best.values()), dtype=np.float64), (rows, columns)), shape=(n, n))
    dist = shortest_path(graph, method="D", directed=False)
    return dist.astype(np.int64) if np.isfinite(dist).all() and (dist == np.rint(dist)).all() else dist


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The medians."""
    n = len(instance["dist"])
    return location.subset(program(n, instance["p"], instance["dist"]), "the medians", n)


def violations(instance: dict[str, Any], medians: list[int]) -> Iterator[str]:
    """Another number of medians than p."""
    if len(medians) != instance["p"]:
        yield f"{len(medians)} vertices are chosen as medians, and they must be exactly {instance['p']}"


def score(instance: dict[str, Any], medians: list[int]) -> float:
    return float(instance["dist"][medians].min(axis=0).sum())


def worst(instance: dict[str, Any]) -> float:
    """The farthest median for each vertex."""
    return float(instance["dist"].max(axis=0).sum())


def bound(instance: dict[str, Any]) -> float:
    """By Lagrangian relaxation; rounded up where distances are whole."""
    dist = instance["dist"]
    found = location.lagrangian_bound(dist, sites=instance["p"])
    return location.whole(found) if (dist == np.rint(dist)).all() else found


def remark(instance: dict[str, Any], medians: list[int]) -> str:
    near = instance["dist"][medians]
    sizes = np.bincount(near.argmin(axis=0), minlength=len(medians))
    far = int(near.min(axis=0).argmax())
    return (
        f"Medians serve {sizes.min()} to {sizes.max()} vertices each, at a mean distance of "
        f"{near.min(axis=0).mean():.4g}; vertex {far} is farthest from its median, {near[:, far].min():.10g}."
    )

"""Graph colouring: counts the colours of a proper colouring; fewer are better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import reading

STARTS = 120


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """A random graph G(n, p) with random n and p."""
    n = int(rng.integers(max(2, problem_size // 2), problem_size + 1))
    share = rng.uniform(0.1, 0.9)
    upper = np.triu(rng.random((n, n)) < share, k=1)
    return {"n": n, "edges": np.argwhere(upper)}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's gcol files (DIMACS): ``p edge n m``, then ``e u v`` for each edge, nodes from 1."""
    numbers = Numbers("\n".join("" if row.lstrip().startswith("c") else row for row in text.splitlines()))
    if numbers.word("the line 'p edge n m'") != "p":
        raise DataError("does not begin with a line 'p edge n m'")
    numbers.word("the word 'edge'")
    n, m = reading.some(numbers, "the number of nodes"), numbers.count("the number of edges")
    found: set[tuple[int, int]] = set()
    for _ in range(m):
        if numbers.word("a line 'e u v'") != "e":
            raise DataError(f"{numbers.place}: must be 'e u v'")
        u, v = numbers.integer("a node"), numbers.integer("a node")
        if not (1 <= u <= n and 1 <= v <= n and u != v):
            raise DataError(f"{numbers.place}: has an edge {u} {v}; the ends must differ and lie within 1 .. {n}")
        found.add((min(u, v) - 1, max(u, v) - 1))
    numbers.end()
    return [{"n": n, "edges": np.array(sorted(found), dtype=np.int64).reshape(-1, 2)}]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    n = instance["n"]
    return checks.integers(program(n, instance["edges"]), "the colours", length=n, low=0, high=n - 1)


def violations(instance: dict[str, Any], colours: list[int]) -> Iterator[str]:
    """Every edge within one colour."""
    of = np.array(colours)
    edges = instance["edges"]
    for u, v in edges[of[edges[:, 0]] == of[edges[:, 1]]].tolist():
        yield f"nodes {u} and {v} are joined by an edge and both have colour {colours[u]}"


def score(instance: dict[str, Any], colours: list[int]) -> float:
    """Number of different colours."""
    return float(len(set(colours)))


def worst(instance: dict[str, Any]) -> float:
    """One more than a colour for each node."""
    return instance["n"] + 1.0


def bound(instance: dict[str, Any]) -> float:
    """The nodes of a clique, found greedily from each of the `STARTS` nodes of most neighbours: all differ in
    colour."""
    near = _neighbours(instance)
    best = 1
    for start in np.argsort(-near.sum(axis=1), kind="stable")[:STARTS].tolist():
        left, size = near[start].copy(), 1
        degrees = near[left].sum(axis=0)  # among those that are left
        while left.any():
            node = np.where(left, degrees, -1).argmax()
            degrees -= near[left & ~near[node]].sum(axis=0)
            left &= near[node]
            size += 1
        best = max(best, size)
    return float(best)


def remark(instance: dict[str, Any], colours: list[int]) -> str:
    sizes = sorted(np.bincount(colours)[np.unique(colours)].tolist())
    n, m = instance["n"], len(instance["edges"])
    return (
        f"{len(sizes)} colours for {n} nodes and {m} edges (density {2 * m / max(1, n * (n - 1)):.2f}); "
        f"classes have {sizes[0]} to {sizes[-1]} nodes, {sizes.count(1)} of them a single one."
    )


def _neighbours(instance: dict[str, Any]) -> np.ndarray:
    n, edges = instance["n"], instance["edges"]
    near = np.zeros((n, n), dtype=bool)
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    return near

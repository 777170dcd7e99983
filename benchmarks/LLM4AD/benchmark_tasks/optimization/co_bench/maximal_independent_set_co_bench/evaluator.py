"""Independent set: counts nodes of which no two are joined; more are better."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.llm4ad import graphs

PLANTED_SHARE = 0.5
TIGHTNESS = 0.25
"""Share of the pairs between two joined cliques that are edges."""


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """A random graph, or one of Xu, Boussemart, Hemery and Lecoutre's (2007) with a hidden largest set."""
    if rng.random() < PLANTED_SHARE:
        return _planted(rng, problem_size)
    n = int(rng.integers((problem_size + 1) // 2, problem_size + 1))
    upper = np.triu(rng.random((n, n)) < rng.uniform(0.05, 0.25), k=1)
    return {"n": n, "edges": np.argwhere(upper), "largest": None}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """DIMACS (``p edge n m``, ``e u v``) or an edge list (``u v``): see `trace_bench.suites.llm4ad.graphs`."""
    n, edges = graphs.read_edges(text)
    return [{"n": n, "edges": edges, "largest": None}]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    n = instance["n"]
    nodes = checks.sequence(program(n, instance["edges"]), "the set", longest=n)
    found = checks.integers(nodes, "the set", low=0, high=n - 1)
    seen: set[int] = set()
    for node in found:
        if node in seen:
            raise checks.refuse(f"the set must name each node once, and names {node} twice")
        seen.add(node)
    return found


def violations(instance: dict[str, Any], nodes: list[int]) -> Iterator[str]:
    """Every edge within the set."""
    inside = np.zeros(instance["n"], dtype=bool)
    inside[nodes] = True
    edges = instance["edges"]
    for u, v in edges[inside[edges[:, 0]] & inside[edges[:, 1]]].tolist():
        yield f"nodes {u} and {v} are both in the set and are joined by an edge"


def score(instance: dict[str, Any], nodes: list[int]) -> float:
    """Number of nodes."""
    return float(len(nodes))


def worst(instance: dict[str, Any]) -> float:
    """The empty set."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """A cover by cliques; of a graph made from cliques, their number."""
    if instance["largest"] is not None:
        return float(instance["largest"])
    return float(graphs.clique_cover(instance["n"], instance["edges"]))


def remark(instance: dict[str, Any], nodes: list[int]) -> str:
    n, m = instance["n"], len(instance["edges"])
    u, v = instance["edges"].T
    inside = np.zeros(n, dtype=bool)
    inside[nodes] = True
    joined = np.bincount(u[inside[v]], minlength=n) + np.bincount(v[inside[u]], minlength=n)
    joined[nodes] = -1
    degrees = np.bincount(instance["edges"].ravel(), minlength=n)
    mean = float(degrees[nodes].mean()) if nodes else 0.0
    return (
        f"{len(nodes)} of {n} nodes, with {mean:.1f} neighbours on average where all nodes have "
        f"{2 * m / max(1, n):.1f}; {int((joined == 0).sum())} more nodes could be added at once, "
        f"{int((joined == 1).sum())} have one neighbour in the set."
    )


def _planted(rng: np.random.Generator, problem_size: int) -> dict[str, Any]:
    """k cliques of k ** 0.8 nodes each, and random edges between them that spare one node of each."""
    most = 2
    while (most + 1) * round((most + 1) ** 0.8) <= problem_size:
        most += 1
    k = int(rng.integers(max(2, round(0.7 * most)), most + 1))
    size = round(k**0.8)
    near = np.kron(np.eye(k, dtype=bool), np.ones((size, size), dtype=bool))
    spared = np.arange(k) * size + rng.integers(size, size=k)
    for _ in range(round(0.8 / math.log(4 / 3) * k * math.log(k))):
        a, b = (int(c) for c in rng.choice(k, size=2, replace=False))
        block = rng.random((size, size)) < TIGHTNESS
        near[a * size : (a + 1) * size, b * size : (b + 1) * size] |= block
        near[b * size : (b + 1) * size, a * size : (a + 1) * size] |= block.T
    near[np.ix_(spared, spared)] = False
    names = rng.permutation(k * size)
    shuffled = near[np.ix_(names, names)]
    return {"n": k * size, "edges": np.argwhere(np.triu(shuffled, k=1)), "largest": k}

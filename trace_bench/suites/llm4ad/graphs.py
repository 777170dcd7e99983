"""What graph tasks share: reading edges, adjacency, and a cover by cliques."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites.data_files import DataError

Edges = NDArray[np.int64]
Adjacency = NDArray[np.bool_]
MOST_NODES = 100_000


def read_edges(text: str) -> tuple[int, Edges]:
    """Number of nodes, and edges of shape (m, 2) with u < v, sorted, each once.

    Two formats are read. DIMACS has a line ``p edge n m`` (or ``p col n m``) and lines ``e u v`` with nodes from 1;
    lines that begin with ``c`` are comments. An edge list has a line ``u v`` for each edge and a line ``u`` for a node
    without edges; nodes count from 0, or from 1 if there is no node 0; what follows ``#`` or ``%`` is a comment.

    Raises:
        DataError: a line is of neither format, or an edge joins a node with itself.
    """
    rows = [(number, row.split()) for number, row in enumerate(text.splitlines(), 1) if row.strip()]
    if any(words[0] == "p" for _, words in rows):
        return _dimacs([(number, words) for number, words in rows if words[0] != "c"])
    found: set[tuple[int, int]] = set()
    nodes: set[int] = set()
    for number, row in enumerate(text.splitlines(), 1):
        words = row.split("#")[0].split("%")[0].split()
        if not words:
            continue
        if len(words) > 2:
            raise DataError(f"line {number}: an edge is two numbers, not {len(words)} words")
        ends = [_node(word, number, 0, MOST_NODES) for word in words]
        nodes.update(ends)
        if len(ends) == 2:
            found.add(_edge(ends[0], ends[1], number))
    if not nodes:
        raise DataError("has no edges")
    least = 0 if 0 in nodes else 1
    return max(nodes) + 1 - least, _sorted({(u - least, v - least) for u, v in found})


def adjacency(n: int, edges: Edges) -> Adjacency:
    """Whether two nodes are joined, shape (n, n)."""
    near = np.zeros((n, n), dtype=bool)
    near[edges[:, 0], edges[:, 1]] = near[edges[:, 1], edges[:, 0]] = True
    return near


def clique_cover(near: Adjacency) -> int:
    """Number of cliques in a greedy partition of the nodes: no independent set has more nodes, one in each at most."""
    left = np.ones(len(near), dtype=bool)
    count = 0
    while left.any():
        degrees = np.where(left, (near & left).sum(axis=1), len(near))
        node = int(degrees.argmin())  # nodes of few neighbours first: they have the least choice
        left[node] = False
        common = near[node] & left
        while common.any():
            inside = np.flatnonzero(common)
            node = int(inside[near[np.ix_(inside, inside)].sum(axis=1).argmax()])
            left[node] = False
            common &= near[node]
        count += 1
    return count


def _dimacs(rows: list[tuple[int, list[str]]]) -> tuple[int, Edges]:
    number, words = rows[0]
    if words[0] != "p" or len(words) != 4 or words[1] not in ("edge", "col"):
        raise DataError(f"line {number}: must be 'p edge n m'")
    n = _node(words[2], number, 1, MOST_NODES)
    found = set()
    for number, words in rows[1:]:
        if words[0] != "e" or len(words) != 3:
            raise DataError(f"line {number}: must be 'e u v'")
        u, v = (_node(word, number, 1, n) for word in words[1:])
        found.add(_edge(u - 1, v - 1, number))
    return n, _sorted(found)


def _node(word: str, line: int, low: int, high: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 10 and low <= int(word) <= high):
        raise DataError(f"line {line}: a node must be a whole number within {low} .. {high}, not {word[:40]!r}")
    return int(word)


def _edge(u: int, v: int, line: int) -> tuple[int, int]:
    if u == v:
        raise DataError(f"line {line}: an edge joins a node with itself")
    return min(u, v), max(u, v)


def _sorted(found: set[tuple[int, int]]) -> Edges:
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)

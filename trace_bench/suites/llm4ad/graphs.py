"""What graph tasks share: reading edges, neighbours, and a cover by cliques."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites.data_files import DataError

Edges = NDArray[np.int64]
MOST_NODES = 5000
"""In a file. The cover of a dense graph of that size takes a few seconds."""


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


def neighbours(n: int, edges: Edges) -> list[NDArray[np.int64]]:
    """The nodes that each node is joined with, ascending."""
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, n)))[:n]


def clique_cover(n: int, edges: Edges) -> int:
    """Number of cliques in a greedy partition of the nodes: no independent set has more nodes, one in each at most."""
    near = neighbours(n, edges)
    masks = [_mask(n, row) for row in near]
    degrees = np.array([len(row) for row in near], dtype=np.int64)
    left, count = np.ones(n, dtype=bool), 0

    def take(node: int) -> None:
        left[node] = False
        degrees[near[node]] -= 1
        degrees[node] = 2 * n  # never the least again: it falls by n - 1 at most

    while left.any():
        node = int(degrees.argmin())  # nodes of few neighbours first: they have the least choice
        common = near[node][left[near[node]]].tolist()
        take(node)
        while common:
            mask = _mask(n, common)
            node = max(common, key=lambda other: (masks[other] & mask).bit_count())
            take(node)
            common = [other for other in common if masks[node] >> other & 1]
        count += 1
    return count


def _mask(n: int, nodes: NDArray[np.int64] | list[int]) -> int:
    """An int whose bits say which nodes these are."""
    flags = np.zeros(n, dtype=bool)
    flags[nodes] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


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

"""Symmetric admissible sets: grown greedily by the priorities that a function gives to vectors; larger is better.

A set A(n, w) of vectors in {0, 1, 2}^n is *admissible* if each has w non-zero entries, no two have their non-zero
entries at the same places, and every three distinct ones have a coordinate where their entries are 0, 1, 2 or 0, 0, 1
or 0, 0, 2 in some order (a *good* one). Such sets give large cap sets.

As in FunSearch, only sets are built that stay the same when, in any block of three consecutive coordinates, the
entries are turned (a, b, c) -> (c, a, b), whichever blocks of a vector are turned. They fall into *orbits*: all turns
of all blocks of one vector, its *element*, the least of them. Whether three orbits go together can be seen block by
block: they do not if and only if each block can be turned, for each of the three by itself, so that none of its
coordinates is good. With one vector taken twice this also says that places differ, since vectors of equal weight
whose places differ have a coordinate where one is 0 and the other is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from trace_bench.suites import checks
from trace_bench.worker.problem import ProblemError

Block = tuple[int, int, int]
GOOD = {(0, 1, 2), (0, 0, 1), (0, 0, 2)}
BEST_KNOWN = {(12, 7): 792, (15, 10): 3003}
"""Sizes that FunSearch (2024) reports; both are full."""


def turns(block: Block) -> set[Block]:
    return {block[k:] + block[:k] for k in range(3)}  # type: ignore[misc]


def apart(*blocks: Block) -> bool:
    """Whether one of the coordinates of three blocks is good."""
    return any(tuple(sorted(column)) in GOOD for column in zip(*blocks, strict=True))


def _kinds() -> list[Block]:
    """The blocks, each the least of its turns, whose orbit breaks no rule by itself: seven."""
    least = [block for block in product(range(3), repeat=3) if block == min(turns(block))]  # type: ignore[arg-type]
    return [
        kind
        for kind in least
        if all(a == b == c or apart(a, b, c) for a, b, c in product(sorted(turns(kind)), repeat=3))
    ]


KINDS = _kinds()
SIZES = np.array([len(turns(kind)) for kind in KINDS])
WEIGHTS = np.array([sum(entry > 0 for entry in kind) for kind in KINDS])
CLASH = np.array([
    [[any(not apart(*turned) for turned in product(turns(a), turns(b), turns(c))) for c in KINDS] for b in KINDS]
    for a in KINDS
])  # fmt: skip
"""Whether blocks of three kinds can be turned so that no coordinate is good."""


class Grown(NamedTuple):
    """The elements chosen, one row of `KINDS` each, and how many were left after each choice."""

    chosen: np.ndarray
    left: list[int]


def instance(rng: np.random.Generator, *, dimension: int, weight: int) -> dict[str, Any]:
    """There is no random data."""
    if dimension % 3:
        raise ProblemError(f"dimension is {dimension}, which blocks of three do not fill; give a multiple of 3")
    if weight > dimension:
        raise ProblemError(f"weight is {weight}, and a vector of dimension {dimension} has no more non-zero entries")
    return {"dimension": dimension, "weight": weight}


def best_known(*, dimension: int, weight: int) -> float | None:
    return BEST_KNOWN.get((dimension, weight))


def elements(dimension: int, weight: int) -> np.ndarray:
    """All elements, one row of `KINDS` each, in lexicographic order."""
    blocks = dimension // 3
    rows = np.indices((len(KINDS),) * blocks).reshape(blocks, -1).T
    return rows[WEIGHTS[rows].sum(axis=1) == weight]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Grown:
    """The set that grows by taking, again and again, the element of highest priority that goes with those taken."""
    n, w = instance["dimension"], instance["weight"]
    rows = elements(n, w)
    vectors = np.array(KINDS)[rows].reshape(len(rows), n).tolist()
    priorities = [checks.real(program(tuple(v), n, w), f"the priority of element {number}")
                  for number, v in enumerate(vectors)]  # fmt: skip
    return grown(rows, np.array(priorities))


def grown(rows: np.ndarray, priorities: np.ndarray) -> Grown:
    """By priorities; the first of equal ones."""
    order = rows[np.argsort(-priorities, kind="stable")]
    chosen: list[np.ndarray] = []
    left: list[int] = []
    while len(order):
        new, order = order[0], order[1:]
        chosen.append(new)
        clashing = CLASH[new, order, order].all(axis=1)
        for old in chosen:
            clashing |= CLASH[old, new, order].all(axis=1)
        order = order[~clashing]
        left.append(len(order))
    return Grown(np.array(chosen), left)


def score(instance: dict[str, Any], found: Grown) -> float:
    """The number of vectors, those of all orbits chosen."""
    return float(SIZES[found.chosen].prod(axis=1).sum())


def worst(instance: dict[str, Any]) -> float:
    """No vector at all."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """One vector for each choice of w places of n."""
    return float(math.comb(instance["dimension"], instance["weight"]))


def remark(instance: dict[str, Any], found: Grown) -> str:
    sizes, counts = np.unique(SIZES[found.chosen].prod(axis=1), return_counts=True)
    listed = ", ".join(f"{count} of {size}" for size, count in zip(sizes.tolist(), counts.tolist(), strict=True))
    total = len(elements(instance["dimension"], instance["weight"]))
    after = {k: found.left[k - 1] for k in (1, 10, 30) if k <= len(found.left)}
    ruled = ", ".join(f"{count} after {k}" for k, count in after.items())
    return f"{len(found.left)} of {total} orbits were taken (by size: {listed}). Elements still possible: {ruled}."

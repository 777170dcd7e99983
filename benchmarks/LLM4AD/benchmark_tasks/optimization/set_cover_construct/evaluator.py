"""Set cover by construction: plays a rule that takes one subset after another; fewer are better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.llm4ad import location

LARGEST = 20


def instance(rng: np.random.Generator, *, n_elements: int, n_subsets: int) -> dict[str, Any]:
    """Subsets of 1 to 20 elements; an element that none has is put into one of them."""
    sizes = rng.integers(1, min(LARGEST, n_elements) + 1, n_subsets).tolist()
    subsets = [set(rng.choice(n_elements, size, replace=False).tolist()) for size in sizes]
    for element in sorted(set(range(n_elements)).difference(*subsets)):
        subsets[int(rng.integers(n_subsets))].add(element)
    return {"elements": n_elements, "subsets": [sorted(s) for s in subsets]}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """Numbers of the chosen subsets, in the order of their choice; every element is in one of them."""
    subsets = instance["subsets"]
    chosen: list[int] = []
    open_subsets, missing = list(range(len(subsets))), set(range(instance["elements"]))
    while missing:
        offered = [list(subsets[i]) for i in open_subsets]
        given = program([list(subsets[i]) for i in chosen], offered, sorted(missing))
        number = checks.integer(given, f"the subset of step {len(chosen)}", low=0, high=len(offered) - 1)
        chosen.append(open_subsets.pop(number))
        missing.difference_update(subsets[chosen[-1]])
    return chosen


def score(instance: dict[str, Any], chosen: list[int]) -> float:
    """Number of subsets."""
    return float(len(chosen))


def worst(instance: dict[str, Any]) -> float:
    """One more than all of them."""
    return len(instance["subsets"]) + 1.0


def bound(instance: dict[str, Any]) -> float:
    """Of the linear relaxation, rounded up."""
    subsets = instance["subsets"]
    return location.whole(location.covering_bound(np.ones(len(subsets)), subsets, instance["elements"]))


def remark(instance: dict[str, Any], chosen: list[int]) -> str:
    subsets = instance["subsets"]
    times = location.coverage(subsets, chosen, instance["elements"])
    spare = [i for i in chosen if (times[subsets[i]] > 1).all()]
    gains: list[int] = []
    seen: set[int] = set()
    for i in chosen:
        gains.append(len(set(subsets[i]) - seen))
        seen.update(subsets[i])
    return (
        f"{len(chosen)} subsets hold {int(times.sum())} elements, so that {int((times > 1).sum())} of "
        f"{instance['elements']} are covered more than once; {len(spare)} subsets could be left out on their own; "
        f"{gains.count(1)} were chosen for a single new element."
    )

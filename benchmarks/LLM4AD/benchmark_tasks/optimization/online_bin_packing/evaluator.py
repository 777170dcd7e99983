"""Online bin packing: plays the items of an instance against a priority function (fewer bins are better).

The evaluator holds all state. A call sends the item and the remaining capacities of the bins that it fits
into: open bins in the order of their opening, then one empty bin. (FunSearch offers every unused bin. All
but the first are copies that a choice of the first maximum never needs, and sending thousands of them would
dominate the time of a call; a rule that looks at neighbouring entries can tell the difference, so results
are comparable with its numbers only for rules that judge each bin by itself.)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.worker.problem import CandidateError

SHAPE, SCALE, LARGEST = 3.0, 45.0, 100


def instances(
    split: str, seed: int, count: int, *, n_instance: int, n_items: int, capacity: int
) -> list[tuple[int, ...]]:
    """`count` sequences of `n_items` item sizes, in order of arrival."""
    rng = random.Random(seed)
    top = min(LARGEST, capacity)
    return [
        tuple(min(max(round(rng.weibullvariate(SCALE, SHAPE)), 1), top) for _ in range(n_items)) for _ in range(count)
    ]


def split_sizes(*, n_instance: int, n_items: int, capacity: int) -> dict[str, int]:
    return {"train": n_instance, "validate": n_instance, "test": n_instance}


def failure_score(*, n_instance: int, n_items: int, capacity: int) -> float:
    """A bin for each item: no placement of all items is worse."""
    return float(n_items)


def score_range(*, n_instance: int, n_items: int, capacity: int) -> tuple[float, float]:
    """From a bin for each item to the expected total size over the capacity."""
    top = min(LARGEST, capacity)
    # E[size] is the sum of P(size > k) over k = 0 .. top - 1; sizes are rounded, so size > k means draw > k
    # + 1/2.
    mean = 1.0 + math.fsum(math.exp(-(((k + 0.5) / SCALE) ** SHAPE)) for k in range(1, top))
    return float(n_items), max(1.0, math.floor(n_items * mean / capacity))


def evaluate(
    program: Callable[..., Any], instance: tuple[int, ...], *, n_instance: int, n_items: int, capacity: int
) -> tuple[float, str]:
    """The number of bins used.

    Raises:
        CandidateError: an answer is not one real, non-NaN priority for each bin on offer.
    """
    remaining = np.full(len(instance) + 1, float(capacity))
    used = 0
    for number, size in enumerate(instance):
        item = float(size)
        # Slot `used` is the next empty bin, so that it comes last of what the item fits into.
        fitting = np.flatnonzero(remaining[: used + 1] >= item)
        answer = program(item, remaining[fitting])
        try:
            priorities = checks.float_array(answer, "priorities", shape=fitting.shape, infinite=True)
        except CandidateError as error:
            raise checks.refuse(
                f"item {number} (size {size}, bins on offer: {len(fitting)}): {error.message}"
            ) from error
        chosen = int(fitting[priorities.argmax()])
        remaining[chosen] -= item
        if chosen == used:
            used += 1
    bound = -(-sum(instance) // capacity)
    excess = used - bound
    waste = remaining[:used]
    return float(used), (
        f"{used} bins for {len(instance)} items; the lower bound ceil(sum of sizes / capacity) is {bound}, "
        f"so the excess is at most {excess} bins ({excess / bound:.2%}). On average {waste.mean():.1f} of "
        f"{capacity} stays free in a bin; {int((waste == 0).sum())} bins are full."
    )

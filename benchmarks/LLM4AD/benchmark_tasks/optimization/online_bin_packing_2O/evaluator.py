"""Online bin packing with two objectives: the bins that a priority function uses, and the entries it is asked to score.

Both are counted here, from what was sent, so that they depend on nothing but the program's answers: no clock is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import binpacking


class Played(NamedTuple):
    """The bin of each item; how many entries were sent, in how many blocks."""

    chosen: list[int]
    entries: int
    blocks: int


def instance(rng: np.random.Generator, *, n_items: int, capacity: int) -> dict[str, Any]:
    """Sizes in order of arrival, and the capacity of a bin."""
    return {"sizes": binpacking.weibull_sizes(rng, n_items, capacity), "capacity": capacity}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Played:
    return Played(*binpacking.play_in_blocks(program, instance["sizes"], instance["capacity"]))


def score(instance: dict[str, Any], played: Played) -> float:
    """The number of bins used."""
    return float(max(played.chosen) + 1)


def metrics(instance: dict[str, Any], played: Played) -> dict[str, float]:
    return {"bins": score(instance, played), "operations": float(played.entries)}


def worst(instance: dict[str, Any]) -> float:
    """A bin for each item."""
    return float(len(instance["sizes"]))


def worst_metrics(instance: dict[str, Any]) -> dict[str, float]:
    """A bin for each item, and for each item all bins before it and an empty one looked at."""
    n = len(instance["sizes"])
    return {"bins": float(n), "operations": n * (n + 1) / 2}


def bound(instance: dict[str, Any]) -> float:
    """See `binpacking.lower_bound`."""
    return float(binpacking.lower_bound(instance["sizes"], instance["capacity"]))


def remark(instance: dict[str, Any], played: Played) -> str:
    n = len(instance["sizes"])
    return (
        f"bins: {binpacking.told(instance['sizes'], instance['capacity'], played.chosen)} operations: {played.entries} "
        f"entries were scored, {played.entries / n:.1f} for an item, in {played.blocks} blocks."
    )


def draw(instance: dict[str, Any], played: Played) -> Drawing:
    return binpacking.draw(instance["sizes"], instance["capacity"], played.chosen)

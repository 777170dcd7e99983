"""Bin packing by construction: plays a rule that chooses an item and a bin; fewer bins are better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import binpacking

SIZES = (0.2, 0.35)
"""Least and largest size, in parts of the capacity."""
_HUGE = 2**62


def instance(rng: np.random.Generator, *, n_items: int, capacity: int) -> dict[str, Any]:
    """Sizes of the items, drawn uniformly from 20 % to 35 % of the capacity of a bin."""
    low, high = (max(1, round(part * capacity)) for part in SIZES)
    sizes = rng.integers(low, high, n_items, endpoint=True)
    return {"sizes": tuple(sizes.tolist()), "capacity": capacity}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The bin of each item, bins numbered in the order of their opening."""
    sizes, capacity = instance["sizes"], instance["capacity"]
    chosen = [0] * len(sizes)
    left = list(range(len(sizes)))
    room: list[int] = []
    for step in range(1, len(sizes) + 1):
        found = program(np.array([sizes[i] for i in left]), np.array(room, dtype=np.int64))
        item, where = checks.sequence(found, f"the answer of step {step}", length=2)
        item = checks.integer(item, f"the item of step {step}", low=-_HUGE, high=_HUGE)
        place = next((k for k, i in enumerate(left) if sizes[i] == item), None)
        if place is None:
            raise checks.refuse(f"step {step}: none of the {len(left)} items that remain has size {item}")
        if where is None:
            where = len(room)
            room.append(capacity)
        else:
            where = checks.integer(where, f"the bin of step {step}", low=-_HUGE, high=_HUGE)
            if not 0 <= where < len(room):
                raise checks.refuse(f"step {step}: there is no bin {where}, only {len(room)} open bins, from 0 on")
        if room[where] < item:
            raise checks.refuse(
                f"step {step}: an item of size {item} does not fit into bin {where}, where {room[where]} of {capacity} "
                "is left"
            )
        room[where] -= item
        chosen[left.pop(place)] = where
    return chosen


def score(instance: dict[str, Any], chosen: list[int]) -> float:
    """The number of bins used."""
    return float(max(chosen) + 1)


def worst(instance: dict[str, Any]) -> float:
    """A bin for each item."""
    return float(len(instance["sizes"]))


def bound(instance: dict[str, Any]) -> float:
    """See `binpacking.lower_bound`."""
    return float(binpacking.lower_bound(instance["sizes"], instance["capacity"]))


def remark(instance: dict[str, Any], chosen: list[int]) -> str:
    return binpacking.told(instance["sizes"], instance["capacity"], chosen)


def draw(instance: dict[str, Any], chosen: list[int]) -> Drawing:
    return binpacking.draw(instance["sizes"], instance["capacity"], chosen)

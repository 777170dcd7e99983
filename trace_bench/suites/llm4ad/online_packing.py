"""Online bin packing, judged: plays the items of an instance against a priority function; fewer bins are better.

Two tasks have these functions as their evaluator. All state is held here (`binpacking.play_online`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import binpacking


def instance(rng: np.random.Generator, *, n_items: int, capacity: int) -> dict[str, Any]:
    """Sizes in order of arrival, and the capacity of a bin."""
    return {"sizes": binpacking.weibull_sizes(rng, n_items, capacity), "capacity": capacity}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The bin of each item."""
    return binpacking.play_online(program, instance["sizes"], instance["capacity"])


def score(instance: dict[str, Any], chosen: list[int]) -> float:
    """The number of bins used."""
    return float(max(chosen) + 1)


def worst(instance: dict[str, Any]) -> float:
    """A bin for each item: no placement of all items is worse."""
    return float(len(instance["sizes"]))


def bound(instance: dict[str, Any]) -> float:
    """See `binpacking.lower_bound`."""
    return float(binpacking.lower_bound(instance["sizes"], instance["capacity"]))


def remark(instance: dict[str, Any], chosen: list[int]) -> str:
    """How full the bins are."""
    return binpacking.told(instance["sizes"], instance["capacity"], chosen)


def draw(instance: dict[str, Any], chosen: list[int]) -> Drawing:
    """The first bins that were opened."""
    return binpacking.draw(instance["sizes"], instance["capacity"], chosen)

"""Packing circles of different sizes into a disc: the area that they cover; more is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.llm4ad import round_packing


def instance(rng: np.random.Generator, *, n_items: int) -> dict[str, Any]:
    return round_packing.draw_circles(rng, n_items)


def read(text: str, name: str) -> list[dict[str, Any]]:
    return round_packing.read_circles(text)


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> round_packing.Packing:
    return round_packing.chosen_items(program(instance["radius"], instance["radii"]), instance)


violations = round_packing.violations


def score(instance: dict[str, Any], packing: round_packing.Packing) -> float:
    """Total area of the items packed."""
    return round_packing.packed_area(instance, packing)


def worst(instance: dict[str, Any]) -> float:
    """Nothing is packed."""
    return 0.0


bound = round_packing.area_bound
remark = round_packing.remark
draw = round_packing.picture

"""Knapsack by construction: plays a rule item by item; more value in the knapsack is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, colour

WEIGHTS, VALUES = (10, 59), (1, 100)


def instance(rng: np.random.Generator, *, n_items: int, capacity: int) -> dict[str, Any]:
    """Weights and values, drawn uniformly and apart from one another."""
    weights = rng.integers(WEIGHTS[0], WEIGHTS[1], n_items, endpoint=True)
    values = rng.integers(VALUES[0], VALUES[1], n_items, endpoint=True)
    return {"weights": np.minimum(weights, capacity), "values": values, "capacity": capacity}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The items in the order in which they were packed."""
    weights, values = instance["weights"].tolist(), instance["values"].tolist()
    left, packed = instance["capacity"], list[int]()
    while True:
        offered = {
            (weight, value, index)
            for index, (weight, value) in enumerate(zip(weights, values, strict=True))
            if weight <= left and index not in packed
        }
        if not offered:
            return packed
        found = program(left, sorted(offered, key=lambda item: item[2]))
        if found is None:
            return packed
        name = f"the item of step {len(packed) + 1}"
        weight, value, index = checks.integers(found, name, length=3, low=0, high=2**62)
        if (weight, value, index) not in offered:
            raise checks.refuse(
                f"{name}, (weight {weight}, value {value}, index {index}), is not among the {len(offered)} items on "
                f"offer, those not yet packed that fit into the remaining capacity {left}"
            )
        packed.append(index)
        left -= weight


def score(instance: dict[str, Any], packed: list[int]) -> float:
    """The total value."""
    return float(instance["values"][packed].sum())


def worst(instance: dict[str, Any]) -> float:
    """An empty knapsack."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """Dantzig's (1957): items by value per weight until one does not fit, of which the part that fits is counted."""
    weights, values = instance["weights"].tolist(), instance["values"].tolist()
    left, total = instance["capacity"], 0
    for weight, value in sorted(zip(weights, values, strict=True), key=lambda item: -item[1] / item[0]):
        if weight > left:
            return float(total + left * value // weight)
        left -= weight
        total += value
    return float(total)


def remark(instance: dict[str, Any], packed: list[int]) -> str:
    weights, values = instance["weights"], instance["values"]
    used = int(weights[packed].sum())
    if not packed:
        return f"Nothing was packed; capacity {instance['capacity']} is free."
    density = values / weights
    least = min(packed, key=lambda i: density[i])
    out = np.setdiff1d(np.arange(len(weights)), packed)
    text = (
        f"{len(packed)} of {len(weights)} items weigh {used} of {instance['capacity']}; the value per weight of the "
        f"poorest of them is {density[least]:.2f} (weight {weights[least]}, value {values[least]})"
    )
    if not len(out):
        return text + "; none is left out."
    best = int(out[density[out].argmax()])
    return text + (
        f", of the best that was left out {density[best]:.2f} (weight {weights[best]}, value {values[best]})."
    )


def draw(instance: dict[str, Any], packed: list[int]) -> Drawing:
    """Items by weight (across) and value (up); those packed are filled."""
    weights, values = instance["weights"].tolist(), instance["values"].tolist()
    drawing = Drawing(0, max(weights), 0, max(values), height=280)
    drawing.path([(0, max(values)), (0, 0), (max(weights), 0)])
    drawing.dots(zip(weights, values, strict=True), fill="#bbbbbb", size=3)
    drawing.dots([(weights[i], values[i]) for i in packed], fill=colour(0), size=5)
    return drawing

"""Multi-demand multidimensional knapsack: adds up the values of items within all capacities that meet all demands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import multi_knapsack, reading


def instance(rng: np.random.Generator, *, n_items: int, n_constraints: int) -> dict[str, Any]:
    """In the way of Cappanera and Trubian (2005). A random choice of items is made to satisfy everything."""
    n = int(rng.integers((n_items + 1) // 2, n_items + 1))
    m = n_constraints
    q = (1, max(1, m // 2), m)[int(rng.integers(3))]
    weights, supplies = multi_knapsack.rows(rng, m, n), multi_knapsack.rows(rng, q, n)
    tightness = multi_knapsack.TIGHTNESS[int(rng.integers(3))]
    planted = rng.permutation(n) < round(tightness * n)
    mixed = rng.random() < 0.5
    values = rng.integers(-1000, 1001, size=n).astype(np.float64) if mixed else multi_knapsack.profits(rng, weights)
    return {
        "values": values,
        "weights": weights,
        "capacities": np.maximum(np.floor(tightness * weights.sum(axis=1)), weights @ planted),
        "supplies": supplies,
        "demands": np.minimum(np.ceil(tightness * supplies.sum(axis=1)), supplies @ planted),
    }


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's mdmkp files: the number of problems; for each n and m, then m rows of n weights, m capacities, m
    rows of n supplies, m demands, and six rows of n values. Each problem makes six instances: rows 1 to 3 (positive
    values) and 4 to 6 (mixed) with the first 1, m / 2 and m demands."""
    numbers = Numbers(text)
    found = []
    for number in range(1, reading.some(numbers, "the number of problems") + 1):
        n, m = numbers.count("the number of items", most=100_000), numbers.count("the number of constraints", most=1000)
        if n * m == 0:
            raise DataError(f"has {n} items and {m} constraints in problem {number}")
        weights = multi_knapsack.read_rows(numbers, m, n, "a coefficient of a <= constraint")
        capacities = multi_knapsack.read_rows(numbers, 1, m, "the right-hand side of a <= constraint")[0]
        supplies = multi_knapsack.read_rows(numbers, m, n, "a coefficient of a >= constraint")
        demands = multi_knapsack.read_rows(numbers, 1, m, "the right-hand side of a >= constraint")[0]
        for kind, values in enumerate(multi_knapsack.read_rows(numbers, 6, n, "a value")):
            q = (1, max(1, m // 2), m)[kind % 3]
            found.append(
                {
                    "values": values,
                    "weights": weights,
                    "capacities": capacities,
                    "supplies": supplies[:q],
                    "demands": demands[:q],
                }
            )
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    m, n = instance["weights"].shape
    arrays = (instance[name] for name in ("values", "weights", "capacities", "supplies", "demands"))
    return multi_knapsack.chosen(program(n, m, len(instance["demands"]), *arrays), n)


def violations(instance: dict[str, Any], choice: list[int]) -> Iterator[str]:
    """Every capacity that is exceeded, then every demand that is not met."""
    yield from multi_knapsack.over(choice, instance["weights"], instance["capacities"])
    yield from multi_knapsack.under(choice, instance["supplies"], instance["demands"])


def score(instance: dict[str, Any], choice: list[int]) -> float:
    """Value of the chosen items."""
    return float(instance["values"] @ np.array(choice))


def worst(instance: dict[str, Any]) -> float:
    """One less than all items of negative value and no other."""
    return float(np.minimum(instance["values"], 0).sum()) - 1.0


def bound(instance: dict[str, Any]) -> float:
    return multi_knapsack.relaxed(
        instance["values"],
        np.vstack([instance["weights"], -instance["supplies"]]),
        np.concatenate([instance["capacities"], -instance["demands"]]),
    )


def remark(instance: dict[str, Any], choice: list[int]) -> str:
    picked = np.array(choice)
    room = instance["capacities"] - instance["weights"] @ picked
    spare = instance["supplies"] @ picked - instance["demands"]
    good = instance["values"] > 0
    return (
        f"{int(picked.sum())} of {len(choice)} items are chosen, {int((picked * good).sum())} of the "
        f"{int(good.sum())} of positive value; the least room is {room.min():g} (constraint "
        f"{int(room.argmin())}), the least surplus over a demand {spare.min():g} (demand {int(spare.argmin())})."
    )

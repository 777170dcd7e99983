"""Multidimensional knapsack: adds up the profit of items that fit in every dimension; more is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import multi_knapsack, reading


def instance(rng: np.random.Generator, *, n_items: int, dimension: int) -> dict[str, Any]:
    """As Chu and Beasley (1998) draw them, with a random size and one of their three tightnesses."""
    n = int(rng.integers((n_items + 1) // 2, n_items + 1))
    m = int(rng.integers((dimension + 1) // 2, dimension + 1))
    weights = multi_knapsack.rows(rng, m, n)
    tightness = multi_knapsack.TIGHTNESS[int(rng.integers(3))]
    return {
        "profits": multi_knapsack.profits(rng, weights),
        "weights": weights,
        "capacities": np.floor(tightness * weights.sum(axis=1)),
    }


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's mknap files: the number of problems; for each n, m and the best value known (0 if none), then n
    profits, m rows of n weights, and m capacities."""
    numbers = Numbers(text)
    found = []
    for _ in range(reading.some(numbers, "the number of problems")):
        n, m = numbers.count("the number of items", most=100_000), numbers.count("the number of constraints", most=1000)
        known = numbers.real("the best value known")
        if n * m == 0:
            raise DataError(f"has a problem with {n} items and {m} constraints")
        found.append(
            {
                "profits": multi_knapsack.read_rows(numbers, 1, n, "a profit")[0],
                "weights": multi_knapsack.read_rows(numbers, m, n, "a weight"),
                "capacities": multi_knapsack.read_rows(numbers, 1, m, "a capacity")[0],
            }
        )
        if min(array.min() for array in found[-1].values()) < 0:
            raise DataError(f"has a negative profit, weight or capacity in problem {len(found)}")
        if known > 0:
            found[-1]["best_known"] = known
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    m, n = instance["weights"].shape
    chosen = program(n, m, instance["profits"], instance["weights"], instance["capacities"])
    return multi_knapsack.chosen(chosen, n)


def violations(instance: dict[str, Any], choice: list[int]) -> Iterator[str]:
    """Every capacity that is exceeded."""
    return multi_knapsack.over(choice, instance["weights"], instance["capacities"])


def score(instance: dict[str, Any], choice: list[int]) -> float:
    """Profit of the chosen items."""
    return float(instance["profits"] @ np.array(choice))


def worst(instance: dict[str, Any]) -> float:
    """Nothing is chosen."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    return multi_knapsack.relaxed(instance["profits"], instance["weights"], instance["capacities"])


def remark(instance: dict[str, Any], choice: list[int]) -> str:
    picked = np.array(choice)
    used = (instance["weights"] @ picked) / np.maximum(instance["capacities"], 1e-300)
    left = instance["capacities"] - instance["weights"] @ picked
    fit = int(((instance["weights"] <= left[:, None]).all(axis=0) & (picked == 0)).sum())
    return (
        f"{int(picked.sum())} of {len(choice)} items are chosen; the capacities are used to {used.min():.1%} .. "
        f"{used.max():.1%}, most in constraint {int(used.argmax())}; {fit} further items would still fit by themselves."
    )

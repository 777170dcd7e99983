"""Assignment problem: adds up the costs of a one-to-one assignment; less is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import Numbers
from trace_bench.suites.llm4ad import reading


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """Whole costs within 1 .. 100, as in OR-Library's files."""
    n = int(rng.integers(max(2, problem_size // 2), problem_size + 1))
    return {"n": n, "costs": rng.integers(1, 101, (n, n))}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's assign files: n, then the costs of each item, row after row. The sparse assignp files are others."""
    numbers = Numbers(text)
    n = reading.some(numbers, "the number of items", most=5000)
    costs = np.array([numbers.reals(n, f"the costs of item {i + 1}") for i in range(n)]).reshape(n, n)
    numbers.end()
    return [{"n": n, "costs": reading.whole_if_all_are(costs)}]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The agent of each item."""
    return checks.permutation(program(instance["n"], instance["costs"]), "the agents", instance["n"])


def score(instance: dict[str, Any], agents: list[int]) -> float:
    return float(instance["costs"][np.arange(instance["n"]), agents].sum())


def worst(instance: dict[str, Any]) -> float:
    """The dearest agent for each item."""
    return float(instance["costs"].max(axis=1).sum())


def bound(instance: dict[str, Any]) -> float:
    """The optimum."""
    from scipy.optimize import linear_sum_assignment

    return score(instance, linear_sum_assignment(instance["costs"])[1])


def remark(instance: dict[str, Any], agents: list[int]) -> str:
    costs, n = instance["costs"], instance["n"]
    paid = costs[np.arange(n), agents]
    over = paid - costs.min(axis=1)
    item = int(over.argmax())
    return (
        f"{int((over == 0).sum())} of {n} items have their cheapest agent; item {item} pays {paid[item]:.10g} where "
        f"its cheapest agent costs {costs[item].min():.10g}."
    )

"""Uncapacitated warehouse location: costs of opening warehouses and of serving customers from them; less is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import location


def instance(rng: np.random.Generator, *, n_warehouses: int, n_customers: int) -> dict[str, Any]:
    """Ways are longer than distances, each by a factor of its own: with plain distances the linear relaxation is nearly
    always whole."""
    return location.warehouses(rng, n_warehouses, n_customers, detour=3.0)


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's cap files, whose capacities are passed over."""
    return [location.read_warehouses(text, limited=False)]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The warehouse of each customer."""
    n, m = instance["costs"].shape
    given = program(m, n, instance["fixed_costs"], instance["costs"])
    return location.served(given, "the warehouses of the customers", clients=n, sites=m)


def score(instance: dict[str, Any], of: list[int]) -> float:
    """Fixed costs of the warehouses in use, and the costs of all customers."""
    used = sorted(set(of))
    return float(instance["fixed_costs"][used].sum() + instance["costs"][np.arange(len(of)), of].sum())


def worst(instance: dict[str, Any]) -> float:
    """All fixed costs, and the dearest warehouse for each customer."""
    return float(np.maximum(instance["fixed_costs"], 0).sum() + instance["costs"].max(axis=1).sum())


def bound(instance: dict[str, Any]) -> float:
    """By Lagrangian relaxation; rounded up where costs are whole."""
    fixed, costs = instance["fixed_costs"], instance["costs"]
    found = location.lagrangian_bound(costs.T, opening=fixed)
    return location.whole(found) if (costs == np.rint(costs)).all() and (fixed == np.rint(fixed)).all() else found


def remark(instance: dict[str, Any], of: list[int]) -> str:
    costs, used = instance["costs"], sorted(set(of))
    paid = costs[np.arange(len(of)), of]
    nearest = costs[:, used].min(axis=1)
    counts = np.bincount(of, minlength=costs.shape[1])[used]
    return (
        f"{len(used)} of {costs.shape[1]} warehouses are open, for {instance['fixed_costs'][used].sum():.10g}; "
        f"they serve {counts.min()} to {counts.max()} customers each, for {paid.sum():.10g} ({nearest.sum():.10g} if "
        "each customer had the cheapest of the open ones)."
    )


def draw(instance: dict[str, Any], of: list[int]) -> Drawing:
    return location.draw_supply(instance, list(enumerate(of)))

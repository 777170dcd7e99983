"""Capacitated facility location by construction: plays a rule that assigns one customer after another; less cost is
better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import location

SIDE = 100


def instance(rng: np.random.Generator, *, n_facilities: int, n_customers: int, max_demand: int) -> dict[str, Any]:
    """Points of a square; whatever is chosen, every customer that is left fits somewhere: with all customers but one
    assigned, the room left is on average at least the largest demand."""
    facilities, customers = rng.random((n_facilities, 2)) * SIDE, rng.random((n_customers, 2)) * SIDE
    between = customers[:, None, :] - facilities[None, :, :]
    demands = rng.integers(max(1, max_demand // 4), max_demand + 1, n_customers)
    travelled = demands[:, None] * np.sqrt((between**2).sum(axis=2))
    costs = np.maximum(1, np.rint(travelled)).astype(np.int64)
    capacities = np.full(n_facilities, -(-int(demands.sum()) // n_facilities) + max_demand)
    return {
        "facilities": facilities, "customers": customers, "costs": costs, "demands": demands, "capacities": capacities,
    }  # fmt: skip


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The facility of each customer."""
    demands, room = instance["demands"].tolist(), instance["capacities"].tolist()
    n, m = len(demands), len(room)
    of, left = [-1] * n, list(range(n))
    served: list[list[int]] = [[] for _ in room]
    costs = np.ascontiguousarray(instance["costs"].T)  # the program sees rows of facilities, as LLM4AD shows them
    for step in range(n):
        given = program(list(map(list, served)), list(left), np.array(room), instance["demands"], costs)
        pair = checks.sequence(given, f"the customer and facility of step {step}", length=2)
        customer = checks.integer(pair[0], f"the customer of step {step}", low=0, high=n - 1)
        facility = checks.integer(pair[1], f"the facility of step {step}", low=0, high=m - 1)
        if of[customer] != -1:
            raise checks.refuse(f"step {step}: customer {customer} is assigned already, to facility {of[customer]}")
        if demands[customer] > room[facility]:
            raise checks.refuse(
                f"step {step}: customer {customer} demands {demands[customer]}, and facility {facility} has only "
                f"{room[facility]} left of its capacity {instance['capacities'][facility]}"
            )
        of[customer] = facility
        served[facility].append(customer)
        room[facility] -= demands[customer]
        left.remove(customer)
    return of


def score(instance: dict[str, Any], of: list[int]) -> float:
    return float(instance["costs"][np.arange(len(of)), of].sum())


def worst(instance: dict[str, Any]) -> float:
    """The dearest facility for each customer."""
    return float(instance["costs"].max(axis=1).sum())


def bound(instance: dict[str, Any]) -> float:
    """By Lagrangian relaxation, rounded up."""
    weights = np.broadcast_to(instance["demands"], instance["costs"].T.shape)
    found = location.lagrangian_bound(instance["costs"].T, weights=weights, capacities=instance["capacities"])
    return location.whole(found)


def remark(instance: dict[str, Any], of: list[int]) -> str:
    costs, n = instance["costs"], len(of)
    paid = costs[np.arange(n), of]
    over = paid - costs.min(axis=1)
    one = int(over.argmax())
    return (
        f"{int((over == 0).sum())} of {n} customers have their cheapest facility; {len(set(of))} facilities are in "
        f"use. Customer {one} (demand {instance['demands'][one]}) pays {paid[one]} where its cheapest facility "
        f"costs {costs[one].min()}; all detours together cost {over.sum()}."
    )


def draw(instance: dict[str, Any], of: list[int]) -> Drawing:
    drawing = Drawing(0, SIDE, 0, SIDE)
    for customer, facility in enumerate(of):
        drawing.path([instance["customers"][customer], instance["facilities"][facility]], line=colour(facility))
    drawing.dots(instance["customers"])
    for x, y in instance["facilities"]:
        drawing.rectangle(x - 1, y - 1, 2, 2, fill=colour(1))
    return drawing

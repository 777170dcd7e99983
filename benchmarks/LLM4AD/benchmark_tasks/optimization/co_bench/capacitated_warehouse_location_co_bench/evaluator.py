"""Capacitated warehouse location with demands that may be split: fixed and transport costs; less is better.

Tolerance. Amounts are computed in floating point. What is within `TOLERANCE` of zero, relative to the customer's
demand, counts as nothing; amounts of a customer that add up to its demand within `TOLERANCE` are scaled so that they do
exactly; a warehouse may exceed its capacity by `TOLERANCE`, relative to it, and each unit of excess is charged m times
the greatest cost of transporting a unit. That is at least what the capacity that it stands for would be worth: more
capacity saves no more than a chain of re-assignments through all m warehouses does. So the tolerance gains nothing, as
long as capacities and demands are whole, where no set of warehouses is too small by less than one unit, and demands add
up to at most a million, so that all tolerance together is less than that. Files with other data are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import location

TOLERANCE = 1e-6
MOST_DEMAND = 1_000_000
"""Of all customers of a file: times the tolerance it is no more than one unit."""


def instance(rng: np.random.Generator, *, n_warehouses: int, n_customers: int) -> dict[str, Any]:
    """Capacities are from twice to six times the demand over m, so that they hold all of it at least twice."""
    made = location.warehouses(rng, n_warehouses, n_customers)
    share = made["demands"].sum() / len(made["sites"])
    return made | {"capacities": np.ceil(share * rng.uniform(2, 6, len(made["sites"]))).astype(np.int64)}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's cap files. Some have the word "capacity" for a number that is to be put in: it is taken from the
    name of the file, as in ``capa-8000.txt``."""
    if "capacity" in text:
        found = re.search(r"-(\d+)", name)
        if not found:
            raise DataError(
                f"has the word 'capacity' where a number is due, and {name[:40]!r} does not say which: name the file "
                "with its capacity, as in capa-8000.txt"
            )
        text = text.replace("capacity", found[1])
    made = location.read_warehouses(text, limited=True)
    _check(made["demands"], "a demand", 1)
    _check(made["capacities"], "a capacity", 0)
    if made["demands"].sum() > MOST_DEMAND:
        raise DataError(f"demands add up to {made['demands'].sum():.10g}, and at most {MOST_DEMAND} can be judged")
    if made["costs"].min() < 0 or made["fixed_costs"].min() < 0:
        raise DataError("has a cost below 0")
    return [made]


def _check(values: np.ndarray, what: str, least: int) -> None:
    for value in values[(values < least) | (values != np.rint(values))].tolist():
        raise DataError(f"has {what} of {value:.10g}; each must be a whole number, at least {least}")


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    """The amount for each customer from each warehouse, as the program gave it."""
    n, m = instance["costs"].shape
    of = instance
    given = program(m, n, of["capacities"], of["fixed_costs"], of["demands"], of["costs"])
    return checks.float_array(given, "the amounts", shape=(n, m))


def violations(instance: dict[str, Any], amounts: np.ndarray) -> Iterator[str]:
    """Negative amounts; customers with another amount than their demand; warehouses with more than their capacity."""
    demands, capacities = instance["demands"], instance["capacities"]
    for customer, site in np.argwhere(amounts < -TOLERANCE * demands[:, None]).tolist():
        yield f"customer {customer} gets {amounts[customer, site]:.10g} from warehouse {site}, which is below 0"
    with np.errstate(over="ignore", invalid="ignore"):
        totals = amounts.sum(axis=1)
        wrong = ~(np.abs(totals - demands) <= TOLERANCE * demands)
    for customer in np.flatnonzero(wrong).tolist():
        yield f"customer {customer} demands {demands[customer]:.10g} and gets {totals[customer]:.10g} in all"
    if not wrong.any():
        loads = _supplied(instance, amounts).sum(axis=0)
        for site in np.flatnonzero(loads > capacities * (1 + TOLERANCE)).tolist():
            over = loads[site] - capacities[site]
            yield (
                f"warehouse {site} has capacity {capacities[site]:.10g} and supplies {loads[site]:.10g}, "
                f"{over:.10g} too much"
            )


def score(instance: dict[str, Any], amounts: np.ndarray) -> float:
    """Fixed costs of the warehouses that supply anything, transport, and the charge for what exceeds capacities."""
    supplied = _supplied(instance, amounts)
    used = supplied.any(axis=0)
    excess = np.maximum(0.0, supplied.sum(axis=0) - instance["capacities"]).sum()
    return float(instance["fixed_costs"][used].sum() + (supplied * _units(instance)).sum() + excess * _charge(instance))


def worst(instance: dict[str, Any]) -> float:
    """All fixed costs, the dearest warehouse for each customer, and what the tolerance can be charged."""
    excess = TOLERANCE * float(instance["capacities"].sum()) * _charge(instance)
    whole = instance["costs"].max(axis=1).sum() * (1 + 1e-9)
    return float(np.maximum(instance["fixed_costs"], 0).sum() + whole) + excess


def bound(instance: dict[str, Any]) -> float:
    """By Lagrangian relaxation."""
    costs = (_units(instance) * instance["demands"][:, None]).T
    demands = np.maximum(instance["demands"], 1e-9)
    weights = np.broadcast_to(demands, costs.shape)
    capacities = instance["capacities"] * (1 + 1e-12)
    return location.lagrangian_bound(costs, opening=instance["fixed_costs"], weights=weights, capacities=capacities)


def remark(instance: dict[str, Any], amounts: np.ndarray) -> str:
    supplied = _supplied(instance, amounts)
    loads = supplied.sum(axis=0)
    used = np.flatnonzero(loads)
    share = loads[used] / instance["capacities"][used]
    fixed = instance["fixed_costs"][used].sum()
    return (
        f"{len(used)} of {len(loads)} warehouses are open, for {fixed:.10g}, filled to {100 * share.min():.0f} .. "
        f"{100 * share.max():.0f} %; transport costs {score(instance, amounts) - fixed:.10g}, and "
        f"{int(((supplied > 0).sum(axis=1) > 1).sum())} customers are supplied from more than one."
    )


def draw(instance: dict[str, Any], amounts: np.ndarray) -> Drawing:
    return location.draw_supply(instance, [(i, j) for i, j in np.argwhere(_supplied(instance, amounts) > 0).tolist()])


def _supplied(instance: dict[str, Any], amounts: np.ndarray) -> np.ndarray:
    """The amounts without what counts as nothing, scaled to the demands."""
    demands = instance["demands"][:, None]
    kept = np.where(amounts > TOLERANCE * demands, amounts, 0.0)
    totals = kept.sum(axis=1, keepdims=True)
    return kept * (demands / np.where(totals > 0, totals, 1.0))


def _units(instance: dict[str, Any]) -> np.ndarray:
    """Costs of transporting a unit; nothing is transported to a customer without demand."""
    demands = instance["demands"][:, None]
    return np.where(demands > 0, instance["costs"] / np.where(demands > 0, demands, 1), 0.0)


def _charge(instance: dict[str, Any]) -> float:
    return len(instance["capacities"]) * float(np.abs(_units(instance)).max())

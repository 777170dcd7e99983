"""Capacitated vehicle routing by construction: plays a rule customer by customer; shorter routes are better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import vehicles


def instance(rng: np.random.Generator, *, problem_size: int, capacity: int) -> dict[str, Any]:
    """Customers drawn uniformly from the unit square with demands of 1 to 9."""
    return vehicles.fleet(rng, problem_size, capacity)


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[list[int]]:
    """The routes: one process answers all calls."""
    demands, between = instance["demands"], instance["distances"]
    return vehicles.built(lambda at, offered, rest, _: program(at, 0, offered, rest, demands, between), instance)


def violations(instance: dict[str, Any], routes: list[list[int]]) -> Iterator[str]:
    return vehicles.violations(instance, routes)


def score(instance: dict[str, Any], routes: list[list[int]]) -> float:
    """Length of all routes."""
    return vehicles.total_length(routes, instance["distances"])


def worst(instance: dict[str, Any]) -> float:
    return vehicles.out_and_back(instance["distances"])


def bound(instance: dict[str, Any]) -> float:
    """The larger of a bound by legs and one by loads."""
    legs = vehicles.closed_bound(instance["distances"], vehicles.fewest_vehicles(instance))
    return max(legs, vehicles.load_bound(instance))


def remark(instance: dict[str, Any], routes: list[list[int]]) -> str:
    return vehicles.remark(instance, routes)


def draw(instance: dict[str, Any], routes: list[list[int]]) -> Drawing:
    return vehicles.draw(instance["points"], routes)

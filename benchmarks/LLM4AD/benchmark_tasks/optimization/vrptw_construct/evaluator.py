"""Vehicle routing with time windows by construction: plays a rule customer by customer; shorter routes are better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import vehicles

HORIZON = 4.6
SERVICE = 0.2


def instance(rng: np.random.Generator, *, problem_size: int, capacity: int) -> dict[str, Any]:
    """Customers drawn uniformly from the unit square; each can be served alone, whenever its window is open."""
    made = vehicles.fleet(rng, problem_size, capacity)
    away = made["distances"][0]
    width = rng.uniform(0.3, 0.9, size=len(away))
    opening = away + rng.random(len(away)) * (HORIZON - SERVICE - width - 2 * away)
    windows = np.stack([opening, opening + width], axis=1)
    windows[0] = 0.0, HORIZON
    service = np.full(len(away), SERVICE)
    service[0] = 0.0
    return made | {"windows": windows, "service": service}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[list[int]]:
    """The routes: one process answers all calls."""
    known = tuple(instance[name] for name in ("demands", "distances", "windows", "service"))
    return vehicles.built(lambda at, offered, rest, time: program(at, 0, offered, rest, time, *known), instance)


def violations(instance: dict[str, Any], routes: list[list[int]]) -> Iterator[str]:
    return vehicles.violations(instance, routes)


def score(instance: dict[str, Any], routes: list[list[int]]) -> float:
    """Length of all routes; waiting costs nothing."""
    return vehicles.total_length(routes, instance["distances"])


def worst(instance: dict[str, Any]) -> float:
    return vehicles.out_and_back(instance["distances"])


def bound(instance: dict[str, Any]) -> float:
    """Of the same routes without windows."""
    legs = vehicles.closed_bound(instance["distances"], vehicles.fewest_vehicles(instance))
    return max(legs, vehicles.load_bound(instance))


def remark(instance: dict[str, Any], routes: list[list[int]]) -> str:
    waited = 0.0
    for route in routes:
        at, time = 0, 0.0
        for node in route:
            arrival = time + float(instance["distances"][at, node])
            waited += max(0.0, float(instance["windows"][node, 0]) - arrival)
            time = max(arrival, float(instance["windows"][node, 0])) + float(instance["service"][node])
            at = node
    return f"{vehicles.remark(instance, routes)} Vehicles wait {waited:.3f} in all for windows to open."


def draw(instance: dict[str, Any], routes: list[list[int]]) -> Drawing:
    return vehicles.draw(instance["points"], routes)

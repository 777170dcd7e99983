"""Capacitated p-median: distances of customers to medians that serve limited demand; less is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import location, reading

SIDE = 100


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """As OR-Library's pmedcap1: points with whole coordinates, demands 1 .. 20; capacities leave room for the
    largest demand once more, so that customers taken in any order fit, each at the median with the most room."""
    n = int(rng.integers(max(5, problem_size // 2), problem_size + 1))
    p = max(1, n // 10)
    points, demands = rng.integers(0, SIDE + 1, (n, 2)), rng.integers(1, 21, n)
    return made(p, -(-int(demands.sum()) // p) + 20, points, demands)


def made(p: int, capacity: float, points: np.ndarray, demands: np.ndarray) -> dict[str, Any]:
    """An instance with its distances, rounded down."""
    between = points[:, None, :] - points[None, :, :]
    dist = np.floor(np.sqrt((between**2).sum(axis=2))).astype(np.int64)
    return {"p": p, "capacity": capacity, "points": points, "demands": demands, "dist": dist}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's pmedcap1: the number of problems; for each its number and best known value, n, p and the capacity,
    and number, coordinates and demand of each customer."""
    numbers = Numbers(text)
    found = []
    for _ in range(reading.some(numbers, "the number of problems", most=1000)):
        numbers.integer("the number of a problem")
        known = numbers.real("the best known value")
        n = reading.some(numbers, "the number of customers", most=5000)
        p, capacity = reading.some(numbers, "the number of medians", most=n), numbers.real("the capacity")
        rows = np.array([numbers.reals(4, "a customer's number, x, y or demand") for _ in range(n)]).reshape(n, 4)
        _check(p, capacity, rows[:, 1:3], rows[:, 3])
        found.append(made(p, capacity, rows[:, 1:3], rows[:, 3]) | ({"best_known": known} if known > 0 else {}))
    numbers.end()
    return found


def _check(p: int, capacity: float, points: np.ndarray, demands: np.ndarray) -> None:
    if np.abs(points).max() > reading.LARGEST:
        raise DataError(f"has a coordinate beyond {reading.LARGEST}")
    if demands.min() <= 0:
        raise DataError(f"customer {int(demands.argmin()) + 1} demands {demands.min():g}; demands must be above 0")
    if demands.max() > capacity:
        raise DataError(
            f"customer {int(demands.argmax()) + 1} demands {demands.max():.10g}, more than the capacity {capacity:.10g}"
        )
    if demands.sum() > p * capacity:
        raise DataError(f"demands of {demands.sum():.10g} exceed {p} capacities of {capacity:.10g}")


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The median of each customer."""
    n = len(instance["dist"])
    given = program(n, instance["p"], instance["capacity"], instance["points"], instance["demands"])
    return location.served(given, "the medians of the customers", clients=n, sites=n)


def violations(instance: dict[str, Any], of: list[int]) -> Iterator[str]:
    """More medians than p, and every median with more demand than its capacity."""
    if len(set(of)) > instance["p"]:
        yield f"{len(set(of))} customers serve as medians, and they may be at most {instance['p']}"
    capacities = [instance["capacity"]] * len(of)
    yield from location.overloads(of, instance["demands"].tolist(), capacities, "median", "customers")


def score(instance: dict[str, Any], of: list[int]) -> float:
    return float(instance["dist"][of, np.arange(len(of))].sum())


def worst(instance: dict[str, Any]) -> float:
    """The farthest median for each customer."""
    return float(instance["dist"].max(axis=0).sum())


def bound(instance: dict[str, Any]) -> float:
    """By Lagrangian relaxation, rounded up."""
    dist, n = instance["dist"], len(instance["dist"])
    weights = np.broadcast_to(np.maximum(instance["demands"], 1e-9), (n, n))
    capacities = np.full(n, float(instance["capacity"]))
    return location.whole(
        location.lagrangian_bound(dist, weights=weights, capacities=capacities * (1 + 1e-9), sites=instance["p"])
    )


def remark(instance: dict[str, Any], of: list[int]) -> str:
    dist, medians = instance["dist"], sorted(set(of))
    paid = dist[of, np.arange(len(of))]
    nearest = dist[medians].min(axis=0)
    loads = np.bincount(of, instance["demands"], minlength=len(of))[medians]
    one = int((paid - nearest).argmax())
    return (
        f"{len(medians)} medians, filled to {100 * loads.min() / instance['capacity']:.0f} .. "
        f"{100 * loads.max() / instance['capacity']:.0f} %; with no capacities the same medians would cost "
        f"{nearest.sum()}. Customer {one} goes {paid[one]} to median {of[one]}; its nearest is {nearest[one]} away."
    )


def draw(instance: dict[str, Any], of: list[int]) -> Drawing:
    points, medians = instance["points"], sorted(set(of))
    drawing = Drawing(float(points[:, 0].min()), float(points[:, 0].max()), float(points[:, 1].min()),
                      float(points[:, 1].max()))  # fmt: skip
    for customer, median in enumerate(of):
        drawing.path([points[customer], points[median]], line=colour(medians.index(median)))
    drawing.dots(points)
    drawing.dots(points[medians], fill=colour(1), size=5)
    return drawing

"""Travelling salesman by construction: plays a rule city by city; shorter tours are better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import routing


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """Cities drawn uniformly from the unit square."""
    points = rng.random((problem_size, 2))
    return {"points": points, "distances": routing.distances(points)}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The tour from city 0 on."""
    between = instance["distances"]
    tour, unvisited = [0], list(range(1, len(between)))
    while unvisited:
        nearest = np.array(unvisited)[np.argsort(between[tour[-1]][unvisited], kind="stable")]
        node = routing.chosen(program(tour[-1], 0, nearest, between), unvisited, len(tour))
        unvisited.remove(node)
        tour.append(node)
    return tour


def score(instance: dict[str, Any], tour: list[int]) -> float:
    """Length of the closed tour."""
    return routing.tour_length(tour, instance["distances"])


def worst(instance: dict[str, Any]) -> float:
    """Each step from a city to the one farthest from it."""
    return float(instance["distances"].max(axis=1).sum())


def bound(instance: dict[str, Any]) -> float:
    return routing.tour_bound(instance["distances"])


def remark(instance: dict[str, Any], tour: list[int]) -> str:
    between = instance["distances"]
    steps = between[tour, np.roll(tour, -1)]
    longest = int(steps.argmax())
    return (
        f"The way back to the start is {steps[-1]:.4f} long; the longest step, from city {tour[longest]} as number "
        f"{longest + 1} of {len(tour)}, is {steps[longest]:.4f}, the mean step {steps.mean():.4f}."
    )


def draw(instance: dict[str, Any], tour: list[int]) -> Drawing:
    drawing = Drawing(0, 1, 0, 1)
    drawing.path(instance["points"][tour], closed=True)
    drawing.dots(instance["points"])
    return drawing

"""Travelling salesman: the length of a closed tour through given points; shorter is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import routing


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """Cities drawn uniformly from the unit square; half to all of `problem_size` of them."""
    n = int(rng.integers((problem_size + 1) // 2, problem_size, endpoint=True))
    return {"nodes": rng.random((n, 2))}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """One instance in each line: the coordinates x y of each city, the word ``output``, and maybe a good tour, cities
    from 1, closed by its first city."""
    found = []
    for number, row in enumerate(text.splitlines()):
        if not row.strip():
            continue
        points, _, tour = row.partition("output")
        numbers = Numbers("\n" * number + points)
        nodes = []
        while not numbers.done:
            nodes.append((numbers.real("an x coordinate"), numbers.real("a y coordinate")))
        if len(nodes) < 2:
            raise DataError(f"line {number + 1}: has {len(nodes)} cities; a tour needs two")
        known = _known(Numbers("\n" * number + tour), len(nodes), number + 1)
        found.append({"nodes": np.array(nodes)})
        if known is not None:
            found[-1]["best_known"] = score(found[-1], known)
    if not found:
        raise DataError("holds no instance")
    return found


def _known(numbers: Numbers, n: int, line: int) -> list[int] | None:
    if numbers.done:
        return None
    tour = [city - 1 for city in numbers.integers(n, "a city of the tour")]
    if not numbers.done and numbers.integer("the first city again") != tour[0] + 1:
        raise DataError(f"line {line}: the tour must end where it began")
    numbers.end()
    if sorted(tour) != list(range(n)):
        raise DataError(f"line {line}: the tour must visit each of the cities 1 .. {n} once")
    return tour


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    return checks.permutation(program(instance["nodes"]), "the tour", len(instance["nodes"]))


def score(instance: dict[str, Any], tour: list[int]) -> float:
    """Length of the closed tour."""
    return float(routing.step_lengths(instance["nodes"][tour]).sum())


def worst(instance: dict[str, Any]) -> float:
    """Every step as long as the diagonal of the smallest box around the cities."""
    nodes = instance["nodes"]
    return len(nodes) * float(np.hypot(*np.ptp(nodes, axis=0))) * (1 + 1e-12)


def bound(instance: dict[str, Any]) -> float:
    return routing.tour_bound_of_points(instance["nodes"])


def remark(instance: dict[str, Any], tour: list[int]) -> str:
    nodes = instance["nodes"]
    steps = routing.step_lengths(nodes[tour])
    near = routing.nearest(nodes, min(6, len(nodes) - 1))
    after = np.roll(tour, -1)
    far = int((near[tour] != after[:, None]).all(axis=1).sum())
    longest = int(steps.argmax())
    return (
        f"{len(tour)} cities, mean step {steps.mean():.4f}; the longest, {tour[longest]} to {after[longest]}, "
        f"is {steps[longest]:.4f}; {far} steps lead to a city that is not among the six nearest."
    )


def draw(instance: dict[str, Any], tour: list[int]) -> Drawing:
    nodes = instance["nodes"]
    low, high = nodes.min(axis=0), nodes.max(axis=0)
    drawing = Drawing(low[0], high[0], low[1], high[1])
    drawing.path(nodes[tour], closed=True)
    drawing.dots(nodes, size=2)
    return drawing

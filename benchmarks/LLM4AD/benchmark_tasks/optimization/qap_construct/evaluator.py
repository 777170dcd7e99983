"""Quadratic assignment by construction: plays a rule that places one facility after another; less cost is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import location

SIDE = 100


def instance(rng: np.random.Generator, *, problem_size: int) -> dict[str, Any]:
    """Locations at whole points of a square, Manhattan distances; flows that are mostly small, and half of them 0."""
    n = problem_size
    points = rng.integers(0, SIDE + 1, (n, 2))
    distances = np.abs(points[:, None, :] - points[None, :, :]).sum(axis=2)
    drawn = np.floor(10 ** (2 * rng.random((n, n)))).astype(np.int64) * (rng.random((n, n)) < 0.5)
    upper = np.triu(drawn, k=1)
    return {"points": points, "distances": distances, "flows": upper + upper.T}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[int]:
    """The location of each facility."""
    n = len(instance["flows"])
    at, free = [-1] * n, set(range(n))
    for step in range(n):
        given = program(list(at), instance["flows"], instance["distances"])
        facility, place = checks.integers(
            given, f"the facility and location of step {step}", length=2, low=0, high=n - 1
        )
        if at[facility] != -1:
            raise checks.refuse(f"step {step}: facility {facility} has a location already, {at[facility]}")
        if place not in free:
            raise checks.refuse(f"step {step}: location {place} is taken by facility {at.index(place)}")
        at[facility] = place
        free.remove(place)
    return at


def score(instance: dict[str, Any], at: list[int]) -> float:
    """Flow times distance, over ordered pairs of facilities."""
    return float((instance["flows"] * instance["distances"][np.ix_(at, at)]).sum())


def worst(instance: dict[str, Any]) -> float:
    return location.pairing_bound(instance["flows"], instance["distances"], most=True)


def bound(instance: dict[str, Any]) -> float:
    """Gilmore and Lawler's."""
    return location.pairing_bound(instance["flows"], instance["distances"])


def remark(instance: dict[str, Any], at: list[int]) -> str:
    parts = instance["flows"] * instance["distances"][np.ix_(at, at)]
    one, other = (int(i) for i in np.unravel_index(parts.argmax(), parts.shape))
    far = parts.sum() / max(1, instance["flows"].sum())
    return (
        f"A unit of flow travels {far:.4g} on average; the mean distance of two locations is "
        f"{instance['distances'].sum() / max(1, len(at) * (len(at) - 1)):.4g}. Dearest pair: facilities {one} and "
        f"{other}, flow {instance['flows'][one, other]} over distance {instance['distances'][at[one], at[other]]}."
    )


def draw(instance: dict[str, Any], at: list[int]) -> Drawing:
    """Locations, and the tenth of the pairs with the most flow."""
    drawing = Drawing(0, SIDE, 0, SIDE)
    flows, points = np.triu(instance["flows"]), instance["points"]
    for pair in np.argsort(-flows, axis=None, kind="stable")[: max(1, int((flows > 0).sum()) // 10)].tolist():
        one, other = divmod(pair, len(at))
        drawing.path([points[at[one]], points[at[other]]], line=colour(4))
    drawing.dots(points)
    return drawing

"""Guided local search for the travelling salesman: a rule bends the distances whenever the search is stuck.

The search itself is deterministic, and what it does is counted, not timed: the moves whose gain it works out. What the
program works out itself is not counted: operations measure how its guidance makes the local search work. A program that
plans the tour itself makes the second objective meaningless; only the limits of its calls stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import routing
from trace_bench.suites.llm4ad.tour_search import GAIN, TourSearch, nearest_neighbour

NEAR = 8
LONGEST = 1e6
"""A distance of an answer is at most this."""
MOST = 200
"""Operations that count for each call and city, on average: about twice what strange distances were seen to cost."""


def instance(rng: np.random.Generator, *, problem_size: int, rounds: int) -> dict[str, Any]:
    """Cities drawn uniformly from the unit square."""
    points = rng.random((problem_size, 2))
    return {"points": points, "distances": routing.distances(points), "rounds": rounds}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> dict[str, Any]:
    """The best tour found, its round (0: before the first call), the first local optimum's length, and what was
    done."""
    between = instance["distances"]
    n, exact = len(between), between.tolist()
    near = np.argsort(between, axis=1, kind="stable")[:, 1 : NEAR + 1].tolist()
    least = GAIN * float(between.mean())
    search = TourSearch(nearest_neighbour(exact), near)
    search.improve(exact, range(n), least=least, most=n * n)
    search.evaluated = 0  # what comes before the first call is the same for every program
    used = np.zeros((n, n), dtype=np.int64)
    first = length = routing.tour_length(search.tour, between)
    best, found, before = list(search.tour), 0, between
    for turn in range(1, instance["rounds"] + 1):
        bent = _bent(program(between, np.array(search.tour), used), n, turn)
        order = np.array(search.tour)
        used[order, np.roll(order, -1)] += 1
        used[np.roll(order, -1), order] += 1
        active = np.flatnonzero((bent != before).any(axis=1)).tolist()
        before = bent
        smallest = GAIN * float(bent.mean())
        touched = search.improve(bent.tolist(), active, least=smallest, most=10 * n)
        search.improve(exact, sorted(touched), least=least, most=n * n)
        reached = routing.tour_length(search.tour, between)
        if reached < length:
            length, best, found = reached, list(search.tour), turn
    return {"tour": best, "found": found, "first": first, "operations": min(search.evaluated, _most(instance))}


def _most(instance: dict[str, Any]) -> int:
    return int(MOST * len(instance["distances"]) * instance["rounds"])


def _bent(matrix: Any, n: int, turn: int) -> np.ndarray:
    bent = checks.float_array(matrix, f"the distances of call {turn}", shape=(n, n))
    low, high = float(bent.min()), float(bent.max())
    if low < 0 or high > LONGEST:
        raise checks.refuse(
            f"the distances of call {turn} must lie within 0 .. {LONGEST:g}, and go from {low:g} to {high:g}"
        )
    even = (bent + bent.T) / 2
    np.fill_diagonal(even, 0.0)  # what stands there makes no city wait, and changes no mean
    return even


def violations(instance: dict[str, Any], solution: dict[str, Any]) -> Iterator[str]:
    """Of a tour that no search found."""
    if sorted(solution["tour"]) != list(range(len(instance["distances"]))):
        yield f"the tour does not visit each of the {len(instance['distances'])} cities once"


def score(instance: dict[str, Any], solution: dict[str, Any]) -> float:
    """Length of the best tour."""
    return routing.tour_length(solution["tour"], instance["distances"])


def metrics(instance: dict[str, Any], solution: dict[str, Any]) -> dict[str, float]:
    return {"length": score(instance, solution), "operations": float(solution["operations"])}


def worst(instance: dict[str, Any]) -> float:
    """Of the nearest-neighbour tour, where every search starts."""
    between = instance["distances"]
    return routing.tour_length(nearest_neighbour(between.tolist()), between) * (1 + 1e-12)


def worst_metrics(instance: dict[str, Any]) -> dict[str, float]:
    """The length as above; as many operations as count."""
    return {"length": worst(instance), "operations": float(_most(instance))}


def bound(instance: dict[str, Any]) -> float:
    return routing.tour_bound(instance["distances"])


def remark(instance: dict[str, Any], solution: dict[str, Any]) -> str:
    length, rounds = score(instance, solution), instance["rounds"]
    share = 100 * (1 - length / solution["first"])
    return (
        f"The first local optimum is {solution['first']:.5f} long, the best tour {share:.2f} % shorter, found after "
        f"call {solution['found']} of {rounds}. The search worked out the gains of {solution['operations']} moves, "
        f"{solution['operations'] / rounds:.1f} for each call."
    )


def draw(instance: dict[str, Any], solution: dict[str, Any]) -> Drawing:
    drawing = Drawing(0, 1, 0, 1)
    drawing.path(instance["points"][solution["tour"]], closed=True)
    drawing.dots(instance["points"])
    return drawing

"""Guided local search: the search, what it counts, and the rule that leads it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.llm4ad import routing
from trace_bench.suites.llm4ad.tour_search import TourSearch, nearest_neighbour
from trace_bench.worker.problem import CandidateError

GetTask = Callable[[str], Task]
GUIDED = "llm4ad:optimization/tsp_gls_2O"
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], Any]


def unchanged(edge_distance: np.ndarray, tour: np.ndarray, used: np.ndarray) -> np.ndarray:
    return edge_distance


def small(seed: int, size: int = 8, rounds: int = 30) -> dict[str, Any]:
    return task_of(GUIDED).instance(seed, problem_size=size, rounds=rounds)


@pytest.mark.parametrize("seed", range(3))
def test_no_rule_beats_the_best_of_all_tours_and_the_reference_finds_it(seed: int, task: GetTask) -> None:
    one, instance = task(GUIDED), small(seed)
    best = min(routing.tour_length([0, *rest], instance["distances"]) for rest in permutations(range(1, 8)))
    bound = one.judge.best([instance])
    assert bound is not None and 0.9 * best < bound <= best + 1e-12
    assert one.play(one.program("reference"), instance) == pytest.approx(best, rel=1e-12)
    assert best - 1e-12 <= one.play(unchanged, instance) <= one.judge.worst([instance])


def moves_of(tour: list[int]) -> list[list[int]]:
    """All tours one 2-opt move or relocation away."""
    n = len(tour)
    turned = [tour[:i] + tour[i:j][::-1] + tour[j:] for i in range(n) for j in range(i + 2, n + 1)]
    rest = [[c for c in tour if c != city] for city in tour]
    return turned + [[*r[:k], city, *r[k:]] for city, r in zip(tour, rest, strict=True) for k in range(n)]


@given(seed=st.integers(0, 2**32), n=st.integers(5, 12))
def test_the_search_ends_where_no_move_gains(seed: int, n: int) -> None:
    between = routing.distances(np.random.default_rng(seed).random((n, 2)))
    near = np.argsort(between, axis=1)[:, 1:].tolist()
    start = nearest_neighbour(between.tolist())
    search = TourSearch(list(start), near)
    touched = search.improve(between.tolist(), range(n), least=1e-9, most=1000)
    length = routing.tour_length(search.tour, between)
    assert sorted(search.tour) == list(range(n))
    assert length <= routing.tour_length(start, between) + 1e-12
    assert min(routing.tour_length(other, between) for other in moves_of(search.tour)) > length - 1e-8
    changed = set(zip(start, np.roll(start, -1).tolist(), strict=True)) ^ set(
        zip(search.tour, np.roll(search.tour, -1).tolist(), strict=True)
    )
    assert touched or not changed


def test_a_search_stops_at_the_moves_that_it_may_make() -> None:
    between = routing.distances(np.random.default_rng(3).random((30, 2)))
    near = np.argsort(between, axis=1)[:, 1:9].tolist()
    lengths = []
    for most in (0, 1, 2, 1000):
        search = TourSearch(list(range(30)), near)
        search.improve(between.tolist(), range(30), least=1e-9, most=most)
        lengths.append(routing.tour_length(search.tour, between))
    assert lengths == sorted(lengths, reverse=True) and len(set(lengths)) == 4


def test_what_does_not_change_costs_nothing_and_finds_nothing(task: GetTask) -> None:
    one, instance = task(GUIDED), small(1, size=40, rounds=5)
    found = one.module.answer(unchanged, instance)
    assert (found["operations"], found["found"]) == (0, 0)
    assert one.module.score(instance, found) == found["first"]
    constant = one.module.answer(lambda d, tour, used: d * 2 + 1, instance)
    once = one.module.answer(lambda d, tour, used: d * 2 + 1, small(1, size=40, rounds=1))
    assert constant["operations"] == once["operations"] > 0, "returned as before, it is not looked at again"


def test_more_rounds_cost_more_and_never_lose_the_best_tour(task: GetTask) -> None:
    one = task(GUIDED)
    found = [one.module.answer(one.program("reference"), small(4, size=40, rounds=r)) for r in (5, 20, 60)]
    lengths = [one.module.score(small(4, size=40), f) for f in found]
    operations = [f["operations"] for f in found]
    assert lengths == sorted(lengths, reverse=True) and lengths[2] < lengths[0]
    assert operations == sorted(operations) and operations[0] < operations[2]
    verdict = one.verdict(small(4, size=40), found[2])
    assert verdict.metrics["length"] == verdict.score == lengths[2]
    assert verdict.metrics["operations"] == operations[2]
    assert "after call" in verdict.remark


def test_the_rule_is_told_the_true_distances_the_local_optimum_and_how_often_edges_were_in_one(task: GetTask) -> None:
    one, instance = task(GUIDED), small(2, size=20, rounds=6)
    tours: list[list[int]] = []

    def rule(d: np.ndarray, tour: np.ndarray, used: np.ndarray) -> np.ndarray:
        assert (d == instance["distances"]).all() and sorted(tour.tolist()) == list(range(20))
        expected = np.zeros((20, 20), dtype=int)
        for old in tours:
            for a, b in zip(old, old[1:] + old[:1], strict=True):
                expected[a, b] += 1
                expected[b, a] += 1
        assert (used == expected).all()
        tours.append(tour.tolist())
        bent = d.copy()
        bent[tour[0]] += 3
        return bent

    one.play(rule, instance)
    assert len(tours) == 6


def test_only_the_mean_of_both_directions_counts(task: GetTask) -> None:
    one, instance = task(GUIDED), small(5, size=30, rounds=20)

    def lopsided(d: np.ndarray, tour: np.ndarray, used: np.ndarray) -> np.ndarray:
        return d + 2 * np.triu(used) * 0.125

    def even(d: np.ndarray, tour: np.ndarray, used: np.ndarray) -> np.ndarray:
        return d + used * 0.125

    assert one.module.answer(lopsided, instance)["tour"] == one.module.answer(even, instance)["tour"]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (lambda d, tour, used: d[0], "the distances of call 1 must have shape (12, 12), not (12,)"),
        (lambda d, tour, used: -d, "must lie within 0 .. 1e+06, and go from -"),
        (lambda d, tour, used: d + 2e6, "must lie within 0 .. 1e+06"),
        (lambda d, tour, used: d * np.nan, "must be finite, not nan"),
        (lambda d, tour, used: d + np.inf, "must be finite, not inf"),
        (lambda d, tour, used: None, "must have shape (12, 12), not be None"),
        (lambda d, tour, used: d > 0, "must hold real numbers"),
        (lambda d, tour, used: d if not used.any() else d[:-1], "the distances of call 2"),
    ],
)
def test_what_are_no_distances_is_refused(rule: Rule, says: str, task: GetTask) -> None:
    assert says in task(GUIDED).refusal(small(1, size=12), rule)


def test_strange_distances_end_and_are_scored(task: GetTask) -> None:
    one, instance = task(GUIDED), small(1, size=25, rounds=6)
    rng = np.random.default_rng(0)
    for rule in (
        lambda d, tour, used: d * 0,
        lambda d, tour, used: rng.random(d.shape) * 1e6,
        lambda d, tour, used: 1 - d / d.max(),
        lambda d, tour, used: (d * 1e6).astype(np.int64).clip(0, 10**6),
    ):
        try:
            found = one.module.answer(rule, instance)
        except CandidateError as error:  # pragma: no cover
            pytest.fail(str(error))
        assert one.broken(instance, found) == []
        worst = one.module.worst_metrics(instance)
        assert one.module.score(instance, found) <= one.judge.worst([instance]) == worst["length"]
        assert found["operations"] < worst["operations"] / 1.2
    assert one.broken(instance, {"tour": [0, 0]}) == ["the tour does not visit each of the 25 cities once"]


def test_the_diagonal_does_not_matter(task: GetTask) -> None:
    one, instance = task(GUIDED), small(3, size=30, rounds=12)
    values = iter(range(1000))

    def on_the_diagonal(d: np.ndarray, tour: np.ndarray, used: np.ndarray) -> np.ndarray:
        return d + used * 0.1 + np.diag(np.full(len(d), 1000.0 * next(values)))

    plain = one.module.answer(lambda d, tour, used: d + used * 0.1, instance)
    assert one.module.answer(on_the_diagonal, instance) == plain
    assert one.module.answer(lambda d, tour, used: d + np.eye(30) * next(values), instance)["operations"] == 0


def test_no_answer_costs_more_operations_than_a_failure(task: GetTask, monkeypatch: pytest.MonkeyPatch) -> None:
    one, instance = task(GUIDED), small(1, size=25, rounds=6)
    costs = one.module.answer(one.program("template"), instance)["operations"]
    monkeypatch.setattr(one.module, "MOST", 2)
    found = one.module.answer(one.program("template"), instance)
    assert found["operations"] == one.module.worst_metrics(instance)["operations"] == 2 * 25 * 6 < costs


@given(seed=st.integers(0, 2**32), power=st.integers(-6, 6))
def test_a_scaled_instance_takes_the_same_steps(seed: int, power: int) -> None:
    one = task_of(GUIDED)
    old = small(seed, size=15, rounds=8)
    new = old | {"points": old["points"] * 2.0**power, "distances": old["distances"] * 2.0**power}
    rule = one.program("template")
    first, second = one.module.answer(rule, old), one.module.answer(rule, new)
    assert (first["tour"], first["operations"]) == (second["tour"], second["operations"])
    assert one.module.score(new, second) == pytest.approx(one.module.score(old, first) * 2.0**power, rel=1e-12)

"""Tours and routes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.llm4ad import routing

GetTask = Callable[[str], Task]
TSP = "llm4ad:optimization/tsp_construct"


def of_points(points: np.ndarray) -> dict[str, np.ndarray]:
    return {"points": points, "distances": routing.distances(points)}


@pytest.mark.parametrize("seed", range(4))
def test_tsp_no_tour_beats_the_best_of_all_and_the_reference_comes_close(seed: int, task: GetTask) -> None:
    one = task(TSP)
    small = one.instance(seed, problem_size=8)
    scores = [one.verdict(small, [0, *rest]).score for rest in permutations(range(1, 8))]
    best, worst = min(scores), max(scores)
    bound = one.judge.best([small])
    assert bound is not None and 0.9 * best < bound <= best + 1e-12
    assert worst <= one.judge.worst([small])
    assert best - 1e-12 <= one.play(one.program("reference"), small) < 1.02 * best


def test_tsp_a_square_is_walked_around(task: GetTask) -> None:
    square = of_points(np.array([[0.0, 0], [0, 1], [1, 1], [1, 0]]))
    assert task(TSP).play(lambda at, start, left, d: int(left[0]), square) == 4
    assert task(TSP).judge.best([square]) == pytest.approx(4)


def test_tsp_unvisited_cities_come_nearest_first(task: GetTask) -> None:
    """As LLM4AD's evaluation sends them."""
    one, seen = task(TSP), []
    points = np.array([[0.0, 0.0], [0.9, 0.0], [0.2, 0.0], [0.5, 0.0]])
    instance = {"points": points, "distances": routing.distances(points)}

    def last(current: int, start: int, unvisited: np.ndarray, between: np.ndarray) -> int:
        seen.append(unvisited.tolist())
        return int(unvisited[-1])

    one.play(last, instance)
    assert seen == [[2, 3, 1], [3, 2], [3]]


def test_tsp_only_unvisited_cities_may_be_chosen(task: GetTask) -> None:
    one = task(TSP)
    small = one.instance(problem_size=5)
    assert "node 0 is not among the 4 nodes on offer" in one.refusal(small, lambda at, *rest: at)
    assert "node 7 is not among" in one.refusal(small, lambda *_: 7)
    assert "must be an int, not the number 1.0" in one.refusal(small, lambda *_: 1.0)
    assert "must be an int, not None" in one.refusal(small, lambda *_: None)


@given(seed=st.integers(0, 2**32), scale=st.floats(0.01, 100), shift=st.floats(-5, 5))
def test_tsp_scale_shift_and_direction_change_the_length_as_they_should(seed: int, scale: float, shift: float) -> None:
    one = task_of(TSP)
    instance = one.instance(seed, problem_size=12)
    tour = one.module.answer(one.program("template"), instance)
    score = one.verdict(instance, tour).score
    moved = of_points(instance["points"] * scale + shift)
    assert one.verdict(moved, tour).score == pytest.approx(score * scale, rel=1e-6)
    assert one.verdict(instance, tour[::-1]).score == pytest.approx(score, rel=1e-12)
    assert one.verdict(instance, tour[3:] + tour[:3]).score == pytest.approx(score, rel=1e-12)

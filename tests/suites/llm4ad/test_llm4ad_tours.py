"""Tours through points, given all at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad import routing

GetTask = Callable[[str], Task]
TSP = "llm4ad:optimization/co_bench/travelling_salesman_problem_co_bench"


@pytest.mark.parametrize("seed", range(3))
def test_no_tour_beats_the_best_of_all_and_the_reference_comes_close(seed: int, task: GetTask) -> None:
    one = task(TSP)
    small = one.instance(seed, problem_size=7)
    n = len(small["nodes"])
    scores = [one.module.score(small, [0, *rest]) for rest in permutations(range(1, n))]
    best, bound = min(scores), one.judge.best([small])
    assert bound is not None and 0.9 * best < bound <= best
    assert max(scores) <= one.judge.worst([small])
    assert best - 1e-12 <= one.play(one.program("reference"), small) < 1.05 * best


def test_a_square_is_walked_around_and_the_way_back_counts(task: GetTask) -> None:
    square = {"nodes": np.array([[0.0, 0], [3, 0], [3, 4], [0, 4]])}
    assert task(TSP).play(lambda nodes: np.arange(4), square) == 14
    assert task(TSP).play(lambda nodes: [0, 2, 1, 3], square) == 18
    assert task(TSP).judge.best([square]) == pytest.approx(14)
    assert routing.tour_bound_of_points(np.array([[0.0, 0], [1, 0]])) == pytest.approx(2)


def test_what_is_no_tour_is_refused(task: GetTask) -> None:
    one = task(TSP)
    small = one.instance(problem_size=5) | {"nodes": np.arange(10.0).reshape(5, 2)}
    assert one.refusal(small, lambda nodes: [0, 1, 2, 3, 4, 0]) == "the tour must have 5 entries, not 6"
    assert "names 3 twice" in one.refusal(small, lambda nodes: [0, 1, 2, 3, 3])
    assert "must be within 0 .. 4" in one.refusal(small, lambda nodes: [1, 2, 3, 4, 5])
    assert "must be an int, not True" in one.refusal(small, lambda nodes: [0, True, 2, 3, 4])
    assert "must be a list, not None" in one.refusal(small, lambda nodes: None)


@given(seed=st.integers(0, 2**32), scale=st.floats(0.01, 100), shift=st.floats(-5, 5), turn=st.integers(0, 5))
def test_scale_shift_mirror_and_direction_change_the_length_as_they_should(
    seed: int, scale: float, shift: float, turn: int
) -> None:
    one = task_of(TSP)
    instance = one.instance(seed, problem_size=12)
    tour = one.module.answer(one.program("template"), instance)
    score = one.module.score(instance, tour)
    moved = instance | {"nodes": (instance["nodes"] * scale + shift)[:, ::-1]}
    assert one.module.score(moved, tour) == pytest.approx(score * scale, rel=1e-6)
    assert one.judge.best([moved]) == pytest.approx(scale * (one.judge.best([instance]) or 0), rel=1e-6)
    assert one.module.score(instance, (tour[turn:] + tour[:turn])[::-1]) == pytest.approx(score, rel=1e-12)


def test_the_bound_for_many_points_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(1).random((60, 2))
    fine = routing.tour_bound_of_points(points)
    monkeypatch.setattr(routing, "MANY", 10)
    assert 0.6 * fine < routing.tour_bound_of_points(points) < fine


@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_nearest_of_points_are_others_even_where_many_share_a_place(count: int) -> None:
    points = np.array([[0.0, 0], [0, 0], [0, 0], [1, 0], [2, 0], [9, 9]])
    found = routing.nearest(points, count)
    assert found.shape == (6, count) and not (found == np.arange(6)[:, None]).any()
    assert set(routing.nearest(points, 2)[5].tolist()) <= {0, 1, 2, 3, 4}


def test_published_lines_are_read_and_their_tours_are_what_scores_are_compared_with(task: GetTask) -> None:
    one = task(TSP)
    text = "0 0 1 0 1 1 0 1 output 1 2 3 4 1\n\n0.5 0.5 0.25 0 1 1\n"
    square, plain = one.module.read(text, "tsp4.txt")
    assert square["nodes"].tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]] and square["best_known"] == 4
    assert one.judge.target(square) == 4 and one.judge.normalised(square, 5.0) == pytest.approx(0.8)
    assert "best_known" not in plain and len(plain["nodes"]) == 3
    assert one.judge.target(plain) == one.judge.best([plain])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no instance"),
        ("0 0 1 1\n0 0 1", "line 2|y coordinate is expected"),
        ("0 0 1 x", "line 1: a y coordinate must be a number"),
        ("0 0 1 1 output 1 3 1", "line 1: the tour must visit each of the cities 1 .. 2"),
        ("0 0 1 1\n0 0 1 1 output 1 2 2", "line 2: the tour must end where it began"),
        ("0 0 1 1 output 1 2 1 1", "line 1: '1' is more than"),
        ("\n0 0 output 1", "line 2: has 1 cities"),
    ],
)
def test_lines_of_another_format_are_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(TSP).module.read(text, "tsp4.txt")

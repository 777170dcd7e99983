"""Euclidean Steiner trees."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
STEINER = "llm4ad:optimization/co_bench/euclidean_steiner_problem_co_bench"
TRIANGLE = [[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]]
SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def of(points: Any) -> dict[str, Any]:
    made = task_of(STEINER).module._of(np.array(points, dtype=float))
    assert isinstance(made, dict)
    return made


def test_the_centre_of_a_triangle_is_best_of_all_points_in_its_box(task: GetTask) -> None:
    one, triangle = task(STEINER), of(TRIANGLE)
    best = one.play(one.program("reference"), triangle)
    assert best == pytest.approx(math.sqrt(3) / 2, rel=1e-6)
    grid = [(x, y) for x in np.linspace(0, 1, 21) for y in np.linspace(0, math.sqrt(3) / 2, 21)]
    scores = [one.verdict(triangle, np.array([at])).score for at in grid]
    assert min(scores) >= best - 1e-9
    assert max(scores) <= one.judge.worst([triangle])
    assert one.judge.best([triangle]) == pytest.approx(0.82416) and math.sqrt(3) / 2 > 0.82416
    assert one.verdict(triangle, np.empty((0, 2))).score == 1


def test_two_points_are_best_for_a_square(task: GetTask) -> None:
    one, square = task(STEINER), of(SQUARE)
    best = (1 + math.sqrt(3)) / 3
    inner = math.sqrt(3) / 6
    assert one.play(lambda points: [[inner, 0.5], [1 - inner, 0.5]], square) == pytest.approx(best, rel=1e-12)
    assert one.play(one.program("reference"), square) == pytest.approx(best, rel=1e-3)
    assert one.play(lambda points: [[0.5, 0.5]], square) == pytest.approx(2 * math.sqrt(2) / 3)
    rng = np.random.default_rng(1)
    assert min(one.play(lambda points: rng.random((2, 2)), square) for _ in range(300)) > best


def test_points_that_lie_on_one_another_or_where_they_should_not(task: GetTask) -> None:
    one, square = task(STEINER), of(SQUARE)
    assert one.play(lambda points: points[:2], square) == 1, "on terminals: no longer, no shorter"
    assert one.broken(square, np.array([[0.5, 1.5]])) == [
        "Steiner point 0 at (0.5, 1.5) lies outside the box around the terminals, 0 .. 1 by 0 .. 1"
    ]
    assert one.broken(square, np.array([[1 + 1e-10, 0.5]])) == [] != one.broken(square, np.array([[0.5, -1e-8]]))
    assert "at most 2 entries, not 5" in one.refusal(square, one.program("broken"))
    assert "entries, not 3" in one.refusal(square, lambda points: [[0.5, 0.5, 0.5]])
    assert "must be finite" in one.refusal(square, lambda points: [[0.5, math.nan]])
    assert "must be a list, not a dict" in one.refusal(square, lambda points: {"steiner_points": []})
    assert one.play(lambda points: np.array([]), square) == one.play(lambda points: (), square) == 1


def test_points_in_one_place_are_no_division_by_zero(task: GetTask) -> None:
    one, heap = task(STEINER), of([[2.0, 3.0]] * 4)
    assert one.play(lambda points: [], heap) == 1 == one.judge.worst([heap]) == one.judge.best([heap])


@given(seed=st.integers(0, 2**32), scale=st.floats(0.01, 1000), shift=st.floats(-3, 3), count=st.integers(0, 6))
def test_moved_scaled_and_turned_terminals_score_alike_and_within_the_bounds(
    seed: int, scale: float, shift: float, count: int
) -> None:
    one, rng = task_of(STEINER), np.random.default_rng(seed)
    points = rng.random((8, 2))
    low, high = points.min(axis=0), points.max(axis=0)
    added = low + rng.random((count, 2)) * (high - low)
    old, new = of(points), of((points * scale + shift)[::-1, ::-1])
    score = one.verdict(old, added).score
    assert one.verdict(new, (added * scale + shift)[:, ::-1]).score == pytest.approx(score, rel=1e-9)
    assert 0.82416 <= score <= one.judge.worst([old])
    assert one.judge.worst([new]) == pytest.approx(one.judge.worst([old]), rel=1e-6)


def test_nothing_saved_is_normalised_to_0_and_less_is_no_less(task: GetTask) -> None:
    one, square = task(STEINER), of(SQUARE)
    assert one.judge.normalised(square, 1.0) == one.judge.normalised(square, 1.5) == 0
    assert one.judge.normalised(square, 0.82416) == 1


def test_published_files_are_read(task: GetTask) -> None:
    made = task(STEINER).module.read("2\n3\n0 0\n.5 0\n1 1\n4\n0 0 1 0\n1 1 0 1\n", "estein10.txt")
    assert [len(i["points"]) for i in made] == [3, 4] and made[1]["mst"] == 3
    assert made[0]["points"].tolist() == [[0, 0], [0.5, 0], [1, 1]]
    (two,) = task(STEINER).module.read("1 2 0 0 3 4", "estein1.txt")
    assert task(STEINER).play(lambda points: [], two) == 1 == task(STEINER).judge.worst([two])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1\n3\n0 0 1 1 2", "a coordinate is expected"),
        ("1\n3\n0 0 1 x 2 2", "line 3: a coordinate must be a number"),
        ("1\n1\n0 0", "a problem of 1 terminals"),
        ("1\n3\n0 0 1 1 2 2\n9", "line 4: '9' is more"),
        ("-1", "the number of problems must be within"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(STEINER).module.read(text, "estein10.txt")

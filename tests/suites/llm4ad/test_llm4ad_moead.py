"""MOEA/D on DTLZ4, and the hypervolume that it is judged by."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.llm4ad import moead

GetTask = Callable[[str], Task]
TASK = "llm4ad:optimization/pymoo_moead"
SMALL = {"n_gen": 6, "n_partitions": 4}


def by_inclusion_and_exclusion(points: np.ndarray, reference: float) -> float:
    """The volume of a union of boxes as the alternating sum over all its intersections."""
    boxes = [p for p in points if (p < reference).all()]
    total = 0.0
    for size in range(1, len(boxes) + 1):
        for chosen in combinations(boxes, size):
            total += (-1) ** (size + 1) * float(np.prod(reference - np.max(chosen, axis=0)))
    return total


@given(seed=st.integers(0, 2**32), count=st.integers(0, 8), ties=st.booleans())
def test_the_hypervolume_is_that_of_the_union_of_boxes(seed: int, count: int, ties: bool) -> None:
    points = np.random.default_rng(seed).uniform(0, 1.3, (count, 3))
    if ties:
        points = np.round(points * 4) / 4
    assert moead.hypervolume(points) == pytest.approx(by_inclusion_and_exclusion(points, 1.1), abs=1e-12)
    assert moead.hypervolume(moead.front(points)) == pytest.approx(moead.hypervolume(points), abs=1e-12)


@given(seed=st.integers(0, 2**32))
def test_the_order_of_points_and_objectives_and_dominated_points_change_no_volume(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 1, (12, 3))
    volume = moead.hypervolume(points)
    for order in permutations(range(3)):
        assert moead.hypervolume(rng.permutation(points[:, order])) == pytest.approx(volume, rel=1e-12)
    behind = np.concatenate([points, points + rng.uniform(0, 0.5, (12, 3))])
    assert moead.hypervolume(behind) == pytest.approx(volume, rel=1e-12)
    assert moead.hypervolume(points * 0.9) > volume


def test_hypervolumes_that_are_known() -> None:
    assert moead.hypervolume(np.zeros((1, 3))) == pytest.approx(1.331)
    assert moead.hypervolume(np.full((1, 3), 1.1)) == 0
    assert moead.hypervolume(np.empty((0, 3))) == 0
    corners = np.eye(3)
    boxes, shared, in_all = 3 * 0.1 * 1.1**2, 3 * 0.1**2 * 1.1, 0.1**3
    assert moead.hypervolume(corners) == pytest.approx(boxes - shared + in_all)


def test_no_points_of_the_sphere_dominate_more_than_the_bound_and_many_come_close() -> None:
    volumes = []
    for parts in (8, 24, 72):
        sphere = moead.directions(parts)
        sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
        volumes.append(moead.hypervolume(sphere))
    assert volumes == sorted(volumes) and 0.97 * moead.best_hypervolume() < volumes[-1] < moead.best_hypervolume()
    assert moead.best_hypervolume() == pytest.approx(1.331 - math.pi / 6)


def test_the_front_keeps_each_point_that_no_other_dominates_once() -> None:
    points = np.array([[0.0, 1, 1], [0, 1, 1], [1, 0, 1], [0, 1, 2], [2, 2, 2], [1, 1, 0]])
    assert moead.front(points).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_dtlz4_has_the_octant_of_the_sphere_as_its_front() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((50, 10))
    values = moead.dtlz4(x)
    distance = np.linalg.norm(values, axis=1)
    assert distance == pytest.approx(1 + np.square(x[:, 2:] - 0.5).sum(axis=1))
    assert (values >= 0).all() and (distance >= 1).all()
    middle = 0.5 ** (1 / 100)
    ends = [[0.0, 0.0], [0, 1], [1, 0.3], [middle, middle]]
    best = np.array([[*pair, *[0.5] * 8] for pair in ends])
    half = math.sqrt(0.5)
    wanted = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, half]])
    assert moead.dtlz4(best) == pytest.approx(wanted, abs=1e-12)


def test_weights_are_a_lattice_on_the_simplex() -> None:
    weights = moead.directions(12)
    assert weights.shape == (91, 3) and (weights >= 0).all() and len(np.unique(weights, axis=0)) == 91
    assert weights.sum(axis=1) == pytest.approx(1)
    assert moead.directions(2).tolist() == [
        [0, 0, 1],
        [0, 0.5, 0.5],
        [0, 1, 0],
        [0.5, 0, 0.5],
        [0.5, 0.5, 0],
        [1, 0, 0],
    ]


def test_a_program_sees_every_pair_of_a_generation_and_the_least_values_so_far(task: GetTask) -> None:
    one = task(TASK)
    seen: list[np.ndarray] = []

    def decompose(objectives: np.ndarray, weights: np.ndarray, ideal: np.ndarray) -> np.ndarray:
        assert objectives.shape == weights.shape == (15 * 16, 3) and ideal.shape == (3,)
        assert weights.sum(axis=1) == pytest.approx(1) and (objectives - ideal >= 0).all()
        seen.append(ideal)
        return np.max(np.maximum(weights, 1e-3) * (objectives - ideal), axis=1)

    one.play(decompose, one.instance(**SMALL))
    assert len(seen) == 6 * 3
    assert all((later <= before).all() for before, later in pairwise(seen[:6]))


def test_each_weight_keeps_the_best_that_it_was_offered(task: GetTask) -> None:
    rng = np.random.default_rng(5)
    best = np.full(15, np.inf)

    def decompose(objectives: np.ndarray, weights: np.ndarray, ideal: np.ndarray) -> np.ndarray:
        values = np.sum((weights + 0.1) * objectives, axis=1)
        offered = values.reshape(15, 16)
        assert offered[:, 0] == pytest.approx(best) or np.isinf(best).all()
        best[:] = offered.min(axis=1)
        return values

    last = moead.evolved(decompose, rng, variables=10, generations=8, partitions=4)
    kept = np.sum((moead.directions(4) + 0.1) * last, axis=1)
    assert kept == pytest.approx(best)


def test_a_larger_volume_is_a_better_score(task: GetTask) -> None:
    one = task(TASK)
    instance = one.instance(**SMALL)
    sphere = moead.directions(10)
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    few, many = ([sphere[::step]] * 3 for step in (8, 1))
    worst, bound = one.judge.worst([instance]), one.judge.best([instance])
    assert one.spec.score.direction == "maximize" and bound is not None
    assert worst < one.verdict(instance, few).score < one.verdict(instance, many).score < bound
    assert one.verdict(instance, many).metrics["normalised"] > one.verdict(instance, few).metrics["normalised"]


def test_only_a_finite_number_for_each_row_is_an_answer(task: GetTask) -> None:
    one = task(TASK)
    instance = one.instance(**SMALL)
    assert "must have shape (240,), not be the number" in one.refusal(instance, lambda f, w, z: float(np.sum(f)))
    assert "must have shape (240,), not (240, 3)" in one.refusal(instance, lambda f, w, z: w * f)
    assert "the values[0] must be finite, not nan" in one.refusal(instance, lambda f, w, z: np.full(len(f), np.nan))
    assert "must be finite, not inf" in one.refusal(instance, lambda f, w, z: np.full(len(f), np.inf))
    assert "must hold real numbers" in one.refusal(instance, lambda f, w, z: f[:, 0] > 1)
    assert "must have shape (240,), not be None" in one.refusal(instance, lambda f, w, z: None)


def test_scaled_values_choose_the_same_and_seeds_choose_differently() -> None:
    one = task_of(TASK)
    instance, other = (one.instance(seed, n_gen=60, n_partitions=6) for seed in (1, 2))
    template = one.program("template")
    plain = one.play(template, instance)
    assert one.play(lambda f, w, z: 4 * template(f, w, z), instance) == plain == one.play(template, instance)
    assert one.play(template, other) != plain

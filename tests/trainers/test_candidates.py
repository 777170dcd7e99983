"""The formulas and containers of PrioritySearch, against independent computations."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.memory_context import numeric
from trace_bench.trainers.candidates import Candidate, Memory, Minibatches, Orientation, spread, upper_confidence_bound


def candidate(created: int, *scores: float) -> Candidate:
    return Candidate(f"c{created}", {"x": created}, None, created, scores=list(scores))


@given(st.floats(-5, 5), st.integers(1, 50), st.integers(0, 100), st.floats(0, 3), st.floats(-3, 0), st.floats(0.1, 3))
def test_the_bound_is_mean_plus_bonus_clipped_to_the_range(
    mean: float, count: int, iterations: int, constant: float, low: float, high: float
) -> None:
    bonus = (high - low) * constant * (math.log(iterations + 2) / count) ** 0.5
    expected = statistics.median([low, mean + bonus, high])  # clipping is a median of three
    got = upper_confidence_bound(mean, count, iterations + 2, constant, high - low, (low, high))
    assert got == pytest.approx(expected)
    assert upper_confidence_bound(mean, count, iterations + 2, constant, high - low) == pytest.approx(mean + bonus)


def test_the_spread_is_of_finite_means() -> None:
    assert spread([3.0, -1.5, -math.inf, 2.0]) == 4.5
    assert spread([7.0]) == spread([]) == spread([-math.inf]) == 0.0


def test_the_mean_of_no_scores_is_below_every_other() -> None:
    assert candidate(0).mean < candidate(1, -1e300).mean


def test_huge_scores_have_a_mean_and_a_bound_that_are_numbers() -> None:
    huge = 1.7e308
    assert candidate(0, huge, huge, huge).mean == pytest.approx(huge)
    assert candidate(0, -huge, -huge, huge).mean == pytest.approx(-huge / 3)
    for constant in (0.0, 1.0):
        assert math.isfinite(upper_confidence_bound(huge, 1, 3, constant, huge - -huge))


def test_the_best_has_the_highest_mean_whatever_its_priority_and_stays() -> None:
    memory = Memory()
    memory.push(candidate(0, 1.0), 5.0)
    memory.push(candidate(1, 3.0), 1.0)
    assert memory.best().id == "c1"
    assert len(memory) == 2


def test_a_new_priority_replaces_the_old_one() -> None:
    memory = Memory()
    first, second = candidate(0, 1.0), candidate(1, 1.0)
    memory.push(first, 9.0)
    memory.push(second, 5.0)
    memory.push(first, 1.0)
    assert [memory.pop(), memory.pop()] == [second, first]
    with pytest.raises(IndexError):
        memory.pop()


def test_a_memory_forgets_those_of_lowest_priority_and_of_equals_the_oldest() -> None:
    memory = Memory()
    for created, priority in enumerate([3.0, 1.0, 1.0, 5.0]):
        memory.push(candidate(created), priority)
    memory.push(candidate(3), 0.0)
    assert [c.created for c in memory.trim(2)] == [1, 3]
    assert [c.created for c in memory] == [0, 2] and memory.trim(2) == []
    memory.remove(candidate(0))
    assert memory.pop().created == 2
    with pytest.raises(IndexError):
        memory.pop()


def test_draining_moves_candidates_with_their_priority() -> None:
    short, long = Memory(), Memory()
    long.push(candidate(0, 0.0), 2.0)
    short.push(candidate(1, 0.0), 3.0)
    short.push(candidate(0, 0.0), 4.0)
    short.drain_into(long)
    assert len(short) == 0
    assert [long.pop().created, long.pop().created] == [0, 1]


@given(st.lists(st.tuples(st.sampled_from(["push", "pop"]), st.integers(0, 5), st.integers(0, 3))))
def test_the_heap_behaves_as_a_sorted_list(actions: list[tuple[str, int, int]]) -> None:
    memory, model = Memory(), dict[int, float]()
    for action, created, priority in actions:
        if action == "push":
            memory.push(candidate(created), float(priority))
            model[created] = float(priority)
        elif model:
            expected = max(model, key=lambda c: (model[c], c))  # newest first among equals
            del model[expected]
            assert memory.pop().created == expected
        assert len(memory) == len(model)


@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
def test_orientation_makes_higher_better_and_is_its_own_inverse(direction: str, sign: float) -> None:
    orientation = Orientation.of(numeric(direction=direction))
    assert orientation.oriented(2.0) == sign * 2.0
    assert orientation.oriented(orientation.oriented(2.0)) == 2.0
    low, high = orientation.bounds((9.0, 1.0)) or (0.0, 0.0)
    assert (low, high) == ((1.0, 9.0) if sign > 0 else (-9.0, -1.0))
    assert orientation.bounds(None) is None


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_an_epoch_of_minibatches_holds_every_example_once(count: int, size: int, seed: int) -> None:
    batches = Minibatches(count, size, seed)
    for epoch in range(3):
        seen: list[int] = []
        while batches.epochs == epoch:
            taken = batches.take()
            assert 0 < len(taken) <= size
            seen.extend(taken)
        assert sorted(seen) == list(range(count))


def test_the_seed_decides_the_minibatches() -> None:
    def first(seed: int) -> Any:
        batches = Minibatches(50, 5, seed)
        return [batches.take() for _ in range(4)]

    assert first(1) == first(1)
    assert first(1) != first(2)

"""Packing items into bins: the lower bound, and what the tasks share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task
from trace_bench.suites.llm4ad import binpacking

GetTask = Callable[[str], Task]
LOCAL = "llm4ad:online_bin_packing_local"
sizes_of = st.lists(st.integers(1, 12), min_size=1, max_size=7)


def packings(sizes: list[int], capacity: int) -> Iterator[list[int]]:
    """Every way to put the items into bins, bins numbered in the order of their first items."""
    chosen: list[int] = []
    free: list[int] = []

    def place(number: int) -> Iterator[list[int]]:
        if number == len(sizes):
            yield list(chosen)
            return
        for where in range(len(free) + 1):
            if where == len(free):
                free.append(capacity)
            if free[where] >= sizes[number]:
                free[where] -= sizes[number]
                chosen.append(where)
                yield from place(number + 1)
                chosen.pop()
                free[where] += sizes[number]
            if where == len(free) - 1 and free[where] == capacity and where not in chosen:
                free.pop()

    return place(0)


def fewest(sizes: list[int], capacity: int) -> int:
    return min(max(chosen) + 1 for chosen in packings(sizes, capacity))


def test_there_are_as_many_packings_as_partitions() -> None:
    assert [len(list(packings([1] * n, 99))) for n in (1, 2, 3, 4, 5)] == [1, 2, 5, 15, 52]
    assert fewest([6, 6, 6, 4, 4], 10) == 3


@given(sizes=sizes_of, capacity=st.integers(12, 20), copies=st.integers(2, 5))
def test_the_bound_holds_and_changes_with_scale_and_order_as_it_should(
    sizes: list[int], capacity: int, copies: int
) -> None:
    bound = binpacking.lower_bound(sizes, capacity)
    assert -(-sum(sizes) // capacity) <= bound <= fewest(sizes, capacity)
    assert bound == binpacking.lower_bound(sizes[::-1], capacity)
    assert bound == binpacking.lower_bound([copies * s for s in sizes], copies * capacity)
    assert binpacking.lower_bound(sizes * copies, capacity) >= bound


@pytest.mark.parametrize(
    ("sizes", "bound"),
    [
        ([6, 6, 6], 3),
        ([7, 7, 4, 4, 4], 4),  # by size three bins would do, yet no 4 fits with a 7
        ([5, 5, 5, 5], 2),
        ([9, 1, 9, 1, 8, 2], 3),
        ([10], 1),
        ([1], 1),
        ([6, 5, 5, 4], 2),
    ],
)
def test_the_bound_sees_what_cannot_share_a_bin(sizes: list[int], bound: int) -> None:
    assert binpacking.lower_bound(sizes, 10) == bound


def test_sizes_are_drawn_as_said() -> None:
    drawn = binpacking.weibull_sizes(np.random.default_rng(1), 20000, 100)
    assert min(drawn) >= 1 and max(drawn) <= 100 and {type(s) for s in drawn} == {int}
    assert np.mean(drawn) == pytest.approx(45 * math.gamma(4 / 3), abs=0.5)
    assert max(binpacking.weibull_sizes(np.random.default_rng(1), 1000, 30)) == 30


# -- online --------------------------------------------------------------------------------------------------------


def following(chosen: list[int], sizes: list[int], capacity: int) -> Callable[[float, np.ndarray], np.ndarray]:
    """A priority function that puts item i into bin ``chosen[i]``."""
    free, left = [], iter(range(len(sizes)))  # type: ignore[var-annotated]

    def priority(item: float, bins: np.ndarray) -> np.ndarray:
        number = next(left)
        assert sizes[number] == item
        offered = [where for where, room in enumerate(free) if room >= item] + [len(free)]
        where = chosen[number]
        if where == len(free):
            free.append(capacity)
        assert bins[offered.index(where)] == free[where]
        free[where] -= int(item)
        return np.array([float(other == where) for other in offered])

    return priority


@pytest.mark.parametrize("seed", range(4))
def test_local_every_packing_can_be_played_and_the_best_of_them_is_the_best_score(seed: int, task: GetTask) -> None:
    one = task(LOCAL)
    small = one.instance(seed, n_items=6)
    sizes = list(small["sizes"])
    scores = [one.play(following(chosen, sizes, 100), small) for chosen in packings(sizes, 100)]
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(scores) == fewest(sizes, 100)
    assert max(scores) <= one.judge.worst([small]) == 6


def test_local_is_the_task_online_bin_packing_with_another_start(task: GetTask) -> None:
    one, other = task(LOCAL), task("llm4ad:optimization/online_bin_packing")
    assert one.instance(3) == other.instance(3)
    assert one.spec.signature == other.spec.signature
    assert one.play(one.program("template"), one.instance(3)) == other.play(other.program("best_fit"), one.instance(3))
    assert "item 0 (size 9, bins on offer: 1): priorities must have shape (1,)" in one.refusal(
        {"sizes": (9,), "capacity": 10}, lambda item, bins: 0
    )

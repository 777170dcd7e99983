"""Bin packing with all items known: step by step, and whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.test_llm4ad_packing_bins import fewest, packings
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
STEPS = "llm4ad:optimization/bp_1d_construct"
WHOLE = "llm4ad:optimization/co_bench/bp_1d_co_bench"


def bins_of(chosen: list[int]) -> list[list[int]]:
    return [[i for i, where in enumerate(chosen) if where == number] for number in range(max(chosen) + 1)]


# -- step by step --------------------------------------------------------------------------------------------------


def following(chosen: list[int], sizes: list[int]) -> Callable[[np.ndarray, np.ndarray], tuple[int, int | None]]:
    """A rule that puts the items in the order given, item i into bin ``chosen[i]``."""
    left = iter(zip(sizes, chosen, strict=True))

    def rule(items: np.ndarray, room: np.ndarray) -> tuple[int, int | None]:
        size, where = next(left)
        assert items[0] == size
        return size, None if where == len(room) else where

    return rule


@pytest.mark.parametrize("seed", range(4))
def test_steps_every_packing_can_be_built_and_the_best_of_them_is_the_best_score(seed: int, task: GetTask) -> None:
    one = task(STEPS)
    small = one.instance(seed, n_items=6, capacity=100)
    sizes = list(small["sizes"])
    scores = [one.play(following(chosen, sizes), small) for chosen in packings(sizes, 100)]
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(scores) == fewest(sizes, 100) <= max(scores) == one.judge.worst([small])


def test_steps_show_what_is_left_of_items_and_bins(task: GetTask) -> None:
    seen = []

    def rule(items: np.ndarray, room: np.ndarray) -> tuple[Any, Any]:
        seen.append((items.tolist(), room.tolist(), items.dtype, room.dtype))
        return items[-1], np.int64(len(room) - 1) if len(room) and room[-1] >= items[-1] else None

    assert task(STEPS).play(rule, {"sizes": (5, 6, 5, 2), "capacity": 8}) == 3
    assert [(items, room) for items, room, *_ in seen] == [
        ([5, 6, 5, 2], []), ([5, 6, 5], [6]), ([6, 5], [1]), ([6], [1, 3]),
    ]  # fmt: skip
    assert {kind for *_, a, b in seen for kind in (a, b)} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((7, None), "step 1: none of the 3 items that remain has size 7"),
        ((5, 0), "step 1: there is no bin 0, only 0 open bins, from 0 on"),
        ((5, -1), "step 1: there is no bin -1"),
        (5, "the answer of step 1 must be a list, not the integer 5"),
        ((5,), "the answer of step 1 must have 2 entries, not 1"),
        ((5.0, None), "the item of step 1 must be an int, not the number 5.0"),
        ((True, None), "the item of step 1 must be an int, not True"),
        ((5, 0.0), "the bin of step 1 must be an int, not the number 0.0"),
        ((5, False), "the bin of step 1 must be an int, not False"),
        ((10**400, None), "the item of step 1 must be within"),
        (None, "the answer of step 1 must be a list, not None"),
        ((None, None), "the item of step 1 must be an int, not None"),
    ],
)
def test_steps_that_are_none_are_refused(found: Any, says: str, task: GetTask) -> None:
    assert says in task(STEPS).refusal({"sizes": (5, 6, 4), "capacity": 8}, lambda items, room: found)


def test_steps_an_item_that_does_not_fit_is_refused_with_what_is_left(task: GetTask) -> None:
    rule = lambda items, room: (int(items[0]), None if len(room) == 0 else 0)  # noqa: E731
    message = task(STEPS).refusal({"sizes": (5, 3, 4), "capacity": 8}, rule)
    assert message == "step 3: an item of size 4 does not fit into bin 0, where 0 of 8 is left"


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=25), copies=st.integers(2, 9))
def test_steps_the_largest_item_first_does_not_care_for_order_or_scale(sizes: list[int], copies: int) -> None:
    one = task_of(STEPS)
    instance = {"sizes": tuple(sizes), "capacity": 40}
    score = one.play(one.program("reference"), instance)
    assert score == one.play(one.program("reference"), {"sizes": tuple(sizes[::-1]), "capacity": 40})
    larger = {"sizes": tuple(copies * s for s in sizes), "capacity": 40 * copies}
    assert score == one.play(one.program("reference"), larger)
    assert one.judge.best([instance]) == one.judge.best([larger]) <= score <= one.judge.worst([instance])  # type: ignore[operator]


# -- whole ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_whole_no_packing_beats_the_best_of_all_and_the_bound_holds(seed: int, task: GetTask) -> None:
    one = task(WHOLE)
    small = one.instance(seed, n_items=8)
    sizes, capacity = small["sizes"], small["capacity"]
    assert 3 <= len(sizes) <= 8
    scores = [one.verdict(small, bins_of(chosen)).score for chosen in packings(sizes, capacity)]
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(scores) == fewest(sizes, capacity)
    assert max(scores) <= one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= min(scores) + 1


def test_whole_triplets_can_be_packed_into_full_bins_and_the_bound_says_so(task: GetTask) -> None:
    one = task(WHOLE)
    drawn = [one.instance(seed, n_items=12) for seed in range(12)]
    triplets = [i for i in drawn if i["capacity"] == 1000]
    assert 2 < len(triplets) < 10
    for small in triplets:
        assert len(small["sizes"]) % 3 == 0 and sum(small["sizes"]) == 1000 * len(small["sizes"]) / 3
        assert one.judge.best([small]) == len(small["sizes"]) / 3
        assert min(small["sizes"]) >= 250 and max(small["sizes"]) <= 490
    for small in drawn:
        if small["capacity"] == 150:
            assert min(small["sizes"]) >= 20 and max(small["sizes"]) <= 100


FOUR = {"capacity": 10, "sizes": [6, 5, 4, 5]}


@pytest.mark.parametrize(
    ("bins", "says"),
    [
        ([[0, 2], [1, 3]], []),
        ([[0, 1], [2, 3]], ["bin 0 holds 11 of 10, 1 too much (sizes 6, 5)"]),
        ([[0], [1, 3]], ["1 of 4 items lie in no bin (items 2)"]),
        ([[0, 2], [1, 3], [2]], ["item 2 lies in bin 0 and again in bin 2"]),
        ([[0], [2, 2], [1, 3]], ["item 2 lies in bin 1 and again in bin 1"]),
        ([], ["4 of 4 items lie in no bin (items 0, 1, 2, 3)"]),
    ],
)
def test_whole_each_broken_rule_is_named(bins: list[list[int]], says: list[str], task: GetTask) -> None:
    assert task(WHOLE).broken(FOUR, bins) == says


@pytest.mark.parametrize(
    ("bins", "says"),
    [
        ([[0, 2], [1, 4]], "bin 1[1] must be within 0 .. 3, not the integer 4"),
        ([[0, 2], [1, -3]], "bin 1[1] must be within 0 .. 3, not the integer -3"),
        ([0, 0, 1, 1], "bin 0 must be a list, not the integer 0"),
        ([[0, 2], [1, True]], "bin 1[1] must be an int, not True"),
        ([[0, 2], [1, 3.0]], "bin 1[1] must be an int, not the number 3.0"),
        ([[0] * 5], "bin 0 must have at most 4 entries, not 5"),
        ([[]] * 9, "the bins must have at most 8 entries, not 9"),
        ({0: [0, 2]}, "the bins must be a list, not a dict of length 1"),
        (None, "the bins must be a list, not None"),
    ],
)
def test_whole_what_is_no_packing_is_refused(bins: Any, says: str, task: GetTask) -> None:
    assert task(WHOLE).refusal(FOUR, lambda capacity, n, items: bins) == says


def test_whole_empty_bins_do_not_count_and_arguments_are_as_said(task: GetTask) -> None:
    def solve(bin_capacity: Any, num_items: Any, items: Any) -> Any:
        assert (type(bin_capacity), bin_capacity, num_items) == (int, 10, 4)
        assert items.dtype == np.int64 and items.tolist() == FOUR["sizes"]
        return [[], np.array([0, 2]), (3, 1), []]

    assert task(WHOLE).play(solve, FOUR) == 2


@given(seed=st.integers(0, 2**32), shuffle=st.randoms(use_true_random=False), copies=st.integers(2, 50))
def test_whole_other_numbers_for_items_and_other_units_change_nothing(seed: int, shuffle: Any, copies: int) -> None:
    one = task_of(WHOLE)
    instance = one.instance(seed, n_items=30)
    n = len(instance["sizes"])
    bins = one.module.answer(one.program("template"), instance)
    names = list(range(n))
    shuffle.shuffle(names)
    sizes = [0] * n
    for item, name in enumerate(names):
        sizes[name] = copies * instance["sizes"][item]
    moved = {"capacity": copies * instance["capacity"], "sizes": sizes}
    renamed = [[names[item] for item in items] for items in bins[::-1]]
    assert one.verdict(moved, renamed).score == one.verdict(instance, bins).score
    assert one.judge.best([moved]) == one.judge.best([instance])


def test_whole_published_files_are_read(task: GetTask) -> None:
    one = task(WHOLE)
    text = " 2\n u120_00\n 150 3 2\n100\n 50\n20\n t60_00\n 100.0 3 1\n 47.3\n27.2\n25.5\n"
    first, second = one.module.read(text, "binpack1.txt")
    assert first == {"capacity": 150, "sizes": [100, 50, 20], "best_known": 2}
    assert second == {"capacity": 1000, "sizes": [473, 272, 255], "best_known": 1}
    assert one.play(lambda capacity, n, items: [[0, 1, 2]], second) == 1
    assert one.judge.target(first) == 2 and one.judge.target(FOUR) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "ends where the number of problems is expected"),
        ("1\n u\n 150 2 1\n 100\n", "ends where a size is expected"),
        ("1\n u\n 150 2 1\n 100\n x\n", "line 5: a size must be a number, not 'x'"),
        ("1\n u\n 150 1 1\n 100\n 7\n", "line 5: '7' is more"),
        ("1\n u\n 150 1 1\n 151\n", "problem u: sizes must be above 0 and no larger than the capacity 150"),
        ("1\n u\n 150 1 1\n 0\n", "problem u: sizes must be above 0"),
        ("1\n u\n 150 0 0\n", "problem u: sizes must be above 0"),
        ("1\n u\n 1 1 1\n 0.12345678\n", "more than 6 decimals"),
        ("1\n u\n 150 9999999 1\n", "the number of items must be within"),
    ],
)
def test_whole_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(WHOLE).module.read(text, "binpack1.txt")

"""Covering and partitioning: of elements by subsets, of rows by columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad import location

GetTask = Callable[[str], Task]
STEPWISE = "llm4ad:optimization/set_cover_construct"
COVERING = "llm4ad:optimization/co_bench/set_covering_co_bench"
PARTITIONING = "llm4ad:optimization/co_bench/set_partitioning_co_bench"


def choices(count: int) -> Iterator[list[int]]:
    for size in range(count + 1):
        yield from map(list, combinations(range(count), size))


def following(order: list[int]) -> Callable[..., int]:
    """A rule that takes subsets by their numbers in the instance, in this order."""
    left = list(range(1000))

    def rule(selected: list[Any], *_: Any) -> int:
        if not selected:
            left[:] = range(1000)
        position = left.index(order[len(selected)])
        left.pop(position)
        return position

    return rule


# -- the bound by linear relaxation


def test_the_bound_of_a_cover_is_the_relaxations_and_of_a_partition_too() -> None:
    triangle = [[0, 1], [1, 2], [0, 2]]
    assert location.covering_bound(np.ones(3), triangle, 3) == pytest.approx(1.5, rel=1e-6)
    assert location.whole(location.covering_bound(np.ones(3), triangle, 3)) == 2
    assert location.covering_bound(np.array([5, 1, 1]), [[0, 1], [0], [0, 1]], 2, exact=True) <= 1
    assert location.covering_bound(np.array([5, 1, 9]), [[0, 1], [0], [1]], 2, exact=True) == pytest.approx(5, rel=1e-6)


def test_there_is_a_bound_even_where_there_is_no_solution() -> None:
    assert location.covering_bound(np.array([1.0, 2]), [[0], []], 2) == pytest.approx(1)
    assert location.covering_bound(np.array([1.0, 2]), [[0, 1], []], 3, exact=True) == pytest.approx(1)
    assert location.covering_bound(np.array([-1.0]), [[0]], 2) <= -1


def test_a_large_cover_has_a_bound_without_linear_programming(monkeypatch: pytest.MonkeyPatch) -> None:
    costs, sets = np.array([6, 3, 4]), [[0, 1, 2], [0], [1, 2]]
    exact = location.covering_bound(costs, sets, 3)
    monkeypatch.setattr(location, "_LARGE", 4)
    rough = location.covering_bound(costs, sets, 3)
    assert rough == pytest.approx(2 + 2 + 2) and rough <= exact + 1e-6
    assert location.covering_bound(costs, sets, 3, exact=True) == pytest.approx(6)


@pytest.mark.parametrize(("value", "least"), [(3.0, 3), (2.9999999, 3), (3.0000001, 3), (3.01, 4), (1e7 + 0.001, 1e7)])
def test_whole_numbers_are_not_missed_by_a_rounding_error(value: float, least: float) -> None:
    assert location.whole(value) == least


def test_the_order_of_an_answer_does_not_matter() -> None:
    assert location.subset(np.array([4, 0, 2]), "the columns", 5) == [0, 2, 4]


# -- subset by subset


@pytest.mark.parametrize("seed", range(4))
def test_stepwise_no_cover_beats_the_bound_and_the_reference_finds_the_best(seed: int, task: GetTask) -> None:
    one = task(STEPWISE)
    small = one.instance(seed, n_elements=10, n_subsets=8)
    full = set(range(10))
    sizes = [len(c) for c in choices(8) if set().union(*(small["subsets"][i] for i in c)) == full]
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(sizes)
    assert one.play(one.program("reference"), small) == min(sizes)
    assert max(sizes) < one.judge.worst([small])


def test_stepwise_what_is_offered_and_what_counts(task: GetTask) -> None:
    one = task(STEPWISE)
    small = {"elements": 4, "subsets": [[0], [1], [0, 1], [2, 3]]}
    seen: list[Any] = []
    assert one.play(lambda *args: seen.append(args) or 1, small) == 3  # type: ignore[func-returns-value]
    assert seen == [
        ([], [[0], [1], [0, 1], [2, 3]], [0, 1, 2, 3]),
        ([[1]], [[0], [0, 1], [2, 3]], [0, 2, 3]),
        ([[1], [0, 1]], [[0], [2, 3]], [2, 3]),
    ]
    assert one.play(following([2, 3]), small) == 2 == one.judge.best([small])
    assert one.play(following([0, 1, 2, 3]), small) == 4


def test_stepwise_only_a_position_is_an_answer(task: GetTask) -> None:
    one = task(STEPWISE)
    small = one.instance(n_elements=5, n_subsets=4)
    assert "the subset of step 0 must be within 0 .. 3, not the integer 4" in one.refusal(small, lambda *_: 4)
    assert "must be within 0 .. 3, not the integer -1" in one.refusal(small, lambda *_: -1)
    assert "must be an int, not a list of length 1" in one.refusal(small, lambda *_: [0])
    assert "must be an int, not None" in one.refusal(small, lambda *_: None)
    assert "must be an int, not False" in one.refusal(small, lambda *_: False)


def test_stepwise_what_a_rule_does_to_its_arguments_does_not_matter(task: GetTask) -> None:
    one = task(STEPWISE)
    small = one.instance(n_elements=8, n_subsets=6)

    def spoils(selected: list[list[int]], remaining: list[list[int]], missing: list[int]) -> int:
        for listed in (*selected, *remaining, missing):
            listed.clear()  # type: ignore[attr-defined]
        return 0

    assert one.play(spoils, small) == one.play(lambda *_: 0, small)


@given(seed=st.integers(0, 2**32))
def test_stepwise_every_instance_can_be_covered_and_names_do_not_matter(seed: int) -> None:
    one, rng = task_of(STEPWISE), np.random.default_rng(seed)
    instance = one.instance(seed, n_elements=12, n_subsets=5)
    chosen = one.module.answer(one.program("template"), instance)
    names, order = rng.permutation(12), rng.permutation(5)
    renamed = {"elements": 12, "subsets": [sorted(names[instance["subsets"][i]].tolist()) for i in order]}
    moved = [int(np.flatnonzero(order == i)[0]) for i in chosen]
    assert one.play(following(moved), renamed) == len(chosen)
    assert one.module.bound(renamed) == one.module.bound(instance) <= len(chosen)


# -- covering


@pytest.mark.parametrize("seed", range(4))
def test_covering_no_cover_beats_the_bound_and_the_reference_is_close_to_the_best(seed: int, task: GetTask) -> None:
    one = task(COVERING)
    small = one.instance(seed, n_rows=8, n_columns=10)
    count = len(small["columns"])
    scores = [one.verdict(small, c).score for c in choices(count) if not one.broken(small, c)]
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(scores)
    assert max(scores) == one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.2 * min(scores)


FOUR = {"m": 3, "costs": np.array([5, 7, 2, 9]), "columns": [[0, 1], [1, 2], [2], [0, 1, 2]]}


def test_covering_each_uncovered_row_is_named(task: GetTask) -> None:
    one = task(COVERING)
    seen: list[Any] = []
    assert one.play(lambda *args: seen.extend(args) or [2, 0], FOUR) == 7  # type: ignore[func-returns-value]
    assert seen[:2] == [3, 4] and seen[2].tolist() == [5, 7, 2, 9] and seen[3] == [[0, 3], [0, 1, 3], [1, 2, 3]]
    assert one.broken(FOUR, [2]) == [
        "row 0 is covered by none of the 1 chosen columns",
        "row 1 is covered by none of the 1 chosen columns",
    ]
    assert len(one.broken(FOUR, [])) == 3


@pytest.mark.parametrize("task_id", [COVERING, PARTITIONING])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([0, 2, 2], "must name each at most once, and name 2 twice"),
        ([0, 4], "must be within 0 .. 3, not the integer 4"),
        ([1, 2, 3, 0, 1], "at most 4 entries, not 5"),
        ([0.0, 2], "must be an int, not the number 0.0"),
        ({0, 2}, "must be a list, not a value of type set"),
        ("02", "must be a list, not the text '02'"),
    ],
)
def test_columns_that_are_none(task_id: str, given: Any, says: str, task: GetTask) -> None:
    assert says in task(task_id).refusal(FOUR, lambda *_: given)


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 20))
def test_covering_other_names_and_units_change_the_score_as_they_should(seed: int, scale: int) -> None:
    one, rng = task_of(COVERING), np.random.default_rng(seed)
    instance = one.instance(seed, n_rows=20, n_columns=40)
    m, n = instance["m"], len(instance["columns"])
    assert (location.coverage(instance["columns"], list(range(n)), m) >= 2).all() and all(instance["columns"])
    chosen = one.module.answer(one.program("template"), instance)
    score = one.verdict(instance, chosen).score
    rows, order = rng.permutation(m), rng.permutation(n)
    columns = [sorted(rows[instance["columns"][j]].tolist()) for j in order]
    renamed = {"m": m, "costs": instance["costs"][order] * scale, "columns": columns}
    assert one.verdict(renamed, np.argsort(order)[chosen].tolist()).score == scale * score
    assert one.module.bound(instance) <= score


def test_covering_published_files_are_read(task: GetTask) -> None:
    text = " 2 3\n 5 7 9\n 2\n 3 1\n 1\n 2\n"
    (made,) = task(COVERING).module.read(text, "scp41.txt")
    assert (made["m"], made["costs"].tolist(), made["columns"]) == (2, [5, 7, 9], [[0], [1], [0]])
    for wrong, says in ((text + "1", "line 7: '1' is more"), ("2 3 5 7 9 1 4 1 1", "row 1 names 4 .. 4; numbers"),
                        ("1 1 5 2 1 1", "number of columns of row 1 must be within 0 .. 1"),
                        ("0 0", "the number of rows must be above"), ("1 0", "the number of columns must be above"),
                        ("2 1 5 1 1 0", "no column covers row 2")):  # fmt: skip
        with pytest.raises(DataError, match=says):
            task(COVERING).module.read(wrong, "scp41.txt")


# -- partitioning


@pytest.mark.parametrize("seed", range(4))
def test_partitioning_no_partition_beats_the_bound_and_the_reference_is_close_to_the_best(
    seed: int, task: GetTask
) -> None:
    one = task(PARTITIONING)
    small = one.instance(seed, n_rows=6, n_columns=12)
    scores = [one.verdict(small, c).score for c in choices(len(small["columns"])) if not one.broken(small, c)]
    bound = one.judge.best([small])
    assert len(scores) > 1 and bound is not None and bound <= min(scores)
    assert max(scores) <= one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.1 * min(scores)


def test_partitioning_each_row_that_is_not_covered_once_is_named(task: GetTask) -> None:
    one = task(PARTITIONING)
    assert one.play(lambda *_: [2, 0], FOUR) == 7
    assert one.broken(FOUR, [0, 1]) == ["row 1 is covered 2 times, by columns 0, 1"]
    assert one.broken(FOUR, [1]) == ["row 0 is covered by none of the 1 chosen columns"]
    seen: list[Any] = []
    assert one.judge.worst([FOUR]) == pytest.approx(3 + 3.5 + 3.5), "a row costs its column's cost over its rows"
    one.play(lambda *args: seen.extend(args) or [3], FOUR)  # type: ignore[func-returns-value]
    assert seen[:2] == [3, 4] and seen[2].tolist() == [5, 7, 2, 9] and seen[3] == FOUR["columns"]


def test_partitioning_a_column_without_rows_costs_what_it_costs(task: GetTask) -> None:
    one = task(PARTITIONING)
    idle = {"m": 1, "costs": np.array([5.0, 4.0]), "columns": [[0], []]}
    assert one.verdict(idle, [0, 1]).score == 9 <= one.judge.worst([idle])
    assert one.judge.best([idle]) == 5


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 20))
def test_partitioning_other_names_and_units_change_the_score_as_they_should(seed: int, scale: int) -> None:
    one, rng = task_of(PARTITIONING), np.random.default_rng(seed)
    instance = one.instance(seed, n_rows=20, n_columns=100)
    m, n = instance["m"], len(instance["columns"])
    assert sorted(c[0] for c in instance["columns"] if len(c) == 1) == list(range(m)), (
        "each row has a column of its own"
    )
    assert len({tuple(c) for c in instance["columns"]}) == n and max(map(len, instance["columns"])) <= 6
    chosen = one.module.answer(one.program("template"), instance)
    score = one.verdict(instance, chosen).score
    rows, order = rng.permutation(m), rng.permutation(n)
    columns = [sorted(rows[instance["columns"][j]].tolist()) for j in order]
    renamed = {"m": m, "costs": instance["costs"][order] * scale, "columns": columns}
    assert one.verdict(renamed, np.argsort(order)[chosen].tolist()).score == scale * score
    assert one.module.bound(instance) <= score <= one.module.worst(instance)


def test_partitioning_published_files_are_read(task: GetTask) -> None:
    text = "3 3\n100 2 1 3\n50 1 2\n75 2 2 3\n"
    (made,) = task(PARTITIONING).module.read(text, "sppnw41.txt")
    assert (made["m"], made["costs"].tolist(), made["columns"]) == (3, [100, 50, 75], [[0, 2], [1], [1, 2]])
    for wrong, says in (("2 1\n7 1 1\n", "no column covers row 2"), (text[:-2], "ends where a row"),
                        ("1 1\n7 1 0\n", "column 1 names 0 .. 0"), ("0 0", "the number of rows must be above"),
                        ("1 0", "the number of columns must be above")):  # fmt: skip
        with pytest.raises(DataError, match=says):
            task(PARTITIONING).module.read(wrong, "sppnw41.txt")

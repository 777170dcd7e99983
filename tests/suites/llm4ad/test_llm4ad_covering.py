"""Covering and partitioning: of elements by subsets, of rows by columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.contract import Case, Instance, Moved, verdicts
from trace_bench.suites.llm4ad import location

STEPWISE = "optimization/set_cover_construct"
COVERING = "optimization/co_bench/set_covering_co_bench"
PARTITIONING = "optimization/co_bench/set_partitioning_co_bench"
SUBSETS = {"elements": 4, "subsets": [[0], [1], [0, 1], [2, 3]]}
FOUR = {"m": 3, "costs": np.array([5, 7, 2, 9]), "columns": [[0, 1], [1, 2], [2], [0, 1, 2]]}


def choices(count: int) -> Iterator[list[int]]:
    for size in range(count + 1):
        yield from map(list, combinations(range(count), size))


def covers(instance: Instance) -> Iterator[list[int]]:
    subsets = instance["subsets"]
    for chosen in choices(len(subsets)):
        if len(set().union(*(subsets[i] for i in chosen))) == instance["elements"]:
            yield chosen


def following(*order: int) -> Callable[..., int]:
    """A rule that takes subsets by their numbers in the instance, in this order."""
    left = list(range(1000))

    def rule(selected: list[Any], *_: Any) -> int:
        if not selected:
            left[:] = range(1000)
        position = left.index(order[len(selected)])
        left.pop(position)
        return position

    return rule


def spoiling(selected: list[list[int]], remaining: list[list[int]], missing: list[int]) -> int:
    """A rule that takes the first subset and overwrites what it is shown."""
    for listed in (*selected, *remaining, missing):
        listed.clear()  # type: ignore[attr-defined]
    return 0


def stepwise_moved(one: Task, old: Instance, chosen: list[int], rng: np.random.Generator) -> Moved:
    names, order = rng.permutation(old["elements"]), rng.permutation(len(old["subsets"]))
    new = old | {"subsets": [sorted(names[old["subsets"][i]].tolist()) for i in order]}
    again = one.module.answer(following(*np.argsort(order)[chosen].tolist()), new)
    return new, again, 1


def moved(one: Task, old: Instance, chosen: list[int], rng: np.random.Generator) -> Moved:
    rows, order = rng.permutation(old["m"]), rng.permutation(len(old["columns"]))
    columns = [sorted(rows[old["columns"][j]].tolist()) for j in order]
    new = {"m": old["m"], "costs": old["costs"][order] * 6, "columns": columns}
    return new, np.argsort(order)[chosen].tolist(), 6


REFUSED = [
    (FOUR, [0, 2, 2], "name 2 twice"),
    (FOUR, [0, 4], "within 0 .. 3"),
    (FOUR, [1, 2, 3, 0, 1], "at most 4 entries"),
    (FOUR, [0.0, 2], "must be an int"),
    (FOUR, [2], "row 0 is covered by none"),
]
CASES = [
    Case(
        task=STEPWISE,
        tiny={"n_elements": 8, "n_subsets": 7},
        scores=lambda one, small: [one.module.score(small, chosen) for chosen in covers(small)],
        hand=[
            (SUBSETS, following(2, 3), 2),
            (SUBSETS, following(0, 1, 2, 3), 4),
            (SUBSETS, spoiling, 4),
        ],
        refused=[
            (SUBSETS, 4, "step 0 must be within 0 .. 3"),
            (SUBSETS, -1, "within 0 .. 3"),
            (SUBSETS, [0], "must be an int"),
            (SUBSETS, False, "must be an int"),
        ],
        drawn={"n_elements": 12, "n_subsets": 5},
        moved=stepwise_moved,
    ),
    Case(
        task=COVERING,
        tiny={"n_rows": 8, "n_columns": 9},
        scores=verdicts(lambda small: choices(len(small["columns"]))),
        close=1.2,
        hand=[(FOUR, [2, 0], 7), (FOUR, [0, 1], 12)],
        refused=REFUSED,
        drawn={"n_rows": 20, "n_columns": 40},
        moved=moved,
        same_bound=False,
        file="scp41.txt",
        read=[(" 2 3\n 5 7 9\n 2\n 3 1\n 1\n 2\n", [{"m": 2, "costs": [5, 7, 9], "columns": [[0], [1], [0]]}])],
        unread=[
            (" 2 3\n 5 7 9\n 2\n 3 1\n 1\n 2\n1", "line 7: '1' is more"),
            ("2 3 5 7 9 1 4 1 1", "row 1 names 4 .. 4"),
            ("1 1 5 2 1 1", "columns of row 1 must be within 0 .. 1"),
            ("0 0", "number of rows"),
            ("1 0", "number of columns"),
            ("2 1 5 1 1 0", "no column covers row 2"),
        ],
    ),
    Case(
        task=PARTITIONING,
        tiny={"n_rows": 5, "n_columns": 9},
        scores=verdicts(lambda small: choices(len(small["columns"]))),
        close=1.1,
        hand=[(FOUR, [2, 0], 7), (FOUR, [3], 9)],
        refused=[*REFUSED, (FOUR, [0, 1], "row 1 is covered 2 times, by columns 0, 1")],
        drawn={"n_rows": 20, "n_columns": 100},
        moved=moved,
        same_bound=False,
        file="sppnw41.txt",
        read=[("3 3\n100 2 1 3\n50 1 2\n75 2 2 3\n", [{"costs": [100, 50, 75], "columns": [[0, 2], [1], [1, 2]]}])],
        unread=[
            ("2 1\n7 1 1\n", "no column covers row 2"),
            ("3 3\n100 2 1 3\n50 1 2\n75 2 2", "ends where a row"),
            ("1 1\n7 1 0\n", "column 1 names 0 .. 0"),
            ("1 1\n7 1 1\n8", "line 3: '8' is more"),
        ],
    ),
]


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


@pytest.mark.parametrize(("value", "least"), [(2.9999999, 3), (3.0000001, 3), (3.01, 4), (1e7 + 0.001, 1e7)])
def test_whole_numbers_are_not_missed_by_a_rounding_error(value: float, least: float) -> None:
    assert location.whole(value) == least


def test_what_a_rule_is_shown_and_what_counts() -> None:
    seen: list[Any] = []
    assert task_of(f"llm4ad:{STEPWISE}").play(lambda *args: seen.append(args) or 1, SUBSETS) == 3  # type: ignore[func-returns-value]
    assert seen == [
        ([], [[0], [1], [0, 1], [2, 3]], [0, 1, 2, 3]),
        ([[1]], [[0], [0, 1], [2, 3]], [0, 2, 3]),
        ([[1], [0, 1]], [[0], [2, 3]], [2, 3]),
    ]


@pytest.mark.parametrize("name", [COVERING, PARTITIONING])
def test_arguments_are_as_the_statement_says(name: str) -> None:
    seen: list[Any] = []
    task_of(f"llm4ad:{name}").play(lambda *args: seen.extend(args) or [3], FOUR)  # type: ignore[func-returns-value]
    by_row = [[0, 3], [0, 1, 3], [1, 2, 3]]
    assert seen[:2] == [3, 4] and seen[2].tolist() == [5, 7, 2, 9]
    assert seen[3] == (by_row if name == COVERING else FOUR["columns"])


def test_the_worst_partition_is_dearest_row_by_row_and_has_all_columns_without_rows() -> None:
    one = task_of(f"llm4ad:{PARTITIONING}")
    assert one.judge.worst([FOUR]) == pytest.approx(3 + 3.5 + 3.5)
    idle = {"m": 1, "costs": np.array([5.0, 4.0]), "columns": [[0], []]}
    assert one.verdict(idle, [0, 1]).score == 9 <= one.judge.worst([idle])
    assert one.judge.best([idle]) == 5


def test_generated_instances_can_be_covered_and_partitioned() -> None:
    for seed in range(5):
        made = task_of(f"llm4ad:{COVERING}").instance(seed, n_rows=20, n_columns=40)
        times = location.coverage(made["columns"], list(range(len(made["columns"]))), made["m"])
        assert (times >= 2).all() and all(made["columns"])
        made = task_of(f"llm4ad:{PARTITIONING}").instance(seed, n_rows=20, n_columns=100)
        assert sorted(c[0] for c in made["columns"] if len(c) == 1) == list(range(made["m"]))
        assert len({tuple(c) for c in made["columns"]}) == len(made["columns"]) and max(map(len, made["columns"])) <= 6

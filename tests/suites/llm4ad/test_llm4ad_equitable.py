"""Equitable partitioning."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
EQUITABLE = "llm4ad:optimization/co_bench/equitable_partitioning_problem_co_bench"


def people(rows: list[list[int]], n_groups: int) -> dict[str, Any]:
    return {"data": np.array(rows, dtype=np.int64), "n_groups": n_groups}


def imbalance(instance: dict[str, Any], groups: list[int]) -> float:
    """The statement, written down again."""
    total, k = 0.0, instance["n_groups"]
    for column in instance["data"].T.tolist():
        for group in range(k):
            total += abs(sum(v for v, g in zip(column, groups, strict=True) if g == group) - sum(column) / k)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_no_division_beats_the_best_of_all_and_the_reference_finds_it(seed: int, task: GetTask) -> None:
    one = task(EQUITABLE)
    small = one.instance(seed, n_items=7, n_attributes=4, n_groups=3)
    n = len(small["data"])
    valid = [list(g) for g in product(range(3), repeat=n) if not one.broken(small, list(g))]
    scores = [one.verdict(small, groups).score for groups in valid]
    assert scores == pytest.approx([imbalance(small, groups) for groups in valid])
    bound, worst = one.judge.best([small]), one.judge.worst([small])
    assert bound is not None and bound <= min(scores) <= max(scores) <= worst
    assert one.play(one.program("reference"), small) == min(scores)


def test_about_half_of_the_instances_can_be_divided_without_imbalance(task: GetTask) -> None:
    one = task(EQUITABLE)
    drawn = [one.instance(seed) for seed in range(12)]
    perfect = [made for made in drawn if (made["data"].sum(axis=0) % 8 == 0).all()]
    assert 2 < len(perfect) < 10 and all(one.judge.best([made]) == 0 for made in perfect)
    assert all(made["data"].sum(axis=0).min() > 0 and len(made["data"]) % 8 == 0 for made in perfect)


def test_a_perfect_division_scores_zero_and_all_in_one_group_the_worst(task: GetTask) -> None:
    one = task(EQUITABLE)
    twins = people([[1, 0], [1, 0], [0, 1], [0, 1]], 2)
    assert one.verdict(twins, [0, 1, 0, 1]).score == 0 == one.judge.best([twins])
    assert one.verdict(twins, [0, 0, 1, 1]).score == 4 == one.judge.worst([twins])
    assert one.judge.normalised(twins, 0.0) == 1 and one.judge.normalised(twins, 4.0) == 0
    odd = people([[1], [1], [1]], 2)
    assert one.verdict(odd, [0, 0, 1]).score == 1 == one.judge.best([odd])


def test_empty_groups_are_named_and_what_is_no_group_is_refused(task: GetTask) -> None:
    one = task(EQUITABLE)
    made = people([[1, 0], [1, 1], [0, 1], [0, 0]], 3)
    assert one.broken(made, [0, 1, 2, 2]) == []
    assert one.broken(made, [2, 2, 2, 2]) == ["group 0 has no member", "group 1 has no member"]
    for bad, says in (
        ([0, 1, 2], "must have 4 entries, not 3"),
        ([0, 1, 2, 3], "must be within 0 .. 2"),
        ([0, 1, 2, -1], "must be within 0 .. 2"),
        ([0, 1, 2, 2.0], "must be an int, not the number 2.0"),
        ([0, 1, 2, False], "must be an int, not False"),
        ([[0, 1], [2, 3]], "must have 4 entries, not 2"),
        ("0122", "must be a list, not the text"),
    ):
        assert says in one.refusal(made, lambda *_, bad=bad: bad)  # type: ignore[misc]


@given(seed=st.integers(0, 2**32), k=st.integers(2, 9))
def test_other_orders_of_people_attributes_and_groups_change_nothing(seed: int, k: int) -> None:
    one = task_of(EQUITABLE)
    instance = one.instance(seed, n_items=30, n_attributes=6, n_groups=k)
    groups = one.module.answer(one.program("worse"), instance)
    score = one.verdict(instance, groups).score
    assert score == pytest.approx(imbalance(instance, groups))
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(groups)), rng.permutation(instance["data"].shape[1])
    names = rng.permutation(k)
    moved = instance | {"data": instance["data"][np.ix_(rows, columns)]}
    assert one.verdict(moved, [int(names[groups[i]]) for i in rows]).score == score
    assert one.judge.best([moved]) == one.judge.best([instance]) <= score <= one.judge.worst([instance])  # type: ignore[operator]
    twice = instance | {"data": np.hstack([instance["data"], instance["data"]])}
    assert one.verdict(twice, groups).score == 2 * score


def test_published_files_are_read(task: GetTask) -> None:
    rows = ["1 0 1", "0 1 1"] * 4 + ["", "1 1 1"]
    (made,) = task(EQUITABLE).module.read("\n".join(rows), "epprandom1.txt")
    assert made["data"].shape == (9, 3) and made["n_groups"] == 8 and made["data"][8].tolist() == [1, 1, 1]
    (run_together,) = task(EQUITABLE).module.read("\n".join(r.replace(" ", "") for r in rows), "eppperf1.txt")
    assert (run_together["data"] == made["data"]).all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has 0 individuals; 8 groups need one each"),
        ("1 0\n0 2\n", "line 2: attributes must be 0 or 1, not '0 2'"),
        ("1 0\n\n0 1 1\n", "line 3: has 3 attributes where the first has 2"),
        ("1 0\n" * 7, "has 7 individuals"),
    ],
)
def test_a_file_of_another_format_is_refused_with_the_line(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(EQUITABLE).module.read(text, "epprandom1.txt")

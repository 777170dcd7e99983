"""The knapsack, item by item."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of

GetTask = Callable[[str], Task]
KNAPSACK = "llm4ad:optimization/knapsack_construct"
SMALL = {"weights": np.array([4, 3, 3, 8]), "values": np.array([5, 4, 4, 9]), "capacity": 8}


def fillings(instance: dict[str, Any]) -> list[list[int]]:
    """Every set of items that fits."""
    weights = instance["weights"]
    sets = [list(s) for k in range(len(weights) + 1) for s in combinations(range(len(weights)), k)]
    return [s for s in sets if weights[s].sum() <= instance["capacity"]]


def optimum(instance: dict[str, Any]) -> int:
    """By dynamic programming over the capacity, apart from the reference."""
    best = [0] * (instance["capacity"] + 1)
    for weight, value in zip(instance["weights"].tolist(), instance["values"].tolist(), strict=True):
        for room in range(instance["capacity"], weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[-1]


@pytest.mark.parametrize("seed", range(5))
def test_more_value_is_better_and_the_best_filling_is_the_best_score(seed: int, task: GetTask) -> None:
    one = task(KNAPSACK)
    small = one.instance(seed, n_items=9)
    scores = [one.verdict(small, packed).score for packed in fillings(small)]
    bound = one.judge.best([small])
    assert bound is not None and max(scores) == optimum(small) <= bound < max(scores) + 100
    assert min(scores) == one.judge.worst([small]) == 0
    assert one.play(one.program("reference"), small) == max(scores)
    assert one.spec.score.direction == "maximize"
    assert one.judge.normalised(small, max(scores)) > one.judge.normalised(small, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_reference_is_optimal_on_default_instances(seed: int, task: GetTask) -> None:
    one = task(KNAPSACK)
    assert one.play(one.program("reference"), one.instance(seed)) == optimum(one.instance(seed))


def test_what_fits_is_offered_until_nothing_does(task: GetTask) -> None:
    seen: list[Any] = []

    def rule(left: int, items: list[tuple[int, int, int]]) -> tuple[int, int, int]:
        seen.append((left, items))
        return items[-1]

    assert task(KNAPSACK).play(rule, SMALL) == 9
    assert task(KNAPSACK).play(lambda left, items: items[0], SMALL) == 9
    assert seen == [(8, [(4, 5, 0), (3, 4, 1), (3, 4, 2), (8, 9, 3)])]
    seen.clear()
    assert task(KNAPSACK).play(lambda left, items: rule(left, items[:3]), SMALL) == 8
    assert [left for left, _ in seen] == [8, 5]


def test_packing_may_stop_early(task: GetTask) -> None:
    one = task(KNAPSACK)
    assert one.play(lambda left, items: items[0] if left == 8 else None, SMALL) == 5
    assert one.play(lambda left, items: None, SMALL) == 0
    everything = {"weights": np.array([1, 1]), "values": np.array([1, 2]), "capacity": 5}
    assert one.play(one.program("template"), everything) == one.judge.best([everything]) == 3


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((8, 9, 2), "(weight 8, value 9, index 2), is not among the 4 items on offer"),
        ((3, 4, 0), "is not among the 4 items"),
        ((4, 5), "must have 3 entries, not 2"),
        (0, "must be a list, not the integer 0"),
        ((4, 5, True), "must be an int, not True"),
        ((4.0, 5, 0), "must be an int, not the number 4.0"),
        ((4, 5, -1), "must be within 0 .."),
        ((4, 5, 10**400), "must be within 0 .."),
        ("item", "must be a list, not the text 'item'"),
        (np.array([np.nan, 5, 0]), "must be an int"),
    ],
)
def test_what_is_not_on_offer_is_refused(found: Any, says: str, task: GetTask) -> None:
    message = task(KNAPSACK).refusal(SMALL, lambda left, items: found)
    assert message.startswith("the item of step 1") and says in message


def test_an_item_is_packed_once_and_only_if_it_fits(task: GetTask) -> None:
    one = task(KNAPSACK)
    message = one.refusal(SMALL, lambda left, items: (4, 5, 0))
    assert message == (
        "the item of step 2, (weight 4, value 5, index 0), is not among the 2 items on offer, those not yet packed "
        "that fit into the remaining capacity 4"
    )
    assert "step 2, (weight 8, value 9, index 3)" in one.refusal(
        SMALL, lambda left, items: items[0] if left == 8 else (8, 9, 3)
    )


@given(seed=st.integers(0, 2**32), copies=st.integers(2, 9), turned=st.permutations(range(12)))
def test_scale_and_order_change_the_value_as_they_should(seed: int, copies: int, turned: list[int]) -> None:
    one = task_of(KNAPSACK)
    instance = one.instance(seed, n_items=12)
    score, bound = one.play(one.program("reference"), instance), one.judge.best([instance])
    moved = instance | {"weights": instance["weights"][turned], "values": instance["values"][turned] * copies}
    assert one.play(one.program("reference"), moved) == copies * score
    scaled = instance | {"weights": instance["weights"] * copies, "capacity": instance["capacity"] * copies}
    assert one.play(one.program("reference"), scaled) == score
    assert one.judge.best([scaled]) == bound


def test_instances_are_what_the_statement_says(task: GetTask) -> None:
    drawn = [task(KNAPSACK).instance(seed, n_items=200) for seed in range(10)]
    weights, values = (np.concatenate([i[k] for i in drawn]) for k in ("weights", "values"))
    assert (weights.min(), weights.max(), values.min(), values.max()) == (10, 59, 1, 100)
    assert task(KNAPSACK).instance(capacity=20)["weights"].max() == 20

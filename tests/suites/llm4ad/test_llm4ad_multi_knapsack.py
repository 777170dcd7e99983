"""Knapsacks with many capacities, and with demands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
PLAIN = "llm4ad:optimization/co_bench/multidimensional_knapsack_problem_co_bench"
DEMANDS = "llm4ad:optimization/co_bench/multi_demand_multidimensional_knapsack_problem_co_bench"
SMALL = {PLAIN: {"n_items": 10, "dimension": 3}, DEMANDS: {"n_items": 10, "n_constraints": 2}}
TINY = {
    "values": np.array([5.0, -2.0, 4.0]),
    "weights": np.array([[3.0, 1.0, 2.0]]),
    "capacities": np.array([5.0]),
    "supplies": np.array([[0.0, 2.0, 1.0]]),
    "demands": np.array([2.0]),
}


def plain(instance: dict[str, Any]) -> dict[str, Any]:
    return {"profits": np.abs(instance["values"]), "weights": instance["weights"], "capacities": instance["capacities"]}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", [PLAIN, DEMANDS])
def test_no_choice_beats_the_best_of_all_and_the_reference_comes_close(name: str, seed: int, task: GetTask) -> None:
    one = task(name)
    small = one.instance(seed, **SMALL[name])
    n = small["weights"].shape[1]
    valid = [list(x) for x in product((0, 1), repeat=n) if not one.broken(small, list(x))]
    scores = [one.verdict(small, x).score for x in valid]
    values = small["values"] if name == DEMANDS else small["profits"]
    assert max(scores) == max(sum(v for v, taken in zip(values.tolist(), x, strict=True) if taken) for x in valid)
    bound, worst = one.judge.best([small]), one.judge.worst([small])
    assert bound is not None and worst <= min(scores) <= max(scores) <= bound
    found = one.play(one.program("reference"), small)
    assert found <= max(scores)
    assert one.judge.normalised(small, found) >= 0.9 * one.judge.normalised(small, max(scores))


def test_each_broken_constraint_is_named_with_its_amount(task: GetTask) -> None:
    one = task(DEMANDS)
    assert one.broken(TINY, [0, 1, 1]) == []
    assert one.broken(TINY, [1, 1, 1]) == ["constraint 0 uses 6 of 5, 1 too much"]
    assert one.broken(TINY, [1, 0, 1]) == ["demand 0 gets 1 of 2, 1 too little"]
    assert one.verdict(TINY, [0, 1, 1]).score == 2 and one.judge.worst([TINY]) == -3
    assert task(PLAIN).broken(plain(TINY), [1, 1, 1]) == ["constraint 0 uses 6 of 5, 1 too much"]
    assert task(PLAIN).verdict(plain(TINY), [1, 0, 1]).score == 9


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([1, 0], "must have 3 entries, not 2"),
        ([1, 0, 2], r"[2] must be within 0 .. 1"),
        ([1, 0, -1], r"[2] must be within 0 .. 1"),
        ([1.0, 0, 0], r"[0] must be an int"),
        ([True, 0, 0], r"[0] must be an int"),
        (None, "must be a list, not None"),
        ({0: 1}, "must be a list, not a dict"),
    ],
)
def test_what_is_no_choice_is_refused(bad: object, says: str, task: GetTask) -> None:
    assert says in task(DEMANDS).refusal(TINY, lambda *_: bad)
    assert says in task(PLAIN).refusal(plain(TINY), lambda *_: bad)


def test_whole_capacities_are_sharp_and_fractions_forgive_rounding_only(task: GetTask) -> None:
    one = task(PLAIN)
    thirds = {"profits": np.ones(3), "weights": np.array([[0.1, 0.2, 0.3]]), "capacities": np.array([0.6])}
    assert sum([0.1, 0.2, 0.3]) > 0.6 and one.broken(thirds, [1, 1, 1]) == []
    assert one.broken(thirds | {"capacities": np.array([0.599999])}, [1, 1, 1])
    whole = {"profits": np.ones(1), "weights": np.array([[7.0 + 1e-9]]), "capacities": np.array([7.0])}
    assert one.broken(whole, [1])


@given(seed=st.integers(0, 2**32), name=st.sampled_from([PLAIN, DEMANDS]), factor=st.integers(2, 9))
def test_other_orders_and_units_change_values_as_they_should(seed: int, name: str, factor: int) -> None:
    one = task_of(name)
    instance = one.instance(seed, **SMALL[name])
    choice = one.module.answer(one.program("template"), instance)
    score, bound = one.verdict(instance, choice).score, one.judge.best([instance])
    order = np.random.default_rng(seed).permutation(len(choice))
    key = "values" if name == DEMANDS else "profits"
    moved = dict(instance) | {k: instance[k][..., order] for k in (key, "weights", "supplies") if k in instance}
    assert one.verdict(moved, [choice[i] for i in order]).score == score
    assert one.judge.best([moved]) == bound
    dearer = dict(instance) | {key: instance[key] * factor}
    assert one.verdict(dearer, choice).score == score * factor and bound is not None
    units = dict(instance) | {k: v * factor for k, v in instance.items() if k != key}
    assert one.verdict(units, choice).score == score and one.judge.best([units]) == bound


@given(seed=st.integers(0, 2**32), n=st.integers(10, 40), m=st.integers(1, 9))
def test_every_drawn_instance_with_demands_can_be_satisfied(seed: int, n: int, m: int) -> None:
    one = task_of(DEMANDS)
    instance = one.instance(seed, n_items=n, n_constraints=m)
    rules = [
        LinearConstraint(instance["weights"], ub=instance["capacities"]),
        LinearConstraint(instance["supplies"], lb=instance["demands"]),
    ]
    assert len(instance["demands"]) in (1, m // 2, m)
    size = instance["weights"].shape[1]
    solved = milp(np.zeros(size), constraints=rules, integrality=np.ones(size), bounds=Bounds(0, 1))
    assert solved.status == 0, "a choice that satisfies all exists"
    assert one.broken(instance, np.round(solved.x).astype(int).tolist()) == []


def test_published_knapsacks_are_read(task: GetTask) -> None:
    text = "2\n 3 2 9\n 5 4 3\n 1 2 3\n 4 5 6.5\n 4 10\n 1 1 0\n7\n2\n3\n"
    first, second = task(PLAIN).module.read(text, "mknap1.txt")
    assert first["profits"].tolist() == [5, 4, 3] and first["weights"].tolist() == [[1, 2, 3], [4, 5, 6.5]]
    assert first["capacities"].tolist() == [4, 10] and second["capacities"].tolist() == [3]
    assert task(PLAIN).play(task(PLAIN).program("reference"), first) == 9
    assert first["best_known"] == 9 and "best_known" not in second
    assert task(PLAIN).judge.normalised(first, 4.5) == 0.5


PETERSEN = """1
 6 10 3800
 100 600 1200 2400 500 2000
 8 12 13 64 22 41
 8 12 13 75 22 41
 3 6 4 18 6 4
 5 10 8 32 6 12
 5 13 8 42 6 20
 5 13 8 48 6 20
 0 0 0 0 8 0
 3 0 4 0 8 0
 3 2 4 0 8 4
 3 2 4 8 8 4
 80 96 20 36 44 48 10 18 22 24
"""


def test_the_first_published_knapsack_has_the_published_optimum(task: GetTask) -> None:
    """Petersen (1967), the first problem of mknap1."""
    one = task(PLAIN)
    (made,) = one.module.read(PETERSEN, "mknap1.txt")
    scores = [one.verdict(made, list(x)).score for x in product((0, 1), repeat=6) if not one.broken(made, list(x))]
    assert max(scores) == 3800 == one.play(one.program("reference"), made)
    assert one.judge.best([made]) >= 3800  # type: ignore[operator]


def test_published_knapsacks_with_demands_are_read_six_to_a_problem(task: GetTask) -> None:
    one = task(DEMANDS)
    values = "\n".join(f"{k} {-k} 1" for k in range(1, 7))
    text = f"1\n3 2\n1 2 3\n4 5 6\n5 11\n1 0 1\n0 1 0\n1 1\n{values}\n"
    made = one.module.read(text, "mdmkp_ct1.txt")
    assert [len(m["demands"]) for m in made] == [1, 1, 2, 1, 1, 2]
    assert [m["values"][0] for m in made] == [1, 2, 3, 4, 5, 6]
    assert one.broken(made[0], [1, 0, 0]) == [] and one.broken(made[2], [1, 0, 0]) != []
    assert one.verdict(made[2], [1, 1, 0]).score == 0


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (PLAIN, "", "ends where the number of problems"),
        (PLAIN, "1\n2 1 0\n5 4\n1 2\n", "ends where a capacity is expected"),
        (PLAIN, "1\n2 1 0\n5 x\n1 2\n3", "line 3: a profit must be a number"),
        (PLAIN, "1\n2 1 0\n5 4\n1 -2\n3", "negative profit, weight or capacity in problem 1"),
        (PLAIN, "1\n0 1 0\n3", "0 items and 1 constraints"),
        (PLAIN, "1\n1 1 0\n5\n1\n3\n4", "line 6: '4' is more"),
        (PLAIN, "1\n999999999 1 0\n", "the number of items must be within"),
        (PLAIN, "1\n1 1 0\n1e300\n1\n3", "a profit must be within 1e"),
        (DEMANDS, "1\n1 1\n1\n2\n1\n1\n1 2 3 4 5", "ends where a value is expected"),
        (DEMANDS, "1\n1 1\n1\n2\n1\n1\n1 2 3 4 5 6\n7", "line 8: '7' is more"),
        (DEMANDS, "1\n1 0\n", "1 items and 0 constraints in problem 1"),
    ],
)
def test_a_file_of_another_format_is_refused_with_the_line(name: str, text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says.replace("+", r"\+")):
        task(name).module.read(text, "mknap1.txt")

"""Periodic vehicle routing: tours of several days."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.test_llm4ad_vehicles import all_routes
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
PERIOD = "llm4ad:optimization/co_bench/vehicle_routing_period_routing_co_bench"
TEXT = """3 4
2 2 2 2
10
0 0 0 0
1 3 4 4 [[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
2 6 8 7 [[0, 1, 0, 1], [1, 0, 1, 0]]
3 -3 4 3 [[1, 1, 1, 1]]
"""


def small(**changed: Any) -> dict[str, Any]:
    """Customers 1 (any day), 2 (days 0 and 2, or 1 and 3) and 3 (every day), at 5, 10 and 5 from the depot."""
    (made,) = task_of(PERIOD).module.read(TEXT, "pvrp1.txt")
    return made | changed


def plans(instance: dict[str, Any]) -> Iterator[list[list[list[int]]]]:
    """Every way to choose schedules, and the shortest valid tours of each day for them."""
    one = task_of(PERIOD)
    period, n = instance["period"], len(instance["demands"]) - 1
    for chosen in product(*instance["schedules"]):
        plan: list[list[list[int]]] = []
        for day in range(period):
            there = [node for node in range(1, n + 1) if day in chosen[node - 1]]
            ways = (
                [[[there[k - 1] for k in tour] for tour in tours] for tours in all_routes(len(there))]
                if there
                else [[]]
            )
            fitting = [
                tours
                for tours in ways
                if len(tours) <= instance["fleet"][day]
                and all(instance["demands"][tour].sum() <= instance["capacity"] for tour in tours)
            ]
            plan.append(min(fitting, key=lambda tours: one.module.score(instance, [tours]), default=[]))
        if not one.broken(instance, plan):
            yield plan


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_plan_beats_the_best_of_all_and_the_reference_comes_close(seed: int, task: GetTask) -> None:
    one = task(PERIOD)
    instance = one.instance(seed, problem_size=5, period_length=2, capacity=12)
    scores = [one.module.score(instance, plan) for plan in plans(instance)]
    best, bound = min(scores), one.judge.best([instance])
    assert bound is not None and 0.5 * best < bound <= best
    assert max(scores) <= one.judge.worst([instance])
    assert best - 1e-9 <= one.play(one.program("reference"), instance) < 1.2 * best
    assert best - 1e-9 <= one.play(one.program("template"), instance)


def test_tours_of_all_days_are_added(task: GetTask) -> None:
    one = task(PERIOD)
    alone = [[[2], [3]], [[1, 3]], [[2, 3]], [[3]]]
    assert one.broken(small(), alone) == []
    assert one.verdict(small(), alone).score == pytest.approx(30 + 16 + (10 + np.hypot(9, 4) + 5) + 10)
    assert one.module.score(small(), [[], [], [], [[1]]]) == 10
    assert one.judge.worst([small()]) == pytest.approx(10 + 40 + 40)
    loads = 2 * (4 * 5 + 2 * 7 * 10 + 4 * 3 * 5) / 10
    assert one.judge.best([small()]) >= loads * (1 - 1e-8)  # type: ignore[operator]


def test_each_rule_that_a_plan_breaks_is_named(task: GetTask) -> None:
    one, good = task(PERIOD), [[[2, 3]], [[3], [1]], [[2], [3]], [[3]]]
    assert one.broken(small(), good) == []
    assert one.broken(small(capacity=9), good) == ["tour 0 of day 0 carries 10, 1 over the capacity 9"]
    assert one.broken(small(fleet=[2, 1, 2, 2]), good) == ["day 1 has 2 tours, and only 1 vehicles"]
    assert one.broken(small(), [[[2, 3], []], *good[1:]]) == [], "an empty tour needs no vehicle"
    assert one.broken(small(), [*good[:3], [[3], [1]]]) == [
        "customer 1 is visited on days 1, 3, which is none of its 4 schedules"
    ]
    assert one.broken(small(), [*good[:3], []]) == [
        "customer 3 is visited on days 0, 1, 2, which is none of its 1 schedules"
    ]
    assert one.broken(small(), [good[0], [[3]], *good[2:]]) == [
        "customer 1 is visited on no day, which is none of its 4 schedules"
    ]
    assert one.broken(small(), [*good[:3], [[3, 3]]]) == ["customer 3 is visited more than once on day 3"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([[], [], []], "the days must have 4 entries, not 3"),
        (None, "the days must be a list, not None"),
        ([[], [], [], 7], "the tours of day 3 must be a list, not the integer 7"),
        ([[], [1], [], []], "tour 0 of day 1 must be a list"),
        ([[], [[0, 1]], [], []], "tour 0 of day 1[0] must be within 1 .. 3"),
        ([[], [[1.0]], [], []], "must be an int, not the number 1.0"),
        ([[], [[1] * 9], [], []], "at most 3 entries, not 9"),
        ([[], [[]] * 9, [], []], "the tours of day 1 must have at most 5 entries, not 9"),
        ([[[1, 1, 1]] * 2] * 4, "the plan has more than 12 visits, 3 customers on 4 days"),
        ({"tours": {}}, "the days must be a list, not a dict"),
    ],
)
def test_what_is_no_plan_is_refused(answer: Any, says: str, task: GetTask) -> None:
    assert says in task(PERIOD).refusal(small(), lambda *_: answer)


def test_the_arguments_are_what_the_statement_says(task: GetTask) -> None:
    def solve(depot: Any, customers: Any, fleet: Any, capacity: Any, period: Any) -> list[list[list[int]]]:
        assert (depot, fleet, capacity, period) == ((0.0, 0.0), [2, 2, 2, 2], 10.0, 4)
        assert customers[1] == {"id": 2, "x": 6.0, "y": 8.0, "demand": 7.0, "schedules": [[0, 1, 0, 1], [1, 0, 1, 0]]}
        return [[[2, 3]], [[3, 1]], [[2], [3]], [[3]]]

    assert task(PERIOD).play(solve, small()) > 0


def test_the_arguments_of_generated_instances_have_the_same_types(task: GetTask) -> None:
    one = task(PERIOD)
    instance = one.instance(1, problem_size=6)

    def solve(depot: Any, customers: Any, fleet: Any, capacity: Any, period: Any) -> Any:
        assert [type(value) for value in (*depot, *fleet, capacity, period)] == [float] * 2 + [int] * 4 + [float, int]
        return one.program("template")(depot, customers, fleet, capacity, period)

    assert one.play(solve, instance) > 0


def test_who_is_visited_twice_is_on_days_half_a_period_apart(task: GetTask) -> None:
    for period, pairs in ((1, {(0,)}), (4, {(0, 2), (1, 3)}), (5, {(0, 2), (1, 3)}), (6, {(0, 3), (1, 4), (2, 5)})):
        schedules = [set(s) for s in task(PERIOD).instance(1, problem_size=60, period_length=period)["schedules"]]
        assert all(s in ({(d,) for d in range(period)}, {tuple(range(period))}, pairs) for s in schedules)
        assert pairs in schedules


def test_a_plan_of_many_visits_to_one_customer_is_judged_at_once(task: GetTask) -> None:
    one = task(PERIOD)
    instance = one.instance(1, problem_size=140)
    n, period = len(instance["demands"]) - 1, instance["period"]
    start = time.process_time()
    assert "visits" in one.refusal(instance, lambda *_: [[[1] * n] * n] * period)
    broken = one.broken(instance, [[[1] * n] * n] * period)
    assert "customer 1 is visited more than once on day 0" in broken
    assert time.process_time() - start < 1


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 5), times=st.integers(1, 4))
def test_scaled_mirrored_and_reversed_plans_score_as_they_should(seed: int, scale: int, times: int) -> None:
    one = task_of(PERIOD)
    old = one.instance(seed, problem_size=12)
    plan = one.module.answer(one.program("template"), old)
    new = one.module._of(old["points"][:, ::-1] * -scale, old["demands"] * times, old["schedules"], old["period"],
                         old["fleet"], old["capacity"] * times)  # fmt: skip
    assert one.broken(old, plan) == one.broken(new, plan) == []
    backwards = [[tour[::-1] for tour in tours[::-1]] for tours in plan]
    assert one.module.score(new, backwards) == pytest.approx(scale * one.module.score(old, plan), rel=1e-9)
    assert one.judge.worst([new]) == pytest.approx(scale * one.judge.worst([old]), rel=1e-9)
    assert one.judge.best([old]) <= one.module.score(old, plan)  # type: ignore[operator]


@pytest.mark.parametrize("period", [1, 2, 3, 5])
def test_other_periods_can_be_planned(period: int, task: GetTask) -> None:
    one = task(PERIOD)
    for seed in range(4):
        instance = one.instance(seed, problem_size=20, period_length=period, capacity=9)
        for program in ("template", "reference", "worse"):
            assert one.play(one.program(program), instance) >= one.judge.best([instance])  # type: ignore[operator]


def test_vehicles_that_stay_at_home_may_be_listed(task: GetTask) -> None:
    one = task(PERIOD)
    for seed in range(3):
        alone = one.instance(seed, problem_size=4, period_length=1, capacity=1)
        assert one.play(one.program("reference"), alone) == pytest.approx(one.play(one.program("template"), alone))
    assert one.play(lambda *_: [[[2, 3], [], [], [], []], [[3], [1]], [[2], [3]], [[3]]], small()) > 0


def test_published_files_are_read(task: GetTask) -> None:
    made = small()
    assert (made["period"], made["fleet"], made["capacity"]) == (4, [2, 2, 2, 2], 10)
    assert made["schedules"] == [[(3,), (2,), (1,), (0,)], [(1, 3), (0, 2)], [(0, 1, 2, 3)]]
    assert made["points"].tolist() == [[0, 0], [3, 4], [6, 8], [-3, 4]] and made["demands"].tolist() == [0, 4, 7, 3]
    assert task(PERIOD).play(task(PERIOD).program("reference"), made) > 0
    (depot_counted,) = task(PERIOD).module.read(TEXT.replace("3 4\n", "4 4\n", 1), "pvrp1.txt")
    assert depot_counted["schedules"] == made["schedules"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TEXT.replace("3 4\n", "7 4\n", 1), "has 3 customers in 4 days, and says 7"),
        (TEXT.replace("2 2 2 2", "2 2 2"), "the vehicles of a day is expected"),
        (TEXT.replace("2 2 2 2", "2 2 2 2 2"), "line 2: '2' is more"),
        (TEXT.replace("\n2 6 8", "\n7 6 8"), "another vertex where 2 is due"),
        (TEXT.replace("[0, 1, 0, 1], ", "[0, 1, 0], "), "0 or 1 for a day is expected"),
        (TEXT.replace("[[1, 1, 1, 1]]", ""), "a customer 3 whom no day"),
        (TEXT.replace("[1, 1, 1, 1]", "[0, 0, 0, 0]"), "a customer 3 whom no day"),
        (TEXT.replace("6 8 7", "6 8 77"), "a customer 2 whom no day or no vehicle suits"),
        (TEXT.replace("6 8 7", "6 y 7"), "line 6: a coordinate must be a number"),
        ("3 4\n2 2 2 2\n10", "fewer lines"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(PERIOD).module.read(text, "pvrp1.txt")

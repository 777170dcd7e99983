"""The references of tasks whose work grows fast, at the largest sizes that can be asked for."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest

from tests.suites.llm4ad.conftest import task_of

LARGEST: list[tuple[str, dict[str, Any]]] = [
    ("aircraft_landing", {"n_planes": 200, "n_runways": 1}),
    ("common_due_date_scheduling", {"n_jobs": 1000, "h": 0.4}),
    ("corporate_structuring", {"n_countries": 150}),
    ("equitable_partitioning_problem", {"n_items": 2000, "n_attributes": 200}),
    ("multi_demand_multidimensional_knapsack_problem", {"n_items": 1000, "n_constraints": 30}),
    ("multidimensional_knapsack_problem", {"n_items": 500, "dimension": 100}),
    ("open_shop_scheduling", {"n_jobs": 60, "n_machines": 60}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "largest"), LARGEST)
def test_the_reference_ends_well_within_the_limit(name: str, largest: dict[str, Any]) -> None:
    one = task_of(f"llm4ad:optimization/co_bench/{name}_co_bench")
    instance = one.module.instance(np.random.default_rng(2), **one.settings(**largest))
    slowness = seconds_of(lambda: sum(range(10**7))) / 0.2  # a busy machine, or an old one, is several times slower
    scores: list[Any] = []
    taken = seconds_of(lambda: scores.append(one.play(one.program("reference"), instance)))
    (score,) = scores
    assert taken < 8 * max(slowness, 1), "the limit is 10 seconds; this is about twice what it should take"
    assert one.judge.normalised(instance, score) > 0


def seconds_of(work: Callable[[], Any]) -> float:
    """Of a processor."""
    begin = process_time()
    work()
    return process_time() - begin


@pytest.mark.parametrize(("name", "largest"), LARGEST)
def test_no_more_can_be_asked_for(name: str, largest: dict[str, Any]) -> None:
    """Of the arguments that the reference's time depends on."""
    declared = task_of(f"llm4ad:optimization/co_bench/{name}_co_bench").spec.eval_kwargs
    for key in largest.keys() - {"n_runways", "h"}:
        assert declared[key].maximum == largest[key], key


@pytest.mark.parametrize("n_items", [10, 40, 60])
def test_template_of_the_multi_demand_knapsack_is_feasible_with_the_most_constraints(n_items: int) -> None:
    one = task_of("llm4ad:optimization/co_bench/multi_demand_multidimensional_knapsack_problem_co_bench")
    for seed in range(5):
        one.play(one.program("template"), one.instance(seed, n_items=n_items, n_constraints=10))

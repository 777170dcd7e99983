"""No call of a general solver finishes a task: instances at size standard are too hard for it within the time limit."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.suites.llm4ad.conftest import task_of
from tests.suites.llm4ad.milp_models import MODELS, full_name, solve, training

TINY = {
    "bp_1d": {"n_items": 14},
    "capacitated_warehouse_location": {"n_warehouses": 5, "n_customers": 8},
    "equitable_partitioning_problem": {"n_items": 8, "n_attributes": 3, "n_groups": 2},
    "generalised_assignment_problem": {"n_agents": 3, "n_jobs": 8},
    "graph_colouring": {"problem_size": 10},
    "maximal_independent_set": {"problem_size": 14},
    "multi_demand_multidimensional_knapsack_problem": {"n_items": 12, "n_constraints": 3},
    "multidimensional_knapsack_problem": {"n_items": 12, "dimension": 4},
    "p_median_capacitated": {"problem_size": 12},
    "p_median_uncapacitated": {"problem_size": 14},
    "resource_constrained_shortest_path": {"problem_size": 14},
    "set_covering": {"n_rows": 10, "n_columns": 20},
    "set_partitioning": {"n_rows": 10, "n_columns": 40},
    "uncapacitated_warehouse_location": {"n_warehouses": 5, "n_customers": 8},
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_a_model_is_the_task(name: str, seed: int) -> None:
    """Its optimum is a solution that keeps the rules, no worse than the reference's and within the bound."""
    one = task_of(full_name(name))
    instance = one.instance(seed, **TINY[name])
    done = solve(MODELS[name](instance), 60)
    assert done.proven
    sign = 1 if one.spec.score.direction == "maximize" else -1
    score, bound = one.verdict(instance, done.solution).score, one.judge.best([instance])
    reference = one.play(one.program("reference"), instance)
    slack = 1e-6 * (1 + abs(score))
    assert sign * score >= sign * reference - slack, "the reference's answer is a solution of the model"
    assert bound is None or sign * score <= sign * bound + slack


PROVEN = {
    "bp_1d": 1,
    "generalised_assignment_problem": 1,
    "p_median_uncapacitated": 1,
    "uncapacitated_warehouse_location": 2,
}
"""How many of the first two instances at size standard a call may prove (docs/design/tasks.md); of other tasks none."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_one_call_of_a_solver_does_not_finish_the_task(name: str) -> None:
    """Within the task's limit, which is wall time for the solver: on a busy machine it proves less, never more.

    No number of `PROVEN` is below what was seen, on a machine that did nothing else included.
    """
    one = task_of(full_name(name))
    found = [solve(MODELS[name](instance), one.spec.limits.wall_seconds) for instance in islice(training(one), 2)]
    assert sum(done.proven for done in found) <= PROVEN.get(name, 0), [round(done.seconds, 1) for done in found]

"""Models of tasks for a general solver. How far one call gets within the limit of a task is measured by
`tests.suites.llm4ad.milp_models`, and stands in docs/design/tasks.md: it depends on the machine."""

from __future__ import annotations

import pytest

from tests.suites.llm4ad.conftest import task_of
from tests.suites.llm4ad.milp_models import MODELS, full_name, solve

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
def test_a_model_is_the_task(name: str) -> None:
    """Its optimum is a solution that keeps the rules, no worse than the reference's and within the bound."""
    one = task_of(full_name(name))
    instance = one.instance(1, **TINY[name])
    done = solve(MODELS[name](instance), 60)
    assert done.proven
    sign = 1 if one.spec.score.direction == "maximize" else -1
    score, bound = one.verdict(instance, done.solution).score, one.judge.best([instance])
    reference = one.play(one.program("reference"), instance)
    slack = 1e-6 * (1 + abs(score))
    assert sign * score >= sign * reference - slack, "the reference's answer is a solution of the model"
    assert bound is None or sign * score <= sign * bound + slack

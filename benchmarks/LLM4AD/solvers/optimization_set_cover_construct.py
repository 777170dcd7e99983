"""Covering with as few subsets as possible, by CP-SAT."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model  # type: ignore[import-not-found,import-untyped,unused-ignore]

BY = "CP-SAT"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    model = cp_model.CpModel()
    taken = [model.new_bool_var("") for _ in instance["subsets"]]
    for element in range(instance["elements"]):
        model.add_bool_or(t for t, subset in zip(taken, instance["subsets"], strict=True) if element in subset)
    model.minimize(sum(taken))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [i for i, t in enumerate(taken) if solver.value(t)], status == cp_model.OPTIMAL

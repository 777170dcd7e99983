"""Equitable partitioning: a variable for each individual and group."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model  # type: ignore[import-not-found,import-untyped,unused-ignore]

BY = "CP-SAT"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    model, solver = cp_model.CpModel(), cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 2
    data, k = instance["data"].tolist(), instance["n_groups"]
    member = [[model.new_bool_var("") for _ in range(k)] for _ in data]
    for flags in member:
        model.add_exactly_one(flags)
    total = []
    for group in range(k):
        model.add_bool_or(flags[group] for flags in member)
        for attribute in range(len(data[0])):
            have = [i for i, row in enumerate(data) if row[attribute]]
            away = model.new_int_var(0, k * len(have), "")
            model.add_abs_equality(away, k * sum(member[i][group] for i in have) - len(have))
            total.append(away)
    for group in range(min(k, len(data))):  # groups are alike
        for other in range(group + 1, k):
            model.add(member[group][other] == 0)
    model.minimize(sum(total))
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [[solver.value(f) for f in flags].index(1) for flags in member], status == cp_model.OPTIMAL

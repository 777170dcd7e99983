"""Independent set: a variable for each node, edges covered by cliques that are found greedily."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model  # type: ignore[import-not-found,import-untyped,unused-ignore]

BY = "CP-SAT"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    model, solver = cp_model.CpModel(), cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 2
    n, near = instance["n"], [set[int]() for _ in range(instance["n"])]
    left = {(u, v) for u, v in instance["edges"].tolist()}
    for u, v in left:
        near[u].add(v)
        near[v].add(u)
    inside = [model.new_bool_var("") for _ in range(n)]
    for u, v in sorted(left):
        if (u, v) in left:
            clique, common = [u, v], near[u] & near[v]
            while common:
                clique.append(max(common, key=lambda node: (len(near[node] & common), node)))
                common &= near[clique[-1]]
            left -= {(a, b) for a in clique for b in clique}
            model.add_at_most_one(inside[node] for node in clique)
    model.maximize(sum(inside))
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [node for node in range(n) if solver.value(inside[node])], status == cp_model.OPTIMAL

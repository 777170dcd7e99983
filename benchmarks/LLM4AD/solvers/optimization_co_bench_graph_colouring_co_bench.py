"""Graph colouring: a variable for each node and colour, a greedy clique coloured beforehand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model  # type: ignore[import-not-found,import-untyped,unused-ignore]

BY = "CP-SAT"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    model, solver = cp_model.CpModel(), cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 2
    if instance["n"] > 150:  # takes longer to set up than tabu search takes to find better ones
        return None
    n, near = instance["n"], [set[int]() for _ in range(instance["n"])]
    for u, v in instance["edges"].tolist():
        near[u].add(v)
        near[v].add(u)
    order, greedy, clique = sorted(range(n), key=lambda node: -len(near[node])), dict[int, int](), list[int]()
    for node in order:
        greedy[node] = next(c for c in range(n) if all(greedy.get(other) != c for other in near[node]))
        if near[node].issuperset(clique):
            clique.append(node)
    colours = [model.new_int_var(0, max(greedy.values()), "") for _ in range(n)]
    for node, colour in greedy.items():
        model.add_hint(colours[node], colour)
    for number, node in enumerate(clique):
        model.add(colours[node] == number)
    has = [[model.new_bool_var("") for _ in range(max(greedy.values()) + 1)] for _ in range(n)]
    used = [model.new_bool_var("") for _ in has[0]]
    for node in range(n):
        model.add_exactly_one(has[node])
        for number, flag in enumerate(has[node]):
            model.add(colours[node] == number).only_enforce_if(flag)
            model.add_implication(flag, used[number])
    for u, v in instance["edges"].tolist():
        for one, other in zip(has[u], has[v], strict=True):
            model.add_at_most_one(one, other)
    for one, other in pairwise(used):
        model.add_implication(other, one)
    model.minimize(sum(used))
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [solver.value(colour) for colour in colours], status == cp_model.OPTIMAL

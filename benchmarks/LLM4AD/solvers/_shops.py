"""Shops by CP-SAT: an interval for each operation, none that overlap on a machine or in a job."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model  # type: ignore[import-not-found,import-untyped,unused-ignore]

BY = "CP-SAT"


def makespan(times: Any, machines: Any, seconds: float, *, in_order: bool) -> tuple[list[list[int]], bool] | None:
    """Start times of a shop with a short makespan, and whether none is shorter.

    Args:
        in_order: whether the operations of a job are done in the order of their routes (a job shop), or in any.
    """
    model, most = cp_model.CpModel(), sum(map(sum, times))
    starts = [[model.new_int_var(0, most, "") for _ in row] for row in times]
    spans = [
        [model.new_fixed_size_interval_var(s, t, "") for s, t in zip(begin, row, strict=True)]
        for begin, row in zip(starts, times, strict=True)
    ]
    on: dict[int, list[Any]] = {}
    for row, needed in zip(spans, machines, strict=True):
        for span, machine in zip(row, needed, strict=True):
            on.setdefault(machine, []).append(span)
    for together in on.values():
        model.add_no_overlap(together)
    end = model.new_int_var(0, most, "")
    for begin, row, spent in zip(starts, spans, times, strict=True):
        if in_order:
            for k in range(1, len(begin)):
                model.add(begin[k] >= begin[k - 1] + spent[k - 1])
        else:
            model.add_no_overlap(row)
        for start, time in zip(begin, spent, strict=True):
            model.add(end >= start + time)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return [[solver.value(s) for s in row] for row in starts], status == cp_model.OPTIMAL

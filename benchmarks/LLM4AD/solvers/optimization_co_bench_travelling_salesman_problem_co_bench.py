"""Best known values of `llm4ad:optimization/co_bench/travelling_salesman_problem_co_bench`."""

from __future__ import annotations

from typing import Any

from benchmarks.LLM4AD.solvers._tours import BY, tour
from trace_bench.suites.llm4ad import routing

__all__ = ["BY", "solve"]


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    found = tour(routing.distances(instance["nodes"]), seconds)
    return None if found is None else (found, False)

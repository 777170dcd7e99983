"""Best known values of `llm4ad:optimization/ovrp_construct`."""

from typing import Any

from benchmarks.LLM4AD.solvers._pyvrp_routes import BY, routes

__all__ = ["BY", "solve"]


def solve(instance: dict[str, Any], seconds: float) -> tuple[list[list[int]], bool] | None:
    found = routes(instance, seconds, is_open=True)
    return None if found is None else (found, False)

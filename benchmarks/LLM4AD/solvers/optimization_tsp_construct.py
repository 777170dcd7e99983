"""Best known values of `llm4ad:optimization/tsp_construct`."""

from __future__ import annotations

from typing import Any

from benchmarks.LLM4AD.solvers._tours import BY, tour

__all__ = ["BY", "solve"]


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    found = tour(instance["distances"], seconds)
    return None if found is None else (found, False)

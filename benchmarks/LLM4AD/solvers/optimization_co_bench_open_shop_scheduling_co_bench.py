"""Open shop by CP-SAT."""

from __future__ import annotations

from typing import Any

from benchmarks.LLM4AD.solvers._shops import BY, makespan

__all__ = ["BY", "solve"]


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    return makespan(instance["times"], instance["machines"], seconds, in_order=False)

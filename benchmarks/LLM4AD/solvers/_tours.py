"""Tours by PyVRP: one vehicle, no demands."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.LLM4AD.solvers._pyvrp_routes import BY, routes

__all__ = ["BY", "tour"]


def tour(distances: Any, seconds: float) -> list[int] | None:
    """A short closed tour that begins in city 0."""
    n = len(distances)
    found = routes({"distances": distances, "demands": np.zeros(n, dtype=int), "capacity": 1}, seconds)
    return None if found is None else [0, *(city for route in found for city in route)]

"""Multidimensional knapsack: a variable for each item."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    found = milp(
        -instance["profits"],
        constraints=LinearConstraint(instance["weights"], -np.inf, instance["capacities"]),
        integrality=np.ones(len(instance["profits"])),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    return None if found.x is None else ((found.x > 0.5).astype(int).tolist(), found.status == 0)

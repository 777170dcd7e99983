"""Knapsack by HiGHS: a variable for each item."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    weights, values = instance["weights"], instance["values"]
    found = milp(
        -values.astype(float),
        constraints=LinearConstraint(weights[None, :], ub=instance["capacity"]),
        integrality=np.ones(len(values)),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    return None if found.x is None else (np.flatnonzero(found.x > 0.5).tolist(), found.status == 0)

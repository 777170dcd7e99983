"""Set partitioning: a variable for each column."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]
from scipy.sparse import csc_array  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    costs, columns, m = instance["costs"].astype(float), instance["columns"], instance["m"]
    ends = np.cumsum([0, *(len(rows) for rows in columns)])
    rows = np.array([row for column in columns for row in column])
    matrix = csc_array((np.ones(len(rows)), rows, ends), shape=(m, len(columns)))
    found = milp(
        costs,
        constraints=LinearConstraint(matrix, 1, 1),
        integrality=np.ones(len(costs)),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    return None if found.x is None else (np.flatnonzero(found.x > 0.5).tolist(), found.status == 0)

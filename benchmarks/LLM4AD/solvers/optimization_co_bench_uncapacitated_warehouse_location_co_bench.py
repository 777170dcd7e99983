"""Uncapacitated warehouse location: the formulation with a link for each customer and warehouse."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]
from scipy.sparse import csr_array  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    costs, fixed = instance["costs"].astype(float), instance["fixed_costs"].astype(float)
    n, m = costs.shape
    cells = np.arange(n * m)
    ones = np.ones(n * m)
    whole = csr_array((ones, (cells // m, cells)), shape=(n, n * m + m))
    linked = csr_array((np.r_[ones, -ones], (np.r_[cells, cells], np.r_[cells, n * m + cells % m])))
    found = milp(
        np.r_[costs.ravel(), fixed],
        constraints=[LinearConstraint(whole, 1, 1), LinearConstraint(linked, -np.inf, 0)],
        integrality=np.r_[np.zeros(n * m), np.ones(m)],
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    sites = np.flatnonzero(found.x[n * m :] > 0.5)
    return sites[costs[:, sites].argmin(axis=1)].tolist(), found.status == 0

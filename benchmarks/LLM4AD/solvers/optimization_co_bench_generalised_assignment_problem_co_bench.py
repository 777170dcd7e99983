"""Generalised assignment: a variable for each agent and job."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]
from scipy.sparse import csr_array  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    costs, uses, capacities = instance["costs"], instance["uses"], instance["capacities"]
    m, n = costs.shape
    cells = np.arange(m * n)
    jobs = csr_array((np.ones(m * n), (cells % n, cells)), shape=(n, m * n))
    loads = csr_array((uses.ravel().astype(float), (cells // n, cells)), shape=(m, m * n))
    found = milp(
        costs.ravel().astype(float),
        constraints=[LinearConstraint(jobs, 1, 1), LinearConstraint(loads, -np.inf, capacities)],
        integrality=np.ones(m * n),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    return None if found.x is None else (found.x.reshape(m, n).argmax(axis=0).tolist(), found.status == 0)

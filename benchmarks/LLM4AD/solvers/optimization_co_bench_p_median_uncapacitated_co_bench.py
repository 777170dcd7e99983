"""Uncapacitated p-median: each vertex may go to the nearest of the vertices only, so that large graphs fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]
from scipy.sparse import csr_array  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    dist, p = instance["dist"].astype(float), instance["p"]
    n = len(dist)
    near = np.argsort(dist, axis=1, kind="stable")[:, : min(n, 6 * n // p)]
    vertex, site = np.repeat(np.arange(n), near.shape[1]), near.ravel()
    cells, ones = np.arange(len(site)), np.ones(len(site))
    whole = csr_array((ones, (vertex, cells)), shape=(n, len(site) + n))
    linked = csr_array((np.r_[ones, -ones], (np.r_[cells, cells], np.r_[cells, len(site) + site])))
    count = csr_array((np.ones(n), (np.zeros(n, dtype=int), len(site) + np.arange(n))))
    found = milp(
        np.r_[dist[vertex, site], np.zeros(n)],
        constraints=[
            LinearConstraint(whole, 1, 1),
            LinearConstraint(linked, -np.inf, 0),
            LinearConstraint(count, p, p),
        ],
        integrality=np.r_[np.zeros(len(site)), np.ones(n)],
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    return np.flatnonzero(found.x[len(site) :] > 0.5).tolist(), found.status == 0 and near.shape[1] == n

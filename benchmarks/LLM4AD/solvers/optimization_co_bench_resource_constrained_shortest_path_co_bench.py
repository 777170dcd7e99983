"""Shortest path with limits on resources: a unit of flow along whole arcs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped,unused-ignore]
from scipy.sparse import coo_array  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    n, arcs, first = instance["n"], instance["arcs"], instance["vertices"][0]
    starts, ends = np.array([arc[:2] for arc in arcs]).T - 1
    number = np.arange(len(arcs))
    signs = np.repeat([1.0, -1.0], len(arcs))
    flow = coo_array((signs, (np.concatenate([starts, ends]), np.tile(number, 2))), shape=(n, len(arcs)))
    net = np.zeros(n)
    net[0], net[-1] = 1.0, -1.0
    used = np.array([arc[3] for arc in arcs]) + instance["vertices"][ends]
    found = milp(
        np.array([arc[2] for arc in arcs]),
        constraints=[
            LinearConstraint(flow.tocsr(), net, net),
            LinearConstraint(used.T, instance["lower"] - first, instance["upper"] - first),
        ],
        integrality=np.ones(len(arcs)),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    follow = {int(starts[arc]) + 1: int(ends[arc]) + 1 for arc in np.flatnonzero(found.x > 0.5)}
    path = [1]
    while path[-1] in follow:
        path.append(follow[path[-1]])
    return path, found.status == 0

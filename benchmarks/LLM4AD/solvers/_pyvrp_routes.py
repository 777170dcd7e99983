"""Routes by PyVRP (hybrid genetic search), for the vehicle routing tasks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pyvrp  # type: ignore[import-not-found, unused-ignore]
from pyvrp.stop import MaxRuntime  # type: ignore[import-not-found, unused-ignore]

BY = f"PyVRP {version('pyvrp')}"
SCALE = 1e6
"""PyVRP computes with whole numbers: distances are rounded up, so that what is in time for it is in time."""


def routes(instance: Mapping[str, Any], seconds: float, *, is_open: bool = False) -> list[list[int]] | None:
    """Short routes of an instance of `trace_bench.suites.llm4ad.vehicles`; None if none were found.

    Args:
        is_open: the way back to the depot costs nothing.
    """
    between, demands = np.ceil(instance["distances"] * SCALE).astype(np.int64), instance["demands"].tolist()
    n = len(demands)
    windows = instance["windows"] if "windows" in instance else np.tile([0.0, 1e6], (n, 1))
    opening, closing = np.ceil(windows[:, 0] * SCALE).astype(int), np.floor(windows[:, 1] * SCALE).astype(int)
    service = np.ceil(instance.get("service", np.zeros(n)) * SCALE).astype(int)
    lengths = between.copy()
    if is_open:
        lengths[:, 0] = 0
    model = pyvrp.Model()
    places = [model.add_location(0, 0) for _ in range(n)]
    model.add_depot(places[0], tw_early=int(opening[0]), tw_late=int(closing[0]))
    for i in range(1, n):
        times = {"service_duration": service[i], "tw_early": opening[i], "tw_late": closing[i]}
        model.add_client(places[i], delivery=demands[i], **{name: int(time) for name, time in times.items()})
    model.add_vehicle_type(num_available=n - 1, capacity=int(instance["capacity"]))
    for i in range(n):
        for j in range(n):
            if i != j:
                model.add_edge(places[i], places[j], distance=int(lengths[i, j]), duration=int(between[i, j]))
    result = model.solve(stop=MaxRuntime(seconds), seed=1, display=False)
    if not result.is_feasible():
        return None
    return [[stop.idx + 1 for stop in route if stop.is_client()] for route in result.best.routes()]

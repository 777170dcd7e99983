"""Assignment: shortest augmenting paths."""

from __future__ import annotations

from typing import Any

from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped,unused-ignore]

BY = "HiGHS by SciPy"


def solve(instance: dict[str, Any], seconds: float) -> tuple[Any, bool] | None:
    return linear_sum_assignment(instance["costs"])[1].tolist(), True

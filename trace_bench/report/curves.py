"""The best score so far against what it cost, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

POINTS = 160
"""Of one curve at most."""
AXES = {"evaluations": "evaluations", "total_tokens": "tokens", "cost_usd": "US dollars"}
"""Columns of the steps that a curve is drawn against, and what they are called."""


@dataclass(frozen=True)
class Band:
    """Median and quartiles over `seeds` searches at each point of `grid`, natural units."""

    grid: tuple[float, ...]
    lower: tuple[float, ...]
    median: tuple[float, ...]
    upper: tuple[float, ...]
    seeds: int


def band(searches: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Band | None:
    """Over searches, each a pair of what was spent and the best score by then.

    A search keeps its best score until it finds a better one, and after its end: each is a step function, read at the
    points of all of them, from the first on at which every search has a score. None for no searches.

    >>> band([([1, 3], [10, 20]), ([2, 4], [0, 40])]).median
    (5.0, 10.0, 30.0)
    """
    curves = [(np.maximum.accumulate(np.asarray(x, dtype=float)), np.asarray(y, dtype=float)) for x, y in searches]
    curves = [(x, y) for x, y in curves if len(x)]
    if not curves:
        return None
    start = max(x[0] for x, _ in curves)
    grid = np.unique(np.concatenate([x for x, _ in curves]))
    grid = grid[grid >= start]
    if len(grid) > POINTS:
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, POINTS).round().astype(int))]
    with np.errstate(over="ignore", invalid="ignore"):
        levels = np.stack([y[np.searchsorted(x, grid, side="right") - 1] for x, y in curves])
        lower, median, upper = np.nan_to_num(np.quantile(levels, (0.25, 0.5, 0.75), axis=0))
    lists = [tuple(part.tolist()) for part in (grid, lower, median, upper)]
    return Band(lists[0], lists[1], lists[2], lists[3], len(curves))


def task_bands(steps: pd.DataFrame, jobs: pd.DataFrame, configurations: Sequence[str]) -> dict[str, dict[str, Band]]:
    """By axis and configuration, of the steps of one task; an axis on which nothing was spent is left out.

    Args:
        jobs: the rows of these searches. What a job spent in all is the last point of its curve: its last candidates
            may never have come to a step, and what they cost is not to be hidden.
    """
    found: dict[str, dict[str, Band]] = {}
    ends = jobs.set_index(["source", "job_id"])[[*AXES]]
    for axis in AXES:
        if not (steps[axis] > 0).any() and not (ends[axis] > 0).any():
            continue
        for configuration in configurations:
            searches = []
            for key, job in steps[steps["configuration"] == configuration].groupby(["source", "job_id"]):
                best = job["best_score"].tolist()
                searches.append(([*job[axis], ends.at[key, axis]], [*best, best[-1]]))
            one = band(searches)
            if one is not None:
                found.setdefault(axis, {})[configuration] = one
    return found

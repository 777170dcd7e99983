"""Speed-ups of kernels over the problems of a level: fast_p and the geometric mean, as KernelBench reports them.

fast_p is the share of problems that are solved with a speed-up above p (arXiv:2502.10517, section 3.2); fast_0 is the
share that is solved at all. The geometric mean is that of the speed-ups of the solved ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from trace_bench.results.bounds import within
from trace_bench.results.markup import Table, interval
from trace_bench.results.statistics import LEVEL, Estimate, means, task_sample

SUITE = "kernelbench"
SPEEDS = (0, 1, 2)
"""The p of fast_p."""
_WAY = ("trainer_id", "variant", "resolved_optimizer", "model")


@dataclass(frozen=True)
class Speedups:
    """What one way of solving the problems of one level comes to. Higher is better everywhere.

    Attributes:
        keys: trainer, variant, optimizer and model.
        fast: fast_p by p, of all problems that count, as shares between 0 and 1.
        geometric_mean: of the speed-ups above 0; its interval was made of their logarithms.
        problems: that count.
    """

    level: str
    keys: tuple[str, ...]
    fast: dict[int, Estimate]
    geometric_mean: Estimate
    problems: int


def speedups(jobs: pd.DataFrame, counts: Sequence[bool], *, level: float = LEVEL) -> list[Speedups]:
    """Groups of the kernels among `jobs`, in the order in which these come. A problem weighs the same whatever its
    seeds; a job's speed-up is the held-out one where there is one.

    Args:
        counts: which jobs count.
        level: of the intervals.
    """
    able = jobs[np.asarray(counts, dtype=bool) & (jobs["suite"] == SUITE).to_numpy()]
    if able.empty:
        return []
    test = able["score_test"]
    scores = test.where(np.isfinite(test), able["score_best"])
    of_level = able["task_id"].str.partition(":")[2].str.partition("/")[0]
    found = []
    for (name, *way), members in able.assign(_score=scores, _level=of_level).groupby(["_level", *_WAY], sort=False):
        values, tasks = members["_score"].to_numpy(), members["task_id"].to_numpy()
        fast = {p: _mean(tasks, (values > p).astype(float), level, (0.0, 1.0)) for p in SPEEDS}
        solved = values > 0
        logarithm = _mean(tasks[solved], np.log(values[solved]), level)
        found.append(Speedups(str(name), tuple(map(str, way)), fast, _exponential(logarithm), len(set(tasks))))
    return found


def table(found: Sequence[Speedups]) -> Table:
    """One row for each, with intervals in brackets."""
    header = ["level", "trainer", "variant", "optimizer", "model", "problems"]
    header += [name for p in SPEEDS for name in (f"fast_{p}", f"fast_{p} interval")]
    header += ["geometric mean", "geometric mean interval"]
    rows = []
    for one in found:
        cells = [one.level, *one.keys, str(one.problems)]
        for estimate in (*one.fast.values(), one.geometric_mean):
            cells += ["-" if estimate.mean is None else f"{estimate.mean:.3g}", interval(estimate)]
        rows.append(cells)
    return Table.of(header, rows, {name for name in header[5:] if not name.endswith("interval")}, "speed-ups")


def records(found: Sequence[Speedups]) -> list[dict[str, Any]]:
    """For JSON."""
    return [
        {
            "level": one.level,
            **dict(zip(("trainer", "variant", "optimizer", "model"), one.keys, strict=True)),
            "problems": one.problems,
            **{f"fast_{p}": _told(estimate) for p, estimate in one.fast.items()},
            "geometric_mean": _told(one.geometric_mean),
        }
        for one in found
    ]


def _told(found: Estimate) -> dict[str, Any]:
    return {"n": found.n, "unit": found.unit, "mean": found.mean, "interval": found.interval}


def _mean(tasks: Any, values: Any, level: float, bounds: tuple[float, float] | None = None) -> Estimate:
    sample, unit = task_sample(list(tasks), list(values))
    (found,) = means([sample], level, [unit])
    return within(found, [bounds] if bounds else [])


def _exponential(found: Estimate) -> Estimate:
    if found.mean is None:
        return found
    ends = None if found.interval is None else (math.exp(found.interval[0]), math.exp(found.interval[1]))
    return replace(found, mean=math.exp(found.mean), interval=ends, se=found.se if found.se == 0 else None)

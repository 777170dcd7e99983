"""Speed-ups of kernels over the problems of a level: fast_p and the geometric mean, as KernelBench reports them.

fast_p is the share of problems that are solved with a speed-up above p (arXiv:2502.10517, section 3.2); fast_0 is the
share that is solved at all. The geometric mean is that of the speed-ups of the solved ones.

A speed-up is a ratio of times on one machine: those of different hardware are never in one mean. Jobs whose kernel is
faster than the peak rates that their task declares (metric ``impossible``) are in none, and listed apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from trace_bench.analysis.bounds import within
from trace_bench.analysis.statistics import LEVEL, Estimate, interval_text, means, task_sample
from trace_bench.display.table import Table

SUITE = "kernelbench"
SHOWN = 10
"""Jobs that a sentence names."""
SPEEDS = (0, 1, 2)
"""The p of fast_p."""
KEYS = {
    "trainer": "trainer_id",
    "variant": "variant",
    "optimizer": "resolved_optimizer",
    "model": "model",
    "hardware": "hardware",
}
"""What must be equal for speed-ups to be averaged, and its column."""


@dataclass(frozen=True)
class Speedups:
    """Speed-ups of one configuration on the problems of one level. Higher is better everywhere.

    Attributes:
        keys: by the names of `KEYS`.
        fast: fast_p by p, of all problems that count, as shares between 0 and 1.
        geometric_mean: of the speed-ups above 0; its interval was made of their logarithms.
        problems: that count.
    """

    level: str
    keys: Mapping[str, str]
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
    able = _kernels(jobs, counts)
    able = able[able["_impossible"] == 0]
    if able.empty:
        return []
    of_level = able["task_id"].str.partition(":")[2].str.partition("/")[0]
    found = []
    for (name, *configuration), members in able.assign(_level=of_level).groupby(["_level", *KEYS.values()], sort=False):
        values, tasks = members["_score"].to_numpy(), members["task_id"].to_numpy()
        fast = {p: _mean(tasks, (values > p).astype(float), level, (0.0, 1.0)) for p in SPEEDS}
        solved = values > 0
        logarithm = _mean(tasks[solved], np.log(values[solved]), level)
        keys = dict(zip(KEYS, map(str, configuration), strict=True))
        found.append(Speedups(str(name), keys, fast, _exponential(logarithm), len(set(tasks))))
    return found


def impossible(jobs: pd.DataFrame, counts: Sequence[bool]) -> list[str]:
    """Ids of the jobs that `speedups` leaves out since the hardware does not allow their times."""
    able = _kernels(jobs, counts)
    return [str(job_id) for job_id in able[able["_impossible"] > 0]["job_id"]]


def impossible_sentence(job_ids: Sequence[str]) -> str:
    """The caveat about `impossible`; empty where there is none."""
    if not job_ids:
        return ""
    more = f" and {len(job_ids) - SHOWN} more" if len(job_ids) > SHOWN else ""
    return (
        "In no fast_p and no geometric mean, as a call takes less time than the declared peak rates (peak_gb_per_s, "
        f"peak_tflops) allow: job {', '.join(job_ids[:SHOWN])}{more}."
    )


def _kernels(jobs: pd.DataFrame, counts: Sequence[bool]) -> pd.DataFrame:
    """Those that count, with what is known of their best kernel: on held-out inputs where there are any."""
    able = jobs[np.asarray(counts, dtype=bool) & (jobs["suite"] == SUITE).to_numpy()]
    held_out = np.isfinite(able["score_test"])
    nothing = pd.Series(0.0, index=able.index)
    marks = [able.get(f"metric_{state}:impossible", nothing).fillna(0.0) for state in ("test", "best")]
    return able.assign(
        _score=able["score_test"].where(held_out, able["score_best"]), _impossible=marks[0].where(held_out, marks[1])
    )


def table(found: Sequence[Speedups], notes: Sequence[str] = (), title: str = "speed-ups") -> Table:
    """One row for each, with intervals in brackets."""
    header = ["level", *KEYS, "problems"]
    header += [name for p in SPEEDS for name in (f"fast_{p}", f"fast_{p} interval")]
    header += ["geometric mean", "geometric mean interval"]
    rows = []
    for one in found:
        cells = [one.level, *one.keys.values(), str(one.problems)]
        for estimate in (*one.fast.values(), one.geometric_mean):
            cells += ["-" if estimate.mean is None else f"{estimate.mean:.3g}", interval_text(estimate)]
        rows.append(cells)
    numeric = {name for name in header[1 + len(KEYS) :] if not name.endswith("interval")}
    return Table.of(header, rows, numeric, title=title, notes=notes)


def records(found: Sequence[Speedups]) -> list[dict[str, Any]]:
    """For JSON."""
    return [
        {
            "level": one.level,
            **one.keys,
            "problems": one.problems,
            **{f"fast_{p}": _as_json(estimate) for p, estimate in one.fast.items()},
            "geometric_mean": _as_json(one.geometric_mean),
        }
        for one in found
    ]


def _as_json(found: Estimate) -> dict[str, Any]:
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

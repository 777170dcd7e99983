"""Speed-ups of kernels over the problems of a level: fast_p and the geometric mean, as KernelBench reports them.

fast_p is the share of problems that are solved with a speed-up above p (arXiv:2502.10517, section 3.2); fast_0 is the
share that is solved at all. The geometric mean is that of the speed-ups of the solved ones.

A speed-up is a ratio of times on one machine: those of different hardware are never in one mean. Jobs whose kernel is
faster than the peak rates that their task declares (metric ``impossible``) are in none, and listed apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_bench.suites.tables import Estimate, Statistics, SuiteTable

if TYPE_CHECKING:
    import pandas as pd

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


def table_of(jobs: pd.DataFrame, statistics: Statistics) -> SuiteTable | None:
    """The table of the kernels of `jobs`, with intervals in brackets; None if there are no kernels."""
    groups, apart = speedups(jobs, statistics), impossible(jobs)
    if not groups and not apart:
        return None
    header = ["level", *KEYS, "problems"]
    header += [name for p in SPEEDS for name in (f"fast_{p}", f"fast_{p} interval")]
    header += ["geometric mean", "geometric mean interval"]
    rows = []
    for one in groups:
        cells = [one.level, *one.keys.values(), str(one.problems)]
        for estimate in (*one.fast.values(), one.geometric_mean):
            cells += ["-" if estimate.mean is None else f"{estimate.mean:.3g}", statistics.text(estimate)]
        rows.append(cells)
    records = [
        {
            "level": one.level,
            **one.keys,
            "problems": one.problems,
            **{f"fast_{p}": _as_json(estimate) for p, estimate in one.fast.items()},
            "geometric_mean": _as_json(one.geometric_mean),
        }
        for one in groups
    ]
    more = f" and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
    caveat = (
        "In no fast_p and no geometric mean, as a call takes less time than the declared peak rates (peak_gb_per_s, "
        f"peak_tflops) allow: job {', '.join(apart[:SHOWN])}{more}."
    )
    return SuiteTable(
        title="speed-ups",
        heading="Kernels",
        explanation="fast_p: the share of problems that are solved with a speed-up above p (arXiv:2502.10517). The "
        f"geometric mean is that of the solved ones. Intervals ({100 * statistics.level:g} %) are over problems; "
        "speed-ups of different hardware are in no common mean.",
        header=header,
        rows=rows,
        numeric=frozenset(name for name in header[1 + len(KEYS) :] if not name.endswith("interval")),
        remarks=[caveat] if apart else [],
        fields={**({"kernels": records} if records else {}), **({"kernels_impossible": apart} if apart else {})},
    )


def speedups(jobs: pd.DataFrame, statistics: Statistics) -> list[Speedups]:
    """Groups of `jobs`, in the order in which these come. A problem weighs the same whatever its seeds; a job's
    speed-up is the held-out one where there is one."""
    able = _kernels(jobs)
    able = able[able["_impossible"] == 0]
    if able.empty:
        return []
    of_level = able["task_id"].str.partition(":")[2].str.partition("/")[0]
    found = []
    for (name, *configuration), members in able.assign(_level=of_level).groupby(["_level", *KEYS.values()], sort=False):
        values, tasks = members["_score"].to_numpy(), members["task_id"].to_numpy()
        fast = {p: statistics.mean(tasks, (values > p).astype(float), (0.0, 1.0)) for p in SPEEDS}
        solved = values > 0
        keys = dict(zip(KEYS, map(str, configuration), strict=True))
        mean = statistics.geometric_mean(tasks[solved], values[solved])
        found.append(Speedups(str(name), keys, fast, mean, len(set(tasks))))
    return found


def impossible(jobs: pd.DataFrame) -> list[str]:
    """Ids of the jobs that `speedups` leaves out since the hardware does not allow their times."""
    able = _kernels(jobs)
    return [str(job_id) for job_id in able[able["_impossible"] > 0]["job_id"]]


def _kernels(jobs: pd.DataFrame) -> pd.DataFrame:
    """`jobs` with what is known of their best kernel: on held-out inputs where there are any."""
    held_out = jobs["score_test"].abs() < float("inf")  # False for NaN
    nothing = held_out * 0.0
    marks = [jobs.get(f"metric_{state}:impossible", nothing).fillna(0.0) for state in ("test", "best")]
    return jobs.assign(
        _score=jobs["score_test"].where(held_out, jobs["score_best"]), _impossible=marks[0].where(held_out, marks[1])
    )


def _as_json(found: Estimate) -> dict[str, object]:
    return {"n": found.n, "unit": found.unit, "mean": found.mean, "interval": found.interval}

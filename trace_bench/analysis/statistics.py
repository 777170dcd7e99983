"""Estimators for one sample of scores: the mean and the interquartile mean, each with its interval.

The members of a sample must be comparable and independent: the seeds of one task, or the means of several tasks.

* Mean: Student's t interval.
* IQM, the interquartile mean (the 25 % trimmed mean; Agarwal et al. 2021, arXiv:2108.13264): the percentile bootstrap,
  its percentiles expanded for small samples (Hesterberg 2015, arXiv:1411.5279, §5.2). Below four values nothing is
  trimmed, so that it is the mean, and has the mean's interval.
* Over tasks: the same of the tasks' means. This is the clustered standard error of Miller 2024 (arXiv:2411.00640, §2.2)
  with one cluster per task, every task with the same weight, and tasks - 1 degrees of freedom.

``docs/design/statistics.md`` says how each was chosen and measured. Many samples are estimated at once: those of one
size are the rows of one matrix. ``scipy.stats`` takes a second to import, which only those wait for who ask for an IQM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]
Unit = Literal["seeds", "tasks"]
Floats = NDArray[np.float64]
Samples = Sequence[Sequence[float] | Floats]

LEVEL = 0.95
TRIM = 0.25
RESAMPLES = 1999
FEW = 10
"""Below so many values an interval is shown with the coverage that was measured for it."""
_SEED = 20210830
_BATCH = 500_000
"""Numbers that the bootstrap holds at once."""
_LARGE = 1e100
"""Values beyond it, or as small as its inverse, are scaled: their squares are no doubles."""


@dataclass(frozen=True)
class Estimate:
    """Mean and interquartile mean of `n` values with their intervals, in the units of the values. None marks what so
    few values do not determine.

    Attributes:
        se: standard error of the mean.
        interval, iqm_interval: at `level`; both ends are equal where all values are, see `equal`.
        unit: what the values are: one per seed, or one per task.
    """

    n: int = 0
    mean: float | None = None
    se: float | None = None
    interval: Interval | None = None
    iqm: float | None = None
    iqm_interval: Interval | None = None
    level: float = LEVEL
    unit: Unit = "seeds"

    @property
    def equal(self) -> bool:
        """Whether there are several values that are all equal: the interval then tells nothing of their variance."""
        return self.n > 1 and self.se == 0

    @property
    def coverage(self) -> Interval | None:
        """The probability that such an interval contains the true mean: worst and best case of `coverage_of`."""
        return _range("mean", self.n, self.level) if self.interval else None

    @property
    def iqm_coverage(self) -> Interval | None:
        """The same for the IQM."""
        return _range("iqm" if self.n >= 4 else "mean", self.n, self.level) if self.iqm_interval else None


def estimate(values: Iterable[float], level: float = LEVEL, unit: Unit = "seeds") -> Estimate:
    """The estimate of the mean from one sample of finite values."""
    return estimates([list(values)], level, [unit])[0]


def estimates(samples: Samples, level: float = LEVEL, units: Sequence[Unit] = ()) -> list[Estimate]:
    """The estimates from each of `samples`, in their order; any number of finite values in each.

    Args:
        units: what the values of each sample are; seeds where it is empty.
    """
    found = means(samples, level, units)
    for places, values in by_size(samples):
        iqm, intervals = iqm_of_rows(values, level)
        for row, place in enumerate(places):
            found[place] = replace(found[place], iqm=_finite(iqm[row]), iqm_interval=_interval(intervals[row]))
    return found


def means(samples: Samples, level: float = LEVEL, units: Sequence[Unit] = ()) -> list[Estimate]:
    """`estimates` without the IQMs."""
    units = units or ["seeds"] * len(samples)
    found = [Estimate(level=level, unit=unit) for unit in units]
    for places, values in by_size(samples):
        mean, se, intervals = mean_intervals(values, level)
        for row, place in enumerate(places):
            found[place] = Estimate(
                n=values.shape[1],
                mean=_finite(mean[row]),
                se=_finite(se[row]),
                interval=_interval(intervals[row]),
                level=level,
                unit=units[place],
            )
    return found


def by_size(samples: Samples) -> Iterable[tuple[list[int], Floats]]:
    """The samples that are not empty as matrices, one for each size: the places that its rows have among `samples`."""
    sizes: dict[int, list[int]] = {}
    for place, sample in enumerate(samples):
        if len(sample):
            sizes.setdefault(len(sample), []).append(place)
    for places in sizes.values():
        yield places, np.array([samples[place] for place in places], dtype=np.float64)


def mean_intervals(values: Floats, level: float = LEVEL) -> tuple[Floats, Floats, Floats]:
    """Means of the rows of `values`, their standard errors and their t intervals (a column for each end). The last two
    are NaN where a row is a single value.

    The same as ``scipy.stats.ttest_1samp(row, 0).confidence_interval(level)``, whose module takes long to import.
    """
    scaled, scale = _scaled(values + 0.0)  # no negative zeros
    n = values.shape[1]
    mean = scaled.mean(axis=1)
    alike = scaled.min(axis=1) == scaled.max(axis=1)
    mean[alike] = scaled[alike, 0]  # free of rounding
    if n < 2:
        nothing = np.full(len(values), np.nan)
        return mean * scale, nothing, np.column_stack([nothing, nothing])
    from scipy.special import stdtrit  # after the case that does without: its import takes longer than a small run

    se = np.where(alike, 0.0, scaled.std(axis=1, ddof=1) / np.sqrt(n))
    half = stdtrit(n - 1, (1 + level) / 2) * se
    with np.errstate(over="ignore"):
        return mean * scale, se * scale, np.column_stack([(mean - half) * scale, (mean + half) * scale])


def iqm_of_rows(values: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Interquartile means of the rows of `values` and their bootstrap intervals (a column for each end); NaN are those
    of a single value. Resamples are the same every time."""
    n = values.shape[1]
    if int(TRIM * n) == 0:
        mean, _, intervals = mean_intervals(values, level)
        return mean, intervals
    scaled, scale = _scaled(values)
    iqm = _trimmed(scaled)
    parts = np.array_split(scaled, max(1, scaled.size * RESAMPLES // _BATCH))
    ends = np.concatenate([_bootstrapped(part, expanded(level, n)) for part in parts])
    alike = scaled.min(axis=1) == scaled.max(axis=1)
    iqm[alike] = scaled[alike, 0]
    ends[alike] = scaled[alike, :1]
    with np.errstate(over="ignore"):
        return iqm * scale, ends * scale[:, None]


def _bootstrapped(values: Floats, level: float) -> Floats:
    from scipy import stats

    found = stats.bootstrap(
        (values,),
        _trimmed,
        n_resamples=RESAMPLES,
        axis=-1,
        confidence_level=level,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(_SEED),
    )
    interval = found.confidence_interval
    return np.column_stack([interval.low, interval.high])


def _trimmed(values: Floats, axis: int = -1) -> Floats:
    """``scipy.stats.trim_mean(values, TRIM, axis=-1)`` but for the last bits, which takes several times as long.
    No other axis is asked for."""
    n = values.shape[axis]
    cut = int(TRIM * n)
    return np.asarray(np.sort(values, axis=axis)[..., cut : n - cut].mean(axis=-1))


def expanded(level: float, n: int) -> float:
    """The level at which the percentile bootstrap of `n` values is as wide as a t interval at `level` would be."""
    from scipy.special import ndtr, stdtrit

    return float(1 - 2 * ndtr(-np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 + level) / 2)))


# ------------------------------------------------------------------------------------------------------- over tasks


@dataclass(frozen=True)
class OverTasks:
    """An estimate over tasks; with one task alone it is over its seeds, and `Estimate.unit` says which.

    Attributes:
        tasks, values: how many tasks, and how many values of jobs, it is made of.
    """

    estimate: Estimate
    tasks: int
    values: int


def task_sample(tasks: Sequence[str], values: Sequence[float]) -> tuple[list[float], Unit]:
    """The sample that stands for `values`, which are of `tasks` (one name each): the mean of each task, so that a task
    with more seeds weighs no more; or the values themselves where all are of one task."""
    of_task: dict[str, list[float]] = {}
    for task, value in zip(tasks, values, strict=True):
        of_task.setdefault(task, []).append(value)
    if len(of_task) < 2:
        return list(values), "seeds"
    return [float(mean_intervals(np.array([members]))[0][0]) for _, members in sorted(of_task.items())], "tasks"


def over_tasks(tasks: Sequence[str], values: Sequence[float], level: float = LEVEL) -> OverTasks:
    """The estimate over tasks from `values` of jobs, each of the task at the same place in `tasks`."""
    sample, unit = task_sample(tasks, values)
    return OverTasks(estimates([sample], level, [unit])[0], len(set(tasks)), len(values))


def per_dollar(improvement: float | None, cost_usd: float) -> float | None:
    """Improvement for each US dollar; None where nothing was spent."""
    if improvement is None or cost_usd <= 0:
        return None
    return _finite(improvement / cost_usd)


# --------------------------------------------------------------------------------------------------------- coverage


def coverage_of(estimator: str, n: int, level: float = LEVEL) -> Mapping[str, float] | None:
    """By distribution, the share of simulated samples of `n` values whose interval at `level` held the truth; None for
    sizes and levels that were not measured.

    Args:
        estimator: ``mean`` or ``iqm``.
    """
    table: Mapping[str, Mapping[str, Mapping[str, float]]] = coverage_table()["coverage"][estimator]
    return table.get(f"{level:g}", {}).get(str(n))


@cache
def coverage_table() -> Mapping[str, Any]:
    """``coverage.json``, made by ``benchmarks/statistics/coverage.py``."""
    text = resources.files("trace_bench.analysis").joinpath("coverage.json").read_text(encoding="utf-8")
    table: Mapping[str, Any] = json.loads(text)
    return table


def _range(estimator: str, n: int, level: float) -> Interval | None:
    if not 2 <= n < FEW:
        return None
    measured = coverage_of(estimator, n, level)
    return (min(measured.values()), max(measured.values())) if measured else None


# ------------------------------------------------------------------------------------------------------------ numbers


def _scaled(values: Floats) -> tuple[Floats, Floats]:
    """`values` with each row divided by a factor, and the factors: sums and squares of large numbers stay finite, and
    those of small ones above zero."""
    largest = np.abs(values).max(axis=1)
    far = (largest > _LARGE) | ((largest > 0) & (largest < 1 / _LARGE))
    scale = np.where(far, largest, 1.0)
    return values / scale[:, None], scale


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _interval(ends: Floats) -> Interval | None:
    return (float(ends[0]), float(ends[1])) if np.isfinite(ends).all() else None


def interval_text(found: Estimate) -> str:
    """``[low, high]`` with four significant digits, ``[value]=`` where all values are the same; a dash for none."""
    if found.interval is None:
        return "-"
    low, high = found.interval
    return f"[{low:.4g}]=" if found.equal else f"[{low:.4g}, {high:.4g}]"


def coverage_text(found: Interval | None) -> str:
    """``63–95 %``; a dash for None."""
    return "-" if found is None else f"{100 * found[0]:.0f}–{100 * found[1]:.0f} %"

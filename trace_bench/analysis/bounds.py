"""The declared ranges of scores, which no interval of their mean, or of a difference of them, passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from trace_bench.analysis.statistics import Estimate, Interval
from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta
from trace_bench.records.gaps import Gaps
from trace_bench.records.rows import GAP, NORMALISED

Objectives = Callable[[str], ObjectiveSpec | None]
"""Returns the objective of a job by its id; None if it is not known."""


def recorded(run: RunLayout) -> Objectives:
    """The objectives that `run` recorded with its jobs, with the metric ``gap`` of tasks that have one."""
    gaps = Gaps.read(run)

    def read(job_id: str) -> ObjectiveSpec | None:
        try:
            return gaps.objective(read_model(JobMeta, run.job(job_id).meta.read_bytes()))
        except (OSError, JsonError):
            return None

    return read


def objectives_of(jobs: Iterable[tuple[str, str]], objectives: Objectives) -> dict[str, ObjectiveSpec]:
    """The objective of each task, as far as it is known.

    Args:
        jobs: pairs of a task and the id of a job of it.
    """
    found: dict[str, ObjectiveSpec] = {}
    for task, job_id in jobs:
        objective = None if task in found else objectives(job_id)
        if objective is not None:
            found[task] = objective
    return found


def metric_range(objective: ObjectiveSpec | None, name: str) -> Interval | None:
    """The lowest and the highest value of a metric, natural units; None where the task declares none."""
    metric = objective.metrics.get(name) if objective is not None else None
    return (min(metric.range), max(metric.range)) if metric is not None and metric.range is not None else None


def normalised_range(objective: ObjectiveSpec | None) -> Interval | None:
    """The same of the metric that tasks are averaged by; see `trace_bench.records.rows.normalised_score`."""
    return metric_range(objective, GAP if objective is not None and GAP in objective.metrics else NORMALISED)


def score_range(objective: ObjectiveSpec | None) -> Interval | None:
    """The same of the score by which states are compared, where that is a metric."""
    if objective is None or objective.mode != "scalar":
        return None
    return metric_range(objective, objective.score_key)


def of_difference(bounds: Interval | None) -> Interval | None:
    """The lowest and the highest difference of two values within `bounds`."""
    return None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])


def within(found: Estimate, bounds: Sequence[Interval | None]) -> Estimate:
    """`found` with its interval cut at the mean of `bounds`, one for each task that it is of; as it is where a bound is
    not known."""
    if found.mean is None:
        return found
    return replace(found, interval=cut(found.interval, found.mean, bounds))


def cut(ends: Interval | None, mean: float, bounds: Sequence[Interval | None]) -> Interval | None:
    """The interval of a mean, cut at the mean of `bounds`. A mean that is itself beyond a bound stays inside it."""
    if ends is None or not bounds or any(pair is None for pair in bounds):
        return ends
    low, high = (sum(pair[end] / len(bounds) for pair in bounds if pair) for end in (0, 1))
    return max(min(low, mean), ends[0]), min(max(high, mean), ends[1])

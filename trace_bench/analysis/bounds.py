"""The declared range of normalised scores, which no interval of their mean passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trace_bench.analysis.statistics import Estimate, Interval
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta
from trace_bench.records.gaps import Gaps
from trace_bench.records.rows import GAP, NORMALISED


def normalised_bounds(run: RunLayout, jobs: Iterable[tuple[str, str]]) -> dict[str, Interval]:
    """The lowest and highest normalised score that each task declares, as far as it does.

    Args:
        jobs: pairs of a task and the id of a job of it.
    """
    found: dict[str, Interval | None] = {}
    gaps = Gaps.read(run)
    for task, job_id in jobs:
        if task in found:
            continue
        try:
            meta = read_model(JobMeta, run.job(job_id).meta.read_bytes())
        except (OSError, JsonError):
            continue
        metrics = meta.objective.metrics
        has_gap = meta.task_id in gaps.tasks or GAP in metrics  # a gap has no bounds
        metric = None if has_gap else metrics.get(NORMALISED)
        known = metric.range if metric is not None else None
        found[task] = (min(known), max(known)) if known is not None else None
    return {task: bounds for task, bounds in found.items() if bounds is not None}


def within(found: Estimate, bounds: Sequence[Interval | None]) -> Estimate:
    """`found` with its interval cut at the mean of `bounds`, one for each task that it is of; as it is where a bound is
    not known. A mean that is itself beyond a bound stays inside its interval."""
    if found.interval is None or found.mean is None or not bounds or any(pair is None for pair in bounds):
        return found
    low, high = (sum(pair[end] / len(bounds) for pair in bounds if pair) for end in (0, 1))
    low, high = min(low, found.mean), max(high, found.mean)
    return replace(found, interval=(max(low, found.interval[0]), min(high, found.interval[1])))

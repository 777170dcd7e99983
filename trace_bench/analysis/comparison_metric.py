"""The quantity that is compared, and the jobs that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from trace_bench.analysis.bounds import metric_range, normalised_range, objectives_of, recorded, score_range
from trace_bench.analysis.comparison_groups import UNIT, ComparisonGroup
from trace_bench.analysis.statistics import Interval
from trace_bench.arguments import hint
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.records import JobMeta
from trace_bench.errors import ConfigError, HarnessError

NAMES: Mapping[str, str] = {
    "normalised_test": "normalised held-out score of the best state",
    "score_test": "held-out score of the best state",
    "normalised": "normalised validation score of the best state",
    "score_best": "validation score of the best state",
}
"""Columns of `trace_bench.analysis.frames.jobs_frame`, the best choice first."""
NOT_HELD_OUT = (
    "validation scores chose the states: they flatter the search that tries more, and say nothing of new data"
)


@dataclass(frozen=True)
class Metric:
    """The quantity that is compared.

    Attributes:
        name: of `NAMES`, or ``metric_test:NAME`` or ``metric_best:NAME``.
        held_out: it is of data that no state was chosen by.
        scale_free: it can be averaged over tasks.
        signs: by task with arguments, 1 where more is better and -1 where less is.
        note: which better choice some tasks have, and not all; empty if none.
    """

    name: str
    about: str
    held_out: bool
    scale_free: bool
    signs: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def sign_of(self, unit: str) -> float:
        return self.signs.get(unit, 1.0)


def chosen(parts: Sequence[ComparisonGroup], name: str | None, *, unprotected: bool, failures_as_worst: bool) -> Metric:
    """The metric called `name`; by default the first of `NAMES` that every task has a value of.

    Raises:
        ConfigError: there is none of that name, or failures cannot be scored in it.
    """
    baseline, *others = (_counted(part, unprotected=unprotected) for part in parts)
    jobs = pd.concat([baseline, *others])
    shared = jobs[jobs[UNIT].isin(set(baseline[UNIT]) & set(pd.concat(others)[UNIT]))]
    note = ""
    if name is None:
        having = {column: int(shared[UNIT][shared[column].notna()].nunique()) for column in NAMES}
        most = shared[UNIT].nunique()
        name = next((column for column, tasks in having.items() if tasks == most > 0), "score_best")
        first = next((column for column, tasks in having.items() if tasks), name)
        if first != name:
            note = f"{first} is of {having[first]} of {most} tasks; --metric {first} compares these alone"
    known = [*NAMES, *(c for c in jobs.columns if c.startswith(("metric_test:", "metric_best:")))]
    if name not in known:
        raise ConfigError(f"--metric: there is no {name!r}{hint(name, known)}")
    scale_free = name.startswith("normalised") or name.endswith((":normalised", ":gap"))
    if failures_as_worst and not scale_free:
        raise ConfigError(
            f"--failures-as-worst: {name} has no worst value; it takes a normalised metric, where that is 0"
        )
    if mixed := _mixed(shared, name):
        name = mixed
        note = f"some jobs have gaps and others none, so that {mixed} is compared, which all have"
    held_out = name.endswith("_test") or name.startswith("metric_test:")
    about = NAMES.get(name) or f"{name.partition(':')[2]} of the best state"
    about += " on held-out data" if held_out and name not in NAMES else ""
    return Metric(name, about, held_out, scale_free, {} if scale_free else _signs(parts, jobs, name), note)


def units_with(parts: Sequence[ComparisonGroup], metric: Metric, *, unprotected: bool) -> set[str]:
    """Tasks with arguments of which some job that counts has a value."""
    found: set[str] = set()
    for part in parts:
        jobs = _counted(part, unprotected=unprotected)
        if metric.name in jobs.columns:
            found |= set(jobs[UNIT][jobs[metric.name].notna()])
    return found


def counting(part: ComparisonGroup, metric: Metric, worst: set[str] | None) -> pd.DataFrame:
    """The jobs of `part` that have a value, unprotected ones too: their rows with ``value``, better when larger.

    Args:
        worst: tasks with arguments of which a job that failed by itself has the value 0, whatever its best state
            scored; None where failed jobs do not count. A task that has no such metric has no worst value either.
    """
    jobs = _counted(part, unprotected=True, failed=worst is not None)
    if metric.name not in jobs.columns:
        jobs = jobs.assign(**{metric.name: float("nan")})
    signs = jobs[UNIT].map(metric.sign_of).astype("float64")
    failed = 0.0 if worst is None else jobs[UNIT].isin(worst).map({True: 0.0, False: float("nan")})
    values = (jobs[metric.name] * signs).where(jobs["outcome"] == "ok", failed)
    return jobs.assign(value=values)[values.notna()]


def ranges(part: ComparisonGroup, metric: Metric, units: Sequence[str]) -> list[Interval | None]:
    """The declared range of the metric on each of `units`, of jobs of `part`; None where the task declares none."""
    name = metric.name.partition(":")[2]
    jobs = part.jobs[part.jobs[UNIT].isin(units)]
    objectives = objectives_of(zip(jobs[UNIT], jobs["job_id"], strict=True), recorded(part.source.layout))
    known = [objectives.get(unit) for unit in units]
    if name:
        return [metric_range(objective, name) for objective in known]
    return [normalised_range(objective) if metric.scale_free else score_range(objective) for objective in known]


def _counted(part: ComparisonGroup, *, unprotected: bool, failed: bool = False) -> pd.DataFrame:
    jobs = part.jobs
    keep = jobs["outcome"].isin(["ok", "failed"] if failed else ["ok"])
    return jobs[keep if unprotected else keep & (jobs["integrity"] == "protected")]


def _mixed(jobs: pd.DataFrame, column: str) -> str:
    """The metric to take in place of `column`, where that is the gap of some jobs of a task and not of others."""
    state = {"normalised_test": "test", "normalised": "best"}.get(column)
    gap = f"metric_{state}:gap"
    if state is None or gap not in jobs.columns:
        return ""
    gaps = jobs[jobs[column].notna()].groupby(UNIT)[gap]
    some = gaps.count().between(1, gaps.size() - 1)
    return f"metric_{state}:normalised" if some.any() else ""


def _signs(parts: Sequence[ComparisonGroup], jobs: pd.DataFrame, name: str) -> dict[str, float]:
    first = pd.concat([part.jobs for part in parts]).drop_duplicates(UNIT).set_index(UNIT)
    own: dict[str, float] = first["sign"].to_dict()
    metric = name.partition(":")[2]
    if not metric or metric == "score":
        return own
    having = jobs[jobs[name].notna()].drop_duplicates(UNIT)
    return own | {
        unit: _direction(parts, run_id, job_id, metric)
        for unit, run_id, job_id in zip(having[UNIT], having["run_id"], having["job_id"], strict=True)
    }


def _direction(parts: Sequence[ComparisonGroup], run_id: str, job_id: str, metric: str) -> float:
    """The direction of a metric by the job's objective."""
    for part in parts:
        path = part.source.layout.job(job_id).meta
        if not (part.jobs["job_id"] == job_id).any():
            continue
        try:
            metrics = read_model(JobMeta, path.read_bytes()).objective.metrics
        except (OSError, JsonError) as error:
            raise HarnessError(f"{path}: {error}") from None
        if metric in metrics:
            return 1.0 if metrics[metric].direction == "maximize" else -1.0
    return 1.0

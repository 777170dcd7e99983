"""The ``objective`` by which states of a task are compared, over the metrics that the task declares. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trace_bench.arguments import hint
from trace_bench.config.frozen import FrozenDict, freeze
from trace_bench.config.models import ObjectiveConfig
from trace_bench.config.source import Path_, Source
from trace_bench.suites.spec import Task
from trace_bench.suites.spec_tables import Direction, MetricSpec

SCORE = "score"
"""The task's own score, which counts among its metrics where it declares any."""


@dataclass(frozen=True)
class EntryMode:
    """The ``objective_mode`` of a task entry, and its place in the config."""

    mode: str
    where: str


def resolve_objective(
    given: ObjectiveConfig, task: Task, source: Source, problems: list[str], entry: EntryMode | None = None
) -> FrozenDict:
    """`given` for `task`, complete, as `ObjectiveSpec` of the job contract has it; what does not fit is added to
    `problems`, one sentence each.

    Args:
        entry: the mode that the task entry asks for. It replaces the mode of a `given` that compares the task's own
            score, which is the default.
    """
    declared = task.spec.metrics
    before = len(problems)
    if entry is not None and entry.mode != given.mode:
        if given.mode != "scalar" or given.score_key != SCORE:
            problems.append(
                f"{entry.where} {entry.mode} differs from {source.where(('objective',))}, which compares by "
                f"{given.mode if given.mode != 'scalar' else given.score_key}; keep one of them"
            )
            return FrozenDict()
        given = given.model_copy(update={"mode": entry.mode})
    if given.mode != "scalar" and not declared:
        problems.append(
            f"{source.where(('objective', 'mode'))} {given.mode} compares metrics, and the task {task.id} declares "
            "none; write 'objective: score', or name tasks that have [metrics] in their task.toml"
        )
    else:
        _check_names(given, task, source, problems)
    if len(problems) > before:
        return FrozenDict()
    weights = given.weights or {name: metric.weight for name, metric in declared.items()}
    resolved: FrozenDict = freeze(
        {
            "mode": given.mode,
            "score_key": given.score_key,
            "score_direction": task.spec.score.direction,
            "weights": {} if given.mode == "scalar" else weights,
            "metrics": {name: _metric(name, metric, given) for name, metric in declared.items()},
            "pareto_metrics": given.pareto_metrics or _to_be_traded(declared),
            "references": given.reference,
            "tie_break": given.tie_break,
            "missing_value": given.missing_value,
            "seed": given.seed,
        }
    )
    return resolved


def direction_of(objective: Mapping[str, Any]) -> Direction:
    """``maximize`` or ``minimize``: of the number that states are compared by. Weighted sums are of metrics that have
    their sign turned, so that higher is better."""
    if objective["mode"] != "scalar":
        return "maximize"
    metric = objective["metrics"].get(objective["score_key"])
    direction: Direction = objective["score_direction"] if metric is None else metric["direction"]
    return direction


def _metric(name: str, metric: MetricSpec, given: ObjectiveConfig) -> dict[str, Any]:
    return {
        "direction": "minimize" if name in given.minimize else metric.direction,
        "failure": metric.failure,
        "reference": metric.reference,
        "range": metric.range,
    }


def _to_be_traded(declared: Mapping[str, object]) -> tuple[str, ...]:
    """The metrics of a front: all, or the only one and the score; none for a task with a score alone."""
    return (SCORE, *declared) if len(declared) == 1 else tuple(declared)


def _check_names(given: ObjectiveConfig, task: Task, source: Source, problems: list[str]) -> None:
    declared = list(task.spec.metrics)
    every = [SCORE, *declared]
    written: list[tuple[Path_, str, list[str]]] = [
        *((("weights", name), name, every) for name in given.weights),
        *((("minimize", i), name, declared) for i, name in enumerate(given.minimize)),
        *((("pareto_metrics", i), name, every) for i, name in enumerate(given.pareto_metrics)),
        *((("reference", name), name, every) for name in given.reference),
        *([(("score_key",), given.score_key, every)] if given.score_key != SCORE else []),
    ]
    for path, name, known in written:
        where = source.where(("objective", *path))
        if not declared:
            problems.append(f"{where}: the task {task.id} declares no metrics, so there is nothing to set")
        elif name not in known:
            own = "; the direction of its score is the task's own" if name == SCORE else hint(name, known)
            problems.append(f"{where}: the task {task.id} has no metric {name!r} here{own}")

"""What states are compared by: the task's own score, one of its metrics, a weighted sum of them, or dominance.

A task may measure more than one thing of an answer: ``[metrics.<name>]`` of its ``task.toml`` declares each, its guide
returns the values beside the score. The objective of a run turns them into the one number that every search needs
(`Rollout.score`), and says which of two states is better. Metrics themselves stay as they were measured, in natural
units; *oriented* is what has its sign turned so that higher is better. Standard library only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

SCORE = "score"
"""The task's own score, which is a metric like any other where a task declares more."""
Vector = Mapping[str, float]
"""Metrics by name, natural units."""
T = TypeVar("T")


@dataclass(frozen=True)
class Metric:
    """One thing that a guide measures of an answer.

    Attributes:
        failure: what a candidate that fails on an example gets for it, natural units.
        reference: of the hypervolume; None where the task names none.
        range: (worst, best), natural units, as far as known.
    """

    direction: Literal["maximize", "minimize"]
    failure: float
    reference: float | None = None
    range: tuple[float, float] | None = None

    def oriented(self, value: float) -> float:
        """`value` as a number of which higher is better, or the other way round."""
        return value if self.direction == "maximize" else -value


@dataclass(frozen=True)
class Objective:
    """How states are compared. Lists and weights are complete: nothing is left to defaults.

    Attributes:
        score_key: of mode ``scalar``: the metric that is the score; ``score`` is the task's own.
        weights: of the sum over oriented metrics; higher is better. In mode ``pareto`` this sum is the score that
            searches see.
        pareto_metrics: what dominance looks at, in the order of ``lexicographic``.
        tie_break: who is best of the states that no other dominates.
        missing_value: oriented; what a metric gets that the guide left out. None: leaving one out is an error.
        seed: of ``random_seeded``; None is the job's.
    """

    mode: Literal["scalar", "weighted", "pareto"] = "scalar"
    score_key: str = SCORE
    weights: Mapping[str, float] = field(default_factory=dict)
    pareto_metrics: tuple[str, ...] = ()
    tie_break: Literal["weighted", "lexicographic", "random_seeded"] = "weighted"
    missing_value: float | None = None
    seed: int | None = None

    def scalar(self, values: Vector, metrics: Mapping[str, Metric]) -> float:
        """The one number of `values`; it may be infinite where a sum is beyond a double."""
        if self.mode == "scalar":
            return values[self.score_key]
        return weighted_sum(self.weights, values, metrics)


def weighted_sum(weights: Mapping[str, float], values: Vector, metrics: Mapping[str, Metric]) -> float:
    """``sum(weight * oriented value)``: higher is better, whatever the directions of the metrics."""
    total = 0.0
    for name, weight in weights.items():
        if weight:
            total += weight * metrics[name].oriented(values[name])
    return total


def objective_of(given: Mapping[str, Any]) -> Objective:
    """The ``objective`` of a ``job.json``."""
    return Objective(
        mode=given["mode"],
        score_key=given["score_key"],
        weights=dict(given["weights"]),
        pareto_metrics=tuple(given["pareto_metrics"]),
        tie_break=given["tie_break"],
        missing_value=given["missing_value"],
        seed=given["seed"],
    )


def metrics_of(score: Metric, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Metric]:
    """What `tables` (``[metrics]`` of a task spec, or of an objective) declare, after the task's own `score`; nothing
    for a task that declares none."""
    if not tables:
        return {}
    metrics = {SCORE: score}
    for name, table in tables.items():
        low, high = sorted(table.get("range") or (0.0, 0.0))
        span = (low, high) if table["direction"] == "maximize" else (high, low)
        metrics[name] = Metric(
            table["direction"], float(table["failure"]), table.get("reference"), span if table.get("range") else None
        )
    return metrics


def sum_of_ranges(weights: Mapping[str, float], metrics: Mapping[str, Metric]) -> tuple[float, float] | None:
    """(worst, best) of the weighted sum, if every part of it has a range."""
    spans = {name: metrics[name].range for name, weight in weights.items() if weight}
    if not all(spans.values()):
        return None
    ends = [weighted_sum(weights, {n: s[i] for n, s in spans.items() if s}, metrics) for i in (0, 1)]
    return (min(ends), max(ends))


def statement_of(objective: Objective, metrics: Mapping[str, Metric]) -> str:
    """What the optimizer reads of the objective; nothing where the score is the task's own."""
    if objective.mode == "scalar":
        if objective.score_key == SCORE:
            return ""
        way = "higher" if metrics[objective.score_key].direction == "maximize" else "lower"
        return f"What counts is the metric {objective.score_key} alone; {way} is better. It is given as the score."
    parts = [
        f"{'+' if metrics[name].direction == 'maximize' else '-'} {weight:g} * {name}"
        for name, weight in objective.weights.items()
        if weight
    ]
    text = f"The score is {' '.join(parts).removeprefix('+ ')}; higher is better."
    if objective.mode == "weighted":
        return text
    ways = [f"{n} ({'higher' if metrics[n].direction == 'maximize' else 'lower'} is better)"
            for n in objective.pareto_metrics]  # fmt: skip
    return f"Good trade-offs between these metrics are looked for: {', '.join(ways)}. {text}"


# ------------------------------------------------------------------------------------------------------ dominance


def oriented_point(values: Vector, names: Sequence[str], metrics: Mapping[str, Metric]) -> tuple[float, ...]:
    """`values` of `names`, in their order, oriented."""
    return tuple(metrics[name].oriented(values[name]) for name in names)


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the oriented point `one` is nowhere worse than `other`, and somewhere better."""
    better = False
    for a, b in zip(one, other, strict=True):
        if a < b:
            return False
        better = better or a > b
    return better


def fronts(points: Sequence[Sequence[float]]) -> list[list[int]]:
    """Non-dominated sorting: indices of oriented `points` that none dominates, of those that only these dominate, …

    Each front is in the order of `points`; all of them together hold every index once.
    """
    left = list(range(len(points)))
    found: list[list[int]] = []
    while left:
        front = [i for i in left if not any(dominates(points[j], points[i]) for j in left)]
        found.append(front)
        inside = set(front)
        left = [i for i in left if i not in inside]
    return found


def ranking(
    objective: Objective,
    metrics: Mapping[str, Metric],
    vectors: Sequence[Vector],
    seed: int,
    numbers: Sequence[int] | None = None,
) -> list[int]:
    """Indices of `vectors`, best first: by front, within a front by the tie-break, then by their order.

    Args:
        objective: of mode ``pareto``.
        seed: the job's, for ``random_seeded`` without a seed of its own.
        numbers: of the states, in order of creation; None for 0, 1, 2, …
    """
    points = [oriented_point(vector, objective.pareto_metrics, metrics) for vector in vectors]
    numbers = range(len(vectors)) if numbers is None else numbers
    keys = [tie_key(objective, metrics, vector, number, seed) for number, vector in zip(numbers, vectors, strict=True)]
    return [i for front in fronts(points) for i in sorted(front, key=lambda i: (_descending(keys[i]), i))]


def tie_key(
    objective: Objective, metrics: Mapping[str, Metric], vector: Vector, number: int, seed: int
) -> tuple[float, ...]:
    """What decides between states that do not dominate each other; the greatest is best.

    Args:
        number: of the state, in order of creation.
    """
    match objective.tie_break:
        case "lexicographic":
            return oriented_point(vector, objective.pareto_metrics, metrics)
        case "random_seeded":
            drawn = seed if objective.seed is None else objective.seed
            return (random.Random(f"trace-bench/pareto/{drawn}/{number}").random(),)
        case _:
            return (weighted_sum(objective.weights, vector, metrics),)


def _descending(key: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(-part for part in key)


@dataclass(frozen=True)
class _Member(Generic[T]):
    key: tuple[float, ...]
    point: tuple[float, ...]
    item: T


class Front(Generic[T]):
    """The items that no other one dominates, and the best of them by the tie-break; of equal ones the first."""

    def __init__(self, objective: Objective, metrics: Mapping[str, Metric], seed: int) -> None:
        self._objective, self._metrics, self._seed = objective, metrics, seed
        self._members: list[_Member[T]] = []
        self._seen = 0

    def add(self, vector: Vector, item: T) -> T:
        """Take `item` in, unless it is dominated; returns the best item of all so far."""
        point = oriented_point(vector, self._objective.pareto_metrics, self._metrics)
        key = tie_key(self._objective, self._metrics, vector, self._seen, self._seed)
        self._seen += 1
        if not any(dominates(member.point, point) for member in self._members):
            kept = [member for member in self._members if not dominates(point, member.point)]
            self._members = [*kept, _Member(key, point, item)]
        return max(self._members, key=lambda member: member.key).item  # the first of equal ones


def means(vectors: Iterable[Vector]) -> dict[str, float]:
    """The mean over `vectors` of each metric that all of them have; of none, nothing."""
    listed = list(vectors)
    shared = [name for name in listed[0] if all(name in vector for vector in listed)] if listed else []
    return {name: finite_mean([vector[name] for vector in listed]) for name in shared}


def finite_mean(values: Sequence[float]) -> float:
    """Mean of finite numbers, which is finite; their sum need not be."""
    plain = sum(values) / len(values)
    return plain if math.isfinite(plain) else mean_of_huge(values)


def mean_of_huge(values: Sequence[float]) -> float:
    """Mean of finite numbers whose sum may be beyond a double."""
    largest = max(map(abs, values))
    return largest * (math.fsum(value / largest for value in values) / len(values))

"""Checks the official scores of a job: means against examples, and against what the sandbox reported while it ran.

The means are computed exactly, by code that neither the sandbox nor the derivation of rows uses.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from trace_bench.artifacts.contract import ObjectiveSpec, Split
from trace_bench.artifacts.outputs import ExampleScore, StateScores, WorkerResult
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, JsonLines, parse_event
from trace_bench.worker.objective import Metric, Objective

CLAIM = "derivation.scores"
KINDS = ("initial", "best", "final")
_SPLITS: tuple[Split, ...] = ("train", "validate", "test")


def mean(values: Sequence[float]) -> float:
    """Return the mean of finite numbers, rounded once."""
    return float(sum(map(Fraction, values)) / len(values))


def is_mean(found: float | None, values: Sequence[float]) -> bool:
    """Return True if `found` is the mean of `values`, except for the rounding of a sum in any order."""
    if found is None:
        return False
    rounding = max(1e-12, len(values) * sys.float_info.epsilon)
    return abs(found - mean(values)) <= rounding * mean([abs(value) for value in values])


def _reported(scores: StateScores, split: Split) -> float | None:
    value: float | None = scores.validate_ if split == "validate" else getattr(scores, split)
    return value


def _states(result: WorkerResult) -> Iterator[tuple[str, StateScores]]:
    for kind in KINDS:
        if (scores := getattr(result.scores, kind)) is not None:
            yield kind, scores


def check_scores(result: WorkerResult, objective: ObjectiveSpec, at: Findings) -> None:
    """The means of each state and split follow from examples, and all states were scored on the same examples."""
    examples_of: dict[str, list[str]] = {}
    for kind, scores in _states(result):
        for split in _SPLITS:
            key, found = f"scores.{kind}.{split}", _reported(scores, split)
            examples = [example for example in scores.examples if example.split == split]
            if not examples:
                at.equal(CLAIM, key, found, None)
                continue
            values = [example.score for example in examples]
            at.check(is_mean(found, values), CLAIM, key, found, mean(values))
            ids = [example.id for example in examples]
            if len(set(ids)) < len(ids):
                at.wrong(CLAIM, f"{key}: examples", "an example twice", "each example once")
            at.equal(CLAIM, f"{key}: examples", ids, examples_of.setdefault(split, ids))
            shared = set(examples[0].metrics).intersection(*(example.metrics for example in examples))
            metrics = {name: [example.metrics[name] for example in examples] for name in sorted(shared)}
            reported = scores.metrics.get(split, {})
            if reported.keys() != shared or not all(is_mean(reported[name], metrics[name]) for name in metrics):
                expected = {name: mean(of) for name, of in metrics.items()}
                at.wrong(CLAIM, f"scores.{kind}.metrics.{split}", dict(reported), expected)
            for example in examples if objective.metrics else ():
                _check_example(example, objective, at, f"{key}: example {example.id}")


def _check_example(example: ExampleScore, objective: ObjectiveSpec, at: Findings, key: str) -> None:
    """The score of an example follows from its metrics. A failed example can have any score."""
    metrics = {name: Metric(spec.direction, spec.failure) for name, spec in objective.metrics.items()}
    metrics.setdefault("score", Metric(objective.score_direction, 0.0))
    rule = Objective(mode=objective.mode, score_key=objective.score_key, weights=dict(objective.weights))
    if example.failed or "score" not in example.metrics:
        return
    try:
        expected = rule.scalar(example.metrics, metrics)
    except (KeyError, OverflowError):
        return
    if not math.isclose(example.score, expected, rel_tol=1e-12, abs_tol=1e-300):
        at.wrong(CLAIM, key, example.score, expected)


def check_events(folder: Folder, at: Findings, result: WorkerResult | None) -> None:
    """Compare the means and sizes that the sandbox reported while it ran with its result."""
    reported: dict[str, dict[str, Any]] = {}
    sizes: Mapping[str, Any] = {}
    status: Any = None
    failures: list[list[Any]] = []
    lines = JsonLines(folder, at, parse_event, schema="event")
    for _, line in lines:
        if line["event"] == "score" and line.get("state") in KINDS:
            reported[line["state"]] = line
        elif line["event"] == "build.end" and isinstance(line.get("examples"), dict):
            sizes = line["examples"]
        elif line["event"] == "job.end":
            status = line.get("status")
        elif line["event"] == "failure":
            failures.append([line.get("boundary"), line.get("kind")])
    if result is None or not lines.whole:
        return
    if status is not None:
        at.equal(CLAIM, "job.end: status", status, result.status)
    if result.failure is not None and failures and [result.failure.boundary, result.failure.kind] not in failures:
        expected = f"{result.failure.boundary}: {result.failure.kind}"
        at.wrong("derivation.record", "failure: boundary, kind", failures, expected)
    for kind, scores in _states(result):
        for split in _SPLITS if kind in reported else ():
            at.equal(CLAIM, f"score {kind}: {split}", reported[kind].get(split), _reported(scores, split))
        for name, size in sizes.items() if kind in reported else ():
            number = sum(example.split == name for example in scores.examples)
            if name != "test" and number and number != size:
                at.wrong(CLAIM, f"build.end: examples.{name}", size, number)

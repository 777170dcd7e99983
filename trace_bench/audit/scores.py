"""Checks the official scores of a job: means against examples, and against what the sandbox reported while it ran."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trace_bench.artifacts.contract import ObjectiveSpec, Split
from trace_bench.artifacts.outputs import StateScores, WorkerResult
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, JsonLines, parse_event
from trace_bench.worker.objective import Metric, Objective, finite_mean, means

CLAIM = "derivation.scores"
_TOLERANCE = 1e-12
"""Relative: the effect of another order of addition."""
_KINDS = ("initial", "best", "final")
_SPLITS: tuple[Split, ...] = ("train", "validate", "test")


def _mean(scores: StateScores, split: Split) -> float | None:
    mean: float | None = scores.validate_ if split == "validate" else getattr(scores, split)
    return mean


def check_scores(result: WorkerResult, objective: ObjectiveSpec, at: Findings) -> None:
    """The means of each state and split follow from examples, and all states were scored on the same examples."""
    examples_of: dict[str, tuple[str, ...]] = {}
    for kind in _KINDS:
        scores: StateScores | None = getattr(result.scores, kind)
        for split in _SPLITS if scores is not None else ():
            assert scores is not None
            key, found = f"scores.{kind}.{split}", _mean(scores, split)
            examples = [example for example in scores.examples if example.split == split]
            if not examples:
                at.check(found is None, CLAIM, key, found, None)
                continue
            expected = finite_mean([example.score for example in examples])
            at.check(found is not None and _close(found, expected), CLAIM, key, found, expected)
            ids = tuple(example.id for example in examples)
            if len(set(ids)) < len(ids):
                at.wrong(CLAIM, f"{key}: examples", "an example twice", "each example once")
            if examples_of.setdefault(split, ids) != ids:
                at.wrong(CLAIM, f"{key}: examples", list(ids), list(examples_of[split]))
            metrics = means(example.metrics for example in examples)
            reported = scores.metrics.get(split, {})
            if reported.keys() != metrics.keys() or not all(_close(reported[n], metrics[n]) for n in metrics):
                at.wrong(CLAIM, f"scores.{kind}.metrics.{split}", dict(reported), metrics)
            _check_objective(scores, split, objective, at, key)


def _check_objective(scores: StateScores, split: str, objective: ObjectiveSpec, at: Findings, key: str) -> None:
    """The score of an example follows from its metrics. A failed example can have any score."""
    if not objective.metrics:
        return
    metrics = {name: Metric(spec.direction, spec.failure) for name, spec in objective.metrics.items()}
    metrics.setdefault("score", Metric(objective.score_direction, 0.0))
    scalar = Objective(mode=objective.mode, score_key=objective.score_key, weights=dict(objective.weights)).scalar
    for example in scores.examples:
        if example.split != split or example.failed or "score" not in example.metrics:
            continue
        try:
            expected = scalar(example.metrics, metrics)
        except (KeyError, OverflowError):
            continue
        if not _close(example.score, expected):
            at.wrong(CLAIM, f"{key}: example {example.id}", example.score, expected)


def check_events(folder: Folder, at: Findings, result: WorkerResult | None) -> bool:
    """Compare the means and sizes that the sandbox reported while it ran with its result.

    Returns:
        Whether every line could be read.
    """
    reported: dict[str, dict[str, Any]] = {}
    sizes: Mapping[str, Any] = {}
    status: Any = None
    failures: list[tuple[Any, Any]] = []
    lines = JsonLines(folder, at, parse_event, schema="event", claim="files.schemas")
    for _, line in lines:
        if line["event"] == "score" and line.get("state") in _KINDS:
            reported[line["state"]] = line
        elif line["event"] == "build.end" and isinstance(line.get("examples"), dict):
            sizes = line["examples"]
        elif line["event"] == "job.end":
            status = line.get("status")
        elif line["event"] == "failure":
            failures.append((line.get("boundary"), line.get("kind")))
    if result is None or not lines.whole:
        return lines.whole
    if status is not None:
        at.equal(CLAIM, "job.end: status", status, result.status)
    if result.failure is not None and failures and (result.failure.boundary, result.failure.kind) not in failures:
        expected = f"{result.failure.boundary}: {result.failure.kind}"
        at.wrong("derivation.record", "failure: boundary, kind", [list(f) for f in failures], expected)
    for kind, line in reported.items():
        scores: StateScores | None = getattr(result.scores, kind)
        if scores is None:
            continue
        for split in _SPLITS:
            at.equal(CLAIM, f"score {kind}: {split}", line.get(split), _mean(scores, split))
        for name, size in sizes.items():
            number = sum(example.split == name for example in scores.examples)
            if name != "test" and number and number != size:
                at.wrong(CLAIM, f"build.end: examples.{name}", size, number)
    return True


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-300)

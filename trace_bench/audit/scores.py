"""Official scores of one job: means against their examples, and against what the sandbox noted as it went on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.jsonio import JsonError, loads
from trace_bench.artifacts.outputs import StateScores, WorkerResult
from trace_bench.artifacts.records import JobMeta
from trace_bench.audit.claims import Book
from trace_bench.audit.reading import Folder, Unreadable
from trace_bench.worker.objective import Metric, Objective, finite_mean, means

CLAIM = "derivation.scores"
_TOLERANCE = 1e-12
"""Relative: another order of adding up."""
_KINDS = ("initial", "best", "final")


def check_scores(result: WorkerResult, meta: JobMeta, path: str, book: Book) -> None:
    """Means follow from examples, for each state and split; all states were judged on the same examples, and equal
    ones come to equal scores."""
    judged: dict[str, tuple[str, ...]] = {}
    for kind in _KINDS:
        scores: StateScores | None = getattr(result.scores, kind)
        if scores is None:
            continue
        for split in ("train", "validate", "test"):
            examples = [example for example in scores.examples if example.split == split]
            said = scores.validate_ if split == "validate" else getattr(scores, split)
            key = f"scores.{kind}.{split}"
            book.checked(CLAIM)
            if not examples:
                if said is not None:
                    book.wrong(CLAIM, path, key, said, None)
                continue
            due = finite_mean([example.score for example in examples])
            if said is None or not _close(said, due):
                book.wrong(CLAIM, path, key, said, due)
            ids = tuple(example.id for example in examples)
            if len(set(ids)) < len(ids):
                book.wrong(CLAIM, path, f"{key}: examples", "one example twice", "each once")
            if judged.setdefault(split, ids) != ids:
                book.wrong(CLAIM, path, f"{key}: examples", list(ids), list(judged[split]))
            metrics = means(example.metrics for example in examples)
            said_metrics = scores.metrics.get(split, {}) if isinstance(scores.metrics, Mapping) else {}
            if said_metrics.keys() != metrics.keys() or not all(_close(said_metrics[n], metrics[n]) for n in metrics):
                book.wrong(CLAIM, path, f"scores.{kind}.metrics.{split}", dict(said_metrics), metrics)
            _check_objective(scores, split, meta.objective, path, key, book)


def _check_objective(
    scores: StateScores, split: str, objective: ObjectiveSpec, path: str, key: str, book: Book
) -> None:
    """What the objective makes of the metrics of an example is its score; a failed one may be worth anything."""
    if not objective.metrics:
        return
    metrics = {name: Metric(spec.direction, spec.failure) for name, spec in objective.metrics.items()}
    metrics.setdefault("score", Metric(objective.score_direction, 0.0))
    made = Objective(mode=objective.mode, score_key=objective.score_key, weights=dict(objective.weights))
    for example in scores.examples:
        if example.split != split or example.failed or "score" not in example.metrics:
            continue
        try:
            due = made.scalar(example.metrics, metrics)
        except (KeyError, OverflowError):
            continue
        if not _close(example.score, due):
            book.wrong(CLAIM, path, f"{key}: example {example.id}", example.score, due)


def check_events(folder: Folder, path: str, result: WorkerResult | None, book: Book) -> bool:
    """The means that the scorer said as it went on, and how many examples there were, against the result.

    Returns:
        Whether every line could be read.
    """
    said: dict[str, dict[str, Any]] = {}
    sizes: Mapping[str, Any] = {}
    status: Any = None
    failures: list[tuple[Any, Any]] = []
    try:
        for number, raw in enumerate(folder.lines(path), start=1):
            try:
                line = loads(raw)
            except (JsonError, RecursionError) as error:
                book.wrong("files.schemas", path, f"line {number}", str(error), "event")
                return False
            if not isinstance(line, dict) or not isinstance(line.get("event"), str) or "t" not in line:
                book.wrong("files.schemas", path, f"line {number}", "no event", "event")
                return False
            if line["event"] == "score" and line.get("state") in _KINDS:
                said[line["state"]] = {name: line.get(name) for name in ("train", "validate", "test")}
            elif line["event"] == "build.end" and isinstance(line.get("examples"), dict):
                sizes = line["examples"]
            elif line["event"] == "job.end":
                status = line.get("status")
            elif line["event"] == "failure":
                failures.append((line.get("boundary"), line.get("kind")))
    except Unreadable as error:
        book.wrong("files.schemas", path, was=str(error), due="event")
        return False
    if result is None:
        return True
    if status is not None:
        book.equal(CLAIM, path, "job.end: status", status, result.status)
    if result.failure is not None and failures and (result.failure.boundary, result.failure.kind) not in failures:
        was = f"{result.failure.boundary}: {result.failure.kind}"
        book.wrong("derivation.record", path, "failure: boundary, kind", [list(f) for f in failures], was)
    for kind in _KINDS:
        scores: StateScores | None = getattr(result.scores, kind)
        if scores is None or kind not in said:
            continue
        for split in ("train", "validate", "test"):
            due = scores.validate_ if split == "validate" else getattr(scores, split)
            book.equal(CLAIM, path, f"score {kind}: {split}", said[kind][split], due)
        for split, size in sizes.items():
            number = sum(example.split == split for example in scores.examples)
            if split != "test" and number and number != size:
                book.wrong(CLAIM, path, f"build.end: examples.{split}", size, number)
    return True


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-300)

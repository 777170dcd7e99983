"""``pareto.json``: the states of a search that no other one dominates, from its ``state_history.jsonl`` alone.

The history is what a sandbox said, and may be anything that its schema admits: millions of lines, numbers near the end
of the double range, metrics that no task declares. What is too much is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trace_bench.artifacts.contract import MetricSpec, ObjectiveSpec, Split
from trace_bench.artifacts.derived import ParetoFront, ParetoPoint
from trace_bench.artifacts.jsonio import JsonError, canonical, dumps, read_model
from trace_bench.artifacts.outputs import HistoryLine
from trace_bench.config.objectives import SCORE
from trace_bench.records.hypervolume import hypervolume
from trace_bench.worker.objective import dominates

MOST_CANDIDATES = 10_000
MOST_POINTS = 500
MOST_BYTES = 16 << 20
"""Of the parameters of all points together; beyond it none has any."""


@dataclass(frozen=True)
class _Candidate:
    number: int
    line: HistoryLine
    point: tuple[float, ...]


def pareto_front(history: Path, job_id: str, objective: ObjectiveSpec) -> ParetoFront | None:
    """The front of the job whose history lies at `history`; None for a task with nothing to trade, or without a state
    that was judged on all of the selection split.

    Each state counts once, as it was judged first.
    """
    names = objective.pareto_metrics
    if len(names) < 2 or not history.is_file():
        return None
    metrics = {**objective.metrics, SCORE: MetricSpec(direction=objective.score_direction, failure=0.0)}
    if not set(names) <= metrics.keys():
        return None
    signs = tuple(1.0 if metrics[name].direction == "maximize" else -1.0 for name in names)
    split, candidates, left_out = _candidates(history, names, signs)
    if not candidates:
        return None
    front, more = _front(candidates)
    reference, named = _reference(objective, metrics, names, signs, candidates)
    oriented = [sign * reference[name] for name, sign in zip(names, signs, strict=True)]
    return ParetoFront(
        job_id=job_id,
        split=split,
        metrics={name: metrics[name].direction for name in names},
        points=_points(front, metrics),
        reference=reference,
        reference_from=named,
        hypervolume=None if more else hypervolume([c.point for c in front], oriented),
        candidates=len(candidates),
        left_out=left_out + more,
    )


def _candidates(history: Path, names: Sequence[str], signs: Sequence[float]) -> tuple[Split, list[_Candidate], int]:
    """The selection split, the first line of each state that was judged on all of it, and how many lines were not
    looked at."""
    split: Split = "train"
    found: list[_Candidate] = []
    seen: set[bytes] = set()
    left_out = 0
    with history.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if len(found) >= MOST_CANDIDATES:
                left_out += 1
                continue
            try:
                line = read_model(HistoryLine, raw)
            except JsonError:
                continue  # an unfinished end
            if not line.comparable:
                continue
            if not line.metrics.keys() >= set(names) or (found and line.split != split):
                left_out += 1
                continue
            if (key := canonical(line.parameters)) in seen:
                continue
            seen.add(key)
            split = line.split
            point = tuple(sign * line.metrics[name] for name, sign in zip(names, signs, strict=True))
            found.append(_Candidate(number, line, point))
    return split, found, left_out


def _front(candidates: Sequence[_Candidate]) -> tuple[list[_Candidate], int]:
    """Those that none dominates, best first on the first metric, and how many more there are than may be listed."""
    front: list[_Candidate] = []
    more = 0
    # In this order a point is dominated by earlier ones only.
    for candidate in sorted(candidates, key=lambda c: (tuple(-x for x in c.point), c.number)):
        if any(dominates(member.point, candidate.point) for member in front):
            continue
        if len(front) < MOST_POINTS:
            front.append(candidate)
        else:
            more += 1
    return front, more


def _reference(
    objective: ObjectiveSpec,
    metrics: dict[str, MetricSpec],
    names: Sequence[str],
    signs: Sequence[float],
    candidates: Sequence[_Candidate],
) -> tuple[dict[str, float], dict[str, Literal["config", "task", "worst"]]]:
    """Where the hypervolume is measured from, and by metric who says so."""
    reference: dict[str, float] = {}
    named: dict[str, Literal["config", "task", "worst"]] = {}
    for place, (name, sign) in enumerate(zip(names, signs, strict=True)):
        task = metrics[name].reference
        if name in objective.references:
            reference[name], named[name] = objective.references[name], "config"
        elif task is not None:
            reference[name], named[name] = task, "task"
        else:
            reference[name], named[name] = sign * min(c.point[place] for c in candidates), "worst"
    return reference, named


def _points(front: Sequence[_Candidate], declared: Collection[str]) -> tuple[ParetoPoint, ...]:
    size = sum(len(dumps(c.line.parameters)) for c in front)
    return tuple(
        ParetoPoint(
            line=c.number,
            candidate=c.line.candidate,
            step=c.line.step,
            score=c.line.score,
            metrics={name: value for name, value in c.line.metrics.items() if name in declared},
            parameters=c.line.parameters if size <= MOST_BYTES else None,
        )
        for c in front
    )

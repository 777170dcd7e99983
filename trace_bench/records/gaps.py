"""Gaps: how far a score is on the way from the template of a task to its yardstick, on the same instances.

0 is the template, 1 the yardstick: of each instance the best known score where a table or a file has it, else the score
of the task's reference program. The template's scores are those of the job's initial state. So a job that changes
nothing has a gap of exactly 0, for every seed and split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from trace_bench.artifacts.contract import Direction, MetricSpec, ObjectiveSpec, Split
from trace_bench.artifacts.derived import Yardstick, Yardsticks
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.outputs import ExampleScore, StateScores, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.config.objectives import SCORE
from trace_bench.identity import canonical_json
from trace_bench.records.reading import read_optional
from trace_bench.records.rows import GAP

Problem = tuple[str, bytes, int]
"""A task, its arguments and a seed: what the instances of a job follow from."""


def gap(
    scores: Sequence[float], template: Sequence[float], best: Sequence[float], direction: Direction
) -> float | None:
    """The sum of (score - template) over the sum of (best - template); larger is better.

    None where `best` is in sum no better than `template`, or the quotient is not finite.

    >>> gap([2.0, 3.0], [1.0, 1.0], [3.0, 3.0], "maximize"), gap([1.0], [1.0], [1.0], "maximize")
    (0.75, None)
    """
    above: float | Fraction
    span: float | Fraction
    try:
        above, span = (math.fsum(v - t for v, t in zip(values, template, strict=True)) for values in (scores, best))
        finite = math.isfinite(above) and math.isfinite(span)
    except (OverflowError, ValueError):  # a sum beyond a double, or of both infinities
        finite = False
    if not finite:
        start = sum(map(Fraction, template))
        above, span = (sum(map(Fraction, values)) - start for values in (scores, best))
    if (span if direction == "maximize" else -span) <= 0:
        return None
    try:
        value = float(above / span)
    except OverflowError:
        return None
    return value + 0.0 if math.isfinite(value) else None  # not -0.0


_METRIC = MetricSpec(direction="maximize", failure=-1.0)


@dataclass(frozen=True)
class Gaps:
    """The yardsticks of a run, by problem. A task of which a yardstick is missing has none at all: a mean of seeds must
    not mix two metrics."""

    yardsticks: Mapping[Problem, Yardstick]

    @classmethod
    def of(cls, yardsticks: Sequence[Yardstick]) -> Gaps:
        failed = {each.task_id for each in yardsticks if each.problem}
        return cls({problem_of(each): each for each in yardsticks if each.task_id not in failed})

    @classmethod
    def read(cls, run: RunLayout) -> Gaps:
        """The yardsticks of `run`. Raises HarnessError: the file is damaged."""
        found = read_optional(Yardsticks, run.yardsticks)
        return cls.of(found.yardsticks if found is not None else ())

    def objective(self, meta: JobMeta) -> ObjectiveSpec:
        """The objective of a job, with the metric ``gap`` if its task has one. A gap has no bounds."""
        if meta.task_id not in self._tasks or GAP in meta.objective.metrics:
            return meta.objective
        return meta.objective.model_copy(update={"metrics": {**meta.objective.metrics, GAP: _METRIC}})

    @cached_property
    def _tasks(self) -> frozenset[str]:
        return frozenset(task for task, _, _ in self.yardsticks)

    def put(self, row: Results, result: WorkerResult | None) -> Results:
        """`row` with the metric ``gap`` of each state and split, where it has a score and a yardstick."""
        yardstick = self.yardsticks.get(problem_of(row))
        initial = result.scores.initial if result is not None else None
        if yardstick is None or result is None or initial is None or row.score_initial is None:
            return row
        scores, update = result.scores, {}
        of_split: tuple[tuple[str, StateScores | None, Split], ...] = (
            ("initial", initial, initial.selection_split),
            ("final", scores.final, initial.selection_split),
            ("best", scores.best, initial.selection_split),
            ("test", scores.best, "test"),
        )
        for name, state, split in of_split:
            metrics = getattr(row, f"metrics_{name}")
            if state is not None and (value := _gap_of(state, initial, split, yardstick)) is not None:
                update[f"metrics_{name}"] = {**metrics, GAP: value}
        return row.model_copy(update=update)


def problem_of(of: Results | Yardstick) -> Problem:
    """The problem of a row, or that of a yardstick."""
    return of.task_id, canonical_json(of.eval_kwargs), of.seed


def top_scores(yardstick: Yardstick, split: Split) -> dict[str, float]:
    """The score of each example at which the gap is 1: the best known one, else that of the reference program."""
    return {**yardstick.reference.get(split, {}), **yardstick.best_known.get(split, {})}


def own_score(example: ExampleScore) -> float:
    """The task's own score of an example, natural units, whatever objective compares states."""
    return example.metrics.get(SCORE, example.score)


def has_span(yardstick: Yardstick, initial: StateScores, split: Split) -> bool:
    """Return True if `yardstick` is in sum better than the template, whose scores are `initial`, on `split`."""
    return _gap_of(initial, initial, split, yardstick) is not None


def _gap_of(state: StateScores, initial: StateScores, split: Split, yardstick: Yardstick) -> float | None:
    template = {each.id: own_score(each) for each in initial.examples if each.split == split}
    best = top_scores(yardstick, split)
    shared = [e for e in state.examples if e.split == split and e.id in template and e.id in best]
    ids = [example.id for example in shared]
    scores = [own_score(example) for example in shared]
    return gap(scores, [template[id] for id in ids], [best[id] for id in ids], yardstick.direction)


def gap_sentences(run: RunLayout) -> list[str]:
    """`sentences` of the yardsticks of `run`; none if it has none. Raises HarnessError: the file is damaged."""
    found = read_optional(Yardsticks, run.yardsticks)
    return sentences(found.yardsticks) if found is not None else []


def sentences(yardsticks: Sequence[Yardstick]) -> list[str]:
    """What a gap of 1 is in a run, and of which tasks there is none, in sentences for tables."""
    complete = [each for each in yardsticks if not each.problem]
    known = sum(len(of) for each in complete for of in each.best_known.values())
    every = sum(len(top_scores(each, split)) for each in complete for split in {*each.reference, *each.best_known})
    found = []
    if every:
        what = "the task's reference program on the same instances"
        if known:
            what = f"the best known score ({known} of {every} instances), else {what}"
        if known == every:
            what = "the best known score"
        found.append(f"gap: 0 is the template, 1 is {what}.")
    for each in yardsticks:
        if each.problem:
            found.append(f"{each.task_id} has no gap: {each.problem} (seed {each.seed}).")
    return found

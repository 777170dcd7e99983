"""Who leads on each task.

One row per task and way of solving it (trainer, variant, optimizer, model), over its seeds. Rows are ranked
within a task by the *mean* of `score_best` over seeds, not by the luckiest seed, in the task's direction;
equal means share a rank. The best state is picked on validation data, so `score_test`, where a task has it,
is the number to quote.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import canonical
from trace_bench.artifacts.records import Results


@dataclass(frozen=True)
class LeaderboardRow:
    """Scores are in the task's natural units. `best_job_id` is the job of the best seed, `score_std` the
    sample standard deviation over seeds (None for one), `jobs` how many seeds counted."""

    rank: int
    task_id: str
    suite: str
    trainer_id: str
    variant: str
    optimizer: str
    model: str
    jobs: int
    score_mean: float
    score_std: float | None
    score_best: float
    score_initial: float | None
    score_test: float | None
    score_direction: Direction
    time_seconds: float | None
    total_tokens: float
    cost_usd: float
    integrity: str
    best_job_id: str

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls))


def rank(rows: Iterable[Results], *, unprotected: bool = False, failed: bool = False) -> list[LeaderboardRow]:
    """The leaderboard of `rows`, by task and rank.

    Args:
        unprotected: count jobs whose score a candidate could have written itself.
        failed: count failed jobs that were scored nevertheless (a timeout).
    """
    groups: dict[tuple[str, ...], list[Results]] = defaultdict(list)
    for row in rows:
        if row.score_best is None or row.status == "skipped":
            continue
        if row.stop_reason == "interrupted" or row.cut_by_run_budget:
            continue  # a search that was cut off says nothing about its trainer
        if (row.integrity == "unprotected" and not unprotected) or (row.status == "failed" and not failed):
            continue
        groups[_group(row)].append(row)
    tasks: dict[tuple[str, str], list[LeaderboardRow]] = defaultdict(list)
    for key, members in groups.items():
        tasks[key[0], key[1]].append(_row(members))
    ranked: list[LeaderboardRow] = []
    for task in sorted(tasks):
        ranked += _ranked(tasks[task])
    return ranked


def _group(row: Results) -> tuple[str, ...]:
    """What must be equal for scores to be comparable or averaged: the task with its arguments, then the
    way."""
    task_arguments = canonical(row.eval_kwargs).decode()
    optimizer = canonical(row.resolved_optimizer_kwargs).decode()
    parameters = canonical(row.resolved_trainer_kwargs).decode()
    way = (row.trainer_id, row.variant, parameters, row.resolved_optimizer, optimizer, row.model)
    return (row.task_id, task_arguments, *way)


def _row(members: list[Results]) -> LeaderboardRow:
    first = members[0]
    sign = 1.0 if first.score_direction == "maximize" else -1.0
    scored = [(row.score_best, row) for row in members if row.score_best is not None]
    scores = [score for score, _ in scored]
    best_score, best = max(scored, key=lambda pair: (sign * pair[0], pair[1].job_id))
    return LeaderboardRow(
        rank=0,
        task_id=first.task_id,
        suite=first.suite,
        trainer_id=first.trainer_id,
        variant=first.variant,
        optimizer=first.resolved_optimizer,
        model=first.model,
        jobs=len(members),
        score_mean=_mean(scores),
        score_std=_deviation(scores),
        score_best=best_score,
        score_initial=_mean_or_none(row.score_initial for row in members),
        score_test=_mean_or_none(row.score_test for row in members),
        score_direction=first.score_direction,
        time_seconds=_mean_or_none(row.time_seconds for row in members),
        total_tokens=_mean([row.total_tokens for row in members]),
        cost_usd=_mean([row.cost_usd for row in members]),
        integrity="unprotected" if any(row.integrity == "unprotected" for row in members) else "protected",
        best_job_id=best.job_id,
    )


def _ranked(rows: list[LeaderboardRow]) -> list[LeaderboardRow]:
    sign = 1.0 if rows[0].score_direction == "maximize" else -1.0
    rows = sorted(rows, key=lambda row: (-sign * row.score_mean, row.trainer_id, row.variant, row.best_job_id))
    ranked: list[LeaderboardRow] = []
    for place, row in enumerate(rows, start=1):
        level = ranked and ranked[-1].score_mean == row.score_mean
        values = {f.name: getattr(row, f.name) for f in fields(row)}
        ranked.append(LeaderboardRow(**{**values, "rank": ranked[-1].rank if level else place}))
    return ranked


def _mean(values: Sequence[float]) -> float:
    try:
        return float(statistics.fmean(values))
    except OverflowError:  # the sum is beyond a double, the mean is not
        return math.fsum(value / len(values) for value in values)


def _deviation(values: Sequence[float]) -> float | None:
    """None for one value, and where it is beyond a double."""
    try:
        return statistics.stdev(values) if len(values) > 1 else None
    except OverflowError:
        return None


def _mean_or_none(values: Iterable[float | None]) -> float | None:
    """The mean, or None unless every job has the value."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return _mean(known) if len(known) == len(listed) else None

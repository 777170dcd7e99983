"""Rank the configurations of each task.

One row per task and configuration (trainer, variant, optimizer, model, guide), over its seeds. Rows are ranked within a
task by the *mean* of `score_best` over seeds, not by the luckiest seed, in the task's direction. Equal means share a
rank. Where scores depend on the speed of the machine, each hardware is ranked separately. The best state is chosen on
validation data, so that `score_test`, where a task has it, is the number to quote.

A seed that failed at provider, sandbox or harness, was cut off, or was not executed is in no mean, and is counted
separately: it says nothing about the trainer. A seed that failed for a reason of its own is counted separately too, and
does say something: the mean over the other seeds is not the mean over all.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import canonical
from trace_bench.artifacts.records import Results
from trace_bench.records.integrity import flag_counts
from trace_bench.records.rows import is_final, named_task, with_known_hardware


@dataclass(frozen=True)
class LeaderboardRow:
    """One configuration on one task. Scores are in the task's natural units; costs are means over the seeds that count.

    Attributes:
        jobs: seeds that count, of `seeds` that have a row.
        failed_jobs: seeds that do not count, as they failed for a reason of their own.
        unfinished_jobs: seeds that failed at provider, sandbox or harness, were cut off, or were not executed.
        score_std: sample standard deviation over seeds; None for one seed.
        best_job_id: the job of the best seed.
        flagged_jobs: seeds that count and have integrity flags; `integrity_flags` names all these flags.
        evaluations, train_seconds: of training alone.
        metrics, hypervolume: means over the best states and their fronts.
        hardware: as in `Results`.
        fixture: the jobs took the few rows of a fixture in place of a data set.
    """

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
    seeds: int
    failed_jobs: int
    unfinished_jobs: int
    flagged_jobs: int
    integrity_flags: str
    evaluations: float
    llm_calls: float
    train_seconds: float | None
    metrics: Mapping[str, float]
    hypervolume: float | None
    guide: str = ""
    hardware: str = ""
    fixture: bool = False

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls))


def rank(rows: Iterable[Results], *, unprotected: bool = False, failed: bool = False) -> list[LeaderboardRow]:
    """The leaderboard of `rows`, by task and rank.

    Args:
        unprotected: count jobs whose candidates could write their own scores.
        failed: count failed jobs with a score (after a timeout), unless infrastructure caused the failure.
    """
    groups: dict[tuple[str, ...], list[Results]] = defaultdict(list)
    for row in with_known_hardware(list(rows)):
        groups[group_of(row)].append(row)
    variants = variant_names(groups)
    tasks: dict[tuple[str, str], list[LeaderboardRow]] = defaultdict(list)
    for key, members in groups.items():
        counted = [row for row in members if counts(row, unprotected=unprotected, failed=failed)]
        if counted:
            tasks[key[0], key[1]].append(_row(counted, members, variants[key[2:]]))
    ranked: list[LeaderboardRow] = []
    for task in sorted(tasks):
        ranked += _ranked(tasks[task])
    return ranked


def displayed_leaderboard(rows: Sequence[Results]) -> list[LeaderboardRow]:
    """The leaderboard that commands print: with unprotected jobs only if there are no others."""
    ended = [row for row in rows if row.status != "skipped"]
    return rank(rows, unprotected=bool(ended) and all(row.integrity == "unprotected" for row in ended))


def counts(row: Results, *, unprotected: bool, failed: bool) -> bool:
    """Whether the score of `row` is ranked and averaged."""
    if row.score_best is None or not is_final(row):
        return False
    return (row.integrity == "protected" or unprotected) and (row.status == "ok" or failed)


def group_of(row: Results) -> tuple[str, ...]:
    """The key of rows whose scores are averaged: the task, its arguments (with the hardware, if scores depend on it),
    then the configuration, whose last part is the guide."""
    task_arguments = canonical(row.eval_kwargs).decode() + row.hardware
    optimizer = canonical(row.resolved_optimizer_kwargs).decode()
    parameters = canonical(row.resolved_trainer_kwargs).decode()
    return (
        row.task_id, task_arguments, row.trainer_id, row.variant, parameters, row.resolved_optimizer, optimizer,
        row.model, _guide(row),
    )  # fmt: skip


def variant_names(keys: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """The displayed variant by configuration, for keys of `group_of`; with the guide if nothing else differs."""
    configurations = {key[2:] for key in keys}
    guides = Counter(one[:-1] for one in configurations)
    return {one: one[1] if guides[one[:-1]] == 1 else f"{one[1]},guide={one[-1]}" for one in configurations}


def task_names(rows: Sequence[LeaderboardRow]) -> list[str]:
    """The task of each row, with the hardware if rows of the task differ in it, and marked where it is a fixture."""
    known = {(row.task_id, row.hardware) for row in rows}
    several = Counter(task_id for task_id, _ in known)
    return [
        named_task(row.task_id, row.fixture)
        + (f" on {row.hardware or 'unknown hardware'}" if several[row.task_id] > 1 else "")
        for row in rows
    ]


def hardware_sentence(hardware: Iterable[str]) -> str:
    """The caveat on scores that were measured on several kinds of `hardware`; empty for one kind."""
    known = sorted({name for name in hardware if name})
    if len(known) < 2:
        return ""
    return (
        f"Scores of timing_sensitive tasks were measured on different hardware ({'; '.join(known)}): they can be "
        "compared only where it is the same."
    )


def _guide(row: Results) -> str:
    """The guide; rows of the first versions have none, as there was only one."""
    name = row.resolved_guide or "default"
    return f"{name} {canonical(row.resolved_guide_kwargs).decode()}" if row.resolved_guide_kwargs else name


def _row(members: list[Results], everyone: Sequence[Results], variant: str) -> LeaderboardRow:
    """The row of the jobs `members`, which count. `everyone` also has the other jobs of the configuration."""
    flags = flag_counts(members)
    counted = {row.job_id for row in members}
    others = [row for row in everyone if row.job_id not in counted]
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
        variant=variant,
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
        seeds=len(everyone),
        failed_jobs=sum(is_final(row) and row.status == "failed" for row in others),
        unfinished_jobs=sum(not is_final(row) for row in others),
        flagged_jobs=sum(bool(row.integrity_flags) for row in members),
        integrity_flags=" ".join(flags),
        evaluations=_mean([row.evaluations for row in members]),
        llm_calls=_mean([row.llm_calls for row in members]),
        train_seconds=_mean_or_none(row.train_seconds for row in members),
        metrics=_metrics(members),
        hypervolume=_mean_or_none(row.hypervolume for row in members),
        guide=first.resolved_guide,
        hardware=first.hardware,
        fixture=first.eval_kwargs.get("fixture") is True,
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
    """The sample standard deviation; None for one value, and where it is beyond a double."""
    try:
        return statistics.stdev(values) if len(values) > 1 else None
    except OverflowError:
        return None


def _metrics(rows: Sequence[Results]) -> dict[str, float]:
    """Means of those metrics that every row has."""
    means = {name: _mean_or_none(row.metrics_best.get(name) for row in rows) for name in rows[0].metrics_best}
    return {name: mean for name, mean in means.items() if mean is not None}


def _mean_or_none(values: Iterable[float | None]) -> float | None:
    """The mean, or None unless every job has the value."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return _mean(known) if len(known) == len(listed) else None

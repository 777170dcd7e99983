"""``leaderboard.md``: who leads over all tasks of a run, by the normalised score on held-out data.

A configuration (trainer, variant, optimizer, model, guide) is ranked by the mean over tasks of each task's mean
over seeds, with Student's t interval over the tasks. Only tasks whose score is normalised and that have held-out data
take part, and only configurations that have a result on every one of them are ranked. Others are listed below.
Of the other tasks the best configurations are listed, each in its own units.

The page follows from rows, yardsticks, and the declared ranges of the scores, which the run recorded with each job, so
that anybody can derive it again. It is made without pandas and without ``scipy.stats``, which a run would have to wait
for at its end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from trace_bench.analysis.bounds import Objectives, normalised_range, objectives_of, within
from trace_bench.analysis.statistics import LEVEL, Estimate, Interval, coverage_text, interval_text, means, task_sample
from trace_bench.artifacts.records import Results
from trace_bench.display.markup import markdown, markdown_text
from trace_bench.display.table import UNPROTECTED, Table, dollars, number
from trace_bench.display.terminal import BETTER
from trace_bench.records.integrity import MARK
from trace_bench.records.leaderboard import (
    LeaderboardRow,
    counts,
    group_of,
    hardware_sentence,
    rank,
    task_names,
    variant_names,
)
from trace_bench.records.rows import (
    is_final,
    normalised_score,
    skip_reasons,
    unmet_sentences,
    with_known_hardware,
)

_NUMERIC = frozenset({"#", "held-out", "covers", "validation", "mean", "seeds", "failed", "unfinished", "usd per job"})
Configuration = tuple[str, ...]
Task = tuple[str, str]


@dataclass(frozen=True)
class Standing:
    """A configuration over all tasks that take part.

    Attributes:
        rank: from 1, equal means share one; None for a configuration that does not cover every task.
        test: normalised held-out scores, and `validation` those of the same states on the selection split: better when
            larger; see `trace_bench.records.rows.normalised_score`.
        tasks: how many of those that take part it has a result on.
        seeds: jobs that `test` is made of; `failed` jobs, of their own fault, and `unfinished` ones are in no mean.
        cost_usd: of one job, the mean over those that count.
        cut: the interval of `test` is cut at the declared bounds of the score.
    """

    rank: int | None
    trainer_id: str
    variant: str
    optimizer: str
    model: str
    test: Estimate
    validation: Estimate
    tasks: int
    seeds: int
    failed: int
    unfinished: int
    cost_usd: float
    unprotected: bool
    flagged: bool
    cut: bool


@dataclass(frozen=True)
class Standings:
    """The leaderboard over tasks, in the order in which it is shown.

    Attributes:
        tasks: names of the tasks that take part.
        others: the best configurations of each other task, in its own units.
        left_out: jobs that do not count only because a candidate could have written their score.
        hardware: of the scores that depend on it.
        unmet: sentences about jobs that could not run on the machine.
        gaps: sentences about what gaps were measured by.
    """

    tasks: Sequence[str]
    standings: Sequence[Standing]
    others: Sequence[LeaderboardRow]
    left_out: int
    hardware: Sequence[str] = ()
    unmet: Sequence[str] = ()
    gaps: Sequence[str] = ()


def standings_of(
    rows: Sequence[Results],
    objectives: Objectives = lambda job_id: None,
    *,
    unprotected: bool = False,
    failed: bool = False,
) -> Standings:
    """The standings of `rows`.

    Args:
        objectives: of jobs, for the ranges at which intervals are cut.
        unprotected, failed: as of `rank`.
    """
    rows = with_known_hardware(rows)
    keys = {row.job_id: group_of(row) for row in rows}
    counted = [row for row in rows if counts(row, unprotected=unprotected, failed=failed)]
    tasks = sorted({_task(keys[row.job_id]) for row in counted if _held_out(row) is not None})
    part = set(tasks)
    configurations: dict[Configuration, list[tuple[Task, Results]]] = defaultdict(list)
    for row in rows:
        key = keys[row.job_id]
        if _task(key) in part:
            configurations[key[2:]].append((_task(key), row))
    able = {row.job_id for row in counted}
    variants = variant_names(keys.values())
    of_tasks = objectives_of(((row.task_id, row.job_id) for row in counted), objectives)
    bounds = {task: normalised_range(objective) for task, objective in of_tasks.items()}
    made = [_standing(members, able, variants[key], bounds) for key, members in configurations.items()]
    shown = sorted(
        (standing for standing in made if standing.tasks),
        key=lambda s: (-s.tasks, -_mean(s.test), s.trainer_id, s.variant, s.optimizer, s.model),
    )
    others = [row for row in rank(rows, unprotected=unprotected, failed=failed) if row.rank == 1]
    return Standings(
        [task[0] for task in tasks],
        _ranked(shown, len(tasks)),
        [row for row in others if _task(keys[row.best_job_id]) not in part],
        0 if unprotected else sum(counts(row, unprotected=True, failed=failed) for row in rows) - len(counted),
        sorted({row.hardware for row in counted} - {""}),
        unmet_sentences(skip_reasons(rows)),
    )


def preload() -> None:
    """Import what the page needs: for a thread of its own while something else is waited for."""
    import_module("scipy.special")


def _standing(
    members: Sequence[tuple[Task, Results]], able: set[str], variant: str, bounds: Mapping[str, Interval | None]
) -> Standing:
    others = [row for _, row in members if row.job_id not in able]
    scored = [(task, row) for task, row in members if row.job_id in able and _held_out(row) is not None]
    first = members[0][1]
    jobs = [row for _, row in scored]
    test = _over_tasks([(task, _held_out(row)) for task, row in scored])
    within_bounds = within(test, [bounds.get(task[0]) for task in dict.fromkeys(task for task, _ in scored)])
    return Standing(
        rank=None,
        trainer_id=first.trainer_id,
        variant=variant,
        optimizer=first.resolved_optimizer,
        model=first.model,
        test=within_bounds,
        validation=_over_tasks([(task, normalised_score(row.metrics_best)) for task, row in scored]),
        tasks=len({task for task, _ in scored}),
        seeds=len(jobs),
        failed=sum(is_final(row) and row.status == "failed" for row in others),
        unfinished=sum(not is_final(row) for row in others),
        cost_usd=math.fsum(row.cost_usd / len(jobs) for row in jobs),
        unprotected=any(row.integrity == "unprotected" for row in jobs),
        flagged=any(row.integrity_flags for row in jobs),
        cut=within_bounds != test,
    )


def _over_tasks(values: Sequence[tuple[Task, float | None]]) -> Estimate:
    known = [("\0".join(task), value) for task, value in values if value is not None]
    sample, unit = task_sample([task for task, _ in known], [value for _, value in known])
    return means([sample], LEVEL, [unit])[0]


def _ranked(shown: Sequence[Standing], tasks: int) -> list[Standing]:
    found: list[Standing] = []
    for place, standing in enumerate(shown, start=1):
        if standing.tasks < tasks:
            found.append(standing)
        else:
            level = found and found[-1].test.mean == standing.test.mean
            found.append(replace(standing, rank=found[-1].rank if level else place))
    return found


def _held_out(row: Results) -> float | None:
    return normalised_score(row.metrics_test)


def _mean(found: Estimate) -> float:
    return -math.inf if found.mean is None else found.mean


def _task(key: tuple[str, ...]) -> Task:
    """The task with its arguments and hardware, of what `group_of` says."""
    return key[0], key[1]


# ------------------------------------------------------------------------------------------------------------- page


def page(run_id: str, found: Standings) -> str:
    """The page: Markdown, in which whatever a config or a plug-in names things is escaped."""
    parts = [f"# Leaderboard of {markdown_text(run_id)}"]
    complete = [standing for standing in found.standings if standing.rank is not None]
    partial = [standing for standing in found.standings if standing.rank is None]
    number_of = len(found.tasks)
    tasks = "1 task" if number_of == 1 else f"{number_of} tasks"
    if complete:
        parts += [f"Over {tasks}, by the mean normalised score on held-out data. Higher is better.", _table(complete)]
    if partial:
        parts += ["## Not on every task",
                  f"These have no result on some of the {tasks}, so that their means are of other tasks: they are not "
                  "ranked.", _table(partial, of=number_of)]  # fmt: skip
    if found.others:
        parts += ["## Tasks without a normalised held-out score",
                  "The best of each task, by the mean over seeds in the task's own units. `leaderboard.csv` has all.",
                  _others(found.others)]  # fmt: skip
    if not found.standings and not found.others:
        parts.append("No job qualifies: failed and unprotected jobs are left out, and those that were cut off.")
    if found.left_out:
        jobs = "1 job is" if found.left_out == 1 else f"{found.left_out} jobs are"
        parts.append(f"{jobs} left out as unprotected: a candidate could have written its own score.")
    if sentence := hardware_sentence(found.hardware):
        parts.append(markdown_text(sentence))
    parts += map(markdown_text, (*found.unmet, *found.gaps))
    parts += _notes(found)
    return "\n\n".join(parts) + "\n"


def _table(standings: Sequence[Standing], of: int | None = None) -> str:
    header = ("#", "trainer", "variant", "optimizer", "model", "held-out", f"{100 * LEVEL:g} % CI", "covers", "over",
              "validation", "seeds", "failed", "unfinished", "usd per job")  # fmt: skip
    rows = [
        (
            standing.rank,
            standing.trainer_id + (UNPROTECTED if standing.unprotected else ""),
            standing.variant,
            standing.optimizer,
            standing.model,
            number(standing.test.mean) + (MARK if standing.flagged else ""),
            interval_text(standing.test),
            coverage_text(standing.test.coverage),
            _over(standing, of),
            number(standing.validation.mean),
            standing.seeds,
            standing.failed,
            standing.unfinished,
            dollars(standing.cost_usd) if standing.cost_usd else None,
        )
        for standing in standings
    ]
    return markdown(Table.of(header, rows, _NUMERIC, limit=4000))


def _over(standing: Standing, of: int | None) -> str:
    if of is not None:
        return f"{standing.tasks} of {of} tasks"
    n = standing.test.n
    return f"{n} {standing.test.unit if n != 1 else standing.test.unit[:-1]}"


def _others(rows: Sequence[LeaderboardRow]) -> str:
    header = ("task", "trainer", "variant", "optimizer", "model", "mean", "held-out", "direction", "seeds", "failed",
              "unfinished")  # fmt: skip
    cells = [
        (
            task,
            row.trainer_id + (UNPROTECTED if row.integrity == "unprotected" else ""),
            row.variant,
            row.optimizer,
            row.model,
            number(row.score_mean) + (MARK if row.flagged_jobs else ""),
            number(row.score_test),
            BETTER[row.score_direction],
            row.jobs,
            row.failed_jobs,
            row.unfinished_jobs,
        )
        for row, task in zip(rows, task_names(rows), strict=True)
    ]
    return markdown(Table.of(header, cells, _NUMERIC, limit=4000))


def _notes(found: Standings) -> list[str]:
    if not found.standings:
        return []
    what = "; 1 is a task's bound or target, 0 a failure."
    if found.gaps:
        what = ": the gap of a task that has one, else its normalised score (1 is the bound or target, 0 a failure)."
    lines = [
        f"held-out, validation: the mean over tasks of each task's mean over seeds, of the state that validation data "
        f"chose{what}",
        f"Interval: Student's t over the tasks' means, {100 * LEVEL:g} % (clustered by task: Miller 2024, "
        "arXiv:2411.00640, section 2.2); over the seeds where there is one task. covers: below ten values, the share "
        "of simulated intervals that held the truth.",
        "failed: jobs that failed for a reason of their own; unfinished: failed by provider, sandbox or harness, cut "
        "off, or never ran. Both are in no mean.",
    ]
    if any(standing.cut for standing in found.standings):
        lines.append("Some intervals are cut at the declared bounds of the score.")
    if any(standing.flagged for standing in found.standings):
        lines.append("\\!: a job is flagged: look at it before you quote the score.")
    return ["\n".join(f"* {line}" for line in lines)]

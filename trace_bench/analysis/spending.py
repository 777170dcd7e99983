"""Say where the searches of a table did not spend the same, and where a budget ended one before its first proposal.

A better score at ten times the cost is no better search. What was spent is on every row; whether two configurations
*had* to spend the same is not, so the sentences go by what they did spend. Searches that a budget ended are on equal
terms if they spent about the same of one kind on every task: of that one the budget was. Others are only if they spent
the same of each.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Integral
from statistics import fmean
from typing import Any, NamedTuple

from trace_bench.analysis.proposals import proposals_of
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.records.leaderboard import group_of
from trace_bench.records.rows import is_final

TOLERANCE = 0.2
"""Spending that differs by at most this part of the larger one is the same: a budget ends at a whole proposal."""
_KINDS = {
    "llm_calls": ("asked the model {} times a job", "asked {} times"),
    "evaluations": ("made {} evaluations a job", "made {}"),
}
"""Kinds that are worded: first of the configuration that spent most, then of the one that spent least."""
_OF_BUDGETS = ("total_tokens", "cost_usd", "train_seconds")
"""Kinds that a budget may have besides."""
SPENT = ("stop_reason", "resolved_trainer_kwargs", "scoring_calls", "search_answers", *_KINDS, *_OF_BUDGETS)
"""Fields of `Results` that are looked at here. A line of `trace_bench.analysis.frames.jobs_frame` has them too."""
_EXAMPLES = 3
"""Trainers that a sentence names."""


class Spending(NamedTuple):
    """A job of a table: `configuration` is what the table calls it, `task` is the same for what it compares, and `row`
    has the fields of `SPENT`."""

    configuration: str
    task: Hashable
    row: Any


def searches(row: Any) -> bool:
    """Whether the trainer of `row` searches: it asked a model, or has parameters. `NoOp` does neither; calls of a
    prompt that it evaluates are no proof, and rows of a task whose scoring asks a model tell them apart."""
    asked = row.llm_calls and (_number_of(row.scoring_calls) is None or _number_of(row.search_answers))
    return bool(asked or row.resolved_trainer_kwargs)


def spending_sentences(run: RunLayout | None, rows: Sequence[Results]) -> list[str]:
    """The sentences that belong below a table of `rows`; none where all spent the same, and all had room.

    Args:
        run: where the files of the jobs are; None if they are not at hand.
    """
    counted = [row for row in rows if row.status == "ok" and is_final(row)]
    names = _names([row for row in counted if searches(row)])
    jobs = [Spending(names.get(row.job_id, ""), group_of(row)[:2], row) for row in counted]
    ended = [(row, run.job(row.job_id)) for row in rows] if run is not None else []
    return [text for text in (spread_sentence(jobs), no_room_sentence(ended)) if text]


def spread_sentence(jobs: Iterable[Spending]) -> str:
    """The sentence about the spread of what configurations spent; empty where it is the same, or there is only one."""
    tasks: dict[Hashable, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for job in jobs:
        if searches(job.row):
            tasks[job.task][job.configuration].append(job.row)
    shared = [configurations for configurations in tasks.values() if len(configurations) > 1]
    if not shared:
        return ""
    limited = [row.stop_reason == "budget" for one in shared for found in one.values() for row in found]
    if all(limited) and any(_same(shared, kind) for kind in (*_KINDS, *_OF_BUDGETS)):
        return ""
    if all(_same(shared, kind) for kind in _KINDS):
        return ""
    spent = {kind: _spent(shared, kind) for kind in _KINDS}
    apart = max(_KINDS, key=lambda kind: (min(spent[kind].values()) > 0, _ratio(spent[kind].values())))
    most, least = (pick(spent[apart], key=spent[apart].__getitem__) for pick in (max, min))
    said = ", ".join(
        f"{name} {words.format(_number(spent[apart][name]))}"
        for name, words in zip((most, least), _KINDS[apart], strict=True)
    )
    remedy = "not all reach the budget, and a smaller one compares" if any(limited) else "set --budget to compare"
    return f"{said}: {remedy} on equal terms."


def no_room_sentence(jobs: Iterable[tuple[Any, JobLayout]]) -> str:
    """The sentence about searches that a budget ended before they had judged a proposal; empty without any.

    Args:
        jobs: rows, with the fields of `SPENT`, and `trainer_id`, with the files of their jobs.
    """
    ended = [(row, job) for row, job in jobs if row.stop_reason == "budget" and searches(row)]
    none = Counter(row.trainer_id for row, job in ended if not proposals_of(job)["new"])
    if not none:
        return ""
    count = none.total()
    one = "1 job judged no proposal before its budget ended, so that its score is that of the start"
    some = f"{count} jobs judged no proposal before their budget ended, so that their scores are those of the start"
    return f"{one if count == 1 else some} ({_listed(none)}): a larger budget lets them search."


def _names(rows: Sequence[Results]) -> Mapping[str, str]:
    """A name of each job's configuration: the trainer, with variant and model where a trainer has several."""
    variants: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        variants[row.trainer_id].add(row.variant)
    models = {row.model for row in rows}
    return {
        row.job_id: " ".join(
            [row.trainer_id]
            + ([row.variant] if len(variants[row.trainer_id]) > 1 else [])
            + ([f"with {row.model}"] if len(models) > 1 else [])
        )
        for row in rows
    }


def _same(tasks: Sequence[Mapping[str, Sequence[Any]]], kind: str) -> bool:
    """Whether on every task all configurations spent the same of `kind`, and not nothing."""
    spent = [[_mean(rows, kind) for rows in configurations.values()] for configurations in tasks]
    return all(min(means) > 0 and _ratio(means) <= 1 / (1 - TOLERANCE) for means in spent)


def _ratio(spent: Iterable[float]) -> float:
    """The largest to the smallest."""
    values = list(spent)
    return max(values) / min(values) if min(values) else math.inf


def _spent(tasks: Sequence[Mapping[str, Sequence[Any]]], kind: str) -> dict[str, float]:
    """What a job of each configuration spent, the mean over the tasks that it has in common with others."""
    means: dict[str, list[float]] = defaultdict(list)
    for configurations in tasks:
        for name, rows in configurations.items():
            means[name].append(_mean(rows, kind))
    return {name: fmean(values) for name, values in means.items()}


def _mean(rows: Sequence[Any], kind: str) -> float:
    return fmean(_of_search(row, kind) for row in rows)


def _of_search(row: Any, kind: str) -> float:
    """What the search of `row` spent. Scoring is not part of it, as far as rows say: its calls are."""
    scoring = _number_of(row.scoring_calls) if kind == "llm_calls" else None
    return float(getattr(row, kind) or 0) - (scoring or 0)


def _number_of(value: Any) -> int | None:
    """`value`, where a column of a frame has NA for null."""
    return int(value) if isinstance(value, Integral) else None


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _listed(counts: Counter[str]) -> str:
    names = [name for name, _ in counts.most_common()]
    more = f" and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more

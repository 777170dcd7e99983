"""The jobs of a run in groups (by task and trainer, for example), with the means of each group.

Only seeds are averaged, and tasks where they are not among what groups are made by. Whatever else differs between the
jobs of a group (variant, parameters, optimizer, guide, model, arguments; hardware, of a task whose scores depend on it)
becomes a column that groups are made by, too.

A job counts if it is ok and has a score that no candidate could have written itself. Other jobs are counted apart by
their outcome, and are in no mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from trace_bench.analysis.bounds import normalised_range, objectives_of, of_difference, recorded, score_range, within
from trace_bench.analysis.frames import jobs_frame
from trace_bench.analysis.proposals import KINDS, yields_of
from trace_bench.analysis.statistics import LEVEL, Estimate, Interval, Unit, estimates, means, per_dollar, task_sample
from trace_bench.analysis.where import KEYS
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import canonical
from trace_bench.artifacts.layout import RunLayout
from trace_bench.records.answers import Answers, answers_of, summed
from trace_bench.records.reading import read_rows_and_waiting
from trace_bench.records.rows import skipped_row, with_known_hardware

LABELS: Mapping[str, str] = {column: key for key, column in KEYS.items()} | {
    "_parameters": "parameters",
    "_optimizer_kwargs": "optimizer_kwargs",
    "_guide_kwargs": "guide_kwargs",
    "_eval_kwargs": "eval_kwargs",
}
"""Columns by which jobs can be grouped, and their names for users."""
CONFIGURATION = (
    "trainer_id",
    "variant",
    "_parameters",
    "resolved_optimizer",
    "_optimizer_kwargs",
    "resolved_guide",
    "_guide_kwargs",
    "model",
    "hardware",
)
"""What must be equal for seeds, or tasks, to be averaged."""
_TASK = ("task_id", "_eval_kwargs")
PENDING = "pending"
ASIDE = ("failed", "infrastructure", "interrupted", "skipped", PENDING)
"""Outcomes that are in no mean."""


@dataclass(frozen=True)
class Group:
    """The means of one group of jobs.

    Scores are means in natural units; `direction` says which way is better. Improvements and everything normalised are
    better when larger. An `Estimate` has its own `n`: not every job has every score.

    Attributes:
        keys: what the group is of, by the names that users know.
        constants: the same for everything in `LABELS` that all its jobs share.
        direction: None where tasks of both directions are in the group.
        score: of the best state on the selection split (validation data), and `test` of that state on held-out data;
            both empty where tasks are averaged.
        improvement: from the initial to the best state, on the selection split: of the score, or, where tasks are
            averaged, of the normalised score.
        tasks: how many have jobs that count; `tasks_without` of them have no normalised score.
        tokens, cost_usd, seconds: means over the jobs that count; where tasks are averaged, over those as the scores.
        per_dollar: improvement for each dollar.
        total_cost_usd: of all its jobs, also those that do not count.
        counted: jobs that count, of `jobs`; `aside` are others by outcome (`ASIDE`), `unprotected` and `unscored` ok
            jobs that do not count.
        failures: boundary:kind of those that failed for a reason of their own, and `infrastructure` of the others.
        flagged: of those that count.
        proposals: what the proposals of its jobs were: new, duplicate, unusable.
        marked: candidates could have written scores that count.
    """

    keys: Mapping[str, str]
    constants: Mapping[str, str]
    direction: Direction | None
    score: Estimate
    test: Estimate
    improvement: Estimate
    normalised: Estimate
    normalised_test: Estimate
    tasks: int
    tasks_without: int
    tokens: float | None
    cost_usd: float | None
    seconds: float | None
    per_dollar: float | None
    total_cost_usd: float
    jobs: int
    counted: int
    aside: Mapping[str, int]
    unprotected: int
    unscored: int
    flagged: int
    failures: Mapping[str, int]
    infrastructure: Mapping[str, int]
    proposals: Mapping[str, int]
    marked: bool


@dataclass(frozen=True)
class Summary:
    """A run by groups.

    Attributes:
        by: the columns that were requested, and `joined` those that had to be added.
        averaged: tasks are averaged, so that only normalised scores are.
        unprotected: unprotected jobs count.
        fixtures: jobs on the few rows of a fixture in place of a data set.
        answers: of the models to the searches, by (trainer, model).
    """

    run_id: str
    by: Sequence[str]
    joined: Sequence[str]
    level: float
    averaged: bool
    unprotected: bool
    groups: Sequence[Group]
    fixtures: int = 0
    answers: Mapping[tuple[str, str], Answers] = field(default_factory=dict)


def jobs_of(run: RunLayout) -> pd.DataFrame:
    """All planned jobs as `jobs_frame` has them; the outcome of one that has no row yet is ``pending``.

    Raises:
        HarnessError: a file of the run is damaged.
    """
    rows, waiting = read_rows_and_waiting(run)
    added = [skipped_row(run.run_id, entry) for entry in waiting]
    frame = jobs_frame(with_known_hardware([*rows, *added]))
    frame.loc[len(rows) :, ["outcome", "status"]] = PENDING
    frame.loc[len(rows) :, "failure_kind"] = None
    objectives = objectives_of(zip(frame["task_id"], frame["job_id"], strict=True), recorded(run))
    answers = [answers_of(row, run.job(row.job_id)) for row in (*rows, *added)]
    return frame.assign(
        **yields_of(run, frame["job_id"]),
        _score_range=_ranges(frame["task_id"], {task: score_range(of) for task, of in objectives.items()}),
        _normalised_range=_ranges(frame["task_id"], {task: normalised_range(of) for task, of in objectives.items()}),
        _answers=pd.Series(answers, dtype="object"),
    )


def _ranges(tasks: pd.Series, ranges: Mapping[str, Interval | None]) -> pd.Series:
    return pd.Series([ranges.get(task) for task in tasks], dtype="object")


def summarise_groups(
    jobs: pd.DataFrame, by: Sequence[str], *, level: float = LEVEL, unprotected: bool = False, run_id: str = ""
) -> Summary:
    """The groups of `jobs` (see `jobs_of`) with their means, in the order of the run.

    Args:
        by: columns of `KEYS`.
        level: of the intervals.
        unprotected: let unprotected jobs count. They do where there are no others.
    """
    jobs = jobs.reset_index(drop=True).assign(
        _parameters=_texts(jobs["resolved_trainer_kwargs"]),
        _optimizer_kwargs=_texts(jobs["resolved_optimizer_kwargs"]),
        _guide_kwargs=_texts(jobs["resolved_guide_kwargs"]),
        _eval_kwargs=_texts(jobs["eval_kwargs"]),
        resolved_guide=jobs["resolved_guide"].replace("", "default"),  # the first versions had no other
        **{kind: jobs.get(kind, 0) for kind in KINDS},
        _score_range=jobs.get("_score_range"),
        _normalised_range=jobs.get("_normalised_range"),
    )
    averaged = "task_id" not in by
    same = [*CONFIGURATION] if averaged else [*_TASK, *CONFIGURATION]
    if len(set(jobs["hardware"]) - {""}) < 2:
        same.remove("hardware")  # tasks whose scores depend on none are averaged with those that were on one
    joined = _differing(jobs, by, [column for column in same if column not in by])
    columns = [*by, *joined]
    counts, able, marked = countable(jobs, unprotected=unprotected)
    members = _members(jobs, columns)
    made = _Groups(jobs, able.to_numpy(), counts.to_numpy(), members, averaged, level).made(columns)
    fixtures = sum(arguments.get("fixture") is True for arguments in jobs["eval_kwargs"])
    return Summary(run_id, [LABELS[c] for c in by], [LABELS[c] for c in joined], level, averaged,
                   unprotected or marked, made, fixtures, _answers(jobs))  # fmt: skip


def _answers(jobs: pd.DataFrame) -> dict[tuple[str, str], Answers]:
    if "_answers" not in jobs:
        return {}
    return summed(zip(zip(jobs["trainer_id"], jobs["model"], strict=True), jobs["_answers"], strict=True))


def countable(jobs: pd.DataFrame, *, unprotected: bool) -> tuple[pd.Series, pd.Series, bool]:
    """Which of `jobs` are ok and have a score; which of these count; whether unprotected ones do since there are no
    others."""
    ended = ~jobs["outcome"].isin(["skipped", PENDING])
    marked = bool(ended.any()) and bool((jobs.loc[ended, "integrity"] == "unprotected").all())
    counts = (jobs["outcome"] == "ok") & np.isfinite(jobs["score_best"])
    return counts, counts & ((jobs["integrity"] == "protected") | unprotected | marked), marked


class _Groups:
    """Groups in the making: everything is looked up in arrays, as there may be thousands of them.

    Args:
        able: which jobs count; `counts` which would if they were protected.
        members: the rows of each group.
    """

    def __init__(
        self,
        jobs: pd.DataFrame,
        able: np.ndarray[Any, np.dtype[np.bool_]],
        counts: np.ndarray[Any, np.dtype[np.bool_]],
        members: Sequence[np.ndarray[Any, Any]],
        averaged: bool,
        level: float,
    ) -> None:
        self._jobs = jobs
        self._averaged = averaged
        self._level = level
        self._counts = counts
        self._members = members
        self._counted = [rows[able[rows]] for rows in members]
        self._columns = {name: jobs[name].to_numpy() for name in (*LABELS, *_USED)}
        task = jobs["task_id"] + "\0" + jobs["_eval_kwargs"]
        self._columns["task"] = task.to_numpy()
        gain = jobs["normalised"] - jobs["normalised_initial"] if averaged else jobs["improvement"]
        self._columns["gain"] = gain.to_numpy()
        self._columns["paid"] = jobs["cost_usd"].to_numpy()
        self._columns["price"] = jobs["cost_usd"].where(np.isfinite(gain)).to_numpy()

    def made(self, columns: Sequence[str]) -> list[Group]:
        nothing: list[list[float]] = [[] for _ in self._members]
        score = estimates(nothing if self._averaged else self._values("score_best"), self._level)
        score = self._within("score_best", score)
        test = estimates(nothing if self._averaged else self._values("score_test"), self._level)
        test = self._within("score_test", test)
        gain = self._over_tasks("gain", iqm=False)
        normalised = self._over_tasks("normalised", iqm=self._averaged)
        held_out = self._over_tasks("normalised_test", iqm=self._averaged)
        tokens, cost, seconds = (self._spent(name) for name in ("total_tokens", "cost_usd", "time_seconds"))
        price = self._over_tasks("price", iqm=False)
        found = []
        for place, (rows, counted) in enumerate(zip(self._members, self._counted, strict=True)):
            shared = {LABELS[name]: self._shared(name, rows) for name in LABELS}
            found.append(
                Group(
                    keys={LABELS[name]: shared[LABELS[name]] for name in columns},
                    constants=shared,
                    direction=self._direction(rows),
                    score=score[place],
                    test=test[place],
                    improvement=gain[place],
                    normalised=normalised[place],
                    normalised_test=held_out[place],
                    tasks=len(set(self._columns["task"][counted])),
                    tasks_without=self._tasks_without(counted),
                    tokens=tokens[place],
                    cost_usd=cost[place],
                    seconds=seconds[place],
                    per_dollar=per_dollar(gain[place].mean, price[place].mean or 0.0),
                    total_cost_usd=float(self._columns["paid"][rows].sum()),
                    jobs=len(rows),
                    counted=len(counted),
                    **self._aside(rows, counted),
                )
            )
        return found

    def _aside(self, rows: np.ndarray[Any, Any], counted: np.ndarray[Any, Any]) -> dict[str, Any]:
        columns = self._columns
        if len(rows) == len(counted):
            outcomes, failures, infrastructure = Counter[str](), Counter[str](), Counter[str]()
        else:
            outcomes = Counter(columns["outcome"][rows])
            failures, infrastructure = self._failures("failed", rows), self._failures("infrastructure", rows)
        unprotected = int(self._counts[rows].sum()) - len(counted)
        return {
            "aside": {outcome: outcomes[outcome] for outcome in ASIDE if outcomes[outcome]},
            "failures": failures,
            "infrastructure": infrastructure,
            "unprotected": unprotected,
            "unscored": outcomes["ok"] - len(counted) - unprotected if outcomes else 0,
            "flagged": sum(bool(flags) for flags in columns["integrity_flags"][counted]),
            "proposals": {kind: int(columns[kind][rows].sum()) for kind in KINDS},
            "marked": "unprotected" in columns["integrity"][counted],
        }

    def _failures(self, outcome: str, rows: np.ndarray[Any, Any]) -> Counter[str]:
        columns = self._columns
        of = rows[columns["outcome"][rows] == outcome]
        pairs = zip(columns["failure_boundary"][of], columns["failure_kind"][of], strict=True)
        return Counter(sorted(f"{boundary or 'unknown'}:{kind}" for boundary, kind in pairs))

    def _shared(self, name: str, rows: np.ndarray[Any, Any]) -> str:
        """The values that all of `rows` share; empty where they differ."""
        values = set(self._columns[name][rows])
        return str(values.pop()) if len(values) == 1 else ""

    def _direction(self, rows: np.ndarray[Any, Any]) -> Direction | None:
        shared = self._shared("score_direction", rows)
        return "maximize" if shared == "maximize" else "minimize" if shared else None

    def _values(self, name: str) -> list[np.ndarray[Any, Any]]:
        column = self._columns[name].astype(np.float64)
        picked = (column[rows] for rows in self._counted)
        return [values[np.isfinite(values)] for values in picked]

    def _spent(self, name: str) -> list[float | None]:
        if self._averaged:
            column = self._columns[name].astype(np.float64)
            self._columns[name] = np.where(np.isfinite(self._columns["normalised"]), column, np.nan)
        return [e.mean for e in self._over_tasks(name, iqm=False)]

    def _over_tasks(self, name: str, *, iqm: bool) -> list[Estimate]:
        """Over tasks where these are averaged; over seeds where a group has one task."""
        if not self._averaged:
            return self._within(name, means(self._values(name), self._level))
        column = self._columns[name].astype(np.float64)
        samples: list[Sequence[float]] = []
        units: list[Unit] = []
        for counted in self._counted:
            rows = counted[np.isfinite(column[counted])]
            sample, unit = task_sample(self._columns["task"][rows], column[rows])
            samples.append(sample)
            units.append(unit)
        return self._within(name, (estimates if iqm else means)(samples, self._level, units))

    def _within(self, name: str, found: Sequence[Estimate]) -> list[Estimate]:
        """`found` of the column `name`, intervals cut at the declared range of the scores."""
        ranges = _RANGES.get("normalised" if name == "gain" and self._averaged else name)
        if ranges is None:
            return list(found)
        column = self._columns[name].astype(np.float64)
        cut = []
        for one, counted in zip(found, self._counted, strict=True):
            rows = counted[np.isfinite(column[counted])]
            of = dict(zip(self._columns["task"][rows], self._columns[ranges][rows], strict=True))
            cut.append(within(one, [of_difference(pair) if name == "gain" else pair for pair in of.values()]))
        return cut

    def _tasks_without(self, counted: np.ndarray[Any, Any]) -> int:
        if not self._averaged:
            return 0
        has = np.isfinite(self._columns["normalised"][counted])
        tasks = self._columns["task"][counted]
        return len(set(tasks) - set(tasks[has]))


_RANGES: Mapping[str, str] = {
    "score_best": "_score_range",
    "score_test": "_score_range",
    "gain": "_score_range",
    "normalised": "_normalised_range",
    "normalised_test": "_normalised_range",
}
"""Columns of scores, and those of their declared ranges."""
_USED = (
    "outcome", "integrity", "integrity_flags", "failure_boundary", "failure_kind", "score_direction", "score_best",
    "score_test", "improvement", "normalised", "normalised_test", "total_tokens", "cost_usd", "time_seconds", *KINDS,
    "_score_range", "_normalised_range",
)  # fmt: skip


def _texts(values: pd.Series) -> list[str]:
    """Mappings as canonical JSON; an empty one is an empty text."""
    known: dict[str, str] = {}
    found = []
    for value in values:
        text = repr(value)  # canonical JSON takes ten times as long, and most jobs have the same
        if text not in known:
            known[text] = canonical(value).decode() if value else ""
        found.append(known[text])
    return found


def _differing(jobs: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns that distinguish jobs within a group. A column is left out where those before it already do."""
    keys, joined = list(by), []
    for column in columns:
        if (jobs.groupby(keys, sort=False, dropna=False)[column].nunique(dropna=False) > 1).any():
            keys.append(column)
            joined.append(column)
    return joined


def _members(jobs: pd.DataFrame, columns: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    """The rows of each group, groups in the order of their first rows."""
    if jobs.empty:
        return []
    numbers = jobs.groupby(list(columns), sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)

"""Parts against a baseline: their pairs, what differs between them, and what that says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd

from trace_bench.analysis import testing
from trace_bench.analysis.axes import Axis, axes, warning
from trace_bench.analysis.bounds import cut, of_difference
from trace_bench.analysis.comparison_groups import UNIT, ComparisonGroup, pairing, short_names
from trace_bench.analysis.comparison_metric import Metric, chosen, counting, ranges, units_with
from trace_bench.analysis.paired import Array, Effect, paired_effects, paired_interval, student_alpha
from trace_bench.analysis.spending import SPENT, Spending, no_room_sentence, spread_sentence
from trace_bench.analysis.statistics import Interval
from trace_bench.analysis.testing import Share
from trace_bench.artifacts.contract import Direction
from trace_bench.errors import ConfigError

Verdict = Literal["win", "tie", "loss"]
_DIMENSIONS = {"trainer_id": "trainer", "model": "model", "optimizer_key": "optimizer", "parameters_key": "parameters"}


@dataclass(frozen=True)
class Counts:
    """The numbers of tasks or pairs that are better than the baseline, equal, worse."""

    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class TaskDifference:
    """One task with its arguments.

    Attributes:
        baseline_mean, other_mean: of the scores compared, natural units; None beyond a double.
        effect: its `mean` is better when larger.
        p_adjusted: by Holm, over all tasks of all comparisons.
        interval_adjusted: of the difference, at the level at which Holm's procedure tests this task: it excludes 0 if
            and only if `significant`. None where no interval of so few scores has that level.
        detectable: the smallest difference that would have been found with a power of 80 %; None where none can.
    """

    task_id: str
    arguments: str
    direction: Direction
    baseline_mean: float | None
    other_mean: float | None
    effect: Effect
    p_adjusted: float
    interval_adjusted: Interval | None
    verdict: Verdict
    significant: bool
    detectable: float | None


@dataclass(frozen=True)
class TheseTasks:
    """The test over all pairs of exactly these tasks. `scaled`: differences were divided by their task's own size."""

    p: float
    p_adjusted: float
    smallest_p: float
    exact: bool
    scaled: bool


@dataclass(frozen=True)
class Alike:
    """Tasks like these: each is one observation. `interval_adjusted`: as of `TaskDifference`."""

    effect: Effect
    p_adjusted: float
    interval_adjusted: Interval | None
    detectable: float | None


@dataclass(frozen=True)
class Comparison:
    """One part against the baseline.

    Attributes:
        matched_by: what a pair has in common.
        unpaired_jobs: jobs that count and have no counterpart, of the baseline and of the other; `tasks_left_out` are
            tasks without a score of both, or a pair.
        beyond: pairs, or tasks without pairs, left out as their difference is beyond a double.
        ways: the fewest and the most jobs of a side whose mean is one score of a pair. Jobs of one task and seed share
            that seed's luck, and are no independent evidence.
        shared_seeds: seeds of tasks that both parts planned.
        alike: None where scores of different tasks have no common unit.
        improvement: P(other better than baseline), mean over tasks.
    """

    baseline: str
    other: str
    design: Literal["paired", "unpaired", "none"]
    matched_by: tuple[str, ...]
    axes: tuple[Axis, ...]
    warning: str | None
    tasks: tuple[TaskDifference, ...]
    unpaired_jobs: tuple[int, int]
    tasks_left_out: int
    beyond: int
    ways: tuple[int, int]
    shared_seeds: int
    alike: Alike | None
    these: TheseTasks | None
    improvement: Share | None
    of_tasks: Counts
    of_pairs: Counts


@dataclass(frozen=True)
class Outcome:
    """The outcomes of a part's jobs. `counted` jobs are in the comparison; `unprotected` jobs with a score count only
    on demand; `flagged` jobs count, and need a look. `hardware` is that of the scores that depend on it."""

    name: str
    run_id: str
    jobs: int
    counted: int
    outcomes: dict[str, int]
    failures: dict[str, int]
    unprotected: int
    flagged: int
    hardware: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """The content of a comparison, for all displays. `split`: as of `ComparisonGroup`. `spending`: sentences as of
    `trace_bench.analysis.spending`."""

    metric: Metric
    level: float
    tests: int
    unprotected: bool
    failures_as_worst: bool
    parts: tuple[Outcome, ...]
    comparisons: tuple[Comparison, ...]
    split: str = ""
    spending: tuple[str, ...] = ()

    @property
    def alpha(self) -> float:
        return round(1 - self.level, 12)


@dataclass(frozen=True)
class _Groups:
    """Scores of a comparison by task; `x` of the baseline, `y` of the other, better when larger."""

    units: list[str]
    x: list[Array]
    y: list[Array]
    differences: list[Array] | None
    unused: tuple[int, int]
    left_out: int
    beyond: int
    ways: tuple[int, int] = (1, 1)
    seeds: Sequence[Array] = ()


def compare(
    parts: Sequence[ComparisonGroup],
    *,
    metric: str | None = None,
    level: float = 0.95,
    unprotected: bool = False,
    failures_as_worst: bool = False,
) -> Compared:
    """The first part is the baseline of all others.

    Args:
        metric: a name as of `chosen`; None for the default.
        unprotected: count jobs whose score a candidate could have written itself; so it is if there are no others.
        failures_as_worst: a job's own failure scores 0; normalised metrics only.

    Raises:
        ConfigError: no such metric, no task in common, or parts of several ways that do not match.
    """
    unprotected = unprotected or all((part.jobs["integrity"] == "unprotected").all() for part in parts)
    what = chosen(parts, metric, unprotected=unprotected, failures_as_worst=failures_as_worst)
    having = units_with(parts, what, unprotected=unprotected)
    every = [counting(part, what, having if failures_as_worst else None) for part in parts]
    bare = [frame["integrity"] == "unprotected" for frame in every]
    scored = every if unprotected else [frame[~left_out] for frame, left_out in zip(every, bare, strict=True)]
    dims = pairing([part.jobs for part in parts])
    grouped = [
        _groups(parts[0], part, scored[0], frame, dims) for part, frame in zip(parts[1:], scored[1:], strict=True)
    ]
    tests = sum(len(groups.units) for groups in grouped)
    matched = ("task", "seed", *(_DIMENSIONS[dim] for dim in dims))
    results = [
        _comparison(parts[0], part, groups, what, matched, level, tests, len(grouped))
        for part, groups in zip(parts[1:], grouped, strict=True)
    ]
    outcomes = tuple(
        Outcome(
            name=part.name,
            run_id=part.source.layout.run_id,
            jobs=len(part.jobs),
            counted=len(frame),
            outcomes=part.outcomes(),
            failures=part.failures(),
            unprotected=int(without.sum()),
            flagged=int((frame["integrity_flags"] != "").sum()),
            hardware=tuple(sorted(set(frame["hardware"]) - {""})),
        )
        for part, frame, without in zip(parts, scored, bare, strict=True)
    )
    adjusted = _adjusted(results, grouped, round(1 - level, 12))
    bounded = tuple(
        _within(one, ranges(parts[0], what, groups.units)) for one, groups in zip(adjusted, grouped, strict=True)
    )
    return Compared(what, level, tests, unprotected, failures_as_worst, outcomes, bounded, parts[0].split,
                    _spending(parts, scored))  # fmt: skip


def _spending(parts: Sequence[ComparisonGroup], scored: Sequence[pd.DataFrame]) -> tuple[str, ...]:
    names = short_names([part.name for part in parts])
    jobs = [
        (name, part.source.layout, row)
        for name, part, frame in zip(names, parts, scored, strict=True)
        for row in frame[[UNIT, "job_id", "trainer_id", *SPENT]].itertuples(index=False)
    ]
    spread = spread_sentence(Spending(name, getattr(row, UNIT), row) for name, _, row in jobs)
    no_room = no_room_sentence((row, run.job(row.job_id)) for _, run, row in jobs)
    return tuple(filter(None, (spread, no_room)))


# --------------------------------------------------------------------------------------------------------- pairing


def _groups(a: ComparisonGroup, b: ComparisonGroup, x: pd.DataFrame, y: pd.DataFrame, dims: tuple[str, ...]) -> _Groups:
    common = set(a.jobs[UNIT]) & set(b.jobs[UNIT])
    if not common:
        raise ConfigError(f"{a.name!r} and {b.name!r} have no task with the same arguments in common")
    planned = len(set(a.jobs[UNIT]) | set(b.jobs[UNIT]))
    scored = set(x[UNIT]), set(y[UNIT])
    pairs = x.merge(y, on=[UNIT, "seed", *dims], suffixes=("_x", "_y"))
    if len(pairs):
        return _paired(pairs, (x, y), planned)
    if dims and scored[0] & scored[1]:
        _refuse_several(a, b, dims)
    return _unpaired(x, y, [unit for unit in dict.fromkeys(x[UNIT]) if unit in scored[1]], planned)


def _refuse_several(a: ComparisonGroup, b: ComparisonGroup, dims: tuple[str, ...]) -> None:
    names = ", ".join(_DIMENSIONS[dim] for dim in dims)
    several = [part for part in (a, b) if part.jobs.duplicated([UNIT, "seed"]).any()]
    who = " and ".join(repr(part.name) for part in several or (a, b))
    raise ConfigError(
        f"{who}: several jobs have the same task and seed, and no {names} in common with the part that it is compared"
        " with; choose one configuration with --where, or make parts with --by trainer,variant"
    )


def _paired(pairs: pd.DataFrame, frames: tuple[pd.DataFrame, pd.DataFrame], planned: int) -> _Groups:
    """One pair for each task and seed: the mean over what else its jobs have in common, whose luck is the same."""
    finite = np.isfinite(testing.differences(pairs["value_x"].to_numpy(), pairs["value_y"].to_numpy()))
    pairs = pairs[finite]
    by = pairs.groupby([UNIT, "seed"], sort=False)
    size = by["value_x"].transform("size")
    shares = pairs[[UNIT, "seed"]].assign(x=pairs["value_x"] / size, y=pairs["value_y"] / size)  # sums stay finite
    means = shares.groupby([UNIT, "seed"], sort=False)[["x", "y"]].sum().reset_index()
    places = dict(means.groupby(UNIT, sort=False).indices)
    first, second = ([means[side].to_numpy()[place] for place in places.values()] for side in "xy")
    differences = [
        testing.levelled(testing.differences(x, y), float(max(np.abs(x).max(), np.abs(y).max())))
        for x, y in zip(first, second, strict=True)
    ]
    return _Groups(
        list(places),
        first,
        second,
        differences,
        (len(frames[0]) - len(pairs), len(frames[1]) - len(pairs)),
        planned - len(places),
        int((~finite).sum()),
        (int(size.min()), int(size.max())) if len(size) else (1, 1),
        [means["seed"].to_numpy()[place] for place in places.values()],
    )


def _unpaired(x: pd.DataFrame, y: pd.DataFrame, units: list[str], planned: int) -> _Groups:
    values = [{unit: group.to_numpy() for unit, group in frame.groupby(UNIT, sort=False)["value"]} for frame in (x, y)]
    with np.errstate(over="ignore"):
        kept = [
            unit
            for unit in units
            if np.isfinite(values[0][unit].max() - values[1][unit].min())
            and np.isfinite(values[1][unit].max() - values[0][unit].min())
        ]
    first, second = ([side[unit] for unit in kept] for side in values)
    unused = len(x) - sum(map(len, first)), len(y) - sum(map(len, second))
    return _Groups(kept, first, second, None, unused, planned - len(kept), len(units) - len(kept))


def _planned(part: ComparisonGroup) -> set[tuple[str, int]]:
    return set(zip(part.jobs[UNIT], part.jobs["seed"], strict=True))


# --------------------------------------------------------------------------------------------------------- results


def _comparison(
    a: ComparisonGroup,
    b: ComparisonGroup,
    groups: _Groups,
    what: Metric,
    matched: tuple[str, ...],
    level: float,
    tests: int,
    parts: int,
) -> Comparison:
    found = tuple(axes(a, b))
    paired = groups.differences is not None
    if paired:
        effects = paired_effects(groups.differences or [], level)
    else:
        effects = testing.unpaired_effects(groups.x, groups.y, [level] * len(groups.x), testing.drawn(tests, 1 - level))
    means = [effect.mean for effect in effects]
    return Comparison(
        baseline=a.name,
        other=b.name,
        design="none" if not effects else "paired" if paired else "unpaired",
        matched_by=matched if paired else ("task",),
        axes=found,
        warning=warning(found, (a.name, b.name)),
        tasks=_tasks(a, groups, effects, what, (1 - level) / max(1, tests)),
        unpaired_jobs=groups.unused,
        tasks_left_out=groups.left_out,
        beyond=groups.beyond,
        ways=groups.ways,
        shared_seeds=len(_planned(a) & _planned(b)),
        alike=_alike(a, groups.units, means, level, parts) if what.scale_free else None,
        these=_these(a, groups, scaled=not what.scale_free and len(means) > 1) if effects else None,
        improvement=testing.probability_of_improvement(groups.x, groups.y, level) if effects else None,
        of_tasks=_count(means),
        of_pairs=_count(chain.from_iterable(groups.differences or [])),
    )


def _tasks(
    part: ComparisonGroup, groups: _Groups, effects: Sequence[Effect], what: Metric, alpha: float
) -> tuple[TaskDifference, ...]:
    first = part.jobs.drop_duplicates(UNIT).set_index(UNIT)
    found = []
    for unit, x, y, effect in zip(groups.units, groups.x, groups.y, effects, strict=True):
        sign = what.sign_of(unit)
        found.append(
            TaskDifference(
                task_id=str(first.at[unit, "task_id"]),
                arguments=unit.partition(" ")[2],
                direction="maximize" if sign > 0 else "minimize",
                baseline_mean=_mean(sign * x),
                other_mean=_mean(sign * y),
                effect=effect,
                p_adjusted=effect.p,
                interval_adjusted=None,
                verdict=_verdict(effect.mean),
                significant=False,
                detectable=_detectable(effect, alpha),
            )
        )
    return tuple(found)


def _alike(
    part: ComparisonGroup, units: Sequence[str], means: Sequence[float], level: float, parts: int
) -> Alike | None:
    """Of two tasks at least; a task with several arguments is the mean over them."""
    of_task: dict[str, list[float]] = {}
    ids = _task_ids(part)
    for unit, mean in zip(units, means, strict=True):
        of_task.setdefault(ids[unit], []).append(mean)
    if len(of_task) < 2:
        return None
    values = np.asarray([sum(mean / len(own) for mean in own) for own in of_task.values()])
    effect = paired_effects([testing.levelled(values, float(np.abs(values).max()))], level)[0]
    return Alike(effect, effect.p, None, _detectable(effect, (1 - level) / parts))


def _these(part: ComparisonGroup, groups: _Groups, *, scaled: bool) -> TheseTasks:
    if groups.differences is not None:
        ids = _task_ids(part)
        together = [
            [(ids[unit], int(s)) for s in seeds] for unit, seeds in zip(groups.units, groups.seeds, strict=True)
        ]
        p, exact, smallest = testing.stratified_sign_flip(groups.differences, scaled=scaled, together=together)
    else:
        p, exact, smallest = testing.stratified_shuffle(groups.x, groups.y, scaled=scaled)
    return TheseTasks(p, p, smallest, exact, scaled)


def _task_ids(part: ComparisonGroup) -> dict[str, str]:
    return dict(zip(part.jobs[UNIT], part.jobs["task_id"], strict=True))


def _adjusted(results: Sequence[Comparison], grouped: Sequence[_Groups], alpha: float) -> list[Comparison]:
    """With p and intervals adjusted for all tests of a kind."""
    single = [task.effect.p for one in results for task in one.tasks]
    alike = [one.alike.effect.p for one in results if one.alike]
    these = iter(testing.holm([one.these.p for one in results if one.these]))
    of_tasks = iter(zip(testing.holm(single), testing.holm_alphas(single, alpha), strict=True))
    of_alike = iter(zip(testing.holm(alike), testing.holm_alphas(alike, alpha), strict=True))
    found = []
    for one, groups in zip(results, grouped, strict=True):
        steps = [next(of_tasks) for _ in one.tasks]
        intervals = _intervals(one, groups, [step for _, step in steps], testing.drawn(len(single), alpha))
        tasks = [
            replace(task, p_adjusted=p, interval_adjusted=ends, significant=p <= alpha and task.verdict != "tie")
            for task, (p, _), ends in zip(one.tasks, steps, intervals, strict=True)
        ]
        over = one.alike
        if over is not None:
            p, step = next(of_alike)
            over = replace(over, p_adjusted=p, interval_adjusted=_both(*paired_interval(over.effect, step)))
        these_tasks = replace(one.these, p_adjusted=next(these)) if one.these else None
        found.append(replace(one, tasks=tuple(tasks), alike=over, these=these_tasks))
    return found


def _intervals(one: Comparison, groups: _Groups, alphas: Sequence[float], resamples: int) -> list[Interval | None]:
    if groups.differences is not None:
        return [_both(*paired_interval(task.effect, alpha)) for task, alpha in zip(one.tasks, alphas, strict=True)]
    effects = testing.unpaired_effects(groups.x, groups.y, [1 - alpha for alpha in alphas], resamples)
    return [_both(effect.low, effect.high) for effect in effects]


def _within(one: Comparison, ranges: Sequence[Interval | None]) -> Comparison:
    """With intervals cut at the largest differences that the declared ranges of the scores allow. All have 0 inside,
    so that no verdict depends on it."""
    bounds = [of_difference(pair) for pair in ranges]
    tasks = []
    for task, pair in zip(one.tasks, bounds, strict=True):
        adjusted = cut(task.interval_adjusted, task.effect.mean, [pair])
        tasks.append(replace(task, effect=_cut_effect(task.effect, [pair]), interval_adjusted=adjusted))
    over = one.alike
    if over is not None:
        adjusted = cut(over.interval_adjusted, over.effect.mean, bounds)
        over = replace(over, effect=_cut_effect(over.effect, bounds), interval_adjusted=adjusted)
    return replace(one, tasks=tuple(tasks), alike=over)


def _cut_effect(effect: Effect, bounds: Sequence[Interval | None]) -> Effect:
    low, high = cut(_both(effect.low, effect.high), effect.mean, bounds) or (effect.low, effect.high)
    return replace(effect, low=low, high=high)


def _both(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else (low, high)


def _detectable(effect: Effect, alpha: float) -> float | None:
    if effect.se is None or effect.df is None or not effect.se or effect.smallest_p > alpha:
        return None
    level = student_alpha(effect, alpha) if effect.n_baseline is None else alpha
    found = math.inf if level is None else testing.detectable(effect.se, effect.df, level)
    return found if math.isfinite(found) else None


def _verdict(mean: float) -> Verdict:
    return "win" if mean > 0 else "loss" if mean < 0 else "tie"


def _count(values: Any) -> Counts:
    found = [_verdict(value) for value in values]
    return Counts(found.count("win"), found.count("tie"), found.count("loss"))


def _mean(values: Array) -> float | None:
    with np.errstate(over="ignore"):
        mean = float(values.mean())
    return mean if math.isfinite(mean) else None

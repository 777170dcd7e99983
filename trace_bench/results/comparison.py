"""Parts against a baseline: their pairs, what differs between them, and what that says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import printable
from trace_bench.errors import ConfigError
from trace_bench.results import testing
from trace_bench.results.axes import Axis, axes, warning
from trace_bench.results.comparands import UNIT, WAY, Part
from trace_bench.results.compare_metric import Metric, chosen, counting
from trace_bench.results.testing import Array, Effect, Share

Verdict = Literal["win", "tie", "loss"]
_WAYS = {"trainer_id": "trainer", "model": "model", "optimizer_key": "optimizer", "parameters_key": "parameters"}


@dataclass(frozen=True)
class Counts:
    """Of tasks or pairs: better than the baseline, equal, worse."""

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
        detectable: the smallest difference that would have been found with a power of 80 %; None where none can.
    """

    task_id: str
    arguments: str
    direction: Direction
    baseline_mean: float | None
    other_mean: float | None
    effect: Effect
    p_adjusted: float
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
    """Tasks like these: each is one observation."""

    effect: Effect
    p_adjusted: float
    detectable: float | None


@dataclass(frozen=True)
class Comparison:
    """One part against the baseline.

    Attributes:
        matched_by: what a pair has in common.
        unpaired_jobs: jobs that count and have no counterpart, of the baseline and of the other; `tasks_left_out` are
            tasks that only one of the parts has scores of.
        beyond: pairs left out as their difference is beyond a double.
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
    alike: Alike | None
    these: TheseTasks | None
    improvement: Share | None
    of_tasks: Counts
    of_pairs: Counts


@dataclass(frozen=True)
class Outcome:
    """What became of a part's jobs: how many count, and by outcome. `unprotected` jobs count only if asked for;
    `flagged` ones count, and are to be looked at."""

    name: str
    run_id: str
    jobs: int
    counted: int
    outcomes: dict[str, int]
    failures: dict[str, int]
    unprotected: int
    flagged: int


@dataclass(frozen=True)
class Compared:
    """All that a command says."""

    metric: Metric
    level: float
    tests: int
    unprotected: bool
    failures_as_worst: bool
    parts: tuple[Outcome, ...]
    comparisons: tuple[Comparison, ...]

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
    used: tuple[int, int]
    left_out: int
    beyond: int


def compare(
    parts: Sequence[Part],
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
    scored = [counting(part, what, unprotected=unprotected, failures_as_worst=failures_as_worst) for part in parts]
    dims = _dims(parts)
    grouped = [
        _groups(parts[0], part, scored[0], frame, dims) for part, frame in zip(parts[1:], scored[1:], strict=True)
    ]
    tests = sum(len(groups.units) for groups in grouped)
    matched = ("task", "seed", *(_WAYS[dim] for dim in dims))
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
            unprotected=int((part.jobs["integrity"] == "unprotected").sum()),
            flagged=int((frame["integrity_flags"] != "").sum()),
        )
        for part, frame in zip(parts, scored, strict=True)
    )
    return Compared(what, level, tests, unprotected, failures_as_worst, outcomes, tuple(_adjusted(results, 1 - level)))


# --------------------------------------------------------------------------------------------------------- pairing


def _dims(parts: Sequence[Part]) -> tuple[str, ...]:
    """What pairs must share besides task and seed, so that each part has one job for it: the fewest of `WAY`."""
    chosen_by_size = sorted(
        (tuple(way for bit, way in enumerate(WAY) if mask >> bit & 1) for mask in range(1 << len(WAY))), key=len
    )
    for dims in chosen_by_size:
        if not any(part.jobs.duplicated([UNIT, "seed", *dims]).any() for part in parts):
            return dims
    return WAY


def _groups(a: Part, b: Part, x: pd.DataFrame, y: pd.DataFrame, dims: tuple[str, ...]) -> _Groups:
    common = set(a.jobs[UNIT]) & set(b.jobs[UNIT])
    if not common:
        raise ConfigError(
            f"{printable(a.name)!r} and {printable(b.name)!r} have no task with the same arguments in common"
        )
    planned = len(set(a.jobs[UNIT]) | set(b.jobs[UNIT]))
    scored = set(x[UNIT]), set(y[UNIT])
    pairs = x.merge(y, on=[UNIT, "seed", *dims], suffixes=("_x", "_y"))
    if len(pairs):
        return _paired(pairs, (x, y), planned)
    if dims and scored[0] & scored[1]:
        _refuse_several(a, b, dims)
    return _unpaired(x, y, [unit for unit in dict.fromkeys(x[UNIT]) if unit in scored[1]], planned)


def _refuse_several(a: Part, b: Part, dims: tuple[str, ...]) -> None:
    names = ", ".join(_WAYS[dim] for dim in dims)
    several = [part for part in (a, b) if part.jobs.duplicated([UNIT, "seed"]).any()]
    who = " and ".join(repr(printable(part.name)) for part in several or (a, b))
    raise ConfigError(
        f"{who}: several jobs have the same task and seed, and no {names} in common with the part that it is compared"
        " with; choose one way with --where, or make parts with --by trainer,variant"
    )


def _paired(pairs: pd.DataFrame, frames: tuple[pd.DataFrame, pd.DataFrame], planned: int) -> _Groups:
    first, second = pairs["value_x"].to_numpy(), pairs["value_y"].to_numpy()
    differences = testing.differences(first, second)
    finite = np.isfinite(differences)
    pairs, differences = pairs[finite], differences[finite]
    first, second = first[finite], second[finite]
    places = dict(pairs.groupby(UNIT, sort=False).indices)
    units = list(places)
    return _Groups(
        units,
        [first[places[unit]] for unit in units],
        [second[places[unit]] for unit in units],
        [differences[places[unit]] for unit in units],
        (len(frames[0]) - len(pairs), len(frames[1]) - len(pairs)),
        planned - len(units),
        int((~finite).sum()),
    )


def _unpaired(x: pd.DataFrame, y: pd.DataFrame, units: list[str], planned: int) -> _Groups:
    values = [{unit: group.to_numpy() for unit, group in frame.groupby(UNIT, sort=False)["value"]} for frame in (x, y)]
    first, second = ([side[unit] for unit in units] for side in values)
    used = sum(map(len, first)), sum(map(len, second))
    return _Groups(units, first, second, None, (len(x) - used[0], len(y) - used[1]), planned - len(units), 0)


# --------------------------------------------------------------------------------------------------------- results


def _comparison(
    a: Part, b: Part, groups: _Groups, what: Metric, matched: tuple[str, ...], level: float, tests: int, parts: int
) -> Comparison:
    found = tuple(axes(a, b))
    paired = groups.differences is not None
    if paired:
        effects = testing.paired_effects(groups.differences or [], level, tests)
    else:
        effects = testing.unpaired_effects(groups.x, groups.y, level, tests)
    means = [effect.mean for effect in effects]
    return Comparison(
        baseline=a.name,
        other=b.name,
        design="none" if not effects else "paired" if paired else "unpaired",
        matched_by=matched if paired else ("task",),
        axes=found,
        warning=warning(found, (a.name, b.name)),
        tasks=_tasks(a, groups, effects, what, (1 - level) / max(1, tests)),
        unpaired_jobs=groups.used,
        tasks_left_out=groups.left_out,
        beyond=groups.beyond,
        alike=_alike(means, level, parts) if what.scale_free and len(means) > 1 else None,
        these=_these(groups, scaled=not what.scale_free and len(means) > 1) if effects else None,
        improvement=testing.probability_of_improvement(groups.x, groups.y, level) if effects else None,
        of_tasks=_count(means),
        of_pairs=_count(chain.from_iterable(groups.differences or [])),
    )


def _tasks(
    part: Part, groups: _Groups, effects: Sequence[Effect], what: Metric, alpha: float
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
                verdict=_verdict(effect.mean),
                significant=False,
                detectable=_detectable(effect, alpha),
            )
        )
    return tuple(found)


def _alike(means: Sequence[float], level: float, parts: int) -> Alike:
    effect = testing.paired_effects([np.asarray(means)], level, parts)[0]
    return Alike(effect, effect.p, _detectable(effect, (1 - level) / parts))


def _these(groups: _Groups, *, scaled: bool) -> TheseTasks:
    if groups.differences is not None:
        p, exact, smallest = testing.stratified_sign_flip(groups.differences, scaled=scaled)
    else:
        p, exact, smallest = testing.stratified_shuffle(groups.x, groups.y, scaled=scaled)
    return TheseTasks(p, p, smallest, exact, scaled)


def _adjusted(results: Sequence[Comparison], alpha: float) -> list[Comparison]:
    """With p adjusted for all tests of a kind."""
    single = iter(testing.holm([task.effect.p for one in results for task in one.tasks]))
    alike = iter(testing.holm([one.alike.effect.p for one in results if one.alike]))
    these = iter(testing.holm([one.these.p for one in results if one.these]))
    found = []
    for one in results:
        tasks = []
        for task in one.tasks:
            p = next(single)
            tasks.append(replace(task, p_adjusted=p, significant=p <= alpha and task.verdict != "tie"))
        found.append(
            replace(
                one,
                tasks=tuple(tasks),
                alike=replace(one.alike, p_adjusted=next(alike)) if one.alike else None,
                these=replace(one.these, p_adjusted=next(these)) if one.these else None,
            )
        )
    return found


def _detectable(effect: Effect, alpha: float) -> float | None:
    if effect.se is None or effect.df is None or not effect.se or effect.smallest_p > alpha:
        return None
    found = testing.detectable(effect.se, effect.df, alpha)
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

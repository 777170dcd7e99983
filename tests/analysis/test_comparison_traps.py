"""What would be taken for a finding, and is none: dependent jobs, rounding, scores that nobody has."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.experiments import failed, job
from trace_bench.analysis import testing
from trace_bench.analysis.comparison import Compared, Comparison, compare
from trace_bench.analysis.comparison_groups import OPTIMIZER, PARAMETERS, UNIT, ComparisonGroup, Source
from trace_bench.analysis.comparison_text import sections
from trace_bench.analysis.frames import jobs_frame
from trace_bench.analysis.paired import paired_effects
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results


def part(name: str, jobs: pd.DataFrame) -> ComparisonGroup:
    return ComparisonGroup(name, Source(RunLayout(Path("/nowhere") / name), jobs, None, None, ""), jobs)


def frame(rows: list[Results]) -> pd.DataFrame:
    jobs = jobs_frame(rows)
    return jobs.assign(**{UNIT: jobs["task_id"] + " {}", OPTIMIZER: '["none",{}]', PARAMETERS: '[{},"default",{}]'})


def compared(one: list[Results], two: list[Results], **options: Any) -> tuple[Compared, Comparison, str]:
    done = compare([part("a", frame(one)), part("b", frame(two))], **options)
    told = [block for section in sections(done) for block in section.blocks if isinstance(block, str)]
    return done, done.comparisons[0], "\n".join(told)


@pytest.mark.slow
def test_false_positives_are_at_most_nominal_where_several_trainers_share_the_luck_of_a_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """200 tasks, each an experiment of its own: 6 seeds, 4 trainers, two runs without any difference."""
    monkeypatch.setattr(testing, "BOOTSTRAP", 10)
    monkeypatch.setattr(testing, "RESAMPLES", 99)
    tasks, seeds, ways = 200, 6, 4
    rng = np.random.default_rng(1)
    one = frame([job("x", 0, 0.5)])
    sides = []
    for name in "ab":
        jobs = one.loc[[0] * (tasks * seeds * ways)].reset_index(drop=True)
        task, seed, way = (axis.ravel() for axis in np.indices((tasks, seeds, ways)))
        luck = 0.1 * rng.normal(size=(tasks, seeds, 1)) + 0.03 * rng.normal(size=(tasks, seeds, ways))
        own = {UNIT: [f"t:{t} {{}}" for t in task], "task_id": [f"t:{t}" for t in task], "seed": seed}
        own |= {"trainer_id": [f"T{w}" for w in way], "normalised_test": luck.ravel()}
        sides.append(part(name, jobs.assign(job_id=[f"{n:012x}" for n in range(len(jobs))], **own)))
    done = compare(sides).comparisons[0]
    assert done.ways == (ways, ways) and {task.effect.n for task in done.tasks} == {seeds}
    nominal = 0.05  # for independent pairs it would be 0.25
    positive = np.mean([task.effect.p <= 0.05 for task in done.tasks])
    assert positive <= nominal + 3 * math.sqrt(nominal * (1 - nominal) / tasks)


def test_seeds_of_which_some_ways_failed_keep_those_that_both_have() -> None:
    rows = [job("x", seed, 0.1 * seed, trainer_id=way) for seed in range(3) for way in "AB"]
    other = [job("x", seed, 0.1 * seed + 0.5, trainer_id=way) for seed in range(3) for way in "AB"][:-1]
    _, one, told = compared(rows, other)
    assert one.ways == (1, 2) and one.tasks[0].effect.n == 3 and one.unpaired_jobs == (1, 0)
    assert one.tasks[0].effect.mean == pytest.approx(0.5) and "n is seeds × 1–2 configurations (trainer)" in told


def test_differences_that_are_equal_up_to_rounding_are_equal() -> None:
    score = {seed: 0.1 * seed for seed in range(1, 9)}
    _, one, told = compared(
        [job("x", seed, value) for seed, value in score.items()],
        [job("x", seed, value + 0.1) for seed, value in score.items()],
    )
    assert one.tasks[0].effect.se == 0 and one.tasks[0].detectable is None and "every difference is the same" in told


def test_means_that_are_equal_up_to_rounding_tie() -> None:
    sides = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]
    rows = [[job("x", 10 * side + n, value) for n, value in enumerate(sides[side])] for side in (0, 1)]
    assert compared(*rows)[1].tasks[0].verdict == "tie"
    cancelling = paired_effects([np.array([0.1, 0.2, -0.3])], 0.95)[0]
    assert cancelling.mean == 0 and np.mean([0.1, 0.2, -0.3]) != 0


def test_scores_that_are_equal_up_to_rounding_are_no_improvement() -> None:
    share = testing.probability_of_improvement([np.full(8, 0.5)], [np.full(8, 0.5 * (1 + 1e-12))], 0.95)
    assert (share.value, share.low) == (0.5, None)


def test_failures_score_nothing_where_no_job_has_the_metric() -> None:
    def side(score: float) -> list[Results]:
        raw = [job("y", seed, score, metrics_best={}, metrics_test={}) for seed in range(3)]
        return [*(job("x", seed, score) for seed in range(5)), failed("x", 5), *raw, failed("y", 3)]

    _, one, told = compared(side(0.5), side(0.9), metric="normalised_test", failures_as_worst=True)
    assert [(task.task_id, task.effect.n) for task in one.tasks] == [("t:x", 6)] and one.alike is None
    assert "1 tasks without a score of both are left out" in told


def test_shared_seeds_without_a_score_of_both_are_not_called_no_shared_seeds() -> None:
    rows = [job("x", seed, 0.1 * seed) for seed in range(3)] + [failed("x", seed) for seed in range(3, 6)]
    other = [failed("x", seed) for seed in range(3)] + [job("x", seed, 0.1 * seed) for seed in range(3, 6)]
    told = compared(rows, other)[2]
    assert "of 6 seeds of tasks that both parts have, none has a score of both" in told
    assert "NOT PAIRED: the parts share no seed" in compared(rows[:3], other[3:])[2]


def test_huge_scores_have_the_p_of_the_same_ones_divided() -> None:
    paired = np.array([1.0, -0.4, 1.2, 0.9, 1.1, -0.3])
    for scaled in (False, True):
        huge, small = (testing.stratified_sign_flip([size * paired], scaled=scaled) for size in (1.4e308, 1.0))
        assert huge == small
    assert testing.sign_flip(1.4e308 * paired[None, :])[0] == testing.sign_flip(paired[None, :])[0]
    x, y = np.array([1.0, 0.9, 0.2, 0.8]), np.array([0.1, 0.3, 0.9, 0.2])
    huge, small = (testing.unpaired_effects([size * x], [size * y], [0.95])[0] for size in (1.7e308, 1.0))
    assert (huge.p, huge.df) == (small.p, pytest.approx(small.df)) and math.isfinite(huge.mean)
    assert testing.stratified_shuffle([1e308 * x], [1e308 * y], scaled=False)[0] > 0.05
    rows = [[job("x", n + 9 * side, (1, -1)[side] * 1e308) for n in range(4)] for side in (0, 1)]
    assert compared(*rows)[1].beyond == 1 and not compared(*rows)[1].tasks


def test_only_unprotected_jobs_with_a_score_are_told() -> None:
    own: dict[str, Any] = {"integrity": "unprotected"}
    rows = [job("x", 0, 0.5, **own), *(failed("x", seed, **own) for seed in range(1, 6))]
    assert "UNPROTECTED: 2 jobs" in compared(rows, rows)[2]
    protected = [job("x", seed, 0.5) for seed in range(6)]
    assert "1 unprotected jobs are left out" in compared(protected, rows)[2]


def test_without_a_score_of_both_there_is_no_heading_without_text() -> None:
    done = compared([job("x", 0, 0.5)], [failed("x", 0)])[0]
    assert all(section.blocks for section in sections(done)) and sections(done)[-1].title == "b against a"


def test_it_is_said_which_intervals_are_corrected_for_many_tests() -> None:
    rows = [job(task, seed, 0.1 * seed) for task in "xy" for seed in range(3)]
    assert "those with (Holm) are corrected for the 2 tests" in compared(rows, rows)[2]
    assert "(Holm) are corrected" not in compared(rows[:3], rows[:3])[2]


def test_methods_name_what_was_done_and_nothing_else() -> None:
    told = compared([job("x", seed, 0.5) for seed in range(3)], [job("x", seed, 0.1 * seed) for seed in range(3)])[2]
    assert "arXiv:1411.5279" in told and "tasks like these: clustered" not in told


def test_a_task_with_several_arguments_is_one_observation_of_tasks_like_it() -> None:
    """And its pairs of one seed are flipped together: four seeds of two tasks are eight signs, whatever the sizes."""

    def side(shift: float) -> list[Results]:
        sizes = [{"n": n} for n in range(6)]
        seeds = range(4)
        return [job(t, s, 0.1 * s + shift, eval_kwargs=size) for t in "xy" for size in sizes for s in seeds]

    sides = []
    for shift in (0.0, 0.5):
        jobs = frame(side(shift))
        sides.append(
            part(
                f"{shift}",
                jobs.assign(**{UNIT: [f"{t} {k}" for t, k in zip(jobs["task_id"], jobs["eval_kwargs"], strict=True)]}),
            )
        )
    one = compare(sides).comparisons[0]
    assert len(one.tasks) == 12 and one.alike is not None and one.alike.effect.n == 2
    assert one.these is not None and one.these.p == 2 / 2**8


def test_kinds_of_tests_are_said_not_to_be_corrected_for_each_other() -> None:
    rows = [job(task, seed, 0.1 * seed) for task in "xy" for seed in range(3)]
    assert "single tasks, these tasks, tasks like these are not corrected for each other" in compared(rows, rows)[2]

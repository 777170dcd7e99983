"""Comparisons of runs whose scores are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.experiments import failed, job, jobs, make_experiment
from trace_bench.analysis.comparison import Compared, compare
from trace_bench.analysis.comparison_groups import ComparisonGroup, choose
from trace_bench.analysis.comparison_power import detected
from trace_bench.analysis.comparison_text import markdown, notes, sections, summary
from trace_bench.analysis.where import parse_where
from trace_bench.artifacts.records import Results
from trace_bench.errors import ConfigError

TASKS = ("x", "y", "z")
SEEDS = range(1, 9)


def low(task: str, seed: int) -> float:
    return 0.3 + 0.01 * seed + 0.1 * TASKS.index(task)


def high(task: str, seed: int) -> float:
    return low(task, seed) + 0.1 + 0.001 * seed


def searched(rows: Sequence[Results]) -> list[Results]:
    """The same jobs by another trainer."""
    return [row.model_copy(update={"trainer_id": "P", "job_id": row.job_id[::-1]}) for row in rows]


def parts_of(folder: Path, *sides: Sequence[Results], waiting: Sequence[Results] = ()) -> list[ComparisonGroup]:
    """A run for each side."""
    names = "abcdef"[: len(sides)]
    runs = [make_experiment(folder, name, rows) for name, rows in zip(names[:-1], sides[:-1], strict=True)]
    return choose([*runs, make_experiment(folder, names[-1], sides[-1], waiting=waiting)], [], None, None)


def lines(done: Compared) -> str:
    return "\n".join(block for section in sections(done) for block in section.blocks if isinstance(block, str))


def test_a_gap_is_not_compared_with_another_normalised_score(tmp_path: Path) -> None:
    """As where one of two runs has `gaps: false`: the share of the bound is compared, which both have."""
    without = jobs(low, ["x"], SEEDS)
    both = {"metrics_test": {"normalised": 0.9, "gap": 0.1}, "metrics_best": {"normalised": 0.9, "gap": 0.1}}
    having = searched([row.model_copy(update=both) for row in jobs(high, ["x"], SEEDS)])
    done = compare(parts_of(tmp_path, without, having))
    assert done.metric.name == "metric_test:normalised" and "some jobs have gaps and others none" in done.metric.note
    assert done.comparisons[0].tasks[0].other_mean == pytest.approx(0.9)
    one = compare(parts_of(tmp_path / "all", [row.model_copy(update=both) for row in without], having))
    assert one.metric.name == "normalised_test" and one.comparisons[0].tasks[0].other_mean == pytest.approx(0.1)


# -------------------------------------------------------------------------------------------------------- effects


def test_a_known_difference_is_found(tmp_path: Path) -> None:
    done = compare(parts_of(tmp_path, jobs(low, TASKS, SEEDS), searched(jobs(high, TASKS, SEEDS))))
    (one,) = done.comparisons
    assert (done.metric.name, one.design, done.tests) == ("normalised_test", "paired", 3)
    for task in one.tasks:
        assert task.effect.n == 8 and task.effect.mean == pytest.approx(0.1045)
        assert task.effect.low is not None and task.effect.low < 0.1045 < (task.effect.high or 0)
        assert task.effect.p == 2 / 4**8 and task.p_adjusted == 3 * task.effect.p and task.significant
        assert task.interval_adjusted is not None and 0 < task.interval_adjusted[0] <= task.effect.low
        assert task.other_mean == pytest.approx((task.baseline_mean or 0) + 0.1045)
    assert one.alike is not None and one.alike.effect.n == 3 and one.alike.effect.p == 2 / 4**3
    assert one.these is not None and one.these.p < 0.001 and one.warning is None
    assert (one.of_tasks.wins, one.of_pairs.wins, one.of_pairs.losses) == (3, 24, 0)
    told = lines(done)
    assert "3 better, 0 worse" in told and "tasks like these: 3 tasks: the smallest possible p is 0.0312" in told


def test_lower_is_better_where_the_task_says_so(tmp_path: Path) -> None:
    down: dict[str, Any] = {"score_direction": "minimize", "metrics_test": {}, "metrics_best": {}}
    sides = jobs(low, ["x"], SEEDS, **down), searched(jobs(high, ["x"], SEEDS, **down))
    done = compare(parts_of(tmp_path, *sides))
    (task,) = done.comparisons[0].tasks
    assert done.metric.name == "score_test" and task.verdict == "loss" and task.effect.mean == pytest.approx(-0.1045)
    assert (task.baseline_mean or 0) < (task.other_mean or 0)  # natural units
    assert done.comparisons[0].improvement is not None and done.comparisons[0].improvement.value < 0.5


def test_scores_in_units_of_their_own_are_not_averaged_over_tasks(tmp_path: Path) -> None:
    own: dict[str, Any] = {"metrics_test": {}, "metrics_best": {}}
    done = compare(parts_of(tmp_path, jobs(low, TASKS, SEEDS, **own), searched(jobs(high, TASKS, SEEDS, **own))))
    (one,) = done.comparisons
    assert one.alike is None and one.these is not None and one.these.scaled and one.these.p < 0.001
    assert "scores of different tasks have no common unit" in lines(done)


def test_validation_scores_are_compared_with_a_loud_note(tmp_path: Path) -> None:
    own: dict[str, Any] = {"metrics_test": {}, "score_test": None}
    done = compare(parts_of(tmp_path, jobs(low, TASKS, SEEDS, **own), jobs(high, TASKS, SEEDS, **own)))
    assert done.metric.name == "normalised" and "NOT HELD OUT" in lines(done)
    held_out = compare(parts_of(tmp_path / "2", jobs(low, TASKS, SEEDS), jobs(high, TASKS, SEEDS)))
    assert "NOT HELD OUT" not in lines(held_out)
    with pytest.raises(ConfigError, match=r"--metric: there is no 'normalized_test'.*normalised_test"):
        compare(parts_of(tmp_path / "3", jobs(low, TASKS, SEEDS), jobs(high, TASKS, SEEDS)), metric="normalized_test")


# --------------------------------------------------------------------------------------------------------- pairing


def test_seeds_that_only_one_part_has_are_left_out_and_counted(tmp_path: Path) -> None:
    sides = jobs(low, TASKS, range(1, 7)), jobs(high, TASKS, range(4, 12))
    done = compare(parts_of(tmp_path, *sides))
    (one,) = done.comparisons
    assert {task.effect.n for task in one.tasks} == {3} and one.unpaired_jobs == (9, 15)
    assert "9 jobs of the baseline and 15 jobs of the other" in lines(done)


def test_tasks_that_only_one_part_has_are_left_out_and_counted(tmp_path: Path) -> None:
    done = compare(parts_of(tmp_path, jobs(low, ["x", "y"], SEEDS), jobs(high, ["y", "z"], SEEDS)))
    (one,) = done.comparisons
    assert [task.task_id for task in one.tasks] == ["t:y"] and one.tasks_left_out == 2
    assert "one task: nothing can be said of tasks like it" in lines(done)
    with pytest.raises(ConfigError, match="no task with the same arguments in common"):
        compare(parts_of(tmp_path / "2", jobs(low, ["x"], SEEDS), jobs(high, ["y"], SEEDS)))


def test_the_same_task_with_other_arguments_is_another(tmp_path: Path) -> None:
    rows = [*jobs(low, ["x"], SEEDS, eval_kwargs={"n": 1}), *jobs(low, ["x"], SEEDS, eval_kwargs={"n": 2})]
    done = compare(parts_of(tmp_path, rows, jobs(high, ["x"], SEEDS, eval_kwargs={"n": 2})))
    (task,) = done.comparisons[0].tasks
    assert task.arguments == '{"n":2}' and task.effect.n == 8


def test_without_a_common_seed_nothing_is_paired(tmp_path: Path) -> None:
    done = compare(parts_of(tmp_path, jobs(low, TASKS, range(1, 6)), jobs(high, TASKS, range(11, 15))))
    (one,) = done.comparisons
    assert one.design == "unpaired" and one.tasks[0].effect.n_baseline == 5 and one.tasks[0].effect.n == 4
    assert one.tasks[0].effect.p == 2 / 126 and one.tasks[0].effect.smallest_p == 2 / 126
    told = lines(done)
    assert (
        "NOT PAIRED" in told
        and "without pairs: permutation test of the scores' labels" in told
        and "5 and 4 scores" in told
    )


def test_several_ways_are_matched_by_what_they_have_in_common(tmp_path: Path) -> None:
    def ways(score: Any, model: str) -> list[Results]:
        one = jobs(score, TASKS, SEEDS, model=model)
        return [*one, *jobs(score, TASKS, SEEDS, model=model, trainer_id="P")]

    done = compare(parts_of(tmp_path, ways(low, "small"), ways(high, "large")))
    (one,) = done.comparisons
    assert one.matched_by == ("task", "seed", "trainer") and {task.effect.n for task in one.tasks} == {8}
    assert one.ways == (2, 2) and "n is seeds × 2 configurations (trainer)" in lines(done)
    with pytest.raises(ConfigError, match="several jobs have the same task and seed"):
        compare(parts_of(tmp_path / "2", jobs(low, TASKS, SEEDS, trainer_id="Q"), ways(high, "large")))


# ---------------------------------------------------------------------------------------------------- what may count


def test_failures_are_left_out_counted_and_told_if_they_differ(tmp_path: Path) -> None:
    bad = [failed("x", seed) for seed in (1, 2)] + [failed("y", 3, "provider")]
    rows = [row for row in jobs(high, TASKS, SEEDS) if row.job_id not in {row.job_id for row in bad}]
    parts = parts_of(tmp_path, jobs(low, TASKS, SEEDS), [*rows, *bad])
    done = compare(parts)
    assert [task.effect.n for task in done.comparisons[0].tasks] == [6, 7, 8]
    assert done.parts[1].outcomes == {"ok": 21, "failed": 2, "infrastructure": 1}
    told = lines(done)
    assert "0 of a, 2 of b; that flatters the one that fails more, and --failures-as-worst scores them 0" in told
    assert "failures by boundary of b: 2 candidate:crash, 1 provider:crash" in told
    worst = compare(parts, failures_as_worst=True)
    first, second, _ = worst.comparisons[0].tasks
    assert (first.effect.n, second.effect.n) == (8, 7)  # the provider's is no score of zero
    assert (first.other_mean or 0) == pytest.approx(sum(high("x", seed) for seed in range(3, 9)) / 8)
    with pytest.raises(ConfigError, match="--failures-as-worst: score_test has no worst value"):
        compare(parts, metric="score_test", failures_as_worst=True)


def test_unprotected_jobs_count_only_if_asked_for_or_if_there_are_no_others(tmp_path: Path) -> None:
    mixed = [job("x", seed, 0.5, integrity="unprotected" if seed < 3 else "protected") for seed in SEEDS]
    parts = parts_of(tmp_path, jobs(low, ["x"], SEEDS), mixed)
    done = compare(parts)
    assert done.parts[1].counted == 6 and "2 unprotected jobs are left out" in lines(done)
    asked = compare(parts, unprotected=True)
    assert asked.parts[1].counted == 8 and "UNPROTECTED: 2 jobs" in lines(asked)
    none = {"integrity": "unprotected"}
    only = compare(parts_of(tmp_path / "2", jobs(low, ["x"], SEEDS, **none), jobs(high, ["x"], SEEDS, **none)))
    assert only.parts[0].counted == 8 and "UNPROTECTED: 16 jobs" in lines(only)


def test_a_run_that_is_going_on_is_compared_as_far_as_it_is(tmp_path: Path) -> None:
    rows = jobs(high, TASKS, SEEDS)
    parts = parts_of(tmp_path, jobs(low, TASKS, SEEDS), rows[:10], waiting=rows[10:])
    done = compare(parts)
    assert done.parts[1].outcomes == {"ok": 10, "pending": 14} and done.comparisons[0].warning is None
    assert [task.effect.n for task in done.comparisons[0].tasks] == [8, 2]
    assert "0 of a, 14 of b" in lines(done)
    nothing = compare(parts_of(tmp_path / "2", jobs(low, TASKS, SEEDS), [], waiting=rows))
    assert nothing.comparisons[0].design == "none" and "nothing to compare yet" in lines(nothing)
    cut = [row.model_copy(update={"cut_by_run_budget": True}) for row in rows]
    assert compare(parts_of(tmp_path / "3", jobs(low, TASKS, SEEDS), cut)).parts[1].counted == 0


def test_flagged_jobs_count_and_are_told(tmp_path: Path) -> None:
    rows = jobs(high, TASKS, SEEDS, integrity_flags="claim_differs")
    assert any(
        "24 jobs that count have integrity flags" in note
        for note in notes(compare(parts_of(tmp_path, jobs(low, TASKS, SEEDS), rows)))
    )


def test_huge_and_equal_scores_break_nothing(tmp_path: Path) -> None:
    own: dict[str, Any] = {"metrics_test": {}, "metrics_best": {}}
    sides = [
        [job("x", seed, sign * 1.7e308, **own) for seed in SEEDS] + [job("y", seed, 0.5, **own) for seed in SEEDS]
        for sign in (-1, 1)
    ]
    done = compare(parts_of(tmp_path, *sides))
    (task,) = done.comparisons[0].tasks
    assert task.task_id == "t:y" and done.comparisons[0].beyond == 8 and task.verdict == "tie"
    assert "8 differences are beyond a double" in lines(done) and "every difference is the same" in lines(done)
    told = markdown([summary(done), *sections(done)])
    assert "nan" not in told and "inf" not in told.replace("infrastructure", "")


# ----------------------------------------------------------------------------------------------- what could be found


@pytest.mark.parametrize(("tasks", "pairs", "smallest", "needed"), [(1, 2, "0.125", 3), (3, 3, "0.0312 (0.0938", 4)])
def test_with_few_pairs_it_says_that_nothing_could_be_found(
    tmp_path: Path, tasks: int, pairs: int, smallest: str, needed: int
) -> None:
    sides = jobs(low, TASKS[:tasks], range(pairs)), jobs(high, TASKS[:tasks], range(pairs))
    done = compare(parts_of(tmp_path, *sides))
    (first, *_) = detected(done, done.comparisons[0])
    assert first.startswith(f"{pairs} pairs: the smallest possible p is {smallest}")
    assert first.endswith(f"; no difference on a single task can be significant at 0.05; it takes {needed} pairs")
    for task in done.comparisons[0].tasks:
        assert task.detectable is None and task.interval_adjusted is None and not task.significant


def test_five_pairs_with_a_clear_difference_have_a_verdict_that_their_interval_agrees_with(tmp_path: Path) -> None:
    """As in docs/examples: a difference of 0.31 with an interval of [0.29, 0.34], and twelve tests."""
    gains = {"x": (0.30, 0.29, 0.33, 0.34, 0.31), "y": (0.02, -0.01, 0.05, 0.01, 0.03)}
    others = {f"o{n}": (0.0, 0.01, -0.01, 0.02, -0.02) for n in range(10)}
    base = [job(task, seed, 0.5) for task in gains | others for seed in range(5)]
    other = [job(task, seed, 0.5 + gain[seed]) for task, gain in (gains | others).items() for seed in range(5)]
    done = compare(parts_of(tmp_path, base, other))
    clear, unclear, *_ = done.comparisons[0].tasks
    assert done.tests == 12 and clear.significant and not unclear.significant
    assert clear.interval_adjusted is not None and unclear.interval_adjusted is not None
    assert clear.interval_adjusted[0] > 0.2 and unclear.interval_adjusted[0] < 0
    (table,) = (block for block in summary(done).blocks if not isinstance(block, str))
    shown = {row[1]: row[-3:] for row in table.rows}
    assert shown["t:x"][-1] == "better" and shown["t:y"][-1] == "undecided"


def test_with_more_pairs_it_says_how_large_a_difference_is_found(tmp_path: Path) -> None:
    done = compare(parts_of(tmp_path, jobs(low, ["x"], range(10)), jobs(high, ["x"], range(10))))
    (task,) = done.comparisons[0].tasks
    assert task.detectable is not None and task.effect.se is not None
    assert task.detectable == pytest.approx(3.1496 * task.effect.se, rel=1e-3)  # of ten pairs
    assert "is found with a power of 80%" in lines(done)


def test_many_parts_are_corrected_for_and_keep_their_baseline(tmp_path: Path) -> None:
    sides = [jobs(low, TASKS, SEEDS), jobs(high, TASKS, SEEDS), jobs(high, TASKS, SEEDS, trainer_id="P")]
    done = compare(parts_of(tmp_path, *sides))
    assert done.tests == 6 and [one.baseline for one in done.comparisons] == ["a", "a"]
    first = done.comparisons[0].tasks[0]
    assert first.p_adjusted == pytest.approx(6 * first.effect.p)
    for one in done.comparisons:
        assert one.alike is not None and (one.alike.effect.p, one.alike.p_adjusted) == (0.03125, 0.0625)
        assert one.alike.effect.low is not None and one.alike.interval_adjusted is None
        assert one.these is not None and one.these.p_adjusted == 2 * one.these.p
    assert "after Holm's correction" in lines(done)


# -------------------------------------------------------------------------------------------------------- choosing


def test_parts_are_runs_or_conditions_or_both(tmp_path: Path) -> None:
    rows = [*jobs(low, TASKS, SEEDS), *jobs(high, TASKS, SEEDS, trainer_id="P")]
    one, two = make_experiment(tmp_path, "a", rows), make_experiment(tmp_path, "b", rows)
    noop, search = parse_where("trainer=NoOp"), parse_where("trainer=P")
    assert [part.name for part in choose([one], [noop, search], None, None)] == ["trainer=NoOp", "trainer=P"]
    assert [part.name for part in choose([one, two], [noop], None, None)] == ["a", "b"]
    assert [part.name for part in choose([one, two], [noop, search], None, None)] == ["a trainer=NoOp", "b trainer=P"]
    assert [part.name for part in choose([one], [], "trainer", "P")] == ["trainer=P", "trainer=NoOp"]
    assert [len(part.jobs) for part in choose([one, two], [noop], None, None)] == [24, 24]


@pytest.mark.parametrize(
    ("runs", "wheres", "by", "baseline", "says"),
    [
        (0, [], None, None, "nothing to compare"),
        (1, [], None, None, "needs two parts at least"),
        (1, ["trainer=P"], None, None, "needs two parts at least"),
        (2, ["seed=1", "seed=2", "seed=3"], None, None, "2 runs and 3 times --where do not fit"),
        (2, [], "trainer", None, "--by makes the parts of one run"),
        (1, ["trainer=P"], "trainer", None, "a comparison needs two at least"),
        (1, [], "colour", None, "jobs have no 'colour'"),
        (1, ["trainer=NoOp", "trainer=R"], None, None, "no job is in 'trainer=R'; in a trainer is NoOp, P"),
        (1, ["trainer=*", "trainer=P"], None, None, "24 jobs are in both"),
        (2, [], None, "c", "--baseline: no part has 'c' in its name; the parts are 'a', 'b'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    tmp_path: Path, runs: int, wheres: list[str], by: str | None, baseline: str | None, says: str
) -> None:
    rows = [*jobs(low, TASKS, SEEDS), *jobs(high, TASKS, SEEDS, trainer_id="P")]
    made = [make_experiment(tmp_path, name, rows) for name in "ab"][:runs]
    with pytest.raises(ConfigError, match=says.replace("*", r"\*")):
        choose(made, [parse_where(text) for text in wheres], by, baseline)


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    run = make_experiment(tmp_path, "a", jobs(low, TASKS, SEEDS))
    with pytest.raises(ConfigError, match="24 jobs are in both"):
        choose([run, run], [], None, None)


def test_runs_of_one_id_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    made = [make_experiment(tmp_path / name, "a", jobs(low, TASKS, SEEDS)) for name in ("1", "2")]
    assert [part.name for part in choose(made, [], None, None)] == [str(tmp_path / "1/a"), str(tmp_path / "2/a")]

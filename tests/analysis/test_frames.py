"""Frames of a real run: what its files say, with the same columns and types whatever happened."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import trace_bench
from trace_bench.analysis import frames
from trace_bench.analysis.where import parse_by, parse_where
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError
from trace_bench.execution.result import RunResult


def test_jobs_are_the_rows_of_the_csv(recorded_result: RunResult) -> None:
    jobs = recorded_result.jobs()
    table = pd.read_csv(recorded_result.layout.results_csv, float_precision="round_trip")
    assert len(jobs) == recorded_result.planned == 18
    for column in ("score_initial", "score_best", "score_test", "cost_usd", "total_tokens", "metric_test:normalised"):
        np.testing.assert_array_equal(jobs[column], table[column])
    assert set(jobs["outcome"]) == {"ok"}
    knapsack = jobs[jobs["task_id"] == "llm4ad:optimization/knapsack_construct"]
    assert (knapsack["normalised"] == knapsack["metric_best:gap"]).all() and knapsack["normalised"].notna().all()
    assert jobs.loc[jobs["trainer_id"] == "NoOp", "improvement"].eq(0).all()
    searched = knapsack[knapsack["trainer_id"] == "PrioritySearch"]
    assert (searched["improvement"] > 0).all()


def test_improvement_is_better_when_larger_in_either_direction(recorded_result: RunResult) -> None:
    row = recorded_result.rows[0].model_copy(update={"score_initial": 5.0, "score_best": 3.0})
    down = row.model_copy(update={"score_direction": "minimize"})
    assert list(frames.jobs_frame([row, down])["improvement"]) == [-2.0, 2.0]


def test_an_empty_run_has_all_columns_and_their_types(recorded_result: RunResult) -> None:
    full, empty = recorded_result, RunResult("none", recorded_result.layout, (), 0)
    plain = [c for c in full.jobs().columns if not c.startswith("metric_")]
    assert list(empty.jobs().columns) == plain
    for kind in ("scores", "steps", "calls"):
        some, none = getattr(full, kind)(), getattr(empty, kind)()
        assert list(some.columns) == list(none.columns)
        assert (some.dtypes == none.dtypes).all(), kind


def test_saved_evaluations_are_whole_numbers_beside_jobs_that_have_none(recorded_result: RunResult) -> None:
    row = recorded_result.rows[0]
    rows = [row.model_copy(update={"evaluations_saved": saved}) for saved in (3, None, 0)]
    saved = frames.jobs_frame(rows)["evaluations_saved"]
    assert str(saved.dtype) == "Int64" and saved.isna().tolist() == [False, True, False] and saved.sum() == 3


def test_steps_and_calls_add_up_to_the_rows(recorded_result: RunResult) -> None:
    jobs, steps, calls = recorded_result.jobs(), recorded_result.steps(), recorded_result.calls()
    line_count = sum(
        len(recorded_result.layout.job(row.job_id).state_history.read_text().splitlines())
        for row in recorded_result.rows
    )
    assert len(steps) == line_count and (steps.groupby("job_id")["line"].min() == 1).all()
    spent = calls[calls["reused_from"].isna()].groupby("job_id")["prompt_tokens"].sum()
    metered = jobs.set_index("job_id")["prompt_tokens"]
    assert metered.sum() > 0 and (spent.reindex(metered.index, fill_value=0) == metered).all()
    assert "parameters" in recorded_result.steps(parameters=True) and "parameters" not in steps


def test_scores_are_one_row_each(recorded_result: RunResult) -> None:
    scores = recorded_result.scores()
    assert not scores.duplicated(["job_id", "state", "split", "metric"]).any()
    best = scores[(scores["state"] == "best") & (scores["split"] == "test") & (scores["metric"] == "score")]
    expected = recorded_result.jobs().set_index("job_id")["score_test"].dropna()
    assert (best.set_index("job_id")["value"] == expected).all() and len(best) == len(expected) > 0


def test_a_job_that_did_not_end_well_is_told_apart(recorded_result: RunResult) -> None:
    row = recorded_result.rows[0]
    changes = [
        {"status": "failed", "failure_kind": "train_error", "failure_boundary": "trainer"},
        {"status": "failed", "failure_kind": "sandbox_lost", "failure_boundary": "sandbox"},
        {"stop_reason": "interrupted"},
        {"status": "skipped", "failure_kind": "not_executed"},
    ]
    rows = [row.model_validate({**row.model_dump(), **change}) for change in changes]
    assert list(frames.jobs_frame(rows)["outcome"]) == ["failed", "infrastructure", "interrupted", "skipped"]


def test_a_killed_job_loses_its_unfinished_line(copied: RunLayout) -> None:
    job = next(job for job in copied.job_dirs() if job.state_history.exists())
    whole = len(job.state_history.read_text().splitlines())
    with job.state_history.open("a") as file:
        file.write('{"step": 3, "cand')
    steps = RunResult.read(copied).steps()
    assert len(steps[steps["job_id"] == job.job_id]) == whole


def test_a_run_is_opened_by_name(recorded: RunLayout) -> None:
    for name in (str(recorded.root), "latest", recorded.run_id[:10]):
        found = trace_bench.open_run(name, runs_dir=recorded.root.parent)
        assert found.run_id == recorded.run_id and found.ok
    with pytest.raises(ConfigError, match="there is no run 'nonesuch'"):
        trace_bench.open_run("nonesuch", runs_dir=recorded.root.parent)


def test_a_manifest_with_jobs_that_have_not_run_yet_is_a_part_of_a_result(copied: RunLayout) -> None:
    gone = next(copied.job_dirs())
    gone.results.unlink()
    found = RunResult.read(copied)
    assert len(found.rows) == 17 and found.planned == 18 and not found.ok
    assert json.loads(copied.manifest.read_text())["jobs"]


def test_conditions_choose_jobs(recorded_result: RunResult) -> None:
    jobs = recorded_result.jobs()
    assert len(parse_where("trainer=NoOp").of(jobs)) == 6
    assert len(parse_where("trainer=Pri*|NoOp, seed=1,task=llm4ad:*").of(jobs)) == 3
    assert len(parse_where("seed=3").of(jobs)) == 0
    assert parse_by("task, trainer") == ["task_id", "trainer_id"]
    for text, says in {
        "trainer": "is no condition; write KEY=VALUE",
        "trainer=": "is no condition",
        "trainr=NoOp": "jobs have no 'trainr'; did you mean 'trainer'",
        "seed=1,seed=2": "names seed twice",
    }.items():
        with pytest.raises(ConfigError, match=says):
            parse_where(text)
    with pytest.raises(ConfigError, match="names a key twice"):
        parse_by("task,task")

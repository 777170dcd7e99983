"""How far a run is."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.cli.sample_run import STEP, failed, job, row, skipped
from trace_bench.artifacts.jsonio import finite_number
from trace_bench.cli.tally import Tally, outcome_of
from trace_bench.execution.events import (
    CandidateEvaluated,
    JobFinished,
    JobRetried,
    JobStarted,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_job_that_was_cut_off_is_neither_ok_nor_failed() -> None:
    one = job(1)
    assert outcome_of(row(one, stop_reason="interrupted")) == "interrupted"
    assert outcome_of(failed(one, stop_reason="interrupted")) == "interrupted"
    assert (outcome_of(row(one)), outcome_of(failed(one)), outcome_of(skipped(one))) == ("ok", "failed", "skipped")


def test_jobs_wait_run_and_end() -> None:
    jobs = [job(n) for n in range(4)]
    tally = Tally(jobs, workers=2)
    assert (tally.done, tally.waiting, len(tally.running)) == (0, 4, 0)
    tally.apply(JobFinished(jobs[0], row(jobs[0])))  # reused
    tally.apply(JobStarted(jobs[1]))
    assert (tally.done, tally.waiting, len(tally.running)) == (1, 2, 1)
    tally.apply(JobFinished(jobs[1], failed(jobs[1])))
    tally.apply(JobFinished(jobs[2], skipped(jobs[2])))
    assert (tally.done, tally.waiting, len(tally.running)) == (3, 1, 0)
    assert tally.counts == {"ok": 1, "failed": 1, "interrupted": 0, "skipped": 1}


def test_what_running_jobs_spend_is_counted_once() -> None:
    one, two = job(1), job(2)
    tally = Tally([one, two], workers=2)
    tally.apply(JobStarted(one))
    tally.apply(CandidateEvaluated(one, STEP))
    tally.apply(CandidateEvaluated(one, {**STEP, "prompt_tokens": 200}))
    assert (tally.tokens, tally.cost_usd) == (220, 0.5)
    tally.apply(JobFinished(one, row(one)))
    assert (tally.tokens, tally.cost_usd) == (120, 0.25)


def test_the_rest_is_foretold_from_jobs_that_ran() -> None:
    clock = Clock()
    jobs = [job(n) for n in range(8)]
    tally = Tally(jobs, workers=2, clock=clock)
    tally.apply(JobFinished(jobs[0], row(jobs[0], time_seconds=1000.0)))  # reused: says nothing about the others
    for number_, seconds in ((1, 10.0), (2, 20.0)):
        tally.apply(JobStarted(jobs[number_]))
        clock.now += seconds
        assert tally.eta() is None
        tally.apply(JobFinished(jobs[number_], row(jobs[number_])))
    assert tally.eta() == 5 * 15.0 / 2
    tally.apply(JobStarted(jobs[3]))
    clock.now += 5.0
    assert tally.eta() == (4 * 15.0 + 10.0) / 2
    clock.now += 50.0
    assert tally.eta() == 4 * 15.0 / 2


def test_a_job_that_was_cut_off_foretells_nothing() -> None:
    jobs = [job(n) for n in range(4)]
    tally = Tally(jobs, workers=1)
    for each in jobs[:2]:
        tally.apply(JobStarted(each))
        tally.apply(JobFinished(each, row(each, stop_reason="interrupted")))
    assert tally.eta() is None


@pytest.mark.parametrize(("direction", "best"), [("maximize", 4.0), ("minimize", 1.0)])
def test_the_best_of_a_task_is_an_official_score_in_its_direction(direction: Any, best: float) -> None:
    jobs = [job(n, score_direction=direction) for n in range(5)]
    tally = Tally(jobs, workers=1)
    task = tally.tasks["internal:numeric_param"]
    tally.apply(JobStarted(jobs[4]))
    tally.apply(CandidateEvaluated(jobs[4], {**STEP, "best_score": 100.0 if direction == "maximize" else -100.0}))
    assert task.score is None
    for each, score in zip(jobs, (2.0, 4.0, 1.0), strict=False):
        tally.apply(JobFinished(each, row(each, score_best=score)))
    tally.apply(JobFinished(jobs[3], row(jobs[3], score_best=9.0, stop_reason="interrupted")))
    assert task.score == best and task.row is not None and task.row.score_best == best
    assert (task.done, task.planned) == (3, 5)


def test_another_attempt_begins_without_a_step() -> None:
    one = job(1)
    tally = Tally([one], workers=1)
    tally.apply(JobStarted(one))
    tally.apply(CandidateEvaluated(one, STEP))
    assert tally.running[one.job_id].step == 3
    tally.apply(JobRetried(one, failed(one), 2))
    assert tally.running[one.job_id].step is None and tally.running[one.job_id].best is None


@pytest.mark.parametrize("value", ["1", None, True, math.nan, math.inf, 10**400, [], {}])
def test_what_is_no_number_is_not_taken_for_one(value: object) -> None:
    assert finite_number(value) is None
    one = job(1)
    tally = Tally([one], workers=1)
    tally.apply(JobStarted(one))
    tally.apply(CandidateEvaluated(one, STEP))
    tally.apply(CandidateEvaluated(one, dict.fromkeys(STEP, value)))
    running = tally.running[one.job_id]
    assert (running.step, running.best, running.tokens, running.cost_usd) == (3, -0.25, 0, 0.0)

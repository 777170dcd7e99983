"""Others have been in the runs folder: another controller, an older version, somebody with an editor."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

from tests.execution.bench import Bench, attempts, fingerprints_of_files, read
from tests.execution.supervisor import Script
from trace_bench.execution import start
from trace_bench.execution.attempt_files import keep_attempt
from trace_bench.execution.run import Run
from trace_bench.planning.plan import PlanIsOld, RunPlan

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "run_id": "one"}


def told(plan: RunPlan) -> list[tuple[str, str]]:
    return [(job.decision, job.reason) for job in plan.jobs]


def test_a_plan_is_refused_once_another_controller_has_been_at_work(bench: Bench) -> None:
    ours, theirs = bench.plan(run_id="x"), bench.plan(run_id="x")
    assert Run(theirs).execute().ok
    before = fingerprints_of_files(bench.folder / "runs")
    with pytest.raises(PlanIsOld, match="another controller was at work"):
        Run(ours).execute()
    with pytest.raises(PlanIsOld, match="another controller was at work"):
        start.write_plan(ours)
    assert fingerprints_of_files(bench.folder / "runs") == before and len(bench.backend.created) == 4


def test_an_adoption_is_refused_once_another_controller_has_been_at_work(bench: Bench) -> None:
    plan = bench.records(**ONE)
    bench.sandbox(plan, plan.jobs[0])
    ours = bench.plan(**ONE)
    assert [decision for decision, _ in told(ours)] == ["adopt"]
    result = bench.run(**ONE)
    before = fingerprints_of_files(bench.folder / "runs")
    with pytest.raises(PlanIsOld):
        Run(ours).execute()
    assert result.ok and fingerprints_of_files(bench.folder / "runs") == before


@pytest.mark.parametrize("races", [1, start.RACES])
def test_a_run_is_planned_again_after_another_controller(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, races: int
) -> None:
    monkeypatch.setattr(start, "backend_of", lambda config: bench.backend)
    monkeypatch.setattr(start, "image_source", lambda *args, **kwargs: bench._image)
    monkeypatch.setattr(start, "worker_sources_hash", lambda: bench.sources)
    real, plans = start.plan_complete, []

    def plan_complete(*args: Any, **kwargs: Any) -> RunPlan:
        plans.append(real(*args, **kwargs))
        if len(plans) <= races:
            bench.run(run_id="x", resume="none" if len(plans) > 1 else "auto")
        return plans[-1]

    monkeypatch.setattr(start, "plan_complete", plan_complete)
    config = bench.load(run_id="x")
    if races < start.RACES:
        result = start.run_config(config)
        assert result.ok and len(plans) == races + 1 and len(bench.backend.created) == 4
    else:
        with pytest.raises(PlanIsOld, match="other controllers are at work in it; give another --run-id"):
            start.run_config(config)


def test_resume_failed_goes_on_with_a_job_that_was_cut_off_while_it_was_tried_again(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="sandbox" if number == 1 else "")
    result = bench.run(**ONE)
    keep_attempt(result.layout.job(result.rows[0].job_id))  # and then it was killed
    nameless = {key: value for key, value in ONE.items() if key != "run_id"}
    for plan in (bench.plan(**ONE, resume="failed"), bench.plan(**nameless, resume="failed")):
        assert (plan.run_id, told(plan)) == ("one", [("run", "it was cut off")])
    assert bench.run(**ONE, resume="failed").ok


def test_resume_failed_passes_over_a_newer_run_without_failures(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="candidate")
    first = bench.run()
    assert bench.records().run_id != first.run_id, "planned, and no more than that"
    plan = bench.plan(resume="failed")
    assert (plan.run_id, {decision for decision, _ in told(plan)}) == (first.run_id, {"run"})


@pytest.mark.parametrize("images", [["a"], "abc", {"core": "x"}, {"core": None}, None, 7])
def test_a_lock_of_odd_types_is_passed_over(bench: Bench, images: Any) -> None:
    layout = bench.records(**{**ONE, "run_id": None}).layout
    lock = read(layout.lock)
    odd = layout.root.parent / "odd" / "meta"
    odd.mkdir(parents=True)
    (odd / "lock.json").write_text(json.dumps({**lock, "images": images}))
    os.utime(odd / "lock.json", ns=(2 * 10**18, 2 * 10**18))
    plan = bench.plan(**{**ONE, "run_id": None})
    assert plan.run_id == layout.run_id


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "[]", "7", '{"config_hash": []}', ""])
def test_a_lock_that_is_none_is_passed_over(bench: Bench, content: str) -> None:
    odd = bench.folder / "runs" / "odd" / "meta"
    odd.mkdir(parents=True)
    (odd / "lock.json").write_text(content)
    for resume in ("auto", "none"):
        assert bench.plan(resume=resume).run_id != "odd"


def test_a_result_that_is_a_folder_is_damaged(bench: Bench) -> None:
    (row,) = bench.run(**ONE).rows
    path = bench.plan(**ONE).layout.job(row.job_id).results
    path.unlink()
    path.mkdir()
    assert told(bench.plan(**ONE)) == [("run", "its results.json is damaged")]
    assert bench.plan(**{**ONE, "run_id": None}, resume="failed").run_id == "one"


@pytest.mark.parametrize("names", [["²"], ["٣"], ["x", "-1", "1.5"]])
def test_folders_that_are_no_attempts_are_passed_over(bench: Bench, names: Sequence[str]) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="sandbox" if number == 1 else "")
    (row,) = bench.run(**ONE).rows
    job = bench.plan(**ONE).layout.job(row.job_id)
    for name in names:
        (job.attempts / name).mkdir()
    result = bench.run(**ONE)
    assert result.ok and attempts(result.layout, row.job_id) == [(1, "failed"), (2, "ok")]

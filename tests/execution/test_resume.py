"""What is done about a job because of what an earlier start of its run left, and which run is continued."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.execution.bench import Bench, attempts, entries, fingerprints_of_files, read
from tests.execution.supervisor import Script
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.errors import ConfigError
from trace_bench.planning.plan import RunPlan
from trace_bench.sandbox.base import Host

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "run_id": "one"}
"""A run of one job, that is named."""
EQUAL = "ok, and nothing that determines it has changed"


def fails_first(failure: str) -> Callable[[str, int], Script]:
    return lambda job_id, number: Script(failure=failure if number == 1 else "")


def told(plan: RunPlan) -> tuple[str, str]:
    """The one decision of a plan."""
    (job,) = plan.jobs
    return job.decision, job.reason


# ------------------------------------------------------------------------------------- decisions, by what results say


@pytest.mark.parametrize(
    ("failure", "resume", "decision"),
    [
        ("", "auto", ("reuse", EQUAL)),
        ("", "failed", ("reuse", EQUAL)),
        ("", "none", ("run", "resume is none")),
        ("task", "auto", ("run", "it failed: task: simulated")),
        ("task", "failed", ("run", "it failed: task: simulated")),
        ("task", "none", ("run", "resume is none")),
        ("sandbox", "auto", ("run", "it failed: sandbox: simulated")),
        ("sandbox", "failed", ("run", "it failed: sandbox: simulated")),
        ("provider", "auto", ("run", "it failed: provider: simulated")),
        ("harness", "none", ("run", "resume is none")),
    ],
)
def test_an_ending_decides(bench: Bench, failure: str, resume: str, decision: tuple[str, str]) -> None:
    bench.backend.script = fails_first(failure)
    first = bench.run(**ONE)
    plan = bench.plan(**ONE, resume=resume)
    assert told(plan) == decision
    again = bench.run(**ONE, resume=resume)
    assert again.ok and len(bench.backend.created) == (1 if decision[0] == "reuse" else 2)
    if decision[0] == "reuse":
        assert again.rows == first.rows
    else:
        (entry,) = entries(again.layout).values()
        assert (entry["decision"], entry["decision_reason"], entry["status"]) == (*decision, "ok")
        old = read(again.layout.job(first.rows[0].job_id).attempt(1) / "results.json")
        assert old["failure_boundary"] == (failure or None), "the earlier result is kept as evidence"


@pytest.mark.parametrize("change", ["image", "sources"])
@pytest.mark.parametrize(("resume", "why"), [("auto", "its result is of another task"), ("none", "resume is none")])
def test_a_result_of_other_code_or_another_image_is_not_reused(
    bench: Bench, change: str, resume: str, why: str
) -> None:
    bench.run(**ONE)
    setattr(bench, change, "other")
    decision, reason = told(bench.plan(**ONE, resume=resume))
    assert decision == "run" and reason.startswith(why)


def test_a_job_that_was_cut_off_runs_again(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(ends="hangs" if number == 1 else "done")
    with pytest.raises(KeyboardInterrupt):
        bench.run(stop_wanted=lambda: "interrupted" if bench.backend.created else None, **ONE)
    assert told(bench.plan(**ONE)) == ("run", "it was cut off")
    assert told(bench.plan(**ONE, resume="failed")) == ("run", "it was cut off")
    assert bench.run(**ONE).ok


def test_a_damaged_result_is_made_again(bench: Bench) -> None:
    (row,) = bench.run(**ONE).rows
    bench.plan(**ONE).layout.job(row.job_id).results.write_text('{"run_id": 1')
    assert told(bench.plan(**ONE)) == ("run", "its results.json is damaged")
    assert bench.run(**ONE).rows[0].score_best == row.score_best


def test_a_damaged_record_of_earlier_attempts_stops_nobody(bench: Bench) -> None:
    """It is not flushed to the disk, so that a power cut can leave it empty."""
    bench.backend.script = fails_first("sandbox")
    (row,) = bench.run(**ONE).rows
    job = bench.plan(**ONE).layout.job(row.job_id)
    job.meta.write_bytes(b"")
    result = bench.run(**ONE)
    assert result.ok and attempts(result.layout, row.job_id) == [(2, "ok")]
    assert (job.attempt(1) / "results.json").is_file()


@pytest.mark.parametrize(
    ("resume", "decision"),
    [
        ("auto", ("run", "it has no result yet")),
        ("none", ("run", "it has no result yet")),
        ("failed", ("skip", "it has not run yet, and resume is failed")),
    ],
)
def test_a_job_that_never_ran(bench: Bench, resume: str, decision: tuple[str, str]) -> None:
    bench.records(**ONE)
    assert told(bench.plan(**ONE, resume=resume)) == decision


def test_resume_failed_runs_the_failed_ones_and_no_other(bench: Bench) -> None:
    plan = bench.plan(max_workers=1)
    order = [plan.jobs[i].job_id for i in plan.order]
    bench.backend.script = lambda job_id, number: Script(failure="task" if (job_id, number) == (order[1], 1) else "")
    first = bench.run(max_workers=1, fail_fast=True)
    again = bench.run(max_workers=1, fail_fast=True, resume="failed")
    assert again.run_id == first.run_id
    assert bench.backend.created == [*order[:2], order[1]]
    made = entries(again.layout)
    assert [made[job_id]["decision"] for job_id in order] == ["reuse", "run", "skip", "skip"]
    assert [made[job_id]["status"] for job_id in order] == ["ok", "ok", "not_executed", "not_executed"]
    assert made[order[2]]["reason"] == "it has not run yet, and resume is failed"
    assert bench.run(max_workers=1, fail_fast=True).ok, "auto runs the rest"


def test_resume_failed_without_a_run_is_a_mistake(bench: Bench) -> None:
    with pytest.raises(ConfigError, match=r"resume is failed, but no run of this config below .* has ended"):
        bench.plan(resume="failed")
    bench.records()
    with pytest.raises(ConfigError, match="has ended"):
        bench.plan(resume="failed")


@pytest.mark.parametrize("named", [False, True])
def test_resume_failed_without_a_failure_does_nothing_and_says_so(bench: Bench, named: bool) -> None:
    first = bench.run()
    made = len(bench.backend.created)
    run_id = {"run_id": first.run_id} if named else {}
    plan = bench.plan(resume="failed", **run_id)
    assert f"nothing to do: resume is failed, and no job of run {first.run_id} has failed" in plan.warnings
    before = {path: path.stat().st_mtime_ns for path in first.layout.root.rglob("*")}
    again = bench.run(resume="failed", **run_id)
    assert again.ok and (again.run_id, again.rows) == (first.run_id, first.rows)
    assert len(bench.backend.created) == made and len(bench.runs()) == 1
    assert {path: path.stat().st_mtime_ns for path in first.layout.root.rglob("*")} == before


def test_resume_failed_finds_a_finished_run_with_failures(bench: Bench) -> None:
    bench.backend.script = fails_first("candidate")
    first = bench.run()
    assert read(first.layout.lock)["salt"], "it is finished"
    assert bench.plan().run_id != first.run_id
    again = bench.run(resume="failed")
    assert again.run_id == first.run_id and again.ok


def test_forced_jobs_pay_for_their_calls_again(bench: Bench) -> None:
    bench.run(**ONE)
    (row,) = bench.run(**ONE, resume="none").rows
    job = bench.plan(**ONE).layout.job(row.job_id)
    assert (job.attempt(1) / "llm.jsonl").is_file()
    assert '"attempt":2' in job.cassette.read_text() and '"reused_from":null' in job.cassette.read_text()


# ------------------------------------------------------------------------------------- decisions, by what sandboxes do


@pytest.mark.parametrize(
    ("until", "reason"),
    [
        (None, "its sandbox is running"),
        ("history", "its sandbox is running"),
        ("done", "its sandbox has ended, uncollected"),
    ],
)
@pytest.mark.parametrize("resume", ["auto", "failed"])
def test_a_sandbox_that_has_begun_is_adopted(bench: Bench, until: str | None, reason: str, resume: str) -> None:
    plan = bench.records(**ONE)
    sandbox = bench.sandbox(plan, plan.jobs[0])
    if until:
        bench.converse(plan, plan.jobs[0], sandbox, until=until)
    continued = bench.plan(**ONE, resume=resume)
    assert told(continued) == ("adopt", reason)
    assert dict(continued.adopted) == {plan.jobs[0].job_id: sandbox} and list(continued.leftovers) == []
    result = bench.run(**ONE, resume=resume)
    assert result.ok and len(bench.backend.created) == 1 and bench.backend.alive == 0
    assert result.rows[0].llm_calls == 1


def leftovers(bench: Bench, count: int = 1, **config: Any) -> None:
    """Nobody goes on with `count` sandboxes, and the run removes them."""
    plan = bench.plan(**{**ONE, **config})
    assert len(plan.leftovers) == count
    result = bench.run(**{**ONE, **config})
    assert result.ok and bench.backend.alive == 0


def test_a_sandbox_that_never_began_is_removed(bench: Bench) -> None:
    plan = bench.records(**ONE)
    bench.sandbox(plan, plan.jobs[0], start=False)
    assert told(bench.plan(**ONE)) == ("run", "it was cut off")
    leftovers(bench)
    assert len(bench.backend.created) == 2


def test_of_two_sandboxes_one_is_adopted(bench: Bench) -> None:
    plan = bench.records(**ONE)
    first, second = bench.sandbox(plan, plan.jobs[0]), bench.sandbox(plan, plan.jobs[0])
    continued = bench.plan(**ONE)
    assert (list(continued.adopted.values()), list(continued.leftovers)) == ([first], [second])
    leftovers(bench)
    assert len(bench.backend.created) == 2


def test_of_two_sandboxes_the_one_where_the_job_was_last_is_adopted(bench: Bench) -> None:
    bench.backend.several = (Host("a"), Host("b"))
    plan = bench.records(**ONE)
    left, last = bench.sandbox(plan, plan.jobs[0]), bench.sandbox(plan, plan.jobs[0])
    left.host, last.host = "a", "b"
    was_on(plan, "b")
    continued = bench.plan(**ONE)
    assert (list(continued.adopted.values()), list(continued.leftovers)) == ([last], [left])


def was_on(plan: RunPlan, host: str) -> None:
    meta = plan.layout.job(plan.jobs[0].job_id).meta
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "host": host}))


def test_a_host_that_is_not_among_the_hosts_any_more_is_named_if_jobs_were_under_way_there(bench: Bench) -> None:
    bench.backend.several = (Host("a"), Host("b"))
    plan = bench.records(**ONE)
    sandbox = bench.sandbox(plan, plan.jobs[0])
    sandbox.host = "a"
    was_on(plan, "a")
    assert not bench.plan(**ONE).warnings
    bench.backend.several = (Host("b"),)
    bench.backend.away["a"] = float("inf")
    (warning,) = bench.plan(**ONE).warnings
    assert "under way on host a" in warning and "trace-bench clean --config" in warning
    result = bench.run(**ONE)
    assert result.ok and bench.backend.alive == 1
    bench.backend.away.clear()
    assert not bench.plan(**ONE).warnings


@pytest.mark.parametrize("change", ["image", "sources"])
def test_a_sandbox_for_another_result_is_removed(bench: Bench, change: str) -> None:
    plan = bench.records(**ONE)
    bench.sandbox(plan, plan.jobs[0])
    setattr(bench, change, "other")
    assert told(bench.plan(**ONE))[0] == "run"
    leftovers(bench)
    assert len(bench.backend.created) == 2


def test_a_forced_run_adopts_nothing(bench: Bench) -> None:
    plan = bench.records(**ONE)
    bench.sandbox(plan, plan.jobs[0])
    leftovers(bench, resume="none")
    assert len(bench.backend.created) == 2


def test_a_sandbox_of_a_job_that_is_done_is_removed(bench: Bench) -> None:
    bench.run(**ONE)
    plan = bench.plan(**ONE)
    before = plan.layout.job(plan.jobs[0].job_id).results.read_bytes()
    bench.sandbox(plan, plan.jobs[0])
    assert told(bench.plan(**ONE)) == ("reuse", EQUAL)
    leftovers(bench)
    assert plan.layout.job(plan.jobs[0].job_id).results.read_bytes() == before


def test_a_sandbox_of_a_job_that_is_not_of_the_config_is_removed(bench: Bench) -> None:
    other = bench.plan(**{**ONE, "tasks": ["internal:code_param"], "run_id": "other"})
    bench.records(**ONE)
    bench.sandbox(other, other.jobs[0], run_id="one")
    leftovers(bench)


def test_sandboxes_of_other_runs_and_owners_are_left_alone(bench: Bench) -> None:
    plan = bench.records(**ONE)
    other = bench.sandbox(plan, plan.jobs[0], run_id="another")
    foreign = bench.sandbox(plan, plan.jobs[0])
    foreign.labels["trace-bench.owner"] = "somebody"
    assert bench.plan(**ONE).leftovers == ()
    assert bench.run(**ONE).ok
    assert (other.status(), foreign.status()) == ("running", "running")


# ----------------------------------------------------------------------------------------- which run is continued


def interrupted(bench: Bench, **config: Any) -> str:
    """A run of which one job is done and the others never ran; its id."""
    with pytest.raises(KeyboardInterrupt):
        bench.run(stop_wanted=lambda: "interrupted" if bench.backend.created else None, max_workers=1, **config)
    return bench.runs()[-1].name


def newest(bench: Bench, *ids: str) -> None:
    """Make the locks of these runs younger and younger."""
    for age, run_id in enumerate(ids):
        path = bench.folder / "runs" / run_id / "meta" / "lock.json"
        os.utime(path, ns=(10**18 + age, 10**18 + age))


def test_an_unfinished_run_of_the_config_is_found_and_continued(bench: Bench) -> None:
    run_id = interrupted(bench)
    made = list(bench.backend.created)
    result = bench.run()
    assert result.run_id == run_id and result.ok
    assert bench.backend.removed == len(bench.backend.created)
    assert len(bench.backend.created) == len(made) + sum(
        entry["decision"] == "run" for entry in entries(result.layout).values()
    )
    assert len(bench.runs()) == 1


def test_workers_tags_and_places_do_not_make_it_another_config(bench: Bench) -> None:
    run_id = interrupted(bench)
    assert bench.run(tags=["x"], max_workers=2).run_id == run_id


def test_another_config_has_a_run_of_its_own(bench: Bench) -> None:
    run_id = interrupted(bench)
    assert bench.run(seeds=[2]).run_id != run_id


def test_of_two_unfinished_runs_the_newest_is_continued(bench: Bench) -> None:
    interrupted(bench, run_id="one")
    interrupted(bench, run_id="other")
    for first, last in (("one", "other"), ("other", "one")):
        newest(bench, first, last)
        assert bench.plan().run_id == last


def test_a_finished_run_that_is_named_is_not_touched(bench: Bench) -> None:
    result = bench.run(run_id="one")
    assert result.ok
    before = fingerprints_of_files(bench.folder / "runs")
    again = bench.run(run_id="one")
    assert again.rows == result.rows and again.ok
    assert fingerprints_of_files(bench.folder / "runs") == before
    assert len(bench.backend.created) == 4


def test_a_finished_run_that_is_not_named_is_left_and_a_new_one_made(bench: Bench) -> None:
    first = bench.run()
    before = fingerprints_of_files(first.layout.root)
    second = bench.run()
    assert second.run_id != first.run_id and len(bench.backend.created) == 8
    assert fingerprints_of_files(first.layout.root) == before


def test_a_run_with_a_live_controller_is_passed_over(bench: Bench) -> None:
    run_id = interrupted(bench)
    first = bench.plan()
    assert first.run_id == run_id
    with lock_run(first.layout):
        second = bench.plan()
        assert second.run_id != run_id and not second.continued
        with pytest.raises(ConfigError, match="another controller is running this run"):
            bench.run(run_id=run_id)
    assert bench.plan().run_id == run_id


@pytest.mark.parametrize("change", ["image", "sources"])
def test_an_unfinished_run_of_other_code_or_images_is_left_and_that_is_recorded(bench: Bench, change: str) -> None:
    run_id = interrupted(bench)
    before = fingerprints_of_files(bench.folder / "runs" / run_id)
    setattr(bench, change, "other")
    result = bench.run()
    assert result.run_id != run_id and result.ok
    (warning,) = read(result.layout.manifest)["warnings"]
    assert "unfinished run of this config, but of other code or images" in warning and run_id in warning
    assert fingerprints_of_files(bench.folder / "runs" / run_id) == before


@pytest.mark.parametrize(("change", "what"), [("image", "other images"), ("sources", "other code")])
def test_a_run_that_is_named_is_continued_with_other_code_and_says_so(bench: Bench, change: str, what: str) -> None:
    run_id = interrupted(bench)
    setattr(bench, change, "other")
    result = bench.run(run_id=run_id)
    assert result.run_id == run_id and result.ok
    (warning,) = read(result.layout.manifest)["warnings"]
    assert what in warning


def test_a_run_that_is_named_but_of_another_config_is_refused(bench: Bench) -> None:
    interrupted(bench, run_id="one")
    before = fingerprints_of_files(bench.folder / "runs")
    with pytest.raises(ConfigError, match="made from another config"):
        bench.run(run_id="one", seeds=[7])
    assert fingerprints_of_files(bench.folder / "runs") == before


def test_resume_none_without_a_name_makes_a_new_run(bench: Bench) -> None:
    run_id = interrupted(bench)
    assert bench.plan(resume="none").run_id != run_id


@pytest.mark.parametrize("damage", ["lock", "folder"])
def test_what_is_no_run_is_passed_over(bench: Bench, damage: str) -> None:
    run_id = interrupted(bench)
    if damage == "lock":
        (bench.folder / "runs" / run_id / "meta" / "lock.json").write_text("[1")
    else:
        (bench.folder / "runs" / "notes").mkdir()
        (bench.folder / "runs" / "file").write_text("x")
    plan = bench.plan()
    assert (plan.run_id == run_id) == (damage == "folder")


def decisions(plans: Sequence[RunPlan]) -> list[list[str]]:
    return [[job.decision for job in plan.jobs] for plan in plans]


def test_planning_changes_nothing(bench: Bench) -> None:
    run_id = interrupted(bench)
    before = fingerprints_of_files(bench.folder / "runs")
    one, other = bench.plan(), bench.plan()
    assert one.run_id == other.run_id == run_id
    assert decisions([one]) == decisions([other])
    assert fingerprints_of_files(bench.folder / "runs") == before

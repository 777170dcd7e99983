"""A wish to stop, an engine that goes, a controller that dies: nothing is lost, and nothing is left behind."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.execution.bench import Bench, attempts, entries, journal, read, table
from tests.execution.listening import Listener
from tests.execution.simulated import SimulatedSandbox
from tests.execution.supervisor import Script
from tests.tables import refresh_tables
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cancellation import Cancellation
from trace_bench.errors import ExitCode, Interrupted, TraceBenchError
from trace_bench.execution.cancel import request_cancellation
from trace_bench.execution.events import RunEnded
from trace_bench.execution.run import Run
from trace_bench.execution.run_records import not_executed_for
from trace_bench.execution.session import Connection, Session
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.records.job_states import RunProgress, job_lines
from trace_bench.records.reading import read_manifest, read_rows
from trace_bench.sandbox.base import SandboxRequest
from trace_bench.sandbox.errors import EngineGone, ImageMissing
from trace_bench.sandbox.labels import JOB, sandbox_name

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "run_id": "one"}
HANG = Script(ends="hangs")


class When(Listener):
    """Does something once so many jobs have shown a first candidate."""

    def __init__(self, jobs: int, what: Callable[[], None]) -> None:
        self._left = jobs
        self._what = what

    def candidate_evaluated(self, job: Any, line: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._what()


def statuses(rows: Any) -> list[tuple[str, str | None, str | None]]:
    return [(row.status, row.failure_kind, row.stop_reason) for row in rows]


def tables_are_those_of_the_files(layout: RunLayout) -> bool:
    before = layout.results_csv.read_bytes()
    refresh_tables(layout)
    return layout.results_csv.read_bytes() == before


# ------------------------------------------------------------------------------------------------- wishes to stop


def test_an_interruption_ends_jobs_in_order_and_the_rest_never_runs(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: HANG
    wish: list[str] = []
    with pytest.raises(Interrupted, match=r"0 of 4 jobs have finished; the same command continues the run"):
        bench.run(When(2, lambda: wish.append("interrupted")), lambda: wish[0] if wish else None, max_workers=2)
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 0 and len(bench.backend.created) == 2
    rows = read_rows(layout)
    assert sorted(statuses(rows), key=str) == [
        ("ok", None, "interrupted"), ("ok", None, "interrupted"),
        ("skipped", "not_executed", None), ("skipped", "not_executed", None),
    ]  # fmt: skip
    assert all(row.score_best is not None for row in rows if row.status == "ok"), "what was found is scored"
    assert {row["feedback"] for row in table(layout) if row["status"] == "skipped"} == {"interrupted before its turn"}
    assert tables_are_those_of_the_files(layout)
    assert read(layout.summary)["counts"] == {"ok": 0, "failed": 0, "interrupted": 2, "skipped": 2}
    journal = [json.loads(line) for line in layout.events.read_text().splitlines()]
    ends = [(line["status"], line["stop_reason"]) for line in journal if line["event"] == "job.end"]
    assert ends == [("ok", "interrupted")] * 2
    assert {k: journal[-1][k] for k in ("event", "jobs", "finished", "interrupted")} == {
        "event": "run.end", "jobs": 4, "finished": 0, "interrupted": 2,
    }  # fmt: skip
    bench.backend.script = lambda job_id, number: Script()
    result = bench.run()
    assert result.ok and result.run_id == layout.run_id


def test_a_wish_that_comes_when_all_jobs_have_ended_changes_nothing(bench: Bench) -> None:
    asked: list[int] = []

    def stop_wanted() -> str | None:
        ended = len(run._records.rows) == 2
        asked.extend([1] * ended)
        return "interrupted" if ended else None

    run = Run(bench.plan(**ONE | {"seeds": [1, 2]}), stop=Cancellation(stop_wanted))
    result = run.execute()
    assert asked and result.ok and statuses(result.rows) == [("ok", None, "completed")] * 2
    assert "exit_code" not in journal(result.layout)[-1] and not result.layout.salt.exists(), "the run is finished"


def test_a_kill_ends_jobs_at_once_and_keeps_what_they_had(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: HANG
    wish: list[str] = []
    with pytest.raises(Interrupted):
        bench.run(When(4, lambda: wish.append("kill")), lambda: wish[0] if wish else None)
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 0
    rows = read_rows(layout)
    assert statuses(rows) == [("failed", "interrupted", "interrupted")] * 4
    for row in rows:
        assert row.score_best is None and (layout.root / str(row.state_history_path)).stat().st_size
        assert attempts(layout, row.job_id) == [(1, "interrupted")]
    assert tables_are_those_of_the_files(layout)
    assert {entry["status"] for entry in entries(layout).values()} == {"failed"}
    bench.backend.script = lambda job_id, number: Script()
    assert bench.run().ok


def test_a_kill_after_a_polite_word_is_heard(bench: Bench) -> None:
    """The sandbox does not heed the polite one."""
    bench.backend.script = lambda job_id, number: Script(seconds=600)
    plan = bench.records(**ONE)
    planned = plan.jobs[0]
    sandbox = bench.sandbox(plan, planned)
    sandbox.supervisor.stop = lambda reason: None  # type: ignore[method-assign]
    job_plan = plan.prepare(planned)
    polite = time.monotonic()
    with Gateway({"stub": StubProvider()}).open(
        planned.job_id, 1, job_plan.spec.model, plan.layout.job(planned.job_id).cassette
    ) as scope:
        session = Session(
            connection=Connection(sandbox.attach(), 60.0), handler=scope,
                job=job_plan.spec.model_dump(mode="json"), task=b"", test_seed=1,
            stop=Cancellation(lambda: "interrupted" if time.monotonic() < polite + 0.5 else "kill"),
        )  # fmt: skip
        with pytest.raises(Interrupted):
            session.run()


def test_a_run_is_cancelled_through_its_folder(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: HANG
    with pytest.raises(Interrupted):
        bench.run(When(2, lambda: request_cancellation(RunLayout(bench.runs()[0]))), max_workers=2)
    layout = RunLayout(bench.runs()[0])
    assert [row.stop_reason for row in read_rows(layout) if row.status == "ok"] == ["interrupted"] * 2
    assert not layout.cancel.exists(), "the wish was for the controller that was at work"
    assert {row["feedback"] for row in table(layout) if row["status"] == "skipped"} == {"cancelled"}
    bench.backend.script = lambda job_id, number: Script()
    assert bench.run().ok


@pytest.mark.parametrize("kill", [False, True])
def test_a_running_job_is_cancelled_and_the_others_go_on(bench: Bench, kill: bool) -> None:
    plan = bench.plan(run_id="one")
    victim = plan.jobs[2].job_id
    bench.backend.script = lambda job_id, number: HANG if job_id == victim else Script(seconds=0.2)

    class Cancel(Listener):
        def candidate_evaluated(self, job: Any, line: Any) -> None:
            if job.job_id == victim:
                request_cancellation(plan.layout, [victim], kill=kill)

    result = bench.run(Cancel(), run_id="one", retries=2)
    assert not result.ok and bench.backend.created.count(victim) == 1
    rows = {row.job_id: row for row in result.rows}
    assert rows[victim].stop_reason == "interrupted"
    assert rows[victim].status == ("failed" if kill else "ok")
    assert {row.status for job_id, row in rows.items() if job_id != victim} == {"ok"}
    assert read(result.layout.lock)["salt"] is None
    bench.backend.script = lambda job_id, number: Script()
    again = bench.run(run_id="one", retries=2)
    assert again.ok and len(bench.backend.created) == 5


def test_a_waiting_job_that_is_cancelled_never_starts(bench: Bench) -> None:
    plan = bench.plan(run_id="one", max_workers=1)
    order = [plan.jobs[i].job_id for i in plan.order]
    bench.backend.script = lambda job_id, number: Script(seconds=0.05)
    cancel = When(1, lambda: request_cancellation(plan.layout, [order[-1]]))
    result = bench.run(cancel, run_id="one", max_workers=1)
    assert bench.backend.created == order[:-1]
    assert entries(result.layout)[order[-1]]["status"] == "not_executed"
    assert entries(result.layout)[order[-1]]["reason"] == "cancelled"
    assert [row.status for row in result.rows if row.job_id != order[-1]] == ["ok"] * 3
    assert bench.run(run_id="one", max_workers=1).ok


def test_a_job_that_is_cancelled_as_it_waits_for_its_start_is_cancelled_and_not_interrupted(bench: Bench) -> None:
    bench.backend.cpus = 1
    config: dict[str, Any] = {**ONE, "seeds": [1, 2]}
    bench.backend.script = lambda job_id, number: Script(starting=1.0)
    plan = bench.plan(**config)

    def cancel_the_other(request: Any) -> None:
        request_cancellation(plan.layout, {job.job_id for job in plan.jobs} - {request.labels[JOB]})

    bench.backend.on_create = cancel_the_other
    result = bench.run(**config)
    assert len(bench.backend.created) == 1
    (other,) = {job.job_id for job in plan.jobs} - set(bench.backend.created)
    assert entries(result.layout)[other]["reason"] == "cancelled"
    manifest = read_manifest(result.layout)
    assert manifest is not None
    lines = job_lines(result.layout, manifest, RunProgress.of(result.layout), running=False)
    assert {line.entry.job_id: line.state for line in lines}[other] == "skipped"


def test_wishes_add_up(bench: Bench) -> None:
    layout = bench.records(**ONE).layout
    request_cancellation(layout, ["a"])
    request_cancellation(layout, ["b"])
    assert read(layout.cancel) == {"run": None, "jobs": {"a": "interrupted", "b": "interrupted"}}
    request_cancellation(layout, ["a"], kill=True)
    request_cancellation(layout, ["a"])
    assert read(layout.cancel) == {"run": None, "jobs": {"a": "kill", "b": "interrupted"}}
    request_cancellation(layout)
    assert read(layout.cancel) == {"run": "interrupted", "jobs": {"a": "kill", "b": "interrupted"}}


def test_a_wish_for_an_earlier_controller_is_forgotten(bench: Bench) -> None:
    layout = bench.records(**ONE).layout
    request_cancellation(layout)
    assert bench.run(**ONE).ok


# ------------------------------------------------------------------------------------------------------- outages


def test_jobs_wait_for_an_engine_that_has_gone(bench: Bench) -> None:
    plan = bench.plan(run_id="one")
    unlucky = plan.jobs[0].job_id
    bench.backend.script = lambda job_id, number: Script(
        seconds=0.05, outage=0.2 if (job_id, number) == (unlucky, 1) else 0.0
    )
    result = bench.run(run_id="one", retries=1)
    assert result.ok and bench.backend.alive == 0, "what could not be removed then is removed later"
    assert attempts(result.layout, unlucky) == [(1, "failed"), (2, "ok")]
    kept = read(result.layout.job(unlucky).attempt(1) / "results.json")
    assert (kept["failure_boundary"], kept["failure_kind"]) == ("sandbox", "engine_gone")
    assert len(result.layout.job(unlucky).cassette.read_text().splitlines()) == 2
    assert {row.llm_calls for row in result.rows} == {1}


class Ending(Listener):
    """Hears the end."""

    def run_ended(self, run: RunEnded) -> None:
        self.end = run


def test_a_sandbox_that_cannot_be_removed_even_at_last_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may cost by the hour."""

    def remove(sandbox: SimulatedSandbox) -> None:
        raise EngineGone("no answer")

    monkeypatch.setattr(SimulatedSandbox, "remove", remove)
    ending = Ending()
    result = bench.run(ending, **ONE)
    (name,) = ending.end.left
    assert result.ok and name == sandbox_name("one", result.rows[0].job_id)
    (left,) = (line for line in journal(result.layout) if line["event"] == "sandbox.left")
    assert (left["job_id"], left["sandbox"], left["message"]) == (result.rows[0].job_id, name, "no answer")


def test_jobs_of_a_run_with_the_longest_name_have_sandboxes_of_their_own(bench: Bench) -> None:
    names: list[str] = []
    bench.backend.on_create = lambda request: names.append(request.name)
    result = bench.run(run_id="r" * 128)
    assert result.ok and len(set(names)) == len(names) == len(result.rows) > 1


def test_an_engine_that_stays_away_ends_the_run_and_everything_is_recorded(bench: Bench) -> None:
    plan = bench.plan(max_workers=2, seeds=[1, 2])
    order = [plan.jobs[i].job_id for i in plan.order]
    bench.backend.script = lambda job_id, number: Script(outage=3600 if job_id == order[3] else 0.0)
    with pytest.raises(EngineGone) as caught:
        bench.run(max_workers=2, seeds=[1, 2])
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    layout = RunLayout(bench.runs()[0])
    rows = {row["job_id"]: row for row in table(layout)}
    assert len(rows) == 8
    assert rows[order[3]]["failure_kind"] == "engine_gone"
    assert rows[order[0]]["status"] == rows[order[1]]["status"] == "ok"
    assert {rows[job_id]["status"] for job_id in order[6:]} == {"skipped"}
    assert entries(layout)[order[-1]]["reason"] == "the run ended: EngineGone"
    assert tables_are_those_of_the_files(layout)
    assert read(layout.lock)["salt"] is None

    bench.backend.gone_until = 0.0
    bench.backend.script = lambda job_id, number: Script()
    result = bench.run(max_workers=2, seeds=[1, 2])
    assert result.run_id == layout.run_id and result.ok
    assert bench.backend.alive == 0, "what the engine still had is removed"


def test_an_outage_can_be_interrupted(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(outage=3600)

    def stop_wanted() -> str | None:
        began = bench.backend.gone_until - 3600  # below 0 until the engine is gone
        return "interrupted" if 0 < began + 0.3 < time.monotonic() else None

    with pytest.raises(Interrupted, match="while the engine was gone"):
        bench.run(stop_wanted=stop_wanted, **ONE)
    layout = RunLayout(bench.runs()[0])
    assert [row["failure_kind"] for row in table(layout)] == ["engine_gone"]
    assert tables_are_those_of_the_files(layout)


def test_what_all_jobs_lack_ends_the_run_and_is_recorded(bench: Bench) -> None:
    plan = bench.plan(max_workers=1)
    order = [plan.jobs[i].job_id for i in plan.order]

    def refuse(request: SandboxRequest) -> None:
        if request.labels[JOB] == order[1]:
            raise ImageMissing("the image is not there; build it")

    bench.backend.on_create = refuse
    with pytest.raises(TraceBenchError) as caught:
        bench.run(max_workers=1)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    layout = RunLayout(bench.runs()[0])
    rows = {row["job_id"]: (row["status"], row["failure_kind"]) for row in table(layout)}
    assert rows[order[0]] == ("ok", "") and rows[order[1]] == ("failed", "image_missing")
    assert rows[order[2]] == ("skipped", "not_executed")
    assert tables_are_those_of_the_files(layout)


# ------------------------------------------------------------------------------------------------------ adoption


@pytest.mark.parametrize("until", ["", "job.start", "build.end", "history", "train.end", "done"])
def test_a_job_goes_on_wherever_its_controller_died(bench: Bench, until: str) -> None:
    """Nothing said means: the sandbox never got the job, and says so in its hello (``received: 0``)."""
    plan = bench.records(**ONE)
    planned = plan.jobs[0]
    sandbox = bench.sandbox(plan, planned)
    if until:
        bench.converse(plan, planned, sandbox, until=until)
    heard: list[bool] = []

    class Adopted(Listener):
        def job_started(self, job: Any, adopted: bool, *_: Any) -> None:
            heard.append(adopted)

    result = bench.run(Adopted(), **ONE)
    assert (result.ok, heard, bench.backend.created) == (True, [True], [planned.job_id])
    (row,) = result.rows
    calls = result.layout.job(row.job_id).cassette.read_text().splitlines()
    assert (row.llm_calls, len([c for c in calls if '"reused_from":null' in c])) == (1, 1), "no call is paid twice"
    assert sandbox.status() == "removed"


def test_adopted_jobs_go_first(bench: Bench) -> None:
    """Their leases run out."""
    plan = bench.records(max_workers=1, run_id="one")
    last = plan.jobs[plan.order[-1]]
    bench.sandbox(plan, last)
    begun: list[str] = []

    class Started(Listener):
        def job_started(self, job: Any, adopted: bool, *_: Any) -> None:
            begun.append(job.job_id)

    assert bench.run(Started(), max_workers=1, run_id="one").ok
    assert begun[0] == last.job_id


def test_half_a_search_that_nobody_asked_for_is_made_again(bench: Bench) -> None:
    """The sandbox was stopped from outside and has ended in order: its result says ``interrupted``."""
    bench.backend.script = lambda job_id, number: HANG if number == 1 else Script()
    plan = bench.records(**ONE)
    planned = plan.jobs[0]
    sandbox = bench.sandbox(plan, planned)
    bench.converse(plan, planned, sandbox, until="history")
    sandbox.interrupt()
    result = bench.run(**ONE)
    assert result.ok and bench.backend.created == [planned.job_id] * 2
    assert [status for _, status in attempts(result.layout, planned.job_id)] == ["ok", "ok"]


def test_a_stop_that_is_wanted_while_a_job_is_adopted_is_passed_on(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: HANG
    plan = bench.records(**ONE)
    planned = plan.jobs[0]
    sandbox = bench.sandbox(plan, planned)
    bench.converse(plan, planned, sandbox, until="history")
    job_plan = plan.prepare(planned)
    with Gateway({"stub": StubProvider()}).open(
        planned.job_id, 1, job_plan.spec.model, plan.layout.job(planned.job_id).cassette
    ) as scope:
        session = Session(
            connection=Connection(sandbox.attach(), 60.0), handler=scope,
                job=job_plan.spec.model_dump(mode="json"), task=job_plan.task,
            test_seed=1, stop=Cancellation(lambda: "interrupted"),
        )  # fmt: skip
        watchdog = threading.Timer(10, sandbox.kill)
        watchdog.start()
        result = session.run(adopt=True)
        watchdog.cancel()
    assert result["stop_reason"] == "interrupted"


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (None, "the run ended before its turn"),
        (OSError(errno.ENOSPC, "No space left on device"), "the run ended: No space left on device"),
        (KeyboardInterrupt(), "the run ended: KeyboardInterrupt"),
    ],
)
def test_a_job_without_a_turn_says_what_ended_the_run(failure: BaseException | None, words: str) -> None:
    assert not_executed_for(failure) == words

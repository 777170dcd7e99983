"""Things out of order: an error of the controller itself, Ctrl-C without a handler, an engine that comes and goes,
lines that no file can hold, wishes that come together."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from tests.execution.bench import Bench, attempts, entries, read, table
from tests.execution.listening import Listener
from tests.execution.simulated import SimulatedSandbox
from tests.execution.supervisor import Script, Supervisor
from tests.execution.test_interruptions import When, tables_are_those_of_the_files
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import Interrupted, SandboxError
from trace_bench.execution import cancel
from trace_bench.execution.cancel import request_cancellation
from trace_bench.execution.events import ignore
from trace_bench.execution.session import SandboxGone, Session
from trace_bench.records.tables import LiveTables
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.labels import UID_BASE
from trace_bench.sandbox.uids import UidBlocks

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "run_id": "one"}
HANG = Script(ends="hangs")
LONG = Script(seconds=8.0)
"""For what must not make a test hang, if it is not ended."""


def press_ctrl_c() -> None:
    time.sleep(0.1)  # nobody is so quick that the job's thread has hardly started
    os.kill(os.getpid(), signal.SIGINT)


# --------------------------------------------------------------------------------------- tables of a continued run


@pytest.mark.parametrize("stop", ["interrupted", "fail_fast"])
@pytest.mark.parametrize("before", ["failed", "of other code"])
def test_tables_of_a_continued_run_are_those_of_the_files(bench: Bench, before: str, stop: str) -> None:
    """What an earlier start left counts only if it is of today's fingerprint."""
    config: dict[str, Any] = {"run_id": "x", "fail_fast": stop == "fail_fast"}
    bench.backend.script = lambda job_id, number: Script(failure="sandbox" if before == "failed" else "")
    layout = bench.run(**config).layout
    bench.sources = "s" if before == "failed" else "other"
    bench.backend.script = lambda job_id, number: HANG if stop == "interrupted" else Script(failure="task")
    wish: list[str] = []
    config["max_workers"] = 1
    if stop == "interrupted":
        with pytest.raises(Interrupted):
            bench.run(When(1, lambda: wish.append(stop)), lambda: wish[0] if wish else None, **config)
    else:
        bench.run(**config)
    assert tables_are_those_of_the_files(layout)
    new = "ok" if stop == "interrupted" else "failed"
    old = "failed" if before == "failed" else "skipped"
    assert sorted(row["status"] for row in table(layout)) == sorted([new, old, old, old])
    statuses = {"skipped": "not_executed"}
    for row in table(layout):
        assert entries(layout)[row["job_id"]]["status"] == statuses.get(row["status"], row["status"])


# ------------------------------------------------------------------------------- what breaks the controller itself


def test_an_error_of_the_controller_ends_jobs_in_order_and_they_count(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = RunLayout(bench.folder / "runs" / "x")
    first = bench.plan(run_id="x").jobs[0].job_id
    bench.backend.script = lambda job_id, number: Script() if job_id == first else LONG
    real_remove, locked = SimulatedSandbox.remove, []
    real_write, writes = LiveTables.write, []

    def remove(sandbox: SimulatedSandbox) -> None:
        end = time.monotonic() + 30
        while bench.backend.most_alive < 4 and time.monotonic() < end:  # the first job ends once all have begun
            time.sleep(0.01)
        locked.append(has_controller(layout))
        real_remove(sandbox)

    def write(self: LiveTables) -> None:
        writes.append(1)
        if len(writes) == 1:
            raise OSError("no space left")
        real_write(self)

    monkeypatch.setattr(LiveTables, "write", write)
    monkeypatch.setattr(SimulatedSandbox, "remove", remove)
    with pytest.raises(OSError, match="no space left"):
        bench.run(run_id="x")
    assert locked == [True] * 4, "the folder is locked as long as jobs are at work"
    assert bench.backend.alive == 0 and not has_controller(layout)
    assert [row["status"] for row in table(layout)] == ["ok"] * 4
    assert sorted(row["stop_reason"] for row in table(layout)) == ["completed"] + ["interrupted"] * 3
    assert all(row["score_best"] for row in table(layout)) and tables_are_those_of_the_files(layout)


def test_ctrl_c_without_a_handler_ends_jobs_in_order(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: LONG
    with pytest.raises(Interrupted, match="0 of 4 jobs have finished; the same command continues the run"):
        bench.run(When(1, press_ctrl_c), max_workers=1)
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 0 and not has_controller(layout)
    assert sorted((row["status"], row["stop_reason"]) for row in table(layout)) == [
        ("ok", "interrupted"), ("skipped", ""), ("skipped", ""), ("skipped", ""),
    ]  # fmt: skip
    assert tables_are_those_of_the_files(layout)


def test_ctrl_c_while_a_job_starts_ends_that_job_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is there, and the pool does not know it yet."""
    bench.backend.script = lambda job_id, number: LONG
    real, pressed = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        real(thread)
        if thread.name.startswith("job") and not pressed:
            pressed.append(1)
            while bench.backend.alive == 0:
                time.sleep(0.01)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(Interrupted):
        bench.run(**ONE)
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 0 and not has_controller(layout)
    assert [(row["status"], row["stop_reason"]) for row in table(layout)] == [("ok", "interrupted")]
    assert tables_are_those_of_the_files(layout)


def test_a_second_ctrl_c_without_a_handler_kills(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.backend.script = lambda job_id, number: LONG
    # It does not heed the polite word, and the user sees that.
    monkeypatch.setattr(Supervisor, "stop", lambda self, reason: press_ctrl_c())
    with pytest.raises(Interrupted):
        bench.run(When(1, press_ctrl_c), **ONE)
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 0 and not has_controller(layout)
    (row,) = table(layout)
    assert (row["status"], row["failure_kind"], row["stop_reason"]) == ("failed", "interrupted", "interrupted")
    assert tables_are_those_of_the_files(layout)


# ------------------------------------------------------------------------------------------- sandboxes and engines


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("error", [SandboxError("removal is in progress already"), EngineGone("it restarts")])
def test_a_sandbox_that_cannot_be_removed_at_once_does_no_harm_to_its_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: SandboxError, retries: int
) -> None:
    real, tries = SimulatedSandbox.remove, []

    def remove(sandbox: SimulatedSandbox) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise error
        real(sandbox)

    monkeypatch.setattr(SimulatedSandbox, "remove", remove)
    result = bench.run(**ONE, retries=retries)
    assert result.ok and len(bench.backend.created) == 1
    assert attempts(result.layout, result.rows[0].job_id) == [(1, "ok")]
    assert (len(tries), bench.backend.alive) == (2, 0), "it is tried again at the end"


def test_a_stream_that_breaks_after_the_last_word_does_no_harm(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Session._on_message

    def on_message(self: Session, message: Any) -> Any:
        if message.type == "done":
            raise SandboxGone("the connection broke")
        return real(self, message)

    monkeypatch.setattr(Session, "_on_message", on_message)
    result = bench.run(**ONE, retries=1)
    assert result.ok and len(bench.backend.created) == 1 and bench.backend.alive == 0


def test_an_engine_that_goes_again_while_it_is_cleared_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.backend.script = lambda job_id, number: Script(outage=0.2 if number == 1 else 0.0)
    real, tries = SimulatedSandbox.remove, []

    def remove(sandbox: SimulatedSandbox) -> None:
        sandbox._backend.answer()
        tries.append(1)
        if len(tries) == 1:
            raise EngineGone("gone again, for an instant")
        real(sandbox)

    monkeypatch.setattr(SimulatedSandbox, "remove", remove)
    result = bench.run(**ONE, retries=1)
    assert result.ok and bench.backend.alive == 0
    assert attempts(result.layout, result.rows[0].job_id) == [(1, "failed"), (2, "ok")]


def test_an_orphan_is_adopted_though_its_uids_have_been_given_away(bench: Bench) -> None:
    """Another controller looked before the orphan was made, and took the block when its controller had died."""
    plan = bench.records(**ONE)
    sandbox = bench.sandbox(plan, plan.jobs[0])
    bench.converse(plan, plan.jobs[0], sandbox, until="history")
    with UidBlocks(bench.backend.default_uid_base).adopt(int(sandbox.labels[UID_BASE])):
        result = bench.run(**ONE)
    assert result.ok and len(bench.backend.created) == 1
    assert attempts(result.layout, plan.jobs[0].job_id)[-1][1] == "ok" and bench.backend.alive == 0


def test_jobs_that_wait_for_their_start_never_begin_after_ctrl_c(bench: Bench) -> None:
    bench.backend.cpus = 1
    bench.backend.script = lambda job_id, number: Script(starting=0.05, ends="hangs")
    bench.backend.on_create = lambda request: wish.append("interrupted") if bench.backend.created else None
    wish: list[str] = []
    with pytest.raises(Interrupted):
        bench.run(ignore, lambda: wish[0] if wish else None, run_id="x", seeds=[1, 2, 3], max_workers=40)
    layout = RunLayout(bench.runs()[0])
    assert len(bench.backend.created) == 2 and len(list(layout.jobs.iterdir())) == 2
    rows = [(row["status"], row["feedback"]) for row in table(layout) if row["stop_reason"] != "interrupted"]
    assert rows == [("skipped", "interrupted before its turn")] * 10
    assert tables_are_those_of_the_files(layout)


def test_an_attempt_without_files_does_not_show_those_of_an_earlier_one(bench: Bench) -> None:
    (row,) = bench.run(**ONE).rows
    assert row.best_state_path and row.state_history_path and row.score_best is not None
    bench.sources = "other"

    def refuse(request: Any) -> None:
        raise SandboxError("it could not be made")

    bench.backend.on_create = refuse
    (row,) = bench.run(**ONE).rows
    assert (row.status, row.score_best, row.best_state_path, row.state_history_path) == ("failed", None, None, None)
    job = bench.plan(**ONE).layout.job(row.job_id)
    assert [p for p in job.artifacts.rglob("*") if p.is_file()] == []
    assert read(job.attempt(1) / "results.json")["status"] == "ok", "they are kept with that attempt"


# ------------------------------------------------------------------------------------------------ what streams bring

LINE = {
    "step": 0, "candidate": "c", "split": "validate", "score": 1.0, "best_score": 1.0, "seconds": 0.0, "evaluations": 1,
}  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "line",
    [
        {**LINE, "parameters": {"x": "\ud800"}},
        {**LINE, "candidate": "c\ud800", "parameters": {"x": "a"}},
        {**LINE, "parameters": {"x": nested(900)}},
        {**LINE, "step": 10**400, "parameters": {"x": 10**400}},
        {"anything": 1},
        {},
    ],
    ids=["half a pair", "half a pair in a name", "deep", "large", "no history", "empty"],
)
def test_a_line_that_no_file_can_hold_ends_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, line: dict[str, Any]
) -> None:
    real = Supervisor._told

    def say(self: Supervisor, step: int, score: float) -> None:
        self._send("history", line=line)
        self._send("log", phase="train\ud800", text="\ud800")
        real(self, step, score)

    monkeypatch.setattr(Supervisor, "_told", say)
    result = bench.run(**ONE)
    assert result.ok and bench.backend.alive == 0


# ------------------------------------------------------------------------------------------------------------ wishes


def test_a_job_that_is_to_end_in_order_is_not_killed_because_another_was(bench: Bench) -> None:
    plan = bench.plan(run_id="x")
    killed, asked = plan.jobs[0].job_id, plan.jobs[1].job_id
    bench.backend.script = lambda job_id, number: HANG if job_id in (killed, asked) else Script()

    class Wishes(Listener):
        def candidate_evaluated(self, job: Any, line: Any) -> None:
            if job.job_id == killed:
                request_cancellation(plan.layout, [killed], kill=True)

        def job_finished(self, job: Any, row: Any) -> None:
            if job.job_id == killed:
                request_cancellation(plan.layout, [asked])

    rows = {row.job_id: row for row in bench.run(Wishes(), run_id="x").rows}
    assert (rows[killed].status, rows[killed].failure_kind) == ("failed", "interrupted")
    assert (rows[asked].status, rows[asked].stop_reason) == ("ok", "interrupted")
    assert rows[asked].score_best is not None


def test_a_wish_that_cannot_be_read_changes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system that hiccups."""
    real, reads = cancel._read, []

    def denied(layout: RunLayout) -> Any:
        reads.append(1)
        if len(reads) == 1:
            return real(layout)
        raise PermissionError(13, "Permission denied", str(layout.cancel))

    monkeypatch.setattr(cancel, "_read", denied)
    bench.backend.script = lambda job_id, number: Script(seconds=0.1)
    assert bench.run().ok and len(reads) > 1

"""What a run writes: before its first job, while it goes on, and at its end."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, attempts, entries, fingerprints_of_files, journal, read, table
from tests.execution.listening import Listener
from tests.execution.supervisor import Script, scores_of
from tests.tables import refresh_tables
from trace_bench.artifacts import schema
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Manifest
from trace_bench.execution import start
from trace_bench.records import tables
from trace_bench.records.reading import read_manifest


def sampled(bench: Bench, look: Callable[[RunLayout], Any]) -> list[Any]:
    """What `look` finds in the run's folder when each of its sandboxes is made."""
    found: list[Any] = []
    lock = threading.Lock()

    def on_create(request: Any) -> None:
        with lock:
            found.append(look(RunLayout(bench.runs()[-1])))

    bench.backend.on_create = on_create
    return found


# ------------------------------------------------------------------------------------------ before the first job


def test_the_manifest_is_there_before_the_first_job_starts(bench: Bench) -> None:
    found = sampled(bench, read_manifest)
    plan = bench.plan(seeds=[1, 2], tags=["a", "b"])
    result = bench.run(seeds=[1, 2], tags=["a", "b"])
    first: Manifest = found[0]
    assert (first.run_id, first.config_hash, first.tags) == (result.run_id, plan.config_hash, ("a", "b"))
    assert [entry.job_id for entry in first.jobs] == [job.job_id for job in plan.jobs]
    for entry, planned in zip(first.jobs, plan.jobs, strict=True):
        job = planned.job
        assert (entry.task_id, entry.trainer_id, entry.variant, entry.seed) == (
            job.task_id, job.trainer_id, job.variant.label, job.seed,
        )  # fmt: skip
        assert (entry.fingerprint, entry.integrity, entry.score_direction) == (
            planned.fingerprint, "protected", planned.score_direction,
        )  # fmt: skip
        assert (entry.decision, entry.decision_reason, entry.status) == ("run", "it has no result yet", None)
        assert entry.resolved_trainer_kwargs == dict(job.params) and entry.raw_params == dict(job.raw_params)
    assert {entry.task_id for entry in first.jobs} == {"internal:numeric_param", "internal:code_param"}


def test_every_record_is_there_before_the_first_job_starts_and_fits_its_schema(bench: Bench) -> None:
    def look(layout: RunLayout) -> list[str]:
        for name, path in (("manifest", layout.manifest), ("lock", layout.lock), ("env", layout.env)):
            schema.validate(name, read(path))
        assert read(layout.lock)["salt"] is None
        assert layout.salt.stat().st_mode & 0o777 == 0o600
        return sorted(path.name for path in layout.meta.iterdir())

    found = sampled(bench, look)
    assert bench.run().ok
    assert found[0] == [
        ".salt", "config.snapshot.yaml", "controller.log", "env.json", "git.json", "lock.json", "manifest.json",
    ]  # fmt: skip


def test_at_the_end_the_manifest_has_every_ending(bench: Bench) -> None:
    plan = bench.plan()
    failing = plan.jobs[1].job_id
    bench.backend.script = lambda job_id, number: Script(failure="task" if job_id == failing else "")
    result = bench.run()
    assert not result.ok
    schema.validate("manifest", read(result.layout.manifest))
    endings = {job_id: (entry["status"], entry["reason"]) for job_id, entry in entries(result.layout).items()}
    assert endings.pop(failing) == ("failed", "simulated")
    assert set(endings.values()) == {("ok", "completed")}


# -------------------------------------------------------------------------------------------------------- dry run


@pytest.fixture
def dry(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(start, "backend_of", lambda config: bench.backend)
    monkeypatch.setattr(start, "foreseen_images", lambda *args, **kwargs: bench._image)
    monkeypatch.setattr(start, "worker_sources_hash", lambda: bench.sources)
    return lambda **config: start.dry_run(bench.load(**config))


def test_no_file_of_a_run_is_for_others_where_the_umask_says_so(bench: Bench) -> None:
    old = os.umask(0o077)
    try:
        result = bench.run()
    finally:
        os.umask(old)
    found = {path.name: path.stat().st_mode for path in result.layout.root.rglob("*")}
    assert {"result.json", "states.json", "events.jsonl", "out", "results.json"} <= found.keys()
    assert [name for name, mode in found.items() if mode & 0o077] == []


def test_a_dry_run_writes_nothing(bench: Bench, dry: Callable[..., Any]) -> None:
    plan = dry()
    assert [job.decision for job in plan.jobs] and {job.decision for job in plan.jobs} == {"run"}
    assert not (bench.folder / "runs").exists() and bench.backend.created == []


def test_a_dry_run_touches_nothing_of_a_run_that_is_there(bench: Bench, dry: Callable[..., Any]) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="sandbox")
    result = bench.run()
    before = fingerprints_of_files(bench.folder / "runs")
    plan = dry()
    assert (plan.run_id, plan.continued) == (result.run_id, True)
    assert {job.decision for job in plan.jobs} == {"run"}
    assert fingerprints_of_files(bench.folder / "runs") == before


# ----------------------------------------------------------------------------------------------- while it goes on


def table_files(layout: RunLayout) -> dict[str, Any]:
    summary = read(layout.summary)
    assert summary.pop("generated_at")
    return {"csv": layout.results_csv.read_bytes(), "leaderboard": layout.leaderboard.read_bytes(), "summary": summary}


def test_tables_are_written_while_it_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables.LiveTables.__init__, "__kwdefaults__", {"min_interval": 0.0})

    def look(layout: RunLayout) -> tuple[int, int]:
        if not layout.summary.exists():
            return 0, 0
        return len(table(layout)), read(layout.summary)["counts"]["pending"]

    found = sampled(bench, look)
    bench.backend.script = lambda job_id, number: Script(seconds=0.02)
    assert bench.run(max_workers=1, seeds=list(range(10))).ok
    seen = [rows for rows, _ in found]
    assert seen == sorted(seen) and 0 < seen[-1] < 40
    assert all(rows + pending == 40 for rows, pending in found if rows)


def test_the_tables_at_the_end_are_those_that_the_files_give(bench: Bench) -> None:
    plan = bench.plan(seeds=[1, 2])
    kinds = ["", "task", "candidate", "trainer", "sandbox"]
    wanted = {job.job_id: kinds[i % len(kinds)] for i, job in enumerate(plan.jobs)}
    bench.backend.script = lambda job_id, number: Script(failure=wanted[job_id])
    result = bench.run(seeds=[1, 2], fail_fast=False)
    assert [row.failure_boundary for row in result.rows] == [wanted[row.job_id] or None for row in result.rows]
    live = table_files(result.layout)
    assert refresh_tables(result.layout) == list(result.rows)
    assert table_files(result.layout) == live


def test_the_tables_of_a_run_that_ended_early_are_those_that_the_files_give(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="candidate")
    result = bench.run(seeds=[1, 2, 3], max_workers=2, fail_fast=True)
    live = table_files(result.layout)
    assert live["summary"]["counts"]["skipped"] > 0 and "pending" not in live["summary"]["counts"]
    refresh_tables(result.layout)
    assert table_files(result.layout) == live


def test_a_row_has_the_scores_that_the_sandbox_gave(bench: Bench) -> None:
    result = bench.run()
    for row in result.rows:
        assert (row.score_initial, row.score_best) == scores_of(row.job_id)
        assert (row.llm_calls, row.backend) == (1, "simulated")
        assert read(result.layout.job(row.job_id).results)["score_best"] == row.score_best


# ----------------------------------------------------------------------------------------------------------- salt


def test_the_salt_is_published_when_every_job_has_its_final_ending(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="candidate")
    result = bench.run()
    assert read(result.layout.lock)["salt"] and not result.layout.salt.exists(), "a candidate's failure is an ending"


@pytest.mark.parametrize("failure", ["sandbox", "provider", "harness"])
def test_the_salt_is_kept_while_a_job_can_run_again(bench: Bench, failure: str) -> None:
    plan = bench.plan()
    broken = plan.jobs[2].job_id
    bench.backend.script = lambda job_id, number: Script(failure=failure if (job_id, number) == (broken, 1) else "")
    first = bench.run()
    salt = first.layout.salt.read_text()
    assert read(first.layout.lock)["salt"] is None
    assert first.layout.salt.stat().st_mode & 0o077 == 0
    again = bench.run()
    assert (again.run_id, again.ok) == (first.run_id, True)
    assert read(again.layout.lock)["salt"] == salt and not again.layout.salt.exists()


# ------------------------------------------------------------------------------------------------------ fail_fast


def test_fail_fast_stops_scheduling_and_records_the_rest(bench: Bench) -> None:
    plan = bench.plan(max_workers=1, seeds=[1, 2])
    order = [plan.jobs[i].job_id for i in plan.order]
    bench.backend.script = lambda job_id, number: Script(failure="task" if job_id == order[1] else "")
    config: dict[str, Any] = {"max_workers": 1, "seeds": [1, 2], "fail_fast": True}
    heard = Heard()
    result = bench.run(heard, **config)
    assert bench.backend.created == order[:2]
    assert not result.ok and len(result.rows) == len(order)
    by_id = {row["job_id"]: row for row in table(result.layout)}
    for job_id in order[2:]:
        assert (by_id[job_id]["status"], by_id[job_id]["failure_kind"]) == ("skipped", "not_executed")
        assert by_id[job_id]["feedback"] == f"fail_fast: job {order[1]} failed"
        entry = entries(result.layout)[job_id]
        assert (entry["status"], entry["reason"]) == ("not_executed", f"fail_fast: job {order[1]} failed")
        assert not result.layout.job(job_id).root.exists()
    assert sorted(heard.skipped_) == sorted(order[2:])
    assert read(result.layout.lock)["salt"] is None
    assert read(result.layout.summary)["counts"] == {"ok": 1, "failed": 1, "interrupted": 0, "skipped": 6}

    bench.backend.script = lambda job_id, number: Script()
    again = bench.run(**config)
    assert again.run_id == result.run_id and again.ok
    assert sorted(bench.backend.created[2:]) == sorted(order[1:]), "the failed one and the rest, and no other"
    assert {row["status"] for row in table(again.layout)} == {"ok"}
    assert {entry["status"] for entry in entries(again.layout).values()} == {"ok"}


def test_without_fail_fast_every_job_runs(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(failure="task")
    result = bench.run(max_workers=1)
    assert len(bench.backend.created) == 4 and {row.status for row in result.rows} == {"failed"}


# -------------------------------------------------------------------------------------------------------- retries


def test_a_sandbox_failure_is_retried_and_every_attempt_kept(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(ends="dies" if number < 3 else "done")
    result = bench.run(retries=2)
    assert result.ok
    for row in result.rows:
        job = result.layout.job(row.job_id)
        assert attempts(result.layout, row.job_id) == [(1, "failed"), (2, "failed"), (3, "ok")]
        for number in (1, 2):
            out = job.attempt_out(number)
            assert (out / "events.jsonl").stat().st_size and (out / "state_history.jsonl").stat().st_size
            assert (out / "stdout.log").read_text() == "simulated\n"
            old = read(job.attempt(number) / "results.json")
            assert (old["failure_boundary"], old["failure_kind"]) == ("sandbox", "sandbox_died")
        assert [json.loads(line)["event"] for line in job.events.read_text().splitlines()][-1] == "job.end"
        calls = [json.loads(line) for line in job.cassette.read_text().splitlines()]
        assert [(call["attempt"], call["reused_from"]) for call in calls] == [(1, None), (2, 1), (3, 1)]
        assert row.llm_calls == 1, "what was answered is not paid again"
    retried = [line for line in journal(result.layout) if line["event"] == "job.retry"]
    assert sorted(line["attempt"] for line in retried) == [2, 2, 2, 2, 3, 3, 3, 3]


def test_retries_end(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(ends="dies")
    result = bench.run(retries=1, seeds=[1], tasks=["internal:numeric_param"], trainers=["NoOp"])
    (row,) = result.rows
    assert (row.status, row.failure_boundary) == ("failed", "sandbox")
    assert attempts(result.layout, row.job_id) == [(1, "failed"), (2, "failed")]


@pytest.mark.parametrize("failure", ["candidate", "task", "trainer", "damaged"])
def test_a_failure_of_the_job_itself_is_not_retried(bench: Bench, failure: str) -> None:
    bench.backend.script = lambda job_id, number: Script(failure=failure)
    result = bench.run(retries=3)
    assert len(bench.backend.created) == 4
    assert {row.failure_boundary for row in result.rows} == {failure if failure != "damaged" else "trainer"}


class Heard(Listener):
    """Keeps what was told, by kind."""

    def __init__(self) -> None:
        self.skipped_: list[str] = []

    def job_skipped(self, job: Any, row: Any) -> None:
        self.skipped_.append(job.job_id)


def test_a_run_is_told_in_order(bench: Bench, tmp_path: Path) -> None:
    said: list[str] = []

    class Order(Listener):
        def run_started(self, run: Any) -> None:
            said.append(f"begun {len(run.jobs)} {run.workers} {run.continued}")

        def job_reused(self, job: Any, row: Any) -> None:
            said.append(f"reused {row.status}")

        def job_started(self, job: Any, adopted: bool, *_: Any) -> None:
            said.append(f"started {adopted}")

        def candidate_evaluated(self, job: Any, line: Any) -> None:
            said.append(f"advanced {line['step']}")

        def job_finished(self, job: Any, row: Any) -> None:
            said.append(f"finished {row.status}")

        def run_ended(self, run: Any) -> None:
            said.append(f"ended {len(run.rows)} {run.error}")

    one = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "run_id": "one"}
    bench.run(Order(), **one)
    assert said == ["begun 1 8 False", "started False", "advanced 0", "finished ok", "ended 1 None"]
    said.clear()
    bench.run(Order(), **one)
    assert said == ["begun 1 8 True", "reused ok", "ended 1 None"]

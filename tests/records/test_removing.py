"""Only what nothing needs goes: never a run at work, never what a link leads to, and never half of a run."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.analysis.folders import job_id, make_job, make_run, row
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.records.digest import files_index
from trace_bench.records.reading import read_index
from trace_bench.records.removing import Item, removable, remove, remove_run
from trace_bench.records.tables import write_files_index

ATTEMPT = {"started_at": "2026-01-02T03:04:05Z", "ended_at": "2026-01-02T03:04:06Z", "status": "failed"}


def finished(runs_dir: Path, name: str = "one", days: float = 1) -> RunLayout:
    """A finished run of one job, which needed two attempts, and ended `days` ago."""
    when = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = make_run(runs_dir, name, rows=[row(0, run_id=name)], planned=1, started=when)
    make_job(run, 0, attempts=[{**ATTEMPT, "number": 1}, {**ATTEMPT, "number": 2, "status": "ok"}])
    job = run.job(job_id(0))
    for path in (job.checkpoint, job.attempt(1) / "evidence" / "error.json", job.attempt(1) / job.results.name,
                 job.attempt(1) / job.cassette.name, job.attempt_out(2) / "result.json"):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0123456789")
    write_files_index(run)
    return run


def names(items: list[Item], below: Path) -> set[str]:
    return {item.path.relative_to(below).as_posix() for item in items}


def test_what_nothing_needs_is_found_with_its_size_and_the_index_stays_true(tmp_path: Path) -> None:
    run = finished(tmp_path)
    job = run.job(job_id(0))
    (run.meta / ".lock.json.1.2.tmp").write_text("half")
    (job.attempts / ".out.collecting-x").mkdir()
    (job.attempts / ".out.collecting-x" / "f").write_text("half")
    items = list(removable(tmp_path))
    prefix = f"one/jobs/{job.job_id}"
    assert names(items, tmp_path) == {
        "one/meta/.lock.json.1.2.tmp", f"{prefix}/attempts/.out.collecting-x", f"{prefix}/checkpoint.jsonl"
    }  # fmt: skip
    assert sum(item.size for item in items) == 4 + 4 + 10
    gone, failed = remove(items)
    assert (gone, failed) == (items, []) and not any(item.path.exists() for item in items)
    index = read_index(run)
    assert index == files_index(run)
    assert list(removable(tmp_path)) == []


def test_evidence_of_earlier_attempts_goes_only_when_asked_and_never_rows_or_cassettes(tmp_path: Path) -> None:
    run = finished(tmp_path)
    job = run.job(job_id(0))
    items = list(removable(tmp_path, evidence=True))
    folder = f"one/jobs/{job.job_id}/attempts/1"
    assert names(items, tmp_path) == {f"one/jobs/{job.job_id}/checkpoint.jsonl", f"{folder}/evidence", f"{folder}/out"}
    remove(items)
    assert {path.name for path in job.attempt(1).iterdir()} == {"results.json", "llm.jsonl"}
    assert (job.attempt_out(2) / "result.json").exists() and read_index(run) == files_index(run)


def test_an_unfinished_run_keeps_its_checkpoints_and_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path, "open", rows=[row(0)], planned=2, started="2020-01-02T03:04:05Z")
    run.job(job_id(0)).checkpoint.write_text("0123456789")
    assert list(removable(tmp_path, older_than=1, keep=0)) == []


def test_old_runs_go_by_age_by_number_or_by_both(tmp_path: Path) -> None:
    runs = [finished(tmp_path, f"run-{days}", days) for days in (1, 10, 20)]

    def old(**how: float) -> set[str]:
        return {item.path.name for item in removable(tmp_path, **how) if item.is_run}  # type: ignore[arg-type]

    assert old() == set()
    assert old(older_than=5 * 86400) == {"run-10", "run-20"}
    assert old(keep=2) == {"run-20"} and old(keep=0) == {"run-1", "run-10", "run-20"}
    assert old(keep=2, older_than=5 * 86400) == {"run-20"} and old(keep=0, older_than=15 * 86400) == {"run-20"}
    remove(list(removable(tmp_path, keep=1)))
    assert [path.name for path in tmp_path.iterdir()] == ["run-1"] and runs[0].manifest.exists()


def test_a_run_at_work_is_never_touched(tmp_path: Path) -> None:
    run = finished(tmp_path)
    items = list(removable(tmp_path, keep=0))
    with lock_run(run):
        assert list(removable(tmp_path, keep=0)) == []
        gone, failed = remove(items)  # it began after the look
        assert gone == [] and "a controller is at work in it" in failed[0]
        with pytest.raises(ConfigError, match="a controller is at work in it"):
            remove_run(run)
    assert run.manifest.exists()


def test_links_are_neither_followed_nor_taken_for_runs(tmp_path: Path) -> None:
    outside, runs = tmp_path / "outside", tmp_path / "runs"
    victim = finished(outside)
    runs.mkdir()
    (runs / "link").symlink_to(victim.root)
    assert list(removable(runs, keep=0, evidence=True)) == []
    with pytest.raises(ConfigError, match="it is a link"):
        remove_run(RunLayout(runs / "link"))
    run = finished(runs, "two")
    shutil.rmtree(run.job(job_id(0)).root)
    run.job(job_id(0)).root.symlink_to(victim.job(job_id(0)).root)
    (run.root / "more").symlink_to(outside)
    assert list(removable(runs, evidence=True)) == []
    theirs = finished(runs, "three")
    shutil.rmtree(theirs.meta)
    theirs.meta.symlink_to(victim.meta)  # whose index would be written anew
    assert list(removable(runs, evidence=True, keep=2)) == []
    remove_run(run)
    assert not run.root.exists() and victim.job(job_id(0)).checkpoint.exists()


def test_what_rm_could_not_finish_gc_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished(tmp_path)

    def full(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("trace_bench.records.removing.shutil.rmtree", full)
        with pytest.raises(EnvironmentUnavailable, match="Operation not permitted; trace-bench gc removes the rest"):
            remove_run(run)
    assert not run.root.exists()
    (item,) = removable(tmp_path)
    assert item.why == "the rest of a removed run" and item.path.name == f".one.removing-{os.getpid()}"
    remove([item])
    assert list(tmp_path.iterdir()) == []

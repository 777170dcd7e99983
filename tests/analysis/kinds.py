"""Runs of every kind, made by hand of a whole one: going on, killed, planned, damaged, of another version."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.tables import refresh_tables
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.versions import SCHEMA_VERSION
from trace_bench.artifacts.writers import write_json
from trace_bench.records.reading import read_rows
from trace_bench.records.tables import write_files_index, write_tables

FIRST_VERSION = Path(__file__).parents[1] / "data" / "run-v1"


def change(path: Path, **changes: Any) -> None:
    write_json(path, {**json.loads(path.read_text()), **changes})


def jobs(run: RunLayout) -> list[JobLayout]:
    """In the order of the manifest."""
    return [run.job(entry["job_id"]) for entry in json.loads(run.manifest.read_text())["jobs"]]


def outcomes(run: RunLayout, *changed: tuple[int, dict[str, Any]]) -> None:
    """Change the manifest's entries: of each job all, then of some by number."""
    manifest = json.loads(run.manifest.read_text())
    for number, changes in changed:
        manifest["jobs"][number] |= changes
    write_json(run.manifest, manifest)


def whole(run: RunLayout) -> None:
    """As it is."""


def going_on(run: RunLayout) -> None:
    """A controller is at work: two jobs are running, two have not begun; there are no tables, no salt, no index."""
    *_, third, second, first, last = jobs(run)
    for job in (first, last):
        shutil.rmtree(job.root)
    for job in (second, third):
        job.results.unlink()
        shutil.rmtree(job.attempts)
        change(job.meta, status="running", stop_reason=None, ended_at=None)
    manifest = json.loads(run.manifest.read_text())
    for entry in manifest["jobs"]:
        entry |= {"status": None, "reason": None}
    write_json(run.manifest, manifest)
    run.salt.write_text(json.loads(run.lock.read_text())["salt"])
    change(run.lock, salt=None)
    gone = {job.job_id for job in (first, last)}
    ended = gone | {job.job_id for job in (second, third)}
    events = [json.loads(line) for line in run.events.read_text().splitlines()]
    kept = [
        line
        for line in events
        if line["event"] != "run.end"
        and line.get("job_id") not in (ended if line["event"] == "job.end" else gone)
    ]  # fmt: skip
    run.events.write_text("".join(json.dumps(line) + "\n" for line in kept))
    for path in (run.results_csv, run.results_parquet, run.summary, run.leaderboard, run.files_index):
        path.unlink()
    (run.root / "leaderboard.md").unlink(missing_ok=True)


def killed(run: RunLayout) -> None:
    """The same, but its controller is gone: unfinished last lines, temporary files, and tables of three jobs."""
    going_on(run)
    rows = read_rows(run)[:3]
    write_tables(run, rows, 18)
    running = jobs(run)[-4]
    for path in (run.events, running.cassette, running.state_history):
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(b'{"t":"2026-01-02T03:04')
    (run.root / ".results.csv.77.140.tmp").write_text("run_id,job")
    (running.root / ".job_meta.json.77.140.tmp").write_text("{")
    (running.root / ".collecting-1").mkdir()
    (running.root / ".collecting-1" / "result.json").write_text("{")


def mixed(run: RunLayout) -> None:
    """Beside those that are ok: a job that failed, one that timed out, one that was cut off, one that broke, and one
    that never ran."""
    failed, timed_out, cut, broken, skipped = jobs(run)[:5]

    def end(job: JobLayout, boundary: str | None, kind: str | None, stop: str | None, **scores: Any) -> None:
        change(job.results, status="failed", failure_boundary=boundary, failure_kind=kind, stop_reason=stop, **scores)
        failure = {"boundary": boundary, "kind": kind, "message": "it is said why"}
        change(job.meta, status="failed", failure=failure, stop_reason=stop)

    nothing = {"score_best": None, "score_final": None, "score_test": None}
    end(failed, "trainer", "trainer_error", None, **nothing)
    end(timed_out, "trainer", "timeout", "timeout")
    end(cut, "harness", "interrupted", "interrupted", **nothing)
    end(broken, "provider", "provider_error", None, **nothing)
    shutil.rmtree(skipped.root)
    bad = {"status": "failed", "reason": "timeout"}
    outcomes(run, *((n, bad) for n in range(4)), (4, {"status": "not_executed", "reason": "interrupted"}))
    write_json(run.salt.with_name(".salt"), "")
    run.salt.write_text(json.loads(run.lock.read_text())["salt"])
    change(run.lock, salt=None)
    refresh_tables(run)
    write_files_index(run)


def planned(run: RunLayout) -> None:
    """Nothing has begun."""
    going_on(run)
    shutil.rmtree(run.jobs)
    run.jobs.mkdir()
    run.events.unlink()


def without_manifest(run: RunLayout) -> None:
    run.manifest.unlink()


def half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def damaged_manifest(run: RunLayout) -> None:
    half(run.manifest)


def damaged_lock(run: RunLayout) -> None:
    half(run.lock)


def damaged_row(run: RunLayout) -> None:
    half(jobs(run)[1].results)


def damaged_record(run: RunLayout) -> None:
    half(jobs(run)[1].meta)


def damaged_snapshot(run: RunLayout) -> None:
    run.config_snapshot.write_text("tasks: [")


def damaged_index(run: RunLayout) -> None:
    half(run.files_index)


def damaged_summary(run: RunLayout) -> None:
    half(run.summary)


def damaged_journal(run: RunLayout) -> None:
    lines = run.events.read_text().splitlines()
    run.events.write_text("\n".join([lines[0], "{", *lines[1:], ""]))


def damaged_calls(run: RunLayout) -> None:
    job = next(job for job in jobs(run) if job.cassette.is_file() and job.cassette.stat().st_size)
    job.cassette.write_text("{\n" + job.cassette.read_text())


def damaged_history(run: RunLayout) -> None:
    job = next(job for job in jobs(run) if job.state_history.is_file())
    job.state_history.write_text("{\n" + job.state_history.read_text())


def newer(run: RunLayout) -> None:
    change(run.manifest, schema_version=SCHEMA_VERSION + 7, shards=[])
    change(run.lock, schema_version=SCHEMA_VERSION + 7, signature="")


KINDS: Mapping[str, Callable[[RunLayout], None]] = {
    kind.__name__: kind
    for kind in (
        whole, going_on, killed, mixed, planned, without_manifest, damaged_manifest, damaged_lock, damaged_row,
        damaged_record, damaged_snapshot, damaged_index, damaged_summary, damaged_journal, damaged_calls,
        damaged_history, newer,
    )
}  # fmt: skip


def make(kind: str, recorded: RunLayout, folder: Path) -> RunLayout:
    """A run of `kind` below `folder`. Not all are runs."""
    if kind == "version_1":
        (source,) = FIRST_VERSION.iterdir()
        return RunLayout(Path(shutil.copytree(source, folder / source.name)))
    target = folder / recorded.run_id
    if kind == "empty":
        target.mkdir(parents=True)
    elif kind == "no_run":
        target.mkdir(parents=True)
        (target / "thesis.tex").write_text("Abstract")
    elif kind == "file":
        folder.mkdir(parents=True)
        target.write_text("")
    else:
        shutil.copytree(recorded.root, target, symlinks=True)
        KINDS[kind](RunLayout(target))
    return RunLayout(target)


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """All that is below `folder`: when it was last changed (a folder, too: a file may have come and gone), and what it
    holds."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[os.fspath(path.relative_to(folder))] = (path.lstat().st_mtime_ns, content)
    return found

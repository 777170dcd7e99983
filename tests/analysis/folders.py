"""Run folders as a controller leaves them, made with the real writers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.artifacts.samples import HASH, META, RESULT, RESULTS
from tests.tables import refresh_tables
from trace_bench.artifacts.layout import RESULT as RESULT_FILE
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.artifacts.records import EnvInfo, JobMeta, Lock, Manifest, ManifestEntry, Results
from trace_bench.artifacts.writers import Journal, write_json, write_text
from trace_bench.artifacts.yamlio import write_state
from trace_bench.records.rows import is_final

RUN = "20260102-030405-0123abcd"


def job_id(number: int) -> str:
    return f"{number:02x}" * 6


def row(number: int, **change: Any) -> Results:
    return Results.model_validate({**RESULTS, "job_id": job_id(number), "seed": number, **change})


def entry(number: int, **change: Any) -> ManifestEntry:
    return ManifestEntry.model_validate(
        {
            "job_id": job_id(number),
            "task_id": "internal:numeric_param",
            "suite": "internal",
            "trainer_id": "NoOp",
            "variant": "0",
            "seed": number,
            "fingerprint": HASH,
            "integrity": "protected",
            "score_direction": "maximize",
            "resolved_optimizer": "OptoPrime",
            "model": "stub",
            **change,
        }
    )


def make_run(
    runs_dir: Path,
    run_id: str = RUN,
    *,
    planned: int = 3,
    rows: Sequence[Results] = (),
    started: str | None = "2026-01-02T03:04:05Z",
    ended: bool = True,
    name: str | None = None,
    entries: Sequence[ManifestEntry] | None = None,
    warnings: Sequence[str] = (),
) -> RunLayout:
    """A run of `planned` jobs, of which those in `rows` have ended; `started` None is a plan alone."""
    run = RunLayout(runs_dir / run_id).make()
    known = {r.job_id: r for r in rows}
    if entries is None:
        entries = [entry(n, status=known[job_id(n)].status if job_id(n) in known else None) for n in range(planned)]
    manifest = Manifest(
        run_id=run_id,
        config_hash=HASH,
        generated_at=f"{(started or '2026-01-02T03:04:05Z')[:19]}.5Z",
        warnings=tuple(warnings),
        jobs=tuple(entries),
    )
    write_json(run.manifest, manifest)
    write_text(run.config_snapshot, f"seeds: [1]\n{f'name: {name}' if name else 'name: null'}\nmode: stub\n")
    over = started is not None and len(rows) == len(entries) and all(map(is_final, rows))
    write_json(run.env, EnvInfo(
        captured_at="2026-01-02T03:04:05Z", env={}, python_version="3.11", platform="Linux",
        backend={"backend": "local"},
    ))  # fmt: skip
    write_json(run.lock, Lock(
        run_id=run_id, config_hash=HASH, code_version="0.1.0", sources_hash=HASH, images={}, tasks={},
        salt="00ff" if over else None,
    ))  # fmt: skip
    if started is None:
        return run
    with Journal(run.events) as journal:
        journal.append({"t": started, "event": "run.start", "jobs": len(entries)})
        for r in rows:
            journal.append({"t": started, "event": "job.start", "job_id": r.job_id, "adopted": False})
            journal.append({"t": started, "event": "job.end", "job_id": r.job_id, "status": r.status})
            write_json(run.job(r.job_id).make().results, r)
        if ended:
            journal.append({"t": started, "event": "run.end", "finished": len(rows)})
    refresh_tables(run)
    return run


def make_job(run: RunLayout, number: int, **change: Any) -> JobMeta:
    """The record, the result and the states of a job whose row is there."""
    job = run.job(job_id(number)).make()
    meta = JobMeta.model_validate({**META, "run_id": run.run_id, "job_id": job.job_id, "seed": number, **change})
    write_json(job.meta, meta)
    write_json(job.attempt_out(1) / RESULT_FILE, WorkerResult.model_validate(RESULT))
    write_state(job.initial_state, {"code": "def f():\n    return 1\n", "guess": 0.0, "same": "x"})
    write_state(job.best_state, {"code": "def f():\n    return 2\n", "guess": 2.5, "same": "x"})
    return meta

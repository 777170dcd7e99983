"""What a run's folder holds before its first job starts, and what an earlier attempt at a job left in it."""

from __future__ import annotations

import os

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import capture_env
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import sync_folder, write_json, write_text
from trace_bench.artifacts.yamlio import dump_document
from trace_bench.errors import HarnessError
from trace_bench.planning.manifest import Outcome
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.scripts import write_scripts
from trace_bench.records.tables import read_row


def write_records(plan: RunPlan) -> None:
    """Write snapshot, salt, lock, environment and manifest. Endings of reused jobs are in the manifest."""
    layout = plan.layout.make()
    sync_folder(layout.root.parent)
    sync_folder(layout.root)
    write_text(layout.config_snapshot, dump_document(plan.config.to_snapshot()))
    write_scripts(plan.config, layout)
    write_text(layout.salt, plan.salt, mode=0o600)
    write_json(layout.lock, plan.lock)
    write_json(layout.env, capture_env(os.environ, backend=plan.backend.describe()))
    write_json(layout.git, plan.git)
    plan.write_manifest(layout, {job_id: outcome_of(row) for job_id, row in plan.reused.items()}, durable=True)


def recorded_row(layout: RunLayout, job: PlannedJob) -> Results | None:
    """What an attempt at `job` came to that was recorded, if it is of today's fingerprint."""
    try:
        row = read_row(layout.job(job.job_id).results)
    except (OSError, HarnessError):
        return None
    return row if row.fingerprint == job.fingerprint else None


def outcome_of(row: Results) -> Outcome:
    """The manifest's word on a job that has ended."""
    return (row.status, row.failure_kind or row.stop_reason)

"""Write the files of a run besides those of its jobs: before the first job starts, while jobs end, and at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from trace_bench.artifacts.derived import ReplayReport, Yardstick, Yardsticks
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import capture_env
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import sync_files, sync_folder, write_json, write_text
from trace_bench.artifacts.yamlio import dump_document
from trace_bench.display.text import clean_line
from trace_bench.errors import HarnessError
from trace_bench.planning.manifest import Outcome, read_entry
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.recording import Recording
from trace_bench.planning.scripts import write_scripts
from trace_bench.records import parquet, replay_check
from trace_bench.records.gaps import Gaps
from trace_bench.records.reading import last_result, read_meta, read_optional, read_row
from trace_bench.records.rows import is_final, skipped_row
from trace_bench.records.tables import LiveTables, write_files_index, write_standings
from trace_bench.sandbox.errors import EngineRefused

Measured = tuple[tuple[Yardstick, ...], int]
"""Yardsticks, and the number of those that a stop has kept from being measured."""


def write_records(plan: RunPlan) -> None:
    """Write snapshot, salt, lock, environment and manifest. The manifest holds the outcomes of reused jobs."""
    layout = plan.layout.make()
    sync_folder(layout.root.parent)
    sync_folder(layout.root)
    # The index of an earlier controller lists files that change from now on. It also has the hash of the lock, which
    # may get the same content again: with both, the run would count as finished before its files are flushed.
    layout.files_index.unlink(missing_ok=True)
    sync_folder(layout.meta)
    write_text(layout.config_snapshot, dump_document(plan.config.to_snapshot()))
    write_scripts(plan.config, layout)
    write_text(layout.salt, plan.salt, mode=0o600)
    write_json(layout.lock, plan.lock)
    write_json(layout.env, capture_env(os.environ, backend=plan.backend.describe()))
    write_json(layout.git, plan.git)
    plan.write_manifest(layout, {job_id: manifest_outcome(row) for job_id, row in plan.reused.items()}, durable=True)


class RunRecords:
    """The results of a run so far, and its tables.

    Attributes:
        rows: results by job id.
        skip_reasons: by job id, why a job did not start.
        gaps_left: number of reference programs that a stop has kept from being scored. The run is not finished then.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self.rows: dict[str, Results] = dict(plan.reused)
        self.skip_reasons = {job.job_id: job.reason for job in plan.jobs if job.decision == "skip"}
        self.gaps_left = 0
        self._tables = LiveTables(plan.layout, [job.job_id for job in plan.jobs], plan.config.tags)
        for row in plan.reused.values():
            self._tables.put(row)

    @property
    def finished(self) -> int:
        """Number of jobs whose results count."""
        return sum(map(is_final, self.rows.values()))

    def put(self, row: Results) -> None:
        self.rows[row.job_id] = row
        self._tables.put(row)

    def skip(self, job: PlannedJob, reason: str) -> None:
        self.skip_reasons[job.job_id] = reason

    def maybe_write_tables(self) -> None:
        """Write the tables, at most every two seconds."""
        self._tables.maybe_write()

    def complete(
        self, failure: BaseException | None, on_skipped: Callable[[PlannedJob, Results], None]
    ) -> tuple[tuple[Results, ...], dict[str, Outcome]]:
        """Add a row for each job without one: what is recorded on disk, else a row that says it was skipped.

        Args:
            failure: what ended the run.
            on_skipped: called with each skipped job and its row.

        Returns all rows in the order of the plan, and the outcomes for the manifest.
        """
        plan = self._plan
        for job in plan.jobs:
            if job.job_id not in self.rows and (row := _recorded_row(plan.layout, job)) is not None:
                self.put(row)
        outcomes: dict[str, Outcome] = {job_id: manifest_outcome(row) for job_id, row in self.rows.items()}
        otherwise = not_executed_for(failure)
        for job in plan.jobs:
            if job.job_id not in self.rows:
                outcomes[job.job_id] = ("not_executed", self.skip_reasons.get(job.job_id, otherwise))
        for job, line in zip(plan.jobs, plan.manifest_lines(outcomes), strict=True):
            if job.job_id not in self.rows:
                row = skipped_row(plan.run_id, read_entry(line))
                self._tables.put(row)
                on_skipped(job, row)
        return tuple(self._tables.rows()), outcomes

    def measure_gaps(self, measure: Callable[[Sequence[Results], Sequence[Yardstick]], Measured]) -> None:
        """Put the gaps into the rows, by the yardsticks that `measure` returns for rows and known yardsticks."""
        layout = self._plan.layout
        known = read_optional(Yardsticks, layout.yardsticks)
        found, self.gaps_left = measure(tuple(self.rows.values()), known.yardsticks if known is not None else ())
        if not found:
            return
        write_json(layout.yardsticks, Yardsticks(yardsticks=found))
        gaps = Gaps.of(found)
        for job_id, row in list(self.rows.items()):
            job = layout.job(job_id)
            meta = read_meta(job)
            new = gaps.put(row, last_result(job, meta)) if meta is not None else row
            if new != row:
                write_json(job.results, new)
                self.put(new)

    def write_final(
        self, rows: Sequence[Results], outcomes: dict[str, Outcome], forget_cancellations: Callable[[], None]
    ) -> ReplayReport | None:
        """Write manifest, tables and index, and publish the salt of a finished run. Returns the report of a replay."""
        plan, layout = self._plan, self._plan.layout
        plan.write_manifest(layout, outcomes, durable=True)
        self._tables.write()
        write_standings(layout, rows)
        parquet.write_parquet(layout.results_parquet, rows)
        for folder in (layout.root, layout.meta):
            sync_files(folder)  # the index lists tables, the journal and the log of the controller
        forget_cancellations()
        report = None
        if plan.recording is not None:
            report = self._compare(plan.recording, rows)
            write_json(layout.replay, report)
        if all(map(is_final, rows)) and not self.gaps_left:
            # No job can use the salt any more, and a repetition of the run needs it. With it in the lock, the run
            # counts as finished: everything else must have been written.
            write_json(layout.lock, plan.lock.model_copy(update={"salt": plan.salt}))
            layout.salt.unlink(missing_ok=True)
        write_files_index(layout)
        return report

    def _compare(self, recording: Recording, rows: Sequence[Results]) -> ReplayReport:
        """Compare the jobs that have ended with their recordings."""
        ended = [row for row in rows if row.status != "skipped"]
        tolerances = {task_id: material.task.spec.tolerance for task_id, material in self._plan.material.items()}
        layout, left = self._plan.layout, len(rows) - len(ended)
        return replay_check.compare(recording.layout, layout, ended, recording.rows, tolerances, left)


def manifest_outcome(row: Results) -> Outcome:
    """Status and reason of a job that has ended, for the manifest."""
    return (row.status, row.failure_kind or row.stop_reason)


def not_executed_for(failure: BaseException | None) -> str:
    """Why a job did not start in a run that `failure` ended."""
    if failure is None:
        return "the run ended before its turn"
    message = failure.strerror if isinstance(failure, OSError) else None
    if isinstance(failure, EngineRefused):
        message = clean_line(str(failure), 400)
    return f"the run ended: {message or type(failure).__name__}"


def _recorded_row(layout: RunLayout, job: PlannedJob) -> Results | None:
    """The recorded result of the last attempt at `job`, if its fingerprint is the same."""
    try:
        row = read_row(layout.job(job.job_id).results)
    except (OSError, HarnessError):
        return None
    return row if row.fingerprint == job.fingerprint else None

"""The state of each job of a run: from its row if it has ended, else from the journal of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trace_bench.artifacts.jsonio import JsonError, finite_number, loads
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import Manifest, ManifestEntry, Results
from trace_bench.artifacts.writers import read_journal
from trace_bench.display.table import number
from trace_bench.records.reading import read_rows
from trace_bench.records.rows import was_cut

JobState = Literal["ok", "failed", "skipped", "interrupted", "running", "planned"]
"""The status of the job's row, or ``interrupted`` (cut off, runs again), ``running``, ``planned`` (not started)."""
JOB_STATES: tuple[JobState, ...] = ("ok", "failed", "skipped", "interrupted", "running", "planned")

_LAST_LINE = 1 << 20
"""Longest last line of a history that is looked at, in bytes."""


@dataclass
class RunProgress:
    """The progress of a run under its newest controller, from the lines of the journal.

    Attributes:
        started_at, ended_at: of that controller; `first_started_at` of the run's first.
        open_jobs: ids of jobs that have started and not ended.
        started_jobs: ids of jobs that have started.
    """

    first_started_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    open_jobs: set[str] = field(default_factory=set)
    started_jobs: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, run: RunLayout) -> RunProgress:
        """Read the progress from the journal of `run`.

        Raises:
            HarnessError: the journal is damaged.
        """
        progress = cls()
        for line in read_journal(run.events).lines:
            progress.add(line)
        return progress

    def add(self, line: Mapping[str, Any]) -> None:
        """Add one line of the journal."""
        event, job_id, time = line.get("event"), line.get("job_id"), line.get("t")
        stamp = time if isinstance(time, str) else None
        if event == "run.start":
            self.first_started_at = self.first_started_at or stamp
            self.started_at, self.ended_at = stamp, None
            self.open_jobs.clear()
            self.started_jobs.clear()
        elif event == "run.end":
            self.ended_at = stamp
        elif event == "job.start" and isinstance(job_id, str):
            self.open_jobs.add(job_id)
            self.started_jobs.add(job_id)
        elif event == "job.end" and isinstance(job_id, str):
            self.open_jobs.discard(job_id)


@dataclass(frozen=True)
class JobLine:
    """One job of a run with its state. `row` is set if it has ended, `step` (its newest step) if it runs."""

    entry: ManifestEntry
    state: JobState
    row: Results | None = None
    step: Mapping[str, Any] | None = None

    @property
    def note(self) -> str:
        """The reason for the state, or the newest step of a running job. Untrusted text."""
        if self.state == "running" and self.step is not None:
            step, best = (finite_number(self.step.get(name)) for name in ("step", "best_score"))
            return f"step {'-' if step is None else step}, best so far {number(best)}"
        if self.state == "ok" and self.row is not None and self.row.cut_by_run_budget:
            return "cut off by the run's budget; a larger one continues it"
        if self.state == "ok" and self.row is not None and self.row.stop_reason == "budget":
            return "ended by its budget"
        if self.state == "ok" and self.entry.decision == "reuse":
            return "reused"
        if self.state == "interrupted":
            return "cut off; it runs again when the run is continued"
        if self.state == "skipped":
            return (self.row.feedback if self.row is not None else self.entry.reason) or ""
        if self.row is None or self.state != "failed":
            return ""
        return f"{self.row.failure_boundary}: {self.row.failure_kind}: {self.row.feedback}"


def job_lines(run: RunLayout, manifest: Manifest, progress: RunProgress, *, running: bool) -> list[JobLine]:
    """All jobs in the order of the plan.

    Args:
        running: a controller is at work.

    Raises:
        HarnessError: a ``results.json`` is damaged.
    """
    rows = {row.job_id: row for row in read_rows(run)}
    return [job_line(run, entry, rows.get(entry.job_id), progress, running=running) for entry in manifest.jobs]


def job_line(
    run: RunLayout, entry: ManifestEntry, row: Results | None, progress: RunProgress, *, running: bool
) -> JobLine:
    """One job, whose ``results.json`` is `row` if it has one."""
    job_id = entry.job_id
    if job_id in progress.open_jobs:
        if running:
            return JobLine(entry, "running", step=last_step(run.job(job_id)))
        return JobLine(entry, "interrupted", row if row is not None and was_cut(row) else None)
    if running and entry.decision in ("run", "adopt") and job_id not in progress.started_jobs:
        return JobLine(entry, "planned")  # what row there is, is of an earlier start
    if row is not None:
        return JobLine(entry, "interrupted" if was_cut(row) else row.status, row)
    if entry.status in ("skipped", "not_executed"):
        return JobLine(entry, "skipped")
    return JobLine(entry, "planned")


def last_step(job: JobLayout) -> dict[str, Any] | None:
    """The newest whole line of the present attempt's history; None before there is one."""
    try:
        if job.state_history.stat().st_mtime_ns < job.meta.stat().st_mtime_ns:
            return None  # an earlier attempt's: the record is written when an attempt begins
        with job.state_history.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LAST_LINE))
            data = file.read()
    except OSError:
        return None
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    try:
        value = loads(lines[-1]) if lines else None
    except JsonError:
        return None
    return value if isinstance(value, dict) else None

"""What each job of a run is doing: its row if it has ended, else what the run's journal says of it."""

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
"""The status of its row, and: ``interrupted``, cut off, will run again; ``running``; ``planned``, its turn has not
come."""
JOB_STATES: tuple[JobState, ...] = ("ok", "failed", "skipped", "interrupted", "running", "planned")

_LAST_LINE = 1 << 20
"""Longest last line of a history that is looked at, in bytes."""


@dataclass
class Course:
    """How the newest controller's course through the run stands, from the lines of the run's journal.

    Attributes:
        started_at, ended_at: of that controller; `first_started_at` of the run's first.
        open: jobs that have started and not ended.
        seen: jobs that have started.
    """

    first_started_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    open: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, run: RunLayout) -> Course:
        """
        Raises:
            HarnessError: the journal is damaged.
        """
        course = cls()
        for line in read_journal(run.events).lines:
            course.take(line)
        return course

    def take(self, line: Mapping[str, Any]) -> None:
        """Go on by one line."""
        event, job_id, time = line.get("event"), line.get("job_id"), line.get("t")
        stamp = time if isinstance(time, str) else None
        if event == "run.start":
            self.first_started_at = self.first_started_at or stamp
            self.started_at, self.ended_at = stamp, None
            self.open.clear()
            self.seen.clear()
        elif event == "run.end":
            self.ended_at = stamp
        elif event == "job.start" and isinstance(job_id, str):
            self.open.add(job_id)
            self.seen.add(job_id)
        elif event == "job.end" and isinstance(job_id, str):
            self.open.discard(job_id)


@dataclass(frozen=True)
class JobLine:
    """One job. `row` is there if it has ended, and `step` is the last line of a running job's history."""

    entry: ManifestEntry
    state: JobState
    row: Results | None = None
    step: Mapping[str, Any] | None = None

    @property
    def note(self) -> str:
        """Why it is not ok, how far it is, or that its result is an earlier one's. Untrusted text."""
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


def job_lines(run: RunLayout, manifest: Manifest, course: Course, *, running: bool) -> list[JobLine]:
    """All jobs in the order of the plan.

    Args:
        running: a controller is at work.

    Raises:
        HarnessError: a ``results.json`` is damaged.
    """
    rows = {row.job_id: row for row in read_rows(run)}
    return [job_line(run, entry, rows.get(entry.job_id), course, running=running) for entry in manifest.jobs]


def job_line(run: RunLayout, entry: ManifestEntry, row: Results | None, course: Course, *, running: bool) -> JobLine:
    """One job, whose ``results.json`` is `row` if it has one."""
    job_id = entry.job_id
    if job_id in course.open:
        if running:
            return JobLine(entry, "running", step=last_step(run.job(job_id)))
        return JobLine(entry, "interrupted", row if row is not None and was_cut(row) else None)
    if running and entry.decision in ("run", "adopt") and job_id not in course.seen:
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

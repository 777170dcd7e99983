"""Reads the journal of a run: when its controllers were at work, and when jobs started and ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.artifacts.layout import RunLayout
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, JsonLines, parse_event

CLAIM = "conduct.journal"
MAX_LINES = 5_000_000


@dataclass
class JobEvents:
    """The journal's record of one job.

    Attributes:
        started, ended: seconds since its controller began; None without such a line since the last start.
        open: it has started and not ended.
        was_cut: its last start had no end: a controller died or stopped, or put its results aside to start again.
        ever_cut: `was_cut`, for any start.
        starts, ends: number of such lines.
        min_attempts: attempts that the lines imply.
        outcome: status, failure_kind and stop_reason of the end after the last start.
    """

    started: float | None = None
    ended: float | None = None
    adopted: bool = False
    retries: int = 0
    open: bool = False
    was_cut: bool = False
    ever_cut: bool = False
    starts: int = 0
    ends: int = 0
    min_attempts: int = 0
    outcome: tuple[Any, Any, Any] | None = None


@dataclass
class Journal:
    """The content of ``events.jsonl`` of a run.

    Attributes:
        starts: times of its ``run.start`` lines.
        ended: the last controller reached the end of the run.
        last_start, last_end: its last ``run.start`` and ``run.end`` lines.
        first, last: times of the first and of the last line.
    """

    starts: list[str] = field(default_factory=list)
    ended: bool = False
    last_start: Mapping[str, Any] | None = None
    last_end: Mapping[str, Any] | None = None
    first: str = ""
    last: str = ""
    jobs: dict[str, JobEvents] = field(default_factory=dict)

    @property
    def why_unfinished(self) -> str:
        if not self.starts:
            return "the run was never started"
        return "" if self.ended else "the run was cut off"


def read_journal(folder: Folder, layout: RunLayout, findings: Findings) -> Journal:
    """Read the journal, and check the order of its lines."""
    at = findings.in_file(layout.relative(layout.events))
    journal = Journal()
    for number, line in JsonLines(folder, at, parse_event, schema="an event", claim=CLAIM, line_claim=CLAIM):
        if number > MAX_LINES:
            at.wrong(CLAIM, f"line {number}", "another line", f"at most {MAX_LINES} lines")
            break
        _add(journal, line, at, f"line {number}")
    return journal


def _add(journal: Journal, line: dict[str, Any], at: Findings, key: str) -> None:
    event, time = line["event"], str(line["t"])
    at.check(isinstance(line["t"], str), CLAIM, f"{key}: t", line["t"], "a time")
    journal.first = journal.first or time
    if event == "run.start":
        for job in journal.jobs.values():
            job.was_cut = job.was_cut or (job.open and not journal.ended)
            job.ever_cut = job.ever_cut or job.open
            job.open = False
            if line.get("afresh") is True:
                job.outcome, job.was_cut = None, True  # its results were put aside
        journal.starts.append(time)
        journal.last_start, journal.ended = line, False
    elif not journal.starts:
        at.wrong(CLAIM, key, event, "run.start before it")
    elif journal.ended:
        at.wrong(CLAIM, key, event, "run.start after run.end")
    journal.last = time
    if event == "run.end":
        journal.ended, journal.last_end = True, line
    job_id = line.get("job_id")
    if isinstance(job_id, str) and event in ("job.start", "job.retry", "job.end"):
        _add_to_job(journal.jobs.setdefault(job_id, JobEvents()), line, at, key)


def _add_to_job(job: JobEvents, line: dict[str, Any], at: Findings, key: str) -> None:
    event, job_id, seconds = line["event"], line["job_id"], line.get("seconds")
    when = float(seconds) if isinstance(seconds, int | float) else None
    if event == "job.retry":
        job.retries += 1
    elif event == "job.start":
        if job.open:
            at.wrong(CLAIM, key, f"{job_id} starts", "its end before that")
        job.open, job.was_cut, job.retries, job.starts = True, False, 0, job.starts + 1
        job.adopted = line.get("adopted") is True
        job.started, job.ended, job.outcome = when, None, None
    else:
        if not job.open:
            at.wrong(CLAIM, key, f"{job_id} ends", "its start before that")
        job.open, job.ends = False, job.ends + 1
        # The last announced retry is not made if the run is stopped during the pause before it.
        job.min_attempts += max(1, job.retries)
        job.ended = when
        job.outcome = (line.get("status"), line.get("failure_kind"), line.get("stop_reason"))

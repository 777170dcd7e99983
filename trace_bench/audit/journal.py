"""The run's own journal: when its controllers were at work, and when jobs started and ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.artifacts.jsonio import JsonError, loads
from trace_bench.artifacts.layout import RunLayout
from trace_bench.audit.claims import Book
from trace_bench.audit.reading import Folder, Unreadable

MOST_LINES = 5_000_000


@dataclass
class Course:
    """What the journal says of one job's last start.

    Attributes:
        started, ended: seconds of its controller's work; None if there is no such line since the last start.
        open: it has started and not ended.
        was_cut: a controller died over it, or left it, or put its results aside to begin again.
        starts, ends: how often it did.
        least: attempts that it must have had.
        ever_cut: `was_cut`, of any of its starts.
        ending: status, failure_kind and stop_reason of the end after the last start.
    """

    started: float | None = None
    ended: float | None = None
    adopted: bool = False
    retries: int = 0
    open: bool = False
    was_cut: bool = False
    starts: int = 0
    ends: int = 0
    least: int = 0
    ever_cut: bool = False
    ending: tuple[Any, Any, Any] | None = None


@dataclass
class Journal:
    """What ``events.jsonl`` of a run says.

    Attributes:
        starts: times of its ``run.start`` lines.
        ended: the last controller came to the end of the run.
        last_end: its last ``run.end`` line.
        first, last: times of the first and of the last line.
    """

    starts: list[str] = field(default_factory=list)
    ended: bool = False
    last_end: Mapping[str, Any] | None = None
    last_start: Mapping[str, Any] | None = None
    first: str = ""
    last: str = ""
    jobs: dict[str, Course] = field(default_factory=dict)

    @property
    def why_unfinished(self) -> str:
        if not self.starts:
            return "the run was never started"
        return "" if self.ended else "the run was cut off"


def read_journal(folder: Folder, layout: RunLayout, book: Book) -> Journal:
    """The journal; lines that are none are noted."""
    path = layout.relative(layout.events)
    found = Journal()
    try:
        for number, raw in enumerate(folder.lines(path), start=1):
            line = _line(raw)
            if line is None or number > MOST_LINES:
                book.wrong("conduct.journal", path, f"line {number}", "no event", "an event of the run")
                break
            _take(found, line, path, number, book)
    except Unreadable as error:
        book.wrong("conduct.journal", path, was=str(error), due="a journal")
    return found


def _line(raw: bytes) -> dict[str, Any] | None:
    try:
        line = loads(raw)
    except (JsonError, RecursionError):
        return None
    fits = isinstance(line, dict) and isinstance(line.get("t"), str) and isinstance(line.get("event"), str)
    return line if fits else None


def _take(found: Journal, line: dict[str, Any], path: str, number: int, book: Book) -> None:
    event, job_id = line["event"], line.get("job_id")
    book.checked("conduct.journal")
    found.first = found.first or line["t"]
    if event == "run.start":
        found.starts.append(line["t"])
        found.last_start = line
        for course in found.jobs.values():
            course.was_cut = course.was_cut or (course.open and not found.ended)  # with its controller
            course.ever_cut = course.ever_cut or course.open
            course.open = False
            if line.get("afresh") is True:
                course.ending, course.was_cut = None, True  # what it came to was put aside
        found.ended = False
    elif not found.starts:
        book.wrong("conduct.journal", path, f"line {number}", event, "run.start before it")
    elif found.ended:
        book.wrong("conduct.journal", path, f"line {number}", event, "run.start after run.end")
    found.last = line["t"]
    if event == "run.end":
        found.ended, found.last_end = True, line
    if not isinstance(job_id, str) or event not in ("job.start", "job.retry", "job.end"):
        return
    course = found.jobs.setdefault(job_id, Course())
    seconds = line.get("seconds")
    if event == "job.start":
        if course.open:
            book.wrong("conduct.journal", path, f"line {number}", f"{job_id} starts", "its end before that")
        course.open, course.was_cut, course.retries, course.starts = True, False, 0, course.starts + 1
        course.adopted = line.get("adopted") is True
        course.started = float(seconds) if isinstance(seconds, int | float) else None
        course.ended, course.ending = None, None
    elif event == "job.retry":
        course.retries += 1
    else:
        if not course.open:
            book.wrong("conduct.journal", path, f"line {number}", f"{job_id} ends", "its start before that")
        course.open, course.ends = False, course.ends + 1
        # Whoever stops a run in a pause keeps the last retry from being made.
        course.least += max(1, course.retries)
        course.ended = float(seconds) if isinstance(seconds, int | float) else None
        course.ending = (line.get("status"), line.get("failure_kind"), line.get("stop_reason"))

"""Displays of a run for pipes and programs: nothing, plain lines, or JSON lines. `live` has the one for terminals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trace_bench.artifacts.jsonio import finite_number
from trace_bench.artifacts.records import Results
from trace_bench.cli import json_events
from trace_bench.cli.tally import outcome_of
from trace_bench.display.console import emit, note
from trace_bench.display.table import dollars, number
from trace_bench.display.text import clean_line, escape_line
from trace_bench.execution.events import (
    CandidateEvaluated,
    Event,
    GapsMeasured,
    JobFinished,
    JobQueued,
    JobRetried,
    JobReused,
    JobSkipped,
    JobStarted,
    JobView,
    ModelCallDelayed,
    RunEnded,
    RunStarted,
    SandboxEvent,
    SandboxOutput,
    SandboxUp,
)
from trace_bench.records.integrity import flags_of

SHORT = 8
"""Characters of a job id in front of a line of its output."""
SHOWN_EVENTS = ("build.end", "evaluation", "phase.end", "train.end", "stop.requested", "warning", "failure")
"""Events of a job that ``-v`` shows."""
DELAYS_APART = 30.0
"""Seconds between two lines about delayed model calls of one job."""
SKIPS = 20
"""Jobs that never ran that have a line each: after an early end there can be thousands."""
LINE = 2000
"""Characters of one shown line of a sandbox's output; a longer one is shown in parts."""


class Display:
    """The display of a run while it runs. This one shows warnings only, and keeps the first and the last event.

    Args:
        shown_warnings: warnings that were printed before the run began.
    """

    def __init__(self, shown_warnings: Sequence[str] = ()) -> None:
        self._shown_warnings = frozenset(shown_warnings)
        self.start: RunStarted | None = None
        self.end: RunEnded | None = None

    def notify(self, event: Event) -> None:
        """Show `event`."""
        match event:
            case RunStarted(warnings=warnings):
                self.start = event
                for warning in warnings:
                    if warning not in self._shown_warnings:
                        self.note(f"warning: {warning}")
            case RunEnded(left=left):
                self.end = event
                if left:
                    self.note(
                        f"these sandboxes could not be removed and can cost more: {', '.join(left)}; "
                        "run trace-bench clean when their host can be reached"
                    )

    def note(self, text: str) -> None:
        """Print a line that is no event."""
        note(text)

    def alert(self, text: str) -> None:
        """Print a line from a handler of a signal."""
        alert(text)

    def close(self, exit_code: int, error: str | None = None) -> None:
        """End the display, once, however the command ends; `error` is the sentence that ends the command."""


class Lines(Display):
    """Plain lines on stderr: one per job that starts, is tried again, or ends.

    Args:
        verbosity: from 1 on also each evaluated candidate, each delay and some events, from 2 on the output of
            sandboxes.
    """

    def __init__(
        self, shown_warnings: Sequence[str] = (), *, verbosity: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(shown_warnings)
        self._verbosity = verbosity
        self._clock = clock
        self._delays: dict[str, float] = {}
        self._done = self._skipped = 0
        self._cost = 0.0
        self._output = Output()

    def notify(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.note(f"run    {event.run_id}  {len(event.jobs)} jobs{', continued' if event.continued else ''}")
        super().notify(event)
        for line in self._lines(event):
            self.note(line)

    def _lines(self, event: Event) -> list[str]:
        text = event_line(event)
        match event:
            case SandboxUp(job, host="") if self._verbosity:
                return [f"up     {name_of(job)}"]
            case ModelCallDelayed(job):
                last, now = self._delays.get(job.job_id), self._clock()
                if not self._verbosity and last is not None and now - last < DELAYS_APART:
                    return []
                self._delays[job.job_id] = now
            case JobRetried(job):
                return [*self._output.rest(job.job_id), text]
            case JobFinished(job, row) | JobReused(job, row):
                return [*self._output.rest(job.job_id), self._counted(text, row)]
            case JobSkipped(job, row):
                self._skipped += 1
                return [self._counted(text, row)] if self._skipped <= SKIPS else []
            case RunEnded() if self._skipped > SKIPS:
                return [f"skip   and {self._skipped - SKIPS} more"]
            case CandidateEvaluated(job, line) if self._verbosity:
                step, score, best = (number(finite_number(line.get(name))) for name in ("step", "score", "best_score"))
                return [f"step   {job.job_id[:SHORT]}  step {step}  score {score}  best {best}"]
            case SandboxEvent(job, line) if self._verbosity and line.get("event") in SHOWN_EVENTS:
                return [f"event  {job.job_id[:SHORT]}  {line['event']}  {_fields(line)}".rstrip()]
            case SandboxOutput(job, phase, output) if self._verbosity > 1:
                return self._output.add(job.job_id, phase, output)
        return [text] if text else []

    def _counted(self, text: str, row: Results) -> str:
        """The line of a job that has ended, with the number of such jobs, and their cost so far if they have any."""
        self._done += 1
        self._cost += row.cost_usd
        cost = f", ${dollars(self._cost)}" if self._cost else ""
        return f"{text}  [{self._done}/{len(self.start.jobs) if self.start else 0}{cost}]"


class JsonLines(Display):
    """One JSON line per event on stdout, each written at once; see `trace_bench.cli.json_events`."""

    def __init__(self, shown_warnings: Sequence[str] = ()) -> None:
        super().__init__(shown_warnings)
        self._rows: dict[str, Results] = {}

    def notify(self, event: Event) -> None:
        super().notify(event)
        if isinstance(event, JobReused | JobFinished | JobSkipped):
            self._rows[event.job.job_id] = event.row
        if (named := json_events.json_event(event)) is not None:
            emit(json_events.line(*named))

    def close(self, exit_code: int, error: str | None = None) -> None:
        if self.start is not None:
            rows = list(self._rows.values())
            fields = json_events.run_end(self.start, rows, exit_code=exit_code, error=error)
            emit(json_events.line("run.end", fields))


def event_line(event: Event) -> str:
    """The line of an event for people; empty for an event that has none."""
    match event:
        case JobReused(job, row):
            return f"reused {name_of(job)}  {_scores(row)}{_flags(row)}"
        case JobQueued(job, host):
            held = "for GPUs, cores or quiet that others have"
            return f"wait   {name_of(job)}  {held}" + (f", on {host}" if host else "")
        case JobStarted(job, adopted):
            return f"start  {name_of(job)}" + ("  adopted" if adopted else "")
        case SandboxUp(job, host) if host:
            return f"up     {name_of(job)}  on {host}"
        case ModelCallDelayed(job, seconds, reason):
            return f"wait   {name_of(job)}  {wait(seconds, reason)}"
        case JobRetried(job, row, attempt):
            return f"retry  {name_of(job)}  attempt {attempt} after {why(row)}"
        case JobFinished(job, row):
            return _finished(job, row)
        case JobSkipped(job, row):
            return f"skip   {name_of(job)}  {first_sentence(row.feedback) or job.reason}".rstrip()
        case GapsMeasured(programs):
            what = "1 reference program" if programs == 1 else f"{programs} reference programs"
            return f"gap    scoring {what} on the same instances"
    return ""


def _finished(job: JobView, row: Results) -> str:
    """The line of a job that has ended."""
    price = f"  ${dollars(row.cost_usd)}" if row.cost_usd else ""
    match outcome_of(row):
        case "interrupted":
            return f"cut    {name_of(job)}  interrupted; will run again when the run is continued"
        case "ok":
            budget = "cut off by the run's budget" if row.cut_by_run_budget else "ended by its budget"
            end = f"  {budget}" if row.stop_reason == "budget" else ""
            return f"ok     {name_of(job)}  {_scores(row)}  {row.time_seconds or 0:.1f} s{price}{end}{_flags(row)}"
        case _:
            return f"failed {name_of(job)}  {why(row)}{price}{_flags(row)}"


def alert(text: str) -> None:
    """A line to stderr from a handler of a signal: what the thread was writing may be half written, and locked."""
    with contextlib.suppress(OSError, ValueError):  # its reader has gone
        os.write(sys.stderr.fileno(), f"{clean_line(text)}\n".encode("utf-8", "backslashreplace"))


class Output:
    """Joins the pieces of the output of sandboxes to lines, for each job and phase, and escapes them."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], str] = {}

    def add(self, job_id: str, phase: str, text: str) -> list[str]:
        """Return the lines that `text` completes."""
        *lines, rest = (self._open.pop((job_id, phase), "") + text).split("\n")
        while len(rest) > LINE:
            lines.append(rest[:LINE])
            rest = rest[LINE:]
        if rest:
            self._open[job_id, phase] = rest
        return [part for line in lines for part in self._parts(job_id, phase, line)]

    def rest(self, job_id: str) -> list[str]:
        """Return the unfinished lines of the job."""
        keys = [key for key in self._open if key[0] == job_id]
        return [part for key in keys for part in self._parts(*key, self._open.pop(key))]

    def _parts(self, job_id: str, phase: str, line: str) -> list[str]:
        line = line.removesuffix("\r")
        parts = [line[at : at + LINE] for at in range(0, len(line), LINE)] or [""]
        prefix = f"{job_id[:SHORT]} {phase} | "
        return [prefix + escape_line(part.replace("\t", "    ")) for part in parts]


def name_of(job: JobView) -> str:
    """A job on one line, for people; the stub is not named."""
    model = "" if job.model == "stub" else f"  {job.model}"
    return f"{job.job_id}  {job.task_id}  {job.trainer_id}  {job.variant}{model}  seed {job.seed}"


def why(row: Results) -> str:
    """``boundary: kind: first sentence`` of a failed job."""
    return f"{row.failure_boundary}: {row.failure_kind or '?'}: {first_sentence(row.feedback)}"


def wait(seconds: float, why: str) -> str:
    """The delay of a model call, and the reason."""
    return f"{seconds:.0f} s for its model: {why}"


def first_sentence(text: str) -> str:
    """`text` up to the end of its first sentence or line, in at most 300 characters."""
    first = re.split(r"(?<=[.!?])\s|[\r\n]", text.strip(), maxsplit=1)[0]
    return first if len(first) <= 300 else f"{first[:299]}…"


def _scores(row: Results) -> str:
    return f"{number(row.score_initial)} -> {number(row.score_best)}"


def _flags(row: Results) -> str:
    return f"  ! {' '.join(flags_of(row))}" if row.integrity_flags else ""


def _fields(line: Mapping[str, Any]) -> str:
    """The event's own fields as ``key=value``."""
    parts = []
    for key, value in line.items():
        if key in ("t", "event"):
            continue
        try:
            text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):  # a number of too many digits, or too deep
            text = "?"
        parts.append(f"{key}={text}")
    return " ".join(parts)

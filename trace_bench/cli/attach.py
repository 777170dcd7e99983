"""``attach``: a run that another process drives, shown as ``run`` would show it.

All is read from the run's folder, which no controller needs to know of: the journal says which jobs have started, are
up, are tried again and have ended; the history, output and cassette of a running job grow while it runs. A file is read
on from where it was read to, and one of a job that has ended is never read again, so that the cost is that of what
is new, however long the run has been going.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import json_objects
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Manifest, ManifestEntry, Results
from trace_bench.artifacts.usage import Tally
from trace_bench.cli.displays import Display, JsonLines
from trace_bench.cli.follow import Audience, GrowingFile
from trace_bench.cli.lookup import manifest_of
from trace_bench.cli.outcome import print_outcome
from trace_bench.cli.run import DisplayOptions, display_for
from trace_bench.cli.signals import RunInterrupted
from trace_bench.display.console import note
from trace_bench.errors import ConfigError, ExitCode, HarnessError
from trace_bench.execution.events import (
    CandidateEvaluated,
    JobFinished,
    JobQueued,
    JobRetried,
    JobReused,
    JobSkipped,
    JobStarted,
    RunEnded,
    RunStarted,
    SandboxOutput,
    SandboxUp,
    Subscriber,
    UsageChanged,
)
from trace_bench.execution.result import RunResult
from trace_bench.planning.planned_job import Decision
from trace_bench.planning.run_lock import has_controller
from trace_bench.records.reading import read_row
from trace_bench.records.rows import is_final, skipped_row
from trace_bench.records.runs import find_run

INTERVAL = 0.5
"""Seconds between two looks, at least."""
SHARE = 0.05
"""Of a core, at most, that looking takes."""
PATIENCE = 60.0
"""Seconds that a controller has for its last files, once it has said in the journal that the run is over."""
_DETACHED = "detached; the run goes on, and trace-bench attach shows it again"


@dataclass(frozen=True)
class SeenJob:
    """An entry of the manifest, as a `JobView`."""

    job_id: str
    task_id: str
    trainer_id: str
    variant: str
    model: str
    seed: int
    score_direction: Direction
    decision: Decision
    reason: str

    @classmethod
    def of(cls, entry: ManifestEntry) -> SeenJob:
        """The job of `entry`."""
        same = (f.name for f in fields(cls) if f.name != "reason")
        return cls(**{name: getattr(entry, name) for name in same}, reason=entry.decision_reason)


class Clock:
    """A monotonic clock that can be set back for what happened before anybody looked."""

    def __init__(self) -> None:
        self._ago = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self._ago

    @contextlib.contextmanager
    def at(self, stamp: object) -> Iterator[None]:
        """Within it, the time is that of `stamp`, as journals have it."""
        self._ago = _ago(stamp)
        try:
            yield
        finally:
            self._ago = 0.0


def _ago(stamp: object) -> float:
    try:
        moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else datetime.now(UTC)
        return max(0.0, (datetime.now(UTC) - moment).total_seconds())
    except (ValueError, TypeError):
        return 0.0


@dataclass
class _Files:
    """The files that grow while a job runs."""

    job: SeenJob
    history: GrowingFile
    stdout: GrowingFile
    cassette: GrowingFile
    spent: Tally = field(default_factory=Tally)


class Watch:
    """Makes events of what the files of a run say. `begin` first, then `look` again and again.

    Args:
        notify: gets the events.
        output: whether there are events of the output of sandboxes.

    Attributes:
        over: the last line of the controller, as ``run.end`` has it. None while the run goes on.
    """

    def __init__(self, layout: RunLayout, notify: Subscriber, clock: Clock, *, output: bool = False) -> None:
        self.layout = layout
        self.over: Mapping[str, Any] | None = None
        self._notify = notify
        self._clock = clock
        self._output = output
        self._journal = GrowingFile(layout.events)
        self._running: dict[str, _Files] = {}
        self._ended: dict[str, Results] = {}
        self._jobs: dict[str, SeenJob] = {}

    def begin(self) -> bool:
        """Make the events of the newest controller so far; False if none has begun."""
        lines = list(json_objects(self._journal.lines()))
        first = max((i for i, line in enumerate(lines) if line.get("event") == "run.start"), default=None)
        if first is None:
            self._journal = GrowingFile(self.layout.events)
            return False
        manifest = manifest_of(self.layout)
        self._jobs = {entry.job_id: SeenJob.of(entry) for entry in manifest.jobs}
        start = lines[first]
        with self._clock.at(start.get("t")):
            self._notify(_start(self.layout, manifest, list(self._jobs.values()), start))
        for job in self._jobs.values():
            if job.decision == "reuse" and (row := self._row(job)) is not None:
                self._ended[job.job_id] = row
                self._notify(JobReused(job, row))
        for line in lines[first + 1 :]:
            self._take(line)
        return True

    def look(self) -> None:
        """Make the events of what is new."""
        for line in json_objects(self._journal.lines()):
            self._take(line)
        for files in self._running.values():
            self._follow(files)

    def rows(self) -> list[Results]:
        """The rows of all jobs, in the order of the plan, once the run is over, with events of those that never ran."""
        manifest = manifest_of(self.layout)  # it has the reasons by now
        rows = []
        for entry in manifest.jobs:
            job = SeenJob.of(entry)
            row = self._ended.get(job.job_id) or self._row(job)
            if row is None:
                row = skipped_row(manifest.run_id, entry)
                self._notify(JobSkipped(job, row))
            rows.append(row)
        return rows

    def _take(self, line: Mapping[str, Any]) -> None:
        event, job = line.get("event"), self._jobs.get(str(line.get("job_id")))
        if event == "run.end":
            self.over = line
        if job is None:
            return
        with self._clock.at(line.get("t")):
            if event == "job.start":
                self._open(job)
                self._notify(JobStarted(job, adopted=line.get("adopted") is True))
            elif event == "job.up":
                self._notify(SandboxUp(job, host if isinstance(host := line.get("host"), str) else ""))
            elif event == "lease.wait":
                self._notify(JobQueued(job, host if isinstance(host := line.get("host"), str) else ""))
            elif event == "job.retry":
                self._retry(job, line.get("attempt"))
            elif event == "job.end":
                self._end(job)

    def _open(self, job: SeenJob) -> None:
        files = self.layout.job(job.job_id)
        self._running[job.job_id] = _Files(
            job, GrowingFile(files.state_history), GrowingFile(files.stdout), GrowingFile(files.cassette)
        )

    def _retry(self, job: SeenJob, attempt: object) -> None:
        if not isinstance(attempt, int):
            return
        files = self.layout.job(job.job_id)
        # The next attempt moves what the last one came to out of its way.
        for path in (files.attempt(attempt - 1) / files.results.name, files.results):
            with contextlib.suppress(OSError, HarnessError):
                self._notify(JobRetried(job, read_row(path), attempt))
                break
        if job.job_id in self._running:
            spent = self._running[job.job_id]
            self._open(job)
            self._running[job.job_id].cassette, self._running[job.job_id].spent = spent.cassette, spent.spent

    def _end(self, job: SeenJob) -> None:
        files = self._running.pop(job.job_id, None)
        if files is not None:
            self._follow(files)
        row = self._row(job)
        if row is None:  # a record that is damaged, or gone
            return
        self._ended[job.job_id] = row
        self._notify(JobFinished(job, row))

    def _row(self, job: SeenJob) -> Results | None:
        try:
            return read_row(self.layout.job(job.job_id).results)
        except (OSError, HarnessError):
            return None

    def _follow(self, files: _Files) -> None:
        for line in json_objects(files.history.lines()):
            self._notify(CandidateEvaluated(files.job, line))
        for raw in files.stdout.lines() if self._output else ():
            self._notify(SandboxOutput(files.job, "out", raw.decode("utf-8", "replace") + "\n"))
        before = files.spent.calls, files.spent.tries
        for raw in files.cassette.lines():
            with contextlib.suppress(ValidationError):
                files.spent.add(LlmCall.model_validate_json(raw))
        if (files.spent.calls, files.spent.tries) != before:
            self._notify(UsageChanged(files.job, files.spent.usage()))


def attach_command(run: str, runs_dir: Path, shown: DisplayOptions) -> int:
    """Show the run until it has ended, and print what it came to; returns the exit code that it had, or has now.

    Raises:
        ConfigError: there is no such run, or it has never begun. RunInterrupted: by Ctrl-C, and the run goes on; or the
            run itself was interrupted.
        HarnessError: a file of it is damaged.
    """
    layout = find_run(run, runs_dir)
    clock = Clock()
    display = display_for(shown, clock=clock)
    gc.enable()  # this may take hours
    try:
        code, error = _watch(Watch(layout, display.notify, clock, output=shown.verbosity > 1), display)
    except KeyboardInterrupt:
        display.close(ExitCode.INTERRUPTED, _DETACHED)
        raise RunInterrupted(_DETACHED) from None
    except BaseException as failure:
        display.close(getattr(failure, "exit_code", ExitCode.JOB_FAILED), str(failure))
        raise
    display.close(code, error)
    if display.end is not None and not isinstance(display, JsonLines):
        taken = "recorded" if layout.replay.exists() else "spent"
        print_outcome(layout, display.end.rows, len(display.end.rows), taken=taken)
    if error and code == ExitCode.INTERRUPTED:
        raise RunInterrupted(error)  # which says it, and once
    if error:
        note(f"error: {error}")
    return code


def _watch(watch: Watch, display: Display) -> tuple[int, str | None]:
    """See the run to its end; its exit code, and the sentence that ended it before its time."""
    layout, audience = watch.layout, Audience()
    while not watch.begin():
        if not has_controller(layout):
            raise ConfigError(
                f"run {layout.run_id} has not been started; trace-bench run --config FILE --run-id "
                f"{layout.run_id} does that"
            )
        time.sleep(INTERVAL)
    interval = INTERVAL
    while True:
        there = has_controller(layout)  # asked first: what was written before it ended is read below
        began = time.thread_time()
        watch.look()
        if watch.over is not None or not there:
            break
        if isinstance(display, JsonLines) and audience.gone():
            raise KeyboardInterrupt
        interval = max(INTERVAL, (time.thread_time() - began) / SHARE)
        time.sleep(interval)
    over = watch.over
    if over is None:
        return int(ExitCode.JOB_FAILED), f"{_DEAD}; trace-bench run --config FILE --run-id {layout.run_id} continues it"
    _until(lambda: not has_controller(layout))
    rows = watch.rows()
    error = over.get("error") if isinstance(over.get("error"), str) else None
    code = _code(layout, over, rows)
    display.notify(RunEnded(layout.run_id, layout, rows, interrupted=code == ExitCode.INTERRUPTED, error=error))
    return code, error


_DEAD = "the run's controller has died: the run has stopped, and its journal has no end"


def _code(layout: RunLayout, over: Mapping[str, Any], rows: Iterable[Results]) -> int:
    """The exit code of ``run``: from the journal, else from the files of the run."""
    said = over.get("exit_code")
    if isinstance(said, int) and said in set(map(int, ExitCode)):
        return said
    if "exit_code" not in over and not all(map(is_final, rows)) and over.get("interrupted"):
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK if RunResult.read(layout).ok else ExitCode.JOB_FAILED)


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < deadline:
        time.sleep(INTERVAL / 5)


def _start(layout: RunLayout, manifest: Manifest, jobs: list[SeenJob], line: Mapping[str, Any]) -> RunStarted:
    workers = line.get("workers")
    return RunStarted(
        manifest.run_id,
        layout,
        jobs,
        workers if isinstance(workers, int) and workers > 0 else 1,
        line.get("continued") is True,
        manifest.warnings,
    )

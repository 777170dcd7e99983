"""``attach``: a run that another process drives, shown as ``run`` shows it.

The journal of the run gives the events, the files of a running job add its steps, output and usage. Each file is read
on from where the last look ended, so the cost of a look depends only on what is new.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import json_objects
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import ManifestEntry, Results
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
    JobView,
    RunEnded,
    RunStarted,
    SandboxOutput,
    SandboxUp,
    Subscriber,
    UsageChanged,
)
from trace_bench.execution.result import RunResult
from trace_bench.records.reading import read_row
from trace_bench.records.rows import is_final, skipped_row
from trace_bench.records.runs import find_run

INTERVAL = 0.5
"""Shortest time between two looks, in seconds."""
SHARE = 0.05
"""Largest share of a core that looks take."""
PATIENCE = 60.0
"""Seconds between the last line of the journal and the release of the run's lock, at most."""
_DETACHED = "detached; the run continues, and trace-bench attach shows it again"


class Clock:
    """A monotonic clock that can be set back to the time of an earlier event."""

    def __init__(self) -> None:
        self._ago = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self._ago

    @contextlib.contextmanager
    def at(self, stamp: object) -> Iterator[None]:
        """Set the clock to `stamp`, a time of the journal, while the block runs. An invalid one is now."""
        with contextlib.suppress(ValueError, TypeError):
            self._ago = max(0.0, (datetime.now(UTC) - datetime.fromisoformat(str(stamp))).total_seconds())
        try:
            yield
        finally:
            self._ago = 0.0


class _JobFiles:
    """The files that grow while a job runs. An attempt has its own history and output; the cassette continues."""

    def __init__(self, run: RunLayout, job: JobView) -> None:
        self.job = job
        self._files = run.job(job.job_id)
        self._cassette, self._spent = GrowingFile(self._files.cassette), Tally()
        self.next_attempt()

    def next_attempt(self) -> None:
        self._history, self._stdout = GrowingFile(self._files.state_history), GrowingFile(self._files.stdout)

    def look(self, notify: Subscriber, *, output: bool) -> None:
        """Make the events of the new lines."""
        for line in json_objects(self._history.lines()):
            notify(CandidateEvaluated(self.job, line))
        for raw in self._stdout.lines() if output else ():
            notify(SandboxOutput(self.job, "out", raw.decode("utf-8", "replace") + "\n"))
        before = self._spent.calls, self._spent.tries
        for raw in self._cassette.lines():
            with contextlib.suppress(ValidationError):
                self._spent.add(LlmCall.model_validate_json(raw))
        if (self._spent.calls, self._spent.tries) != before:
            notify(UsageChanged(self.job, self._spent.usage()))


class Watch:
    """Makes the events of a run from its journal. Call `begin`, then `look` again and again.

    Args:
        notify: receives the events.
        output: make events of the output of sandboxes.

    Attributes:
        end: the line ``run.end`` of the journal; None while the run continues.
    """

    def __init__(self, layout: RunLayout, notify: Subscriber, clock: Clock, *, output: bool = False) -> None:
        self.layout = layout
        self.end: Mapping[str, Any] | None = None
        self._notify = notify
        self._clock = clock
        self._output = output
        self._journal = GrowingFile(layout.events)
        self._jobs: dict[str, JobView] = {}
        self._running: dict[str, _JobFiles] = {}

    def begin(self) -> bool:
        """Make the events of the newest controller so far. Return False if none has started the run."""
        lines = list(json_objects(self._journal.lines()))
        first = max((i for i, line in enumerate(lines) if line.get("event") == "run.start"), default=None)
        if first is None:
            self._journal = GrowingFile(self.layout.events)
            return False
        start, manifest = lines[first], manifest_of(self.layout)
        self._jobs = {entry.job_id: _planned(entry) for entry in manifest.jobs}
        jobs, continued = list(self._jobs.values()), start.get("continued") is True
        workers = count if isinstance(count := start.get("workers"), int) and count > 0 else 1
        with self._clock.at(start.get("t")):
            self._notify(RunStarted(manifest.run_id, self.layout, jobs, workers, continued, manifest.warnings))
        for job in jobs:
            if job.decision == "reuse" and (row := self._row(job.job_id)) is not None:
                self._notify(JobReused(job, row))
        for line in lines[first + 1 :]:
            self._take(line)
        return True

    def look(self) -> None:
        """Make the events of the new lines."""
        for line in json_objects(self._journal.lines()):
            self._take(line)
        for files in self._running.values():
            files.look(self._notify, output=self._output)

    def rows(self) -> list[Results]:
        """Return the rows of all jobs of a run that has ended, in the order of the plan. Make the events of jobs that
        never ran."""
        manifest = manifest_of(self.layout)  # read again: by now it has the reasons
        rows = []
        for entry in manifest.jobs:
            row = self._row(entry.job_id)
            if row is None:
                row = skipped_row(manifest.run_id, entry)
                self._notify(JobSkipped(_planned(entry), row))
            rows.append(row)
        return rows

    def _take(self, line: Mapping[str, Any]) -> None:
        """Make the event of a line of the journal."""
        event, job = line.get("event"), self._jobs.get(str(line.get("job_id")))
        if event == "run.end":
            self.end = line
        if job is None:
            return
        host = name if isinstance(name := line.get("host"), str) else ""
        with self._clock.at(line.get("t")):
            match event:
                case "job.start":
                    self._running[job.job_id] = _JobFiles(self.layout, job)
                    self._notify(JobStarted(job, adopted=line.get("adopted") is True))
                case "job.up":
                    self._notify(SandboxUp(job, host))
                case "lease.wait":
                    self._notify(JobQueued(job, host))
                case "job.retry" if isinstance(attempt := line.get("attempt"), int):
                    # The next attempt moves the result of the last one out of its way.
                    row = self._row(job.job_id, attempt - 1) or self._row(job.job_id)
                    if row is not None:
                        self._notify(JobRetried(job, row, attempt))
                    if files := self._running.get(job.job_id):
                        files.next_attempt()
                case "job.end":
                    if files := self._running.pop(job.job_id, None):
                        files.look(self._notify, output=self._output)
                    if (row := self._row(job.job_id)) is not None:
                        self._notify(JobFinished(job, row))

    def _row(self, job_id: str, attempt: int | None = None) -> Results | None:
        """The row of a job, or of one of its attempts; None if it is missing or damaged."""
        files = self.layout.job(job_id)
        path = files.results if attempt is None else files.attempt(attempt) / files.results.name
        try:
            return read_row(path)
        except (OSError, HarnessError):
            return None


def _planned(entry: ManifestEntry) -> JobView:
    """The job of `entry`, with the reason of the plan's decision."""
    return cast(JobView, entry.model_copy(update={"reason": entry.decision_reason}))


def attach_command(run: str, runs_dir: Path, shown: DisplayOptions) -> int:
    """Show the run until it has ended, and print its outcome. Return the exit code that ``run`` had, or would have.

    Raises:
        ConfigError: the run does not exist, or was never started.
        RunInterrupted: by Ctrl-C, and the run continues; or the run itself was interrupted.
        HarnessError: a file of the run is damaged.
    """
    layout = find_run(run, runs_dir)
    clock = Clock()
    display = display_for(shown, clock=clock)
    gc.enable()  # this can take hours
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
        raise RunInterrupted(error)
    if error:
        note(f"error: {error}")
    return code


def _watch(watch: Watch, display: Display) -> tuple[int, str | None]:
    """Watch the run to its end. Return its exit code, and the sentence that ended it early."""
    layout, audience = watch.layout, Audience()
    continuing = f"trace-bench run --config FILE --run-id {layout.run_id}"
    while not watch.begin():
        if not has_controller(layout):
            raise ConfigError(f"run {layout.run_id} has not been started; start it with {continuing}")
        time.sleep(INTERVAL)
    interval = INTERVAL
    while True:
        is_driven = has_controller(layout)  # before the look, which reads the last lines of a controller that has gone
        began = time.thread_time()
        watch.look()
        if watch.end is not None or not is_driven:
            break
        if isinstance(display, JsonLines) and audience.gone():
            raise KeyboardInterrupt
        interval = max(INTERVAL, (time.thread_time() - began) / SHARE)
        time.sleep(interval)
    if watch.end is None:
        return int(ExitCode.JOB_FAILED), f"the run's controller has died before the end; continue it with {continuing}"
    deadline = time.monotonic() + PATIENCE
    while has_controller(layout) and time.monotonic() < deadline:
        time.sleep(INTERVAL / 5)
    rows = watch.rows()
    code = watch.end.get("exit_code")
    if code not in tuple(ExitCode):  # a journal of an earlier version
        cut = watch.end.get("interrupted") and not all(map(is_final, rows))
        code = ExitCode.OK if RunResult.read(layout).ok else ExitCode.JOB_FAILED
        code = ExitCode.INTERRUPTED if cut else code
    error = text if isinstance(text := watch.end.get("error"), str) else None
    display.notify(RunEnded(layout.run_id, layout, rows, interrupted=code == ExitCode.INTERRUPTED, error=error))
    return int(code), error

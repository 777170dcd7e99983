"""Report the events of a run: in its journal ``events.jsonl``, and to its display."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import Journal
from trace_bench.display.log import entry, logged_to_file
from trace_bench.execution.events import (
    Event,
    EventDispatcher,
    GapsMeasured,
    JobQueued,
    JobRetried,
    JobReused,
    ModelCallDelayed,
    RunStarted,
    SandboxUp,
    Subscriber,
    UsageChanged,
)
from trace_bench.execution.live import JobListener
from trace_bench.execution.run_journal import journal_line
from trace_bench.execution.session import Listener
from trace_bench.gateway.server import Gateway
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.run_budget import RunBudget
from trace_bench.secrets import known

_LOG = logging.getLogger(__name__)

LONG_DELAY = 1.0
"""Seconds from which on the delay of a model call is reported."""
USAGE_EVERY = 1.0
"""Seconds between two reports of what a running job has used."""


class RunReporter:
    """Reports the events of one run. All methods may be called from any thread.

    Attributes:
        on_first_message: called with a job and its host when the job's sandbox has sent its first message.
    """

    def __init__(self, plan: RunPlan, budget: RunBudget, subscriber: Subscriber) -> None:
        self._plan = plan
        self._budget = budget
        self._events = EventDispatcher(subscriber)
        self._jobs = {job.job_id: job for job in plan.jobs}
        self._journal: Journal | None = None
        self._journal_lock = threading.Lock()
        self._log = contextlib.ExitStack()
        self._has_sent: set[str] = set()
        self._queued: set[str] = set()
        self._usage: dict[str, Usage] = {}
        self._usage_reported = 0.0
        self.on_first_message: Callable[[PlannedJob, str], None] = lambda job, host: None

    @contextlib.contextmanager
    def journal(self) -> Iterator[None]:
        """Keep the journal and the log open; without them, nothing is written."""
        with Journal(self._plan.layout.events) as journal, self._log:
            self._log.enter_context(logged_to_file(self._plan.layout.log))
            journal.forget()
            self._journal = journal
            yield

    def close_log(self) -> None:
        """Close the log, before the index of the run's files is made."""
        self._log.close()

    def check(self) -> None:
        """Raise an exception of the display in the caller's thread.

        Raises:
            BaseException: what the display raised.
        """
        self._events.check()

    def close(self) -> None:
        """Return once the display has all events."""
        self._events.close()

    def notify(self, event: Event) -> None:
        """Record `event`, and pass it on to the display.

        Raises:
            OSError: the disk is full. The display gets the event nevertheless.
        """
        try:
            self.record(event)
        except OSError:
            if not isinstance(event, SandboxUp):  # its job runs on; the files that must be written report the disk
                raise
        finally:
            self._events.notify(event)

    def record(self, event: Event) -> None:
        """Write `event` to the journal and the log, if it is one that they keep."""
        line = journal_line(event)
        if line is None:
            return
        _LOG.info(entry(**line))
        with self._journal_lock:  # lines are in the order of their times
            if self._journal is not None:
                # The seconds of this controller are in every line: it may be the last one.
                self._journal.append({"t": now(), **line, "seconds": round(self._budget.elapsed, 6)})

    def run_started(self, *, afresh: bool) -> RunStarted:
        """Pass on the start of the run, and the jobs whose earlier results are reused.

        The start is to be recorded once the journal is open: the display has it before that can fail.
        """
        plan, workers = self._plan, self._plan.config.max_workers
        start = RunStarted(plan.run_id, plan.layout, plan.jobs, workers, plan.continued, plan.warnings, afresh)
        self._events.notify(start)
        for job in plan.jobs:
            if job.decision == "reuse":
                self._events.notify(JobReused(job, plan.reused[job.job_id]))
        return start

    def gaps_measured(self, programs: int) -> None:
        """Report that so many reference programs are about to be scored."""
        self.notify(GapsMeasured(programs))

    # -- events of jobs ------------------------------------------------------------------------------------------

    def listener(self, job: PlannedJob) -> Listener:
        """Receives the messages of the sandbox of `job`."""
        return JobListener(job, self._plan.layout.job(job.job_id), self._events.notify, self._on_sandbox_message)

    def job_queued(self, job_id: str, host: str) -> None:
        """Report, once for each job, that it waits for resources of `host` that other controllers may hold."""
        if job_id not in self._queued:
            self._queued.add(job_id)
            self.notify(JobQueued(self._jobs[job_id], host))

    def has_sent_message(self, job: PlannedJob) -> bool:
        """Whether the sandbox of the current attempt has sent a message."""
        return job.job_id in self._has_sent

    def job_retried(self, job: PlannedJob, row: Results, attempt: int) -> None:
        """Report a further attempt, of number `attempt`; `row` is the result of the last one."""
        self._has_sent.discard(job.job_id)
        self.notify(JobRetried(job, row, attempt))

    def model_call_waits(self, job_id: str, seconds: float, why: str) -> None:
        """Report that a model call of a job is delayed, by `LONG_DELAY` or more."""
        if seconds >= LONG_DELAY and (job := self._jobs.get(job_id)) is not None:
            _LOG.info(entry("model_call.delayed", job_id=job_id, pause=round(seconds, 3), why=why))
            self.notify(ModelCallDelayed(job, seconds, known.text(why)))

    def usage(self, running: Iterable[PlannedJob], gateway: Gateway) -> None:
        """Report what the models of running jobs have used, at most every `USAGE_EVERY` seconds."""
        if time.monotonic() < self._usage_reported + USAGE_EVERY:
            return
        self._usage_reported = time.monotonic()
        found = gateway.usage()
        for job in running:
            usage = found.get(job.job_id)
            if usage is not None and usage != self._usage.get(job.job_id, Usage()):
                self._usage[job.job_id] = usage
                self.notify(UsageChanged(job, usage))

    def _on_sandbox_message(self, job: PlannedJob) -> None:
        if job.job_id in self._has_sent:
            return
        self._has_sent.add(job.job_id)
        host = host_of(self._plan.layout.job(job.job_id))
        self.on_first_message(job, host)
        self.notify(SandboxUp(job, host))


def host_of(job: JobLayout) -> str:
    """The host in the record of a job; empty if there is only one host, or none is recorded."""
    try:
        found = json.loads(job.meta.read_bytes()).get("host")
    except (OSError, ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""

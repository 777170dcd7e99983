"""Run one job: attempts until one counts, no further one is allowed, or the job moves to another host."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from functools import cached_property

from trace_bench.artifacts.records import Results
from trace_bench.display.log import entry
from trace_bench.errors import Boundary, EnvironmentUnavailable, Interrupted, TraceBenchError
from trace_bench.execution.attempt import Attempt, NotStarted, RunResources
from trace_bench.execution.cancel import RunCancellation
from trace_bench.execution.decision import NOT_OF_THE_HOST, AttemptSummary, NextStep, decide, host_error_of
from trace_bench.execution.events import GpusWithdrawn, HostLost, JobFinished, JobStarted
from trace_bench.execution.reporting import RunReporter
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import PreparedJob
from trace_bench.records.reading import read_row
from trace_bench.scheduling.allocation import Allocation, Allocator
from trace_bench.scheduling.outage import EngineOutage, LostHosts

_LOG = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
"""Seconds before the first retry; doubled for each further one …"""
LONGEST_PAUSE = 60.0
"""… up to this."""


@dataclass
class JobRunner:
    """All attempts at one job, in one allocation after the other. The job is prepared once for all of them.

    Attributes:
        attempts: number of attempts so far.
        row: the result of the last one; None if the job was stopped before it had started.
    """

    plan: RunPlan
    resources: RunResources
    allocator: Allocator
    outage: EngineOutage
    lost_hosts: LostHosts
    reporter: RunReporter
    cancellation: RunCancellation
    job: PlannedJob
    attempts: int = 0
    row: Results | None = None
    _is_reported: bool = False

    def __post_init__(self) -> None:
        self._listener = self.reporter.listener(self.job)
        self._stop = self.cancellation.of_job(self.job.job_id)

    @cached_property
    def _prepared(self) -> PreparedJob:
        return self.plan.prepare(self.job)

    def run(self, allocation: Allocation) -> bool:
        """Make attempts until one decides the job (returns True), or the job needs another allocation (False).

        Raises:
            TraceBenchError: an error that ends the run.
        """
        came, host = time.monotonic(), allocation.host.name
        while True:
            try:
                summary, error = self._attempt(allocation, came)
            except NotStarted:
                if self.row is not None:
                    self.end()
                return True
            assert self.row is not None
            step = decide(summary)
            _LOG.info(entry("attempt.decided", job_id=self.job.job_id, host=host or None,
                            attempt=self.attempts, status=self.row.status, failure=self.row.failure_kind,
                            boundary=self.row.failure_boundary, action=step.action, pause=step.pause))  # fmt: skip
            self._apply_to_host(step, self.row, allocation, error)
            if step.action == "abort":
                assert error is not None
                raise error
            if step.action == "finish":
                self.end()
                return True
            if not step.counted:
                self.attempts -= 1
            else:
                self.reporter.job_retried(self.job, self.row, self.attempts + 1)
                if step.pause:  # for a random time: jobs that failed together do not come back together
                    self._stop.wait(pause_before(self.attempts + 1) * random.uniform(0.5, 1.0))
            if step.action == "move":
                if step.pause:
                    self.allocator.avoid_host(self.job, host)
                return False

    def end(self) -> None:
        """End the job with the result of its last attempt."""
        assert self.row is not None
        self.reporter.notify(JobFinished(self.job, self.row))

    def _attempt(self, allocation: Allocation, came: float) -> tuple[AttemptSummary, TraceBenchError | None]:
        """Make one attempt; returns its summary, and the error of the host that ended it, if one did.

        Raises:
            NotStarted: the job was stopped before the attempt.
            TraceBenchError: an error that is not the host's, and ends the run.
        """
        job_id, host = self.job.job_id, allocation.host.name
        adopted = None
        if self.job.decision == "adopt" and self.row is None:
            adopted = self.plan.adopted.get(job_id)

        def report_start() -> None:
            """Report the start of the job, once for all its allocations."""
            if not self._is_reported:
                self._is_reported = True
                name = None if self.allocator.has_one_host else host
                waited = round(time.monotonic() - came, 3)
                self.reporter.notify(JobStarted(self.job, adopted is not None, name, waited))

        if adopted is not None:
            report_start()
        error: TraceBenchError | None = None
        lease_expired = False
        stop = self.cancellation.of_attempt(job_id)
        attempt = Attempt(self.resources, self._prepared, stop, self._listener, allocation, adopted, report_start)
        try:
            self.row = attempt.run()
            lease_expired = adopted is not None and self.row.stop_reason == "interrupted" and not self._stop.cancelled
        except TraceBenchError as caught:
            if not isinstance(caught, Interrupted):
                error = caught
                if host_error_of(error) is None:
                    raise
            self.row = read_row(attempt.job.results)
        self.attempts += 1
        host_error = None if error is None else host_error_of(error)
        summary = AttemptSummary(
            boundary=self.row.failure_boundary,
            kind=self.row.failure_kind,
            attempts=self.attempts,
            retries=self.plan.config.retries,
            stop_requested=self._stop.cancelled,
            one_host=self.allocator.has_one_host,
            other_host=self.allocator.has_available_host(self.job, besides=host),
            host_error=host_error,
            host_starts_nothing=host_error is None and not lease_expired and self._host_starts_nothing(host, self.row),
            has_gpus=bool(allocation.lease.devices),
            allocation_lost=adopted is not None and not allocation.lease.whole,
            lease_expired=lease_expired,
        )
        return summary, error

    def _host_starts_nothing(self, host: str, row: Results) -> bool:
        """Return True if several sandboxes in a row ended on the host before their first message, this one included."""
        if self.allocator.has_one_host or row.failure_boundary is not Boundary.SANDBOX:
            return False
        if row.failure_kind in NOT_OF_THE_HOST or self.reporter.has_sent_message(self.job) or self._stop.cancelled:
            return False
        return self.lost_hosts.start_failed(host, self.job.job.suite)

    def _apply_to_host(
        self, step: NextStep, row: Results, allocation: Allocation, error: TraceBenchError | None
    ) -> None:
        """Carry out what `step` says about the host."""
        host = allocation.host.name
        if step.wait_for_engine and error is not None:
            self.outage.wait(error, self.plan.run_id, self.job.job_id)
        if step.host_lost:
            if error is None:
                reason = f"{row.failure_kind}: {row.feedback}".rstrip(".: ")
                error = EnvironmentUnavailable(
                    f"host {host} starts no sandbox ({reason}); repair it, or leave it out, and continue the run."
                )
            if self.lost_hosts.lost(host, self.job.job_id, error):
                self.reporter.notify(HostLost(host))
        if step.withdraw_gpus:
            self.allocator.withdraw_gpus(allocation)
            self.reporter.notify(GpusWithdrawn(host, allocation.lease.devices))


def pause_before(attempt: int) -> float:
    """Seconds before attempt number `attempt`; the second is the first that waits."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * float(1 << min(attempt - 2, 30)))

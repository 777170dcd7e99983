"""Run one job: attempts until one counts, no further one is allowed, or the job moves to another host."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass

from trace_bench.artifacts.records import Results
from trace_bench.display.log import entry
from trace_bench.errors import Boundary, EnvironmentUnavailable, Interrupted, TraceBenchError
from trace_bench.execution.attempt import AttemptRunner
from trace_bench.execution.decision import NOT_OF_THE_HOST, AttemptSummary, HostError, NextStep, decide, host_error_of
from trace_bench.execution.events import GpusWithdrawn, HostLost, JobFinished, JobStarted
from trace_bench.execution.reporting import RunReporter
from trace_bench.execution.sandboxes import NotStarted
from trace_bench.execution.stopping import StopRequests
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import PreparedJob
from trace_bench.sandbox.base import Sandbox
from trace_bench.scheduling.allocation import Allocation, Allocator
from trace_bench.scheduling.outage import EngineOutage, LostHosts

_LOG = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
"""Seconds before the first retry; doubled for each further one …"""
LONGEST_PAUSE = 60.0
"""… up to this."""


@dataclass(frozen=True)
class MovedJob:
    """A job that waits for another allocation. `row` is the result of its last attempt."""

    row: Results
    attempts: int


JobOutcome = Results | MovedJob | None
"""The result of a job in one allocation; None if it was stopped before it started."""


@dataclass(frozen=True)
class JobExecutor:
    """Runs the jobs of one run. May be used by many threads."""

    plan: RunPlan
    runner: AttemptRunner
    allocator: Allocator
    outage: EngineOutage
    lost_hosts: LostHosts
    reporter: RunReporter
    stop: StopRequests

    def execute(self, job: PlannedJob, allocation: Allocation, moved: MovedJob | None = None) -> JobOutcome:
        """Run `job` in `allocation`.

        Args:
            moved: its attempts in other allocations.

        Raises:
            TraceBenchError: an error that ends the run.
        """
        return _Attempts(self, job, allocation, moved).run()

    def end(self, job: PlannedJob, row: Results) -> Results:
        """End `job` with `row`, the result of its last attempt."""
        self.reporter.notify(JobFinished(job, row))
        return row


class _Attempts:
    """The attempts at one job in one allocation. The job is prepared once for all of them.

    Attributes:
        number: of attempts so far, those in other allocations included.
        row: the result of the last one.
    """

    def __init__(self, executor: JobExecutor, job: PlannedJob, allocation: Allocation, moved: MovedJob | None) -> None:
        self._executor = executor
        self._job = job
        self._allocation = allocation
        self._prepared: PreparedJob = executor.plan.prepare(job)
        self._listener = executor.reporter.listener(job)
        self._came = time.monotonic()
        self._reported = moved is not None
        self._adopted: Sandbox | None = None
        if moved is None and job.decision == "adopt":
            self._adopted = executor.plan.adopted.get(job.job_id)
        self.number = moved.attempts if moved is not None else 0
        self.row: Results | None = moved.row if moved is not None else None

    def run(self) -> JobOutcome:
        """Make attempts until one decides the job, or the job moves to another allocation.

        Raises:
            TraceBenchError: an error that ends the run.
        """
        executor, job, host = self._executor, self._job, self._allocation.host.name
        while True:
            try:
                summary, error = self._attempt()
            except NotStarted:
                return None if self.row is None else executor.end(job, self.row)
            assert self.row is not None
            step = decide(summary)
            _LOG.info(entry("attempt.decided", job_id=job.job_id, host=host or None,
                            attempt=self.number, status=self.row.status, failure=self.row.failure_kind,
                            boundary=self.row.failure_boundary, action=step.action, pause=step.pause))  # fmt: skip
            self._apply_to_host(step, self.row, error)
            if step.action == "abort":
                assert error is not None
                raise error
            if step.action == "finish":
                return executor.end(job, self.row)
            if not step.counted:
                self.number -= 1
            else:
                executor.reporter.job_retried(job, self.row, self.number + 1)
                if step.pause:
                    self._pause()
            if step.action == "move":
                if step.pause:
                    executor.allocator.avoid_host(job, host)
                return MovedJob(self.row, self.number)

    def _apply_to_host(self, step: NextStep, row: Results, error: TraceBenchError | None) -> None:
        """Carry out what `step` says about the host."""
        executor, host = self._executor, self._allocation.host.name
        if step.wait_for_engine and error is not None:
            executor.outage.wait(error, executor.plan.run_id, self._job.job_id)
        if step.host_lost and executor.lost_hosts.lost(host, self._job.job_id, error or _starts_nothing(host, row)):
            executor.reporter.notify(HostLost(host))
        if step.withdraw_gpus:
            executor.allocator.withdraw_gpus(self._allocation)
            executor.reporter.notify(GpusWithdrawn(host, self._allocation.lease.devices))

    def _pause(self) -> None:
        """Wait before the next attempt, for a random time: jobs that failed together do not come back together."""
        end = time.monotonic() + pause_before(self.number + 1) * random.uniform(0.5, 1.0)
        while time.monotonic() < end and self._executor.stop.requested(self._job.job_id) is None:
            time.sleep(0.1)

    def _attempt(self) -> tuple[AttemptSummary, TraceBenchError | None]:
        """Make one attempt; returns its summary, and the error of the host that ended it, if one did.

        Raises:
            NotStarted: the job was stopped before the attempt.
            TraceBenchError: an error that is not the host's, and ends the run.
        """
        executor, runner = self._executor, self._executor.runner
        adopted, self._adopted = self._adopted, None
        host_error: HostError | None = None
        error: TraceBenchError | None = None
        lease_expired = False
        try:
            if adopted is not None:
                self._report_start(adopted)
                row = runner.adopt(self._prepared, adopted, self._listener)
                lease_expired = row.stop_reason == "interrupted" and executor.stop.requested(self._job.job_id) is None
            else:
                row = runner.run(self._prepared, self._listener, allocation=self._allocation, begun=self._report_start)
        except Interrupted:
            row = runner.last_row(self._prepared)
        except TraceBenchError as caught:
            host_error, error = host_error_of(caught), caught
            if host_error is None:
                raise
            row = runner.last_row(self._prepared)
        self.row, self.number = row, self.number + 1
        allocation_lost = adopted is not None and not self._allocation.lease.whole
        return self._summary(row, host_error, lease_expired, allocation_lost), error

    def _summary(
        self, row: Results, host_error: HostError | None, lease_expired: bool, allocation_lost: bool
    ) -> AttemptSummary:
        executor, allocation = self._executor, self._allocation
        return AttemptSummary(
            boundary=row.failure_boundary,
            kind=row.failure_kind,
            attempts=self.number,
            retries=executor.plan.config.retries,
            stop_requested=executor.stop.requested(self._job.job_id) is not None,
            one_host=executor.allocator.has_one_host,
            other_host=executor.allocator.has_available_host(self._job, besides=allocation.host.name),
            host_error=host_error,
            host_starts_nothing=host_error is None and not lease_expired and self._host_starts_nothing(row),
            has_gpus=bool(allocation.lease.devices),
            allocation_lost=allocation_lost,
            lease_expired=lease_expired,
        )

    def _report_start(self, adopted: Sandbox | None = None) -> None:
        """Report the start of the job, once for all its allocations."""
        if self._reported:
            return
        self._reported = True
        one_host = self._executor.allocator.has_one_host
        host = None if one_host else self._allocation.host.name
        waited = time.monotonic() - self._came
        self._executor.reporter.notify(JobStarted(self._job, adopted is not None, host, round(waited, 3)))

    def _host_starts_nothing(self, row: Results) -> bool:
        """Whether several sandboxes in a row ended on the host before their first message, this one included."""
        executor = self._executor
        if executor.allocator.has_one_host or row.failure_boundary is not Boundary.SANDBOX:
            return False
        if row.failure_kind in NOT_OF_THE_HOST or executor.reporter.has_sent_message(self._job):
            return False
        if executor.stop.requested(self._job.job_id) is not None:
            return False
        return executor.lost_hosts.start_failed(self._allocation.host.name, self._job.job.suite)


def _starts_nothing(host: str, row: Results) -> EnvironmentUnavailable:
    why = f"{row.failure_kind}: {row.feedback}".rstrip(".: ")
    return EnvironmentUnavailable(
        f"host {host} starts no sandbox ({why}); repair it, or leave it out, and continue the run."
    )


def pause_before(attempt: int) -> float:
    """Seconds before attempt number `attempt`; the second is the first that waits."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * float(1 << min(attempt - 2, 30)))

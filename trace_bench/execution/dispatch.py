"""Start the jobs of a run as hosts become free, until all have ended or the run is to stop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from trace_bench.execution.cancel import RunCancellation
from trace_bench.execution.job_runner import JobRunner
from trace_bench.execution.reporting import RunReporter
from trace_bench.execution.run_records import RunRecords
from trace_bench.gateway.server import Gateway
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.run_budget import RunBudget
from trace_bench.scheduling.allocation import Allocation, Allocator
from trace_bench.scheduling.outage import LostHosts
from trace_bench.scheduling.queue import JobQueue

LEASE_POLL = 0.25
"""Seconds between two checks for GPUs, cores or a host that other controllers hold."""
IDLE_POLL = 0.1
"""Seconds between two checks for a lost host that all jobs wait for."""


@dataclass
class Dispatcher:
    """Runs the jobs of one run, each on a thread of its own.

    Attributes:
        queue: the jobs to run. Jobs that are left in it when `run` returns were not to start.
        records: gets the results, and the reasons why jobs did not start.
        runner_of: makes the runner of a job.
    """

    plan: RunPlan
    queue: JobQueue
    allocator: Allocator
    lost_hosts: LostHosts
    budget: RunBudget
    stop: RunCancellation
    records: RunRecords
    reporter: RunReporter
    gateway: Gateway
    runner_of: Callable[[PlannedJob], JobRunner]
    _running: dict[Future[bool], JobRunner] = field(default_factory=dict)
    _ended: SimpleQueue[Future[bool]] = field(default_factory=SimpleQueue)
    _at_work: set[str] = field(default_factory=set)
    _moved: dict[str, JobRunner] = field(default_factory=dict)
    """Runners of jobs that wait for another allocation, by job id."""

    def run(self, adopted: Sequence[PlannedJob]) -> str:
        """Run `adopted`, and the queue until it is empty or no further job is to start.

        Returns the id of the first job that failed; empty if none did.
        """
        workers = self.plan.config.max_workers + len(self.plan.adopted)
        with ThreadPoolExecutor(workers, thread_name_prefix="job") as pool:
            try:
                for job in adopted:
                    self._start(pool, job, self.allocator.adopt(job, self.plan.adopted[job.job_id]))
                return self._run_queue(pool)
            except BaseException:
                self.allocator.stop_waiting()
                self._end_running_jobs()
                raise
            finally:
                self._end_moved(self.queue)

    def _run_queue(self, pool: ThreadPoolExecutor) -> str:
        config, queue, failed = self.plan.config, self.queue, ""
        while queue or self._running:
            self.reporter.check()
            stop = self.stop.cancelled or bool(failed and config.fail_fast)
            if not stop:
                self._start_jobs(pool)
            over = bool(stop or not queue or self.budget.used_up())
            if over or len(self._running) >= config.max_workers:
                self.allocator.stop_waiting()  # nothing could be allocated if it became free
            idle, waiting = not self._running, self.allocator.waiting
            if idle and over:
                break
            for job_id, host in waiting.items():
                self.reporter.job_queued(job_id, host)
            if idle or waiting:
                self._drop_cancelled()
            if idle:
                self._drop_impossible()
            # At most a second: a request to stop is checked again, even if a signal was lost.
            for future in _take_all(self._ended, LEASE_POLL if waiting else IDLE_POLL if idle else 1.0):
                failed = self._record_outcome(future) or failed
            self.records.maybe_write_tables()
            self.reporter.usage((runner.job for runner in self._running.values()), self.gateway)
        return failed

    def _start_jobs(self, pool: ThreadPoolExecutor) -> None:
        """Start jobs of the queue while there are workers, hosts and budget."""
        most = self.plan.config.max_workers
        while self.queue and len(self._running) < most and not self.budget.used_up():
            found = self.allocator.allocate_next(self.queue)
            if found is None:
                return
            job, allocation = found
            if (reason := self._skip_reason(job)) is not None:
                self.allocator.release(allocation)
                self.records.skip(job, reason)
                self._end_moved([job])
            else:
                self._start(pool, job, allocation)

    def _start(self, pool: ThreadPoolExecutor, job: PlannedJob, allocation: Allocation) -> None:
        runner = self._moved.get(job.job_id) or self.runner_of(job)
        future = pool.submit(self._run_job, runner, allocation)
        self._running[future] = runner
        future.add_done_callback(self._ended.put)

    def _run_job(self, runner: JobRunner, allocation: Allocation) -> bool:
        self._at_work.add(runner.job.job_id)
        self._moved.pop(runner.job.job_id, None)
        try:
            return runner.run(allocation)
        finally:
            self.allocator.release(allocation)
            self._at_work.discard(runner.job.job_id)

    def _record_outcome(self, future: Future[bool]) -> str:
        """Record the outcome of a job in its allocation, or queue it again if it moves; returns its id if it failed."""
        runner = self._running.pop(future)
        job, ended, row = runner.job, future.result(), runner.row
        if not ended:
            self._moved[job.job_id] = runner
            self.queue.put_first(job)
        elif row is None:
            self.records.skip(job, self.stop.reason_before_start(job.job_id))
        else:
            self.records.put(row)
            if row.status == "failed" and row.stop_reason != "interrupted":
                return job.job_id
        return ""

    def _skip_reason(self, job: PlannedJob) -> str | None:
        """Why a job that has an allocation is not to start; None if it is."""
        if self.stop.of_job(job.job_id).cancelled:
            return "cancelled"
        known = self.plan.durations.get(job.job_id)
        if known is None or not self.plan.config.scheduling.within_budget:
            return None
        reason = self.budget.too_short_for(known.shortest)
        # A job that was cut off continues from its checkpoint, and how long it still takes is unknown.
        return reason if reason is None or not self.plan.layout.job(job.job_id).checkpoint.exists() else None

    def _drop_cancelled(self) -> None:
        """Take cancelled jobs out of the queue: nothing is to be reserved for them."""
        for job in self.queue.heads():
            if self.stop.of_job(job.job_id).cancelled:
                self.queue.remove(job)
                self.records.skip(job, self.stop.reason_before_start(job.job_id))
                self._end_moved([job])

    def _drop_impossible(self) -> None:
        """Take jobs out of the queue that no host can ever run. To be called when no job runs and none could start.

        Jobs that wait for resources of other controllers, or for a host that may come back, stay in the queue.

        Raises:
            TraceBenchError: all hosts that could run any of the jobs have been lost for too long.
        """
        found = False
        for job in self.queue.heads():
            if (reason := self.allocator.why_impossible(job)) is not None:
                self.queue.remove(job)
                self.records.skip(job, reason)
                found = True
            found = found or self.allocator.has_available_host(job)
        self.lost_hosts.check(blocked=not found)

    def _end_moved(self, jobs: Iterable[PlannedJob]) -> None:
        """End those of `jobs` that wait for another allocation, with the result of their last attempt."""
        for job in jobs:
            if (runner := self._moved.pop(job.job_id, None)) is not None:
                self._end(runner)

    def _end(self, runner: JobRunner) -> None:
        runner.end()
        assert runner.row is not None
        self.records.put(runner.row)

    def _end_running_jobs(self) -> None:
        """Let the running jobs end in order, and record their results: an error ends the run."""
        self.stop.cancel("interrupted")
        while True:
            try:
                wait(self._running)
                while self._at_work:  # a job whose start was interrupted is not among those that run
                    time.sleep(0.05)
                break
            except KeyboardInterrupt:
                self.stop.cancel("kill")
        for future, runner in self._running.items():
            if future.exception() is None and runner.row is not None:
                if future.result():
                    self.records.put(runner.row)
                else:
                    self._end(runner)


def _take_all(queue: SimpleQueue[Future[bool]], timeout: float) -> Iterator[Future[bool]]:
    """All items of `queue`; waits for the first."""
    with contextlib.suppress(Empty):
        yield queue.get(timeout=timeout)
        while True:
            yield queue.get_nowait()

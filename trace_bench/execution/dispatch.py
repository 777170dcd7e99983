"""Start the jobs of a run as hosts become free, until all have ended or the run is to stop."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue

from trace_bench.execution.job_executor import JobExecutor, JobOutcome, MovedJob
from trace_bench.execution.run_records import RunRecords
from trace_bench.gateway.server import Gateway
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.run_budget import RunBudget
from trace_bench.scheduling.allocation import Allocation
from trace_bench.scheduling.queue import JobQueue

LEASE_POLL = 0.25
"""Seconds between two checks for GPUs, cores or a host that other controllers hold."""
IDLE_POLL = 0.1
"""Seconds between two checks for a lost host that all jobs wait for."""


class Dispatcher:
    """Runs the jobs of one run, each on a thread of its own.

    Args:
        queue: the jobs to run. Jobs that are left in it when `run` returns were not to start.
        records: gets the results, and the reasons why jobs did not start.
    """

    def __init__(
        self, executor: JobExecutor, queue: JobQueue, budget: RunBudget, records: RunRecords, gateway: Gateway
    ) -> None:
        self._executor = executor
        self._plan = executor.plan
        self._allocator = executor.allocator
        self._reporter = executor.reporter
        self._stop = executor.stop
        self._queue = queue
        self._budget = budget
        self._records = records
        self._gateway = gateway
        self._running: dict[Future[JobOutcome], PlannedJob] = {}
        self._ended: SimpleQueue[Future[JobOutcome]] = SimpleQueue()
        self._at_work: set[str] = set()
        self._moved: dict[str, MovedJob] = {}

    def run(self, adopted: Sequence[PlannedJob]) -> str:
        """Run `adopted`, and the queue until it is empty or no further job is to start.

        Returns the id of the first job that failed; empty if none did.
        """
        workers = self._plan.config.max_workers + len(self._plan.adopted)
        with ThreadPoolExecutor(workers, thread_name_prefix="job") as pool:
            try:
                for job in adopted:
                    self._start(pool, job, self._allocator.adopt(job, self._plan.adopted[job.job_id]))
                return self._run_queue(pool)
            except BaseException:
                self._allocator.stop_waiting()
                self._end_running_jobs()
                raise
            finally:
                self._end_moved(self._queue)

    def _run_queue(self, pool: ThreadPoolExecutor) -> str:
        config, queue, failed = self._plan.config, self._queue, ""
        while queue or self._running:
            self._reporter.check()
            stop = self._stop.requested() is not None or bool(failed and config.fail_fast)
            if not stop:
                self._start_jobs(pool)
            over = bool(stop or not queue or self._budget.used_up())
            if over or len(self._running) >= config.max_workers:
                self._allocator.stop_waiting()  # nothing could be allocated if it became free
            idle, waiting = not self._running, self._allocator.waiting
            if idle and over:
                break
            for job_id, host in waiting.items():
                self._reporter.job_queued(job_id, host)
            if idle or waiting:
                self._drop_cancelled()
            if idle:
                self._drop_impossible()
            # At most a second: a request to stop is checked again, even if a signal was lost.
            for future in _take_all(self._ended, LEASE_POLL if waiting else IDLE_POLL if idle else 1.0):
                failed = self._record_outcome(future) or failed
            self._records.maybe_write_tables()
            self._reporter.usage(self._running.values(), self._gateway)
        return failed

    def _start_jobs(self, pool: ThreadPoolExecutor) -> None:
        """Start jobs of the queue while there are workers, hosts and budget."""
        most = self._plan.config.max_workers
        while self._queue and len(self._running) < most and not self._budget.used_up():
            found = self._allocator.allocate_next(self._queue)
            if found is None:
                return
            job, allocation = found
            if (reason := self._skip_reason(job)) is not None:
                self._allocator.release(allocation)
                self._records.skip(job, reason)
                self._end_moved([job])
            else:
                self._start(pool, job, allocation)

    def _start(self, pool: ThreadPoolExecutor, job: PlannedJob, allocation: Allocation) -> None:
        future = pool.submit(self._execute, job, allocation)
        self._running[future] = job
        future.add_done_callback(self._ended.put)

    def _execute(self, job: PlannedJob, allocation: Allocation) -> JobOutcome:
        self._at_work.add(job.job_id)
        try:
            return self._executor.execute(job, allocation, self._moved.pop(job.job_id, None))
        finally:
            self._allocator.release(allocation)
            self._at_work.discard(job.job_id)

    def _record_outcome(self, future: Future[JobOutcome]) -> str:
        """Record the outcome of a job in its allocation, or queue it again if it moves; returns its id if it failed."""
        outcome, job = future.result(), self._running.pop(future)
        if isinstance(outcome, MovedJob):
            self._moved[job.job_id] = outcome
            self._queue.put_first(job)
        elif outcome is None:
            self._records.skip(job, self._stop.why_before_start(job.job_id))
        else:
            self._records.put(outcome)
            if outcome.status == "failed" and outcome.stop_reason != "interrupted":
                return job.job_id
        return ""

    def _skip_reason(self, job: PlannedJob) -> str | None:
        """Why a job that has an allocation is not to start; None if it is."""
        if self._stop.requested(job.job_id) is not None:
            return "cancelled"
        known = self._plan.durations.get(job.job_id)
        if known is None or not self._plan.config.scheduling.within_budget:
            return None
        reason = self._budget.too_short_for(known.shortest)
        # A job that was cut off continues from its checkpoint, and how long it still takes is unknown.
        return reason if reason is None or not self._plan.layout.job(job.job_id).checkpoint.exists() else None

    def _drop_cancelled(self) -> None:
        """Take cancelled jobs out of the queue: nothing is to be reserved for them."""
        for job in self._queue.heads():
            if self._stop.requested(job.job_id) is not None:
                self._queue.remove(job)
                self._records.skip(job, self._stop.why_before_start(job.job_id))
                self._end_moved([job])

    def _drop_impossible(self) -> None:
        """Take jobs out of the queue that no host can ever run. To be called when no job runs and none could start.

        Jobs that wait for resources of other controllers, or for a host that may come back, stay in the queue.

        Raises:
            TraceBenchError: all hosts that could run any of the jobs have been lost for too long.
        """
        found = False
        for job in self._queue.heads():
            if (reason := self._allocator.why_impossible(job)) is not None:
                self._queue.remove(job)
                self._records.skip(job, reason)
                found = True
            found = found or self._allocator.has_available_host(job)
        self._executor.lost_hosts.check(blocked=not found)

    def _end_moved(self, jobs: Iterable[PlannedJob]) -> None:
        """End those of `jobs` that wait for another allocation, with the result of their last attempt."""
        for job in jobs:
            if (moved := self._moved.pop(job.job_id, None)) is not None:
                self._records.put(self._executor.end(job, moved.row))

    def _end_running_jobs(self) -> None:
        """Let the running jobs end in order, and record their results: an error ends the run."""
        self._stop.end_run("interrupted")
        while True:
            try:
                wait(self._running)
                while self._at_work:  # a job whose start was interrupted is not among those that run
                    time.sleep(0.05)
                break
            except KeyboardInterrupt:
                self._stop.end_run("kill")
        for future, job in self._running.items():
            outcome = future.result() if future.exception() is None else None
            if isinstance(outcome, MovedJob):
                outcome = self._executor.end(job, outcome.row)
            if outcome is not None:
                self._records.put(outcome)


def _take_all(queue: SimpleQueue[Future[JobOutcome]], timeout: float) -> Iterator[Future[JobOutcome]]:
    """All items of `queue`; waits for the first."""
    with contextlib.suppress(Empty):
        yield queue.get(timeout=timeout)
        while True:
            yield queue.get_nowait()


def briefly_cached(ask: Callable[[], frozenset[int]], seconds: float = 5.0) -> Callable[[], frozenset[int]]:
    """Cache the answer of `ask` for some seconds. The returned function may be called from many threads."""
    lock = threading.Lock()
    answer: tuple[float, frozenset[int]] | None = None

    def cached() -> frozenset[int]:
        nonlocal answer
        with lock:
            if answer is None or time.monotonic() - answer[0] > seconds:
                answer = (time.monotonic(), ask())
            return answer[1]

    return cached

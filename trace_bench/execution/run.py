"""A run: write its records, see its jobs through, derive its tables."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from trace_bench.artifacts.derived import ReplayReport
from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import Journal, sync_files, write_json
from trace_bench.errors import Boundary, EnvironmentUnavailable, ExitCode, Interrupted, SandboxError, TraceBenchError
from trace_bench.execution.attempts import keep_attempt
from trace_bench.execution.attribution import is_retried
from trace_bench.execution.cancel import Cancellations
from trace_bench.execution.job import JobRunner, NotStarted
from trace_bench.execution.live import LiveJobs
from trace_bench.execution.progress import Progress, Quiet, RunEnd, RunStart
from trace_bench.execution.providers import providers_of
from trace_bench.execution.records import outcome_of, recorded_row, write_records
from trace_bench.execution.response_cache import cache_of
from trace_bench.execution.result import RunResult
from trace_bench.execution.service_host import ServiceHost, services_of
from trace_bench.execution.teller import Teller
from trace_bench.gateway.server import Gateway
from trace_bench.planning.backends import BackendChoice, remember_backend
from trace_bench.planning.job_order import longest_first
from trace_bench.planning.manifest import Outcome, read_entry
from trace_bench.planning.ownership import alone_in
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.recording import Recording
from trace_bench.planning.run_budget import RunBudget, limits_of
from trace_bench.records import parquet, replay_check
from trace_bench.records.rows import is_final, skipped_row, was_cut
from trace_bench.records.tables import (
    LiveTables,
    preload_standings,
    write_files_index,
    write_standings,
)
from trace_bench.sandbox.base import Sandbox, SuppliesImages
from trace_bench.sandbox.errors import (
    ControlMissing,
    EngineGone,
    EngineUnfit,
    GpusMissing,
    ImageMissing,
    OutOfDisk,
    RuntimeMissing,
)
from trace_bench.sandbox.labels import JOB
from trace_bench.sandbox.leases import Shared, Taken
from trace_bench.sandbox.uids import UidBlocks
from trace_bench.scheduling.allocation import Allocation, Allocator
from trace_bench.scheduling.outage import EngineOutage, LostHosts
from trace_bench.scheduling.queue import JobQueue
from trace_bench.secrets import known
from trace_bench.worker.reports import DEVICE_LOST

if TYPE_CHECKING:
    pass

FIRST_PAUSE = 1.0
"""Seconds before the first retry; each further one waits twice as long …"""
LONGEST_PAUSE = 60.0
"""… up to this."""
LEASE_POLL = 0.25
"""Seconds between two looks at whether GPUs, cores or a host that others have are free."""
HOST_HAD_NO_PART = frozenset({"lease_lost", "rate_limited", "interrupted"})
"""Ways in which an attempt fails before it has begun that say nothing of its host."""
OF_ITS_HOST = frozenset({"control_missing", "engine_unfit", "gpus_missing", "runtime_missing"})
"""Failures that come again on the same host, and need not on another."""
IDLE = 0.1
"""Seconds between two looks at whether a host is back that all jobs wait for."""


def _preload(jobs: int) -> None:
    """Import what the tables of `jobs` jobs need: intervals, and with them SciPy, only if there are several."""
    parquet.preload()
    if jobs > 1:
        preload_standings()


@dataclass(frozen=True)
class _Moved:
    """A job that has lost its allocation and waits for another. `row` is what its last attempt came to."""

    row: Results
    attempts: int


_Ending = Results | _Moved | None
"""What comes of a job's turn; None if it was to stop before it had begun."""


class Run:
    """One run.

    Args:
        stop_wanted: None, ``"interrupted"`` (end in order) or ``"kill"``; asked often, from many threads.
    """

    def __init__(
        self,
        plan: RunPlan,
        *,
        progress: Progress | None = None,
        stop_wanted: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._plan = plan
        self._backend = plan.backend
        self._progress = progress or Quiet()
        self._user_wants = stop_wanted
        self._broken: str | None = None
        self._working: set[str] = set()
        self._up: set[str] = set()
        self._noting = threading.Lock()
        self._journal: Journal | None = None
        self.layout = plan.layout
        self._cancel = Cancellations(plan.layout)
        self._budget = RunBudget(limits_of(plan.config), plan.spent)
        self._rows: dict[str, Results] = dict(plan.reused)
        self._why_not: dict[str, str] = {}
        self._left: list[str] = []
        self._moved: dict[str, _Moved] = {}
        self._waited: set[str] = set()
        self._report: ReplayReport | None = None
        self._tables = LiveTables(plan.layout, [job.job_id for job in plan.jobs], plan.config.tags)

    def execute(self) -> RunResult:
        """Run all jobs that have no equal result yet.

        Raises:
            ConfigError: another controller is at work in the run's folder. PlanIsOld: one was, since it was planned.
            Interrupted: after everything that had finished was recorded.
            EnvironmentUnavailable, SandboxError: the machine lacks something that all jobs need; likewise.
        """
        with alone_in(self.layout):
            self._plan.check()
            self._teller = Teller(self._progress)
            self._live = LiveJobs(self.layout, self._plan.jobs, self._teller, self._on_word)
            try:
                return self._execute()
            finally:
                self._teller.close()

    def _execute(self) -> RunResult:
        plan = self._plan
        untouched = plan.finished
        if not untouched:
            self._cancel.forget()
            write_records(plan)
            remember_backend(plan.run_id, BackendChoice.of(plan.config))
        self._tell_beginning()
        failure: BaseException | None = None
        with contextlib.ExitStack() as stack:
            self._journal = None if untouched else stack.enter_context(Journal(self.layout.events))
            if self._journal is not None:
                self._journal.forget()
            afresh = plan.continued and plan.config.resume == "none"
            self._note("run.start", jobs=len(plan.jobs), reused=len(self._rows), workers=plan.config.max_workers,
                       continued=plan.continued, afresh=afresh)  # fmt: skip
            self._budget.begin()  # after that line: the next controller counts from there
            try:
                for job in plan.jobs if afresh else ():
                    # Of all jobs: one whose turn does not come must not keep a result that the budget does not hold.
                    keep_attempt(self.layout.job(job.job_id), calls=True)
                for sandbox in plan.leftovers:
                    sandbox.remove()
                self._run_jobs()
            except KeyboardInterrupt as error:
                failure = error if isinstance(error, Interrupted) else self._interrupted()
            except BaseException as error:
                failure = error
            try:
                rows = self._finish(failure, write=not untouched)
            except BaseException:
                # What came first is the cause.
                if failure is not None:
                    raise failure from None
                raise
        if failure is not None:
            raise failure
        self._teller.close()
        self._teller.check()
        return RunResult(plan.run_id, self.layout, rows, len(plan.jobs), self._report)

    def _interrupted(self) -> Interrupted:
        finished = sum(map(is_final, self._rows.values()))
        return Interrupted(
            f"interrupted; {finished} of {len(self._plan.jobs)} jobs have finished; the same command continues the "
            f"run, or --run-id {self._plan.run_id}"
        )

    # -- jobs ----------------------------------------------------------------------------------------------------

    def _run_jobs(self) -> None:
        plan = self._plan
        left = [plan.jobs[i] for i in plan.order if plan.jobs[i].decision in ("run", "adopt")]
        adopted = [job for job in left if job.decision == "adopt"]  # first: their leases run out
        fresh = [job for job in left if job.decision != "adopt"]
        queue = JobQueue(longest_first(fresh, plan.durations) if plan.config.scheduling.longest_first else fresh)
        for job in plan.jobs:
            if job.decision == "skip":
                self._why_not[job.job_id] = job.reason
        if not left:
            return
        on_wait = self._live.waits
        with providers_of(plan.config, plan.lock.prices, recording=plan.recording, on_wait=on_wait) as providers:
            gateway = Gateway(providers, run_meter=self._budget.meter, cache=cache_of(plan.config))
            with contextlib.closing(services_of(plan)) as services:
                services.sweep()
                failed = self._run_queue(adopted, queue, gateway, services)
        if self._stop() is not None:
            self._because(queue, self._why_before_its_turn())
            ended = {job_id for job_id, row in self._rows.items() if is_final(row)}
            if not all(job.job_id in ended for job in left):  # else it came too late to cut anything off
                raise self._interrupted()
        out_of = "" if failed and plan.config.fail_fast else self._budget.used_up()
        self._because(queue, out_of or f"fail_fast: job {failed} failed")

    def _run_queue(
        self, adopted: Sequence[PlannedJob], queue: JobQueue, gateway: Gateway, services: ServiceHost
    ) -> str:
        """Run the jobs of `adopted` and `queue`; what is left in it was not to start. Returns the first that failed."""
        plan = self._plan
        self._allocator = Allocator(
            self._backend.hosts(),
            suites=plan.config.scheduling.suites,
            starting=plan.config.scheduling.max_starting,
            taken=self._backend.taken if isinstance(self._backend, Shared) else lambda _: Taken(),
        )
        self._outage = EngineOutage(self._backend, self._stop)
        self._lost = LostHosts(
            self._backend, self._allocator, plan.run_id, on_back=lambda host: self._note("host.back", host=host)
        )
        if isinstance(self._backend, SuppliesImages):
            self._backend.stop_supplying_when(lambda: self._stop() is not None)
        runner = JobRunner(
            backend=self._backend,
            gateway=gateway,
            uids=UidBlocks(self._backend.default_uid_base),
            layout=self.layout,
            taken=remembered(self._backend.uid_bases_in_use),
            stop_wanted=self._stop_of_job,
            recording=plan.recording,
            services=services,
        )
        running: dict[Future[_Ending], PlannedJob] = {}
        # Beside the jobs, which leave the processor to others while they wait.
        threading.Thread(target=_preload, args=(len(plan.jobs),), name="preload", daemon=True).start()
        workers = plan.config.max_workers + len(plan.adopted)
        try:
            with contextlib.closing(self._lost), ThreadPoolExecutor(workers, thread_name_prefix="job") as pool:
                try:
                    failed = self._see_through(pool, runner, adopted, queue, running)
                except BaseException:
                    self._allocator.stop_waiting()
                    self._wind_down(running)
                    raise
                finally:
                    self._end_moved(queue)
        except BaseException:
            self._left += [sandbox.name for sandbox in runner.unremoved]  # nobody waits for a service that is gone
            raise
        self._remove_at_last(runner.unremoved)
        self._lost.last_look()
        return failed

    def _remove_at_last(self, sandboxes: Sequence[Sandbox]) -> None:
        """Remove those of recorded jobs that could not be removed then; who made them is told of those that stay."""
        for sandbox in sandboxes:
            try:
                sandbox.remove()
            except SandboxError as error:
                self._left.append(sandbox.name)
                why = printable(known.text(str(error)), 400)
                self._note("sandbox.left", job_id=sandbox.labels.get(JOB), sandbox=sandbox.name, message=why)

    def _see_through(
        self,
        pool: ThreadPoolExecutor,
        runner: JobRunner,
        adopted: Sequence[PlannedJob],
        queue: JobQueue,
        running: dict[Future[_Ending], PlannedJob],
    ) -> str:
        """Run `adopted`, and `queue` until it is empty or no further one is to start; returns the first that failed."""
        config, failed = self._plan.config, ""
        ended: SimpleQueue[Future[_Ending]] = SimpleQueue()

        def start(job: PlannedJob, allocation: Allocation) -> None:
            future = pool.submit(self._at_work, runner, job, allocation)
            running[future] = job
            future.add_done_callback(ended.put)

        for job in adopted:
            start(job, self._allocator.adopt(job, self._plan.adopted[job.job_id]))
        while queue or running:
            self._teller.check()
            stop = self._stop() is not None or (failed and config.fail_fast)
            while queue and not stop and len(running) < config.max_workers and not self._budget.used_up():
                found = self._allocator.allocate_next(queue)
                if found is None:
                    break
                job, allocation = found
                if (reason := self._why_not_now(job)) is not None:
                    self._allocator.release(allocation)
                    self._why_not[job.job_id] = reason
                    self._end_moved([job])
                    continue
                start(job, allocation)
            over = bool(stop or not queue or self._budget.used_up())
            if over or len(running) >= config.max_workers:
                self._allocator.stop_waiting()  # nothing could be placed if it came free
            idle, waiters = not running, self._allocator.waiting
            if idle and over:
                break
            if idle or waiters:
                self._note_waiters(waiters)
                self._drop_cancelled(queue)
            if idle:
                self._look_for_hope(queue)
            # Not for ever: what the user wants is looked at again, even if a signal was lost on the way.
            patience = LEASE_POLL if waiters else IDLE if idle else 1.0
            for future in _taken_from(ended, timeout=patience):
                row, job = future.result(), running.pop(future)
                if isinstance(row, _Moved):
                    self._moved[job.job_id] = row
                    queue.put_first(job)
                elif row is None:
                    self._why_not[job.job_id] = self._why_before_its_turn(job.job_id)
                else:
                    self._put(row)
                    if row.status == "failed" and row.stop_reason != "interrupted":
                        failed = failed or job.job_id
            self._tables.maybe_write()
            self._live.spent(running.values(), runner.gateway)
        return failed

    def _why_not_now(self, job: PlannedJob) -> str | None:
        """Why a job whose turn has come is not to start."""
        if self._stop(job.job_id) is not None:
            return "cancelled"
        known = self._plan.durations.get(job.job_id)
        if known is None or not self._plan.config.scheduling.within_budget:
            return None
        reason = self._budget.too_short_for(known.shortest)
        # One that was cut off goes on where it was, and nobody knows how far that is from its end.
        return reason if reason is None or not self.layout.job(job.job_id).checkpoint.exists() else None

    def _note_waiters(self, waiters: Mapping[str, str]) -> None:
        """Once for each job: nothing of it is to be seen elsewhere."""
        for job_id in waiters.keys() - self._waited:
            self._waited.add(job_id)
            host, job = waiters[job_id], self._live.jobs[job_id]
            self._note("lease.wait", job_id=job_id, host=host)
            self._teller.tell(lambda progress, job=job, host=host: progress.queued(job, host))  # type: ignore[misc]

    def _drop_cancelled(self, queue: JobQueue) -> None:
        """Nobody waits for what a cancelled job would have had."""
        for job in queue.heads():
            if self._stop(job.job_id) is not None:
                queue.remove(job)
                self._why_not[job.job_id] = self._why_before_its_turn(job.job_id)
                self._end_moved([job])

    def _look_for_hope(self, queue: JobQueue) -> None:
        """Nothing runs, and nothing could be placed: take out what no host can ever run.

        What waits for something that other controllers have, or for a host that may be back, waits on.

        Raises:
            TraceBenchError: all hosts that could run any of it have been gone for too long.
        """
        hope = False
        for job in queue.heads():
            if (reason := self._allocator.why_impossible(job)) is not None:
                queue.remove(job)
                self._why_not[job.job_id] = reason
                hope = True
            hope = hope or self._allocator.has_available_host(job)
        self._lost.check(blocked=not hope)

    def _end_moved(self, jobs: Iterable[PlannedJob]) -> None:
        """Those of `jobs` that lost their host, and have no further turn, end with what they came to."""
        for job in jobs:
            if (moved := self._moved.pop(job.job_id, None)) is not None:
                self._put(self._told_end(job, moved.row))

    def _wind_down(self, running: Mapping[Future[_Ending], PlannedJob]) -> None:
        """Something ends the run: its jobs end in order, and what they come to counts."""
        self._broken = "interrupted"
        while True:
            try:
                wait(running)
                while self._working:  # one whose start was interrupted is in no list
                    time.sleep(0.05)
                break
            except KeyboardInterrupt:
                self._broken = "kill"
        for future, job in running.items():
            row = future.result() if future.exception() is None else None
            if isinstance(row, _Moved):
                row = self._told_end(job, row.row)
            if row is not None:
                self._put(row)

    def _put(self, row: Results) -> None:
        self._rows[row.job_id] = row
        self._tables.put(row)

    def _at_work(self, runner: JobRunner, planned: PlannedJob, allocation: Allocation) -> _Ending:
        self._working.add(planned.job_id)
        try:
            return self._one(runner, planned, allocation)
        finally:
            self._allocator.release(allocation)
            self._working.discard(planned.job_id)

    def _one(self, runner: JobRunner, planned: PlannedJob, allocation: Allocation) -> _Ending:
        """See one job through, all its attempts; None if it was to stop before it had begun."""
        sandbox = self._plan.adopted.get(planned.job_id) if planned.decision == "adopt" else None
        moved = self._moved.pop(planned.job_id, None)
        came, told = time.monotonic(), moved is not None

        def begun() -> None:
            nonlocal told
            if not told:
                told = True
                where = {} if self._allocator.has_one_host else {"host": allocation.host.name}
                self._teller.tell(lambda progress: progress.started(planned, adopted=sandbox is not None))
                self._note("job.start", job_id=planned.job_id, adopted=sandbox is not None, **where,
                           waited=round(time.monotonic() - came, 3))  # fmt: skip

        plan = self._plan.prepare(planned)
        listener = self._live.listener(planned)
        attempt, row = (moved.attempts, moved.row) if moved is not None else (0, None)
        adopted = sandbox if moved is None else None
        moving, left = moved is not None, False
        while row is None or moving or self._is_retried(planned, row, attempt):
            attempt += 1
            if row is not None and not moving:
                self._pause(planned, row, attempt)
            moving = False
            try:
                if adopted is not None:
                    begun()
                    row = runner.adopt(plan, adopted, listener)
                    if row.stop_reason == "interrupted" and self._stop(planned.job_id) is None:
                        # Its lease had ended before it was adopted. Nobody asked for half a search.
                        if not allocation.lease.whole:
                            return _Moved(row, attempt - 1)
                        row = runner.run(plan, listener, allocation=allocation)
                else:
                    row = runner.run(plan, listener, allocation=allocation, begun=begun)
            except NotStarted:
                if row is None:
                    return None
                break
            except (EngineGone, OutOfDisk, ImageMissing) as error:
                if not self._allocator.has_one_host:
                    self._lose(allocation.host.name, planned, error)
                    row, left = runner.last_row(plan), True
                elif isinstance(error, EngineGone):
                    self._outage.wait(error, self._plan.run_id, planned.job_id)
                    row = runner.last_row(plan)
                else:
                    raise
            except (ControlMissing, EngineUnfit, GpusMissing, RuntimeMissing) as error:
                if self._allocator.has_one_host:
                    raise
                self._lose(allocation.host.name, planned, error)
                if not self._allocator.has_available_host(planned):
                    raise
                row, left = runner.last_row(plan), True
            except Interrupted:
                row = runner.last_row(plan)
            if not left and self._starts_none(allocation.host.name, planned, row):
                self._lose(allocation.host.name, planned, _broken(allocation.host.name, row))
                left = True
            if row.failure_kind == DEVICE_LOST and allocation.lease.devices:
                self._allocator.withdraw_gpus(allocation)
                self._note("gpus.withdrawn", host=allocation.host.name or None, devices=list(allocation.lease.devices))
                left = True
            # Its host is gone, or what its sandbox had of it is somebody else's by now.
            left = left or row.failure_kind == "lease_lost" or (adopted is not None and not allocation.lease.whole)
            if self._is_retried(planned, row, attempt, elsewhere=left) and (
                left or self._may_fare_better_elsewhere(row)
            ):
                if left:
                    self._tell_retry(planned, row, attempt + 1)
                else:
                    self._pause(planned, row, attempt + 1)
                    self._allocator.avoid_host(planned, allocation.host.name)
                return _Moved(row, attempt)
            adopted = None
        return self._told_end(planned, row)

    def _lose(self, host: str, planned: PlannedJob, error: TraceBenchError) -> None:
        if self._lost.lost(host, planned.job_id, error):
            self._note("host.lost", host=host)

    def _starts_none(self, host: str, planned: PlannedJob, row: Results) -> bool:
        """Whether the end of an attempt is one of several in a row on `host` that never came to a first word."""
        if self._allocator.has_one_host or row.failure_boundary is not Boundary.SANDBOX or planned.job_id in self._up:
            return False
        if row.failure_kind in HOST_HAD_NO_PART or self._stop(planned.job_id) is not None:
            return False
        return self._lost.start_failed(host, planned.job.suite)

    def _may_fare_better_elsewhere(self, row: Results) -> bool:
        return not self._allocator.has_one_host and row.failure_boundary is Boundary.SANDBOX

    def _told_end(self, planned: PlannedJob, row: Results) -> Results:
        self._note("job.end", job_id=row.job_id, status=row.status, failure_kind=row.failure_kind,
                   stop_reason=row.stop_reason)  # fmt: skip
        self._teller.tell(lambda progress: progress.finished(planned, row))
        return row

    def _is_retried(self, planned: PlannedJob, row: Results, attempts: int, *, elsewhere: bool = False) -> bool:
        """Whether another attempt may help: the failure was infrastructure's and not the job's."""
        lacked = elsewhere and row.failure_kind in OF_ITS_HOST
        if not lacked and not is_retried(row.failure_boundary, row.failure_kind):
            return False
        return attempts <= self._plan.config.retries and self._stop(planned.job_id) is None

    def _pause(self, planned: PlannedJob, row: Results, attempt: int) -> None:
        """Wait before an attempt; spread, so that jobs that failed together do not come back together."""
        self._tell_retry(planned, row, attempt)
        again = time.monotonic() + pause_before(attempt) * random.uniform(0.5, 1.0)
        while time.monotonic() < again and self._stop(planned.job_id) is None:
            time.sleep(0.1)

    def _tell_retry(self, planned: PlannedJob, row: Results, attempt: int) -> None:
        self._up.discard(planned.job_id)
        self._note("job.retry", job_id=row.job_id, failure_kind=row.failure_kind, attempt=attempt)
        self._teller.tell(lambda progress: progress.retrying(planned, row, attempt))

    def _stop(self, job_id: str | None = None) -> str | None:
        """What the user wants of the run, or of one job: nothing, or that it ends in order or at once."""
        wishes = (self._user_wants(), self._cancel.wanted(job_id), self._broken)
        return "kill" if "kill" in wishes else wishes[0] or wishes[1] or wishes[2]

    def _stop_of_job(self, job_id: str) -> str | None:
        """The same of one job, and ``"budget"`` if it is to end its training because the run's time is up."""
        return self._stop(job_id) or ("budget" if self._budget.time_is_up() else None)

    def _why_before_its_turn(self, job_id: str | None = None) -> str:
        """Somebody cancelled the job or the run by name, or the controller was told to stop, or the time is up."""
        if self._cancel.wanted(job_id) is not None:
            return "cancelled"
        used_up = self._budget.used_up() if self._stop() is None else None
        return used_up or "interrupted before its turn"

    def _because(self, jobs: Iterable[PlannedJob], reason: str) -> None:
        for job in jobs:
            self._why_not[job.job_id] = reason

    # -- what is told --------------------------------------------------------------------------------------------

    def _tell_beginning(self) -> None:
        plan = self._plan
        start = RunStart(plan.run_id, self.layout, plan.jobs, plan.config.max_workers, plan.continued, plan.warnings)
        self._teller.tell(lambda progress: progress.begun(start))
        for job in plan.jobs:
            if job.decision == "reuse":
                row = plan.reused[job.job_id]
                self._tables.put(row)
                self._teller.tell(lambda progress, job=job, row=row: progress.reused(job, row))  # type: ignore[misc]

    def _on_word(self, job: PlannedJob) -> None:
        """The job's sandbox has said something; its first word is news."""
        if job.job_id in self._up:
            return
        self._up.add(job.job_id)
        host = host_in(self.layout.job(job.job_id))
        if host:
            self._lost.start_succeeded(host, job.job.suite)
        with contextlib.suppress(OSError):  # the disk is full: what counts will say so
            self._note("job.up", job_id=job.job_id, host=host or None)
        self._teller.tell(lambda progress: progress.up(job, host))

    def _note(self, event: str, **fields: Any) -> None:
        with self._noting:  # lines are in the order of their times
            if self._journal is not None:
                # How long this controller has been at work stands in every line: it may be its last, and clocks are
                # set.
                self._journal.append({"t": now(), "event": event, **fields, "seconds": round(self._budget.elapsed, 6)})

    # -- records -------------------------------------------------------------------------------------------------

    def _finish(self, failure: BaseException | None, *, write: bool) -> tuple[Results, ...]:
        plan = self._plan
        for job in plan.jobs:
            if job.job_id not in self._rows and (row := recorded_row(plan.layout, job)) is not None:
                self._put(row)
        outcomes: dict[str, Outcome] = {job_id: outcome_of(row) for job_id, row in self._rows.items()}
        otherwise = not_executed_for(failure)
        for job in plan.jobs:
            if job.job_id not in self._rows:
                outcomes[job.job_id] = ("not_executed", self._why_not.get(job.job_id, otherwise))
        for job, line in zip(plan.jobs, plan.manifest_lines(outcomes), strict=True):
            if job.job_id not in self._rows:
                skipped = skipped_row(plan.run_id, read_entry(line))
                self._tables.put(skipped)
                self._teller.tell(lambda progress, job=job, row=skipped: progress.skipped(job, row))  # type: ignore[misc]
        rows = tuple(self._tables.rows())
        if write:
            cut = sum(map(was_cut, rows))
            self._note("run.end", finished=sum(map(is_final, rows)), interrupted=cut, jobs=len(rows), **_end(failure))
            plan.write_manifest(self.layout, outcomes, durable=True)
            self._tables.write()
            write_standings(self.layout, rows)
            parquet.write_parquet(self.layout.results_parquet, rows)
            sync_files(self.layout.root)
            self._cancel.forget()
            if plan.recording is not None:
                self._report = self._checked(plan.recording, rows)
                write_json(self.layout.replay, self._report)
            if all(map(is_final, rows)):
                # No job can profit from it any more, and whoever repeats the run needs it. From here on the run is
                # finished: everything else must have been written.
                write_json(self.layout.lock, plan.lock.model_copy(update={"salt": plan.salt}))
                self.layout.salt.unlink(missing_ok=True)
            write_files_index(self.layout)
        end = RunEnd(
            plan.run_id,
            self.layout,
            rows,
            interrupted=isinstance(failure, KeyboardInterrupt),
            error=known.text(str(failure)) if failure is not None else None,
            left=tuple(self._left),
        )
        self._teller.tell(lambda progress: progress.ended(end))
        return rows

    def _checked(self, recording: Recording, rows: Sequence[Results]) -> ReplayReport:
        """How the jobs that have ended compare with their recording."""
        ended = [row for row in rows if row.status != "skipped"]
        tolerances = {task_id: material.task.spec.tolerance for task_id, material in self._plan.material.items()}
        left = len(rows) - len(ended)
        return replay_check.compare(recording.layout, self.layout, ended, recording.rows, tolerances, left)


def remembered(ask: Callable[[], frozenset[int]], seconds: float = 5.0) -> Callable[[], frozenset[int]]:
    """`ask`, whose answer is kept for a few seconds. May be called from many threads."""
    lock = threading.Lock()
    answer: tuple[float, frozenset[int]] | None = None

    def cached() -> frozenset[int]:
        nonlocal answer
        with lock:
            if answer is None or time.monotonic() - answer[0] > seconds:
                answer = (time.monotonic(), ask())
            return answer[1]

    return cached


def _end(failure: BaseException | None) -> dict[str, Any]:
    """How the controller ends, for whoever looks on: the sentence and the exit code of what ended the run before its
    time; nothing else is known before its files have been written."""
    if failure is None:
        return {}
    code = failure.exit_code if isinstance(failure, TraceBenchError) else ExitCode.JOB_FAILED
    code = ExitCode.INTERRUPTED if isinstance(failure, KeyboardInterrupt) else code
    return {"error": known.text(str(failure)), "exit_code": int(code)}


def _broken(host: str, row: Results) -> EnvironmentUnavailable:
    why = f"{row.failure_kind}: {row.feedback}".rstrip(".: ")
    return EnvironmentUnavailable(
        f"host {host} starts no sandbox ({why}); mend it, or leave it out, and continue the run."
    )


def host_in(job: JobLayout) -> str:
    """The host that the record of a job names; empty where there is but one, or nothing is recorded."""
    try:
        found = json.loads(job.meta.read_bytes()).get("host")
    except (OSError, ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def _taken_from(queue: SimpleQueue[Future[_Ending]], timeout: float) -> Iterator[Future[_Ending]]:
    """All that is in `queue`; waits for the first."""
    with contextlib.suppress(Empty):
        yield queue.get(timeout=timeout)
        while True:
            yield queue.get_nowait()


def pause_before(attempt: int) -> float:
    """Seconds before attempt number `attempt`, of which the second is the first that waits."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * float(1 << min(attempt - 2, 30)))


def not_executed_for(failure: BaseException | None) -> str:
    """Why a job that had no turn had none, where `failure` ended the run."""
    if failure is None:
        return "the run ended before its turn"
    said = failure.strerror if isinstance(failure, OSError) else None
    return f"the run ended: {said or type(failure).__name__}"

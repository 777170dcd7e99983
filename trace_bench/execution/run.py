"""Execute a plan: write its records, run its jobs, derive its tables."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from functools import partial

from trace_bench.artifacts.derived import ReplayReport
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.records import Results
from trace_bench.cancellation import Cancellation
from trace_bench.display.log import entry
from trace_bench.display.text import clean_line
from trace_bench.errors import ExitCode, Interrupted, SandboxError, TraceBenchError
from trace_bench.execution.attempt import RunResources
from trace_bench.execution.attempt_files import keep_attempt
from trace_bench.execution.cancel import RunCancellation
from trace_bench.execution.dispatch import Dispatcher
from trace_bench.execution.events import (
    HostReturned,
    JobsEnded,
    JobSkipped,
    RunEnded,
    RunStarted,
    SandboxLeft,
    Subscriber,
    ignore,
)
from trace_bench.execution.job_runner import JobRunner
from trace_bench.execution.providers import cache_of, providers_of
from trace_bench.execution.reporting import RunReporter
from trace_bench.execution.result import RunResult
from trace_bench.execution.run_records import RunRecords, write_records
from trace_bench.execution.service_host import ServiceHost, services_of
from trace_bench.execution.yardsticks import measure
from trace_bench.gateway.server import Gateway
from trace_bench.planning.backends import BackendChoice, remember_backend
from trace_bench.planning.job_order import longest_first
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.run_budget import RunBudget, limits_of
from trace_bench.records import parquet
from trace_bench.records.rows import is_final
from trace_bench.records.tables import preload_standings
from trace_bench.sandbox.base import Sandbox, SuppliesImages
from trace_bench.sandbox.labels import JOB
from trace_bench.sandbox.leases import Shared, Taken
from trace_bench.scheduling.allocation import Allocator
from trace_bench.scheduling.outage import EngineOutage, LostHosts
from trace_bench.scheduling.queue import JobQueue
from trace_bench.secrets import known

_LOG = logging.getLogger(__name__)


class Run:
    """One run of a plan.

    Args:
        stop: ``"interrupted"`` ends the run in order, ``"kill"`` ends it at once; None never ends it.
    """

    def __init__(self, plan: RunPlan, *, subscriber: Subscriber = ignore, stop: Cancellation | None = None) -> None:
        self._plan = plan
        self._subscriber = subscriber
        self._budget = RunBudget(limits_of(plan.config), plan.spent)
        self._stop = RunCancellation(plan.layout, stop or Cancellation(), self._budget)
        self._records = RunRecords(plan)
        self._unremoved: list[str] = []

    def execute(self) -> RunResult:
        """Run all jobs that have no equal result yet.

        Raises:
            ConfigError: another controller is at work in the run's folder. PlanIsOld: one was, since it was planned.
            Interrupted: after everything that had finished was recorded.
            EnvironmentUnavailable, SandboxError: the machine lacks something that all jobs need; likewise.
        """
        with lock_run(self._plan.layout):
            self._plan.check()
            reporter = RunReporter(self._plan, self._budget, self._subscriber)
            with contextlib.closing(reporter):
                rows, replay = self._execute(reporter)
            reporter.check()
        return RunResult(self._plan.run_id, self._plan.layout, rows, len(self._plan.jobs), replay)

    def _execute(self, reporter: RunReporter) -> tuple[tuple[Results, ...], ReplayReport | None]:
        plan = self._plan
        unchanged = plan.finished
        if not unchanged:
            self._stop.forget_requests()
            write_records(plan)
            remember_backend(plan.run_id, BackendChoice.of(plan.config))
        start = reporter.run_started(afresh=plan.continued and plan.config.resume == "none")
        failure: BaseException | None = None
        with contextlib.nullcontext() if unchanged else reporter.journal():
            try:
                self._begin(reporter, start)
                self._run_jobs(reporter)
                if not unchanged:
                    self._measure_gaps(reporter)
            except KeyboardInterrupt as error:
                failure = error if isinstance(error, Interrupted) else self._interrupted()
            except BaseException as error:
                failure = error
            try:
                found = self._finish(reporter, failure, write=not unchanged)
            except BaseException:
                # The first failure is the cause.
                if failure is not None:
                    raise failure from None
                raise
        if failure is not None:
            raise failure
        return found

    def _begin(self, reporter: RunReporter, start: RunStarted) -> None:
        """Record the start of the run, begin its time, and remove what an earlier controller left. No job starts."""
        plan = self._plan
        reporter.record(start)
        self._budget.begin()  # after that event: the next controller counts seconds from there
        for job in plan.jobs if start.afresh else ():
            # Of all jobs: a job that does not start must not keep a result that the budget does not include.
            keep_attempt(plan.layout.job(job.job_id), calls=True)
        for sandbox in plan.leftovers:
            sandbox.remove()

    def _run_jobs(self, reporter: RunReporter) -> None:
        """Run the jobs of the plan, and record why others did not start.

        Raises:
            Interrupted: a request to stop has cut off a job.
        """
        plan = self._plan
        jobs = [plan.jobs[i] for i in plan.order if plan.jobs[i].decision in ("run", "adopt")]
        if not jobs:
            return
        fresh = [job for job in jobs if job.decision == "run"]
        queue = JobQueue(longest_first(fresh, plan.durations) if plan.config.scheduling.longest_first else fresh)
        on_wait = reporter.model_call_waits
        with providers_of(plan.config, plan.lock.prices, recording=plan.recording, on_wait=on_wait) as providers:
            gateway = Gateway(providers, run_meter=self._budget.meter, cache=cache_of(plan.config))
            with contextlib.closing(services_of(plan)) as services:
                services.sweep()
                adopted = [job for job in jobs if job.decision == "adopt"]
                failed = self._dispatch(adopted, queue, gateway, services, reporter)
        if self._stop.cancelled:
            self._skip(queue, self._stop.reason_before_start())
            ended = {job_id for job_id, row in self._records.rows.items() if is_final(row)}
            if not all(job.job_id in ended for job in jobs):  # else the request came too late to cut off any job
                raise self._interrupted()
        used_up = "" if failed and plan.config.fail_fast else self._budget.used_up()
        self._skip(queue, used_up or f"fail_fast: job {failed} failed")

    def _measure_gaps(self, reporter: RunReporter) -> None:
        """Score the reference programs by which gaps are measured.

        Raises:
            Interrupted: a request to stop has kept some from being scored. The run is then continued there.
        """
        if not self._plan.config.gaps:
            return
        self._records.measure_gaps(partial(measure, self._plan, begins=reporter.gaps_measured, stop=self._stop))
        if self._records.gaps_left:
            raise self._interrupted()

    def _dispatch(
        self,
        adopted: Sequence[PlannedJob],
        queue: JobQueue,
        gateway: Gateway,
        services: ServiceHost,
        reporter: RunReporter,
    ) -> str:
        """Run `adopted`, whose leases expire first, and the queue. Returns the id of the first job that failed."""
        plan, backend = self._plan, self._plan.backend
        allocator = Allocator(
            backend.hosts(),
            suites=plan.config.scheduling.suites,
            starting=plan.config.scheduling.max_starting,
            taken=backend.taken if isinstance(backend, Shared) else lambda _: Taken(),
        )
        lost_hosts = LostHosts(
            backend, allocator, plan.run_id, on_back=lambda host: reporter.notify(HostReturned(host))
        )
        reporter.on_first_message = lambda job, host: lost_hosts.start_succeeded(host, job.job.suite) if host else None
        if isinstance(backend, SuppliesImages):
            backend.stop_supplying_when(lambda: self._stop.cancelled)
        resources = RunResources(
            backend=backend,
            gateway=gateway,
            layout=plan.layout,
            recording=plan.recording,
            services=services,
        )
        outage = EngineOutage(backend, self._stop)
        runner_of = partial(JobRunner, plan, resources, allocator, outage, lost_hosts, reporter, self._stop)
        dispatcher = Dispatcher(
            plan, queue, allocator, lost_hosts, self._budget, self._stop, self._records, reporter, gateway, runner_of
        )
        # While jobs run: they leave the processor to other threads when they wait.
        threading.Thread(target=_preload, args=(len(plan.jobs),), name="preload", daemon=True).start()
        try:
            with contextlib.closing(lost_hosts):
                failed = dispatcher.run(adopted)
        except BaseException:
            self._unremoved += [sandbox.name for sandbox in resources.unremoved]  # the service may be gone: do not wait
            raise
        self._remove(resources.unremoved, reporter)
        lost_hosts.last_look()
        return failed

    def _remove(self, sandboxes: Sequence[Sandbox], reporter: RunReporter) -> None:
        """Remove sandboxes of recorded jobs that could not be removed before; report those that remain."""
        for sandbox in sandboxes:
            try:
                sandbox.remove()
            except SandboxError as error:
                self._unremoved.append(sandbox.name)
                why = clean_line(str(error), 400)
                reporter.notify(SandboxLeft(sandbox.labels.get(JOB), sandbox.name, why))

    def _skip(self, jobs: JobQueue, reason: str) -> None:
        if jobs:
            _LOG.info(entry("jobs.skipped", jobs=len(jobs), reason=reason))
        for job in jobs:
            self._records.skip(job, reason)

    def _interrupted(self) -> Interrupted:
        return Interrupted(
            f"interrupted; {self._records.finished} of {len(self._plan.jobs)} jobs have finished; the same command "
            f"continues the run, or --run-id {self._plan.run_id}"
        )

    def _finish(
        self, reporter: RunReporter, failure: BaseException | None, *, write: bool
    ) -> tuple[tuple[Results, ...], ReplayReport | None]:
        """Record the end of the run, and report it."""
        plan, replay = self._plan, None
        rows, outcomes = self._records.complete(failure, lambda job, row: reporter.notify(JobSkipped(job, row)))
        if write:
            reporter.notify(_jobs_ended(rows, failure))
            reporter.close_log()
            replay = self._records.write_final(rows, outcomes, self._stop.forget_requests)
        end = RunEnded(
            plan.run_id,
            plan.layout,
            rows,
            interrupted=isinstance(failure, KeyboardInterrupt),
            error=known.text(str(failure)) if failure is not None else None,
            left=tuple(self._unremoved),
        )
        reporter.notify(end)
        return rows, replay


def _preload(jobs: int) -> None:
    """Import what the tables of `jobs` jobs need: intervals, and with them SciPy, only if there are several."""
    parquet.preload()
    if jobs > 1:
        preload_standings()


def _jobs_ended(rows: Sequence[Results], failure: BaseException | None) -> JobsEnded:
    """The event, with message and exit code of `failure`, which ended the run early."""
    if failure is None:
        return JobsEnded(rows)
    code = failure.exit_code if isinstance(failure, TraceBenchError) else ExitCode.JOB_FAILED
    code = ExitCode.INTERRUPTED if isinstance(failure, KeyboardInterrupt) else code
    return JobsEnded(rows, known.text(str(failure)), int(code))

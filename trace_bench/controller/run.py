"""A run: write its records, see its jobs through, derive its tables."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import HistoryLine
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.provenance import capture_env, now
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import Journal, write_json, write_text
from trace_bench.artifacts.yamlio import dump_document
from trace_bench.controller.cancel import Cancellations
from trace_bench.controller.job import JobRunner
from trace_bench.controller.manifest import Outcome, read_entry
from trace_bench.controller.outage import Outage
from trace_bench.controller.ownership import alone_in
from trace_bench.controller.plan import PlannedJob, RunPlan
from trace_bench.controller.progress import Progress, Quiet, RunEnd, RunStart
from trace_bench.controller.schedule import Room, StartGate
from trace_bench.errors import HarnessError, Interrupted
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.results import parquet
from trace_bench.results.rows import is_final, skipped_row
from trace_bench.results.tables import LiveTables, read_row, write_files_index
from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.uids import UidBlocks

FIRST_PAUSE = 1.0
"""Seconds before the first retry; each further one waits twice as long."""


@dataclass(frozen=True)
class RunResult:
    """What a run came to. `rows` are in the order of the plan; a job that never ran has one that says ``skipped``."""

    run_id: str
    layout: RunLayout
    rows: tuple[Results, ...]
    planned: int

    @property
    def ok(self) -> bool:
        """Every job ran to its end and is ok."""
        whole = all(row.status == "ok" and row.stop_reason != "interrupted" for row in self.rows)
        return whole and len(self.rows) == self.planned


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
        self._lock = threading.Lock()
        self.layout = plan.layout
        self._cancel = Cancellations(plan.layout)
        self._rows: dict[str, Results] = dict(plan.reused)
        self._why_not: dict[str, str] = {}
        self._tables = LiveTables(plan.layout, [job.job_id for job in plan.jobs], plan.config.tags)

    def execute(self) -> RunResult:
        """Run all jobs that have no equal result yet.

        Raises:
            ConfigError: another controller is at work in the run's folder.
            Interrupted: after everything that had finished was recorded.
            EnvironmentUnavailable, SandboxError: the machine lacks something that all jobs need; likewise.
        """
        with alone_in(self.layout):
            return self._execute()

    def _execute(self) -> RunResult:
        plan = self._plan
        untouched = plan.finished
        if not untouched:
            self._cancel.forget()
            write_records(plan)
        self._tell_beginning()
        failure: BaseException | None = None
        with contextlib.ExitStack() as stack:
            self._journal = None if untouched else stack.enter_context(Journal(self.layout.events))
            self._note("run.start", jobs=len(plan.jobs), reused=len(self._rows), continued=plan.continued)
            try:
                self._remove_leftovers()
                self._run_jobs()
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
        return RunResult(plan.run_id, self.layout, rows, len(plan.jobs))

    # -- jobs ----------------------------------------------------------------------------------------------------

    def _run_jobs(self) -> None:
        plan = self._plan
        queue = deque(
            sorted(
                (plan.jobs[i] for i in plan.order if plan.jobs[i].decision in ("run", "adopt")),
                key=lambda job: job.decision != "adopt",  # their leases run out
            )
        )
        for job in plan.jobs:
            if job.decision == "skip":
                self._why_not[job.job_id] = job.reason
        if not queue:
            return
        host = self._backend.describe()
        cores, memory = host.get("cpus"), host.get("memory_bytes")
        self._outage = Outage(self._backend, self._stop)
        runner = JobRunner(
            backend=self._backend,
            gateway=Gateway({"stub": StubProvider()}),
            uids=UidBlocks(self._backend.default_uid_base),
            layout=self.layout,
            taken=self._backend.uid_bases_in_use(),
            stop_wanted=self._stop,
            gate=StartGate(int(cores or os.cpu_count() or 1)),
        )
        room = Room(memory if isinstance(memory, int) else None)
        workers = plan.config.max_workers
        running: dict[Future[Results], PlannedJob] = {}
        failed = ""
        # Beside the jobs, which leave the processor to others while they wait.
        threading.Thread(target=parquet.preload, name="preload", daemon=True).start()
        with ThreadPoolExecutor(workers + len(plan.adopted), thread_name_prefix="job") as pool:
            while queue or running:
                stop = self._stop() is not None or (failed and plan.config.fail_fast)
                while queue and not stop:
                    job = queue[0]
                    if job.decision != "adopt" and (len(running) >= workers or not room.fits(job.memory)):
                        break
                    queue.popleft()
                    if self._stop(job.job_id) is not None:
                        self._why_not[job.job_id] = "cancelled"
                        continue
                    room.take(job.memory)
                    running[pool.submit(self._one, runner, job)] = job
                if not running:
                    break
                # Not for ever: what the user wants is looked at again, even if a signal was lost on the way.
                done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    job = running.pop(future)
                    room.give_back(job.memory)
                    row = self._outcome(future, job, running)
                    self._rows[job.job_id] = row
                    self._tables.put(row)
                    if row.status == "failed" and row.stop_reason != "interrupted":
                        failed = failed or job.job_id
                self._tables.maybe_write()
        if self._stop() is not None:
            self._because(queue, "interrupted before its turn")
            finished = sum(map(is_final, self._rows.values()))
            raise Interrupted(
                f"interrupted; {finished} of {len(plan.jobs)} jobs have finished; the same command continues the run, "
                f"or --run-id {plan.run_id}"
            )
        self._because(queue, f"fail_fast: job {failed} failed")

    def _outcome(
        self, future: Future[Results], job: PlannedJob, running: Mapping[Future[Results], PlannedJob]
    ) -> Results:
        try:
            return future.result()
        except BaseException:
            # The others end in order, and what all of them left counts, before the error goes on.
            wait(running)
            for ended in (job, *running.values()):
                with contextlib.suppress(OSError, HarnessError):
                    self._rows[ended.job_id] = read_row(self.layout.job(ended.job_id).results)
                    self._tables.put(self._rows[ended.job_id])
            raise

    def _one(self, runner: JobRunner, planned: PlannedJob) -> Results:
        sandbox = self._plan.adopted.get(planned.job_id) if planned.decision == "adopt" else None
        with self._lock:
            self._progress.started(planned, adopted=sandbox is not None)
        self._note("job.start", job_id=planned.job_id, adopted=sandbox is not None)
        plan = self._plan.prepare(planned)
        listener = _JobListener(self, planned)
        afresh = self._plan.config.resume == "none" and self._plan.continued
        attempt, row = 0, None
        while row is None or self._is_retried(planned, row, attempt):
            attempt += 1
            if row is not None:
                self._pause(planned, row, attempt)
            try:
                if sandbox is not None:
                    row = runner.adopt(plan, sandbox, listener)
                    if row.stop_reason == "interrupted" and self._stop(planned.job_id) is None:
                        # Its lease had ended before it was adopted. Nobody asked for half a search.
                        row = runner.run(plan, listener)
                else:
                    row = runner.run(plan, listener, afresh=afresh and attempt == 1)
            except EngineGone as error:
                self._outage.wait(error)
                self._outage.clear(self._plan.run_id, planned.job_id)
                row = runner.last_row(plan)
            except Interrupted:
                row = runner.last_row(plan)
            sandbox = None
        self._note("job.end", job_id=row.job_id, status=row.status, failure_kind=row.failure_kind)
        with self._lock:
            self._progress.finished(planned, row)
        return row

    def _is_retried(self, planned: PlannedJob, row: Results, attempts: int) -> bool:
        """Whether another attempt may help: the failure was infrastructure's and not the job's."""
        if row.failure_boundary is None or not row.failure_boundary.is_infrastructure:
            return False
        return attempts <= self._plan.config.retries and self._stop(planned.job_id) is None

    def _pause(self, planned: PlannedJob, row: Results, attempt: int) -> None:
        """Wait before an attempt; spread, so that jobs that failed together do not come back together."""
        self._note("job.retry", job_id=row.job_id, failure_kind=row.failure_kind, attempt=attempt)
        with self._lock:
            self._progress.retrying(planned, row, attempt)
        again = time.monotonic() + FIRST_PAUSE * 2 ** (attempt - 2) * random.uniform(0.5, 1.0)
        while time.monotonic() < again and self._stop(planned.job_id) is None:
            time.sleep(0.1)

    def _stop(self, job_id: str | None = None) -> str | None:
        """What the user wants of the run, or of one job: nothing, or that it ends in order or at once."""
        wishes = (self._user_wants(), self._cancel.wanted(job_id))
        return "kill" if "kill" in wishes else wishes[0] or wishes[1]

    def _because(self, jobs: deque[PlannedJob], reason: str) -> None:
        for job in jobs:
            self._why_not[job.job_id] = reason

    def _remove_leftovers(self) -> None:
        for sandbox in self._plan.leftovers:
            sandbox.remove()

    # -- what is told --------------------------------------------------------------------------------------------

    def _tell_beginning(self) -> None:
        plan = self._plan
        with self._lock:
            self._progress.begun(
                RunStart(plan.run_id, self.layout, plan.jobs, plan.config.max_workers, plan.continued, plan.warnings)
            )
            for job in plan.jobs:
                if job.decision == "reuse":
                    self._tables.put(plan.reused[job.job_id])
                    self._progress.reused(job, plan.reused[job.job_id])

    def advanced(self, job: PlannedJob, line: Mapping[str, Any]) -> None:
        # What no file can hold (half of a surrogate pair), or is no line of a history, is collected or refused later.
        with contextlib.suppress(ValueError, RecursionError):
            self._live(job, HistoryLine.model_validate(line).model_dump_json() + "\n", lambda f: f.state_history)
        with self._lock:
            self._progress.advanced(job, line)

    def event(self, job: PlannedJob, line: Mapping[str, Any]) -> None:
        with self._lock:
            self._progress.event(job, line)

    def said(self, job: PlannedJob, phase: str, text: str) -> None:
        self._live(job, text, lambda folder: folder.stdout)
        with self._lock:
            self._progress.said(job, phase, text)

    def _live(self, job: PlannedJob, text: str, place: Callable[[JobLayout], Path]) -> None:
        """Add `text` to a file that people may look at while the job runs; what is collected takes its place."""
        with contextlib.suppress(OSError), place(self.layout.job(job.job_id)).open("ab") as file:
            file.write(text.encode("utf-8", "replace"))

    def _note(self, event: str, **fields: Any) -> None:
        if self._journal is not None:
            self._journal.append({"t": now(), "event": event, **fields})

    # -- records -------------------------------------------------------------------------------------------------

    def _finish(self, failure: BaseException | None, *, write: bool) -> tuple[Results, ...]:
        plan = self._plan
        outcomes: dict[str, Outcome] = {
            job_id: (row.status, row.failure_kind or row.stop_reason) for job_id, row in self._rows.items()
        }
        otherwise = "the run ended before its turn" if failure is None else f"the run ended: {type(failure).__name__}"
        for job in plan.jobs:
            if job.job_id not in self._rows:
                outcomes[job.job_id] = ("not_executed", self._why_not.get(job.job_id, otherwise))
        for job, line in zip(plan.jobs, plan.manifest_lines(outcomes), strict=True):
            if job.job_id not in self._rows:
                row = skipped_row(plan.run_id, read_entry(line))
                self._tables.put(row)
                with self._lock:
                    self._progress.skipped(job, row)
        rows = tuple(self._tables.rows())
        if write:
            self._note("run.end", finished=sum(map(is_final, rows)), jobs=len(rows))
            plan.write_manifest(self.layout, outcomes, durable=True)
            if all(map(is_final, rows)):
                # No job can profit from it any more, and whoever repeats the run needs it.
                write_json(self.layout.lock, plan.lock.model_copy(update={"salt": plan.salt}))
                self.layout.salt.unlink(missing_ok=True)
            self._tables.write()
            parquet.write_parquet(self.layout.results_parquet, rows)
            self._cancel.forget()
            write_files_index(self.layout)
        with self._lock:
            self._progress.ended(
                RunEnd(
                    plan.run_id,
                    self.layout,
                    rows,
                    interrupted=isinstance(failure, KeyboardInterrupt),
                    error=str(failure) if failure is not None else None,
                )
            )
        return rows


def write_records(plan: RunPlan) -> None:
    """What a run's folder holds before its first job starts."""
    layout = plan.layout.make()
    write_text(layout.config_snapshot, dump_document(plan.config.to_snapshot()), durable=False)
    write_text(layout.salt, plan.salt)
    layout.salt.chmod(0o600)
    write_json(layout.lock, plan.lock, durable=False)
    write_json(layout.env, capture_env(os.environ, backend=plan.backend.describe()), durable=False)
    write_json(layout.git, plan.git, durable=False)
    known: dict[str, Outcome] = {job_id: (row.status, row.failure_kind) for job_id, row in plan.reused.items()}
    plan.write_manifest(layout, known)


@dataclass(frozen=True)
class _JobListener:
    run: Run
    job: PlannedJob

    def event(self, line: Mapping[str, Any]) -> None:
        self.run.event(self.job, line)

    def history(self, line: Mapping[str, Any]) -> None:
        self.run.advanced(self.job, line)

    def log(self, phase: str, text: str) -> None:
        self.run.said(self.job, phase, text)

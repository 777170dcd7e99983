"""A run: plan it, write its records, run its jobs, derive its tables."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trace_bench.artifacts.jsonio import read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import capture_env, now
from trace_bench.artifacts.records import JobMeta, Lock, Results
from trace_bench.artifacts.writers import Journal, write_json, write_text
from trace_bench.artifacts.yamlio import dump_document
from trace_bench.controller.job import JobPlan, JobRunner, sandboxes_by_job
from trace_bench.controller.plan import RunPlan, manifest_entry
from trace_bench.controller.session import Listener
from trace_bench.errors import ConfigError, Interrupted
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.results.tables import RunTables, read_manifest, read_row, write_files_index
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import OWNER, RUN, owner
from trace_bench.sandbox.uids import UidBlocks

FIRST_PAUSE = 1.0
"""Seconds before the first retry; each further one waits twice as long."""


class Progress(Protocol):
    """Hears how a run goes on. Called from many threads, one call at a time."""

    def begun(self, run_id: str, jobs: int) -> None:
        """Once, before any job."""

    def started(self, plan: JobPlan) -> None: ...

    def advanced(self, plan: JobPlan, line: Mapping[str, Any]) -> None:
        """A line of ``state_history.jsonl``."""

    def finished(self, plan: JobPlan, row: Results, *, reused: bool) -> None: ...


class Quiet:
    """No progress."""

    def begun(self, run_id: str, jobs: int) -> None: ...

    def started(self, plan: JobPlan) -> None: ...

    def advanced(self, plan: JobPlan, line: Mapping[str, Any]) -> None: ...

    def finished(self, plan: JobPlan, row: Results, *, reused: bool) -> None: ...


@dataclass(frozen=True)
class RunResult:
    """What a run came to. `rows` are in the order of the plan; jobs that never ran have none."""

    run_id: str
    layout: RunLayout
    rows: tuple[Results, ...]
    planned: int

    @property
    def ok(self) -> bool:
        """Every job ran and ended ok."""
        return len(self.rows) == self.planned and all(row.status == "ok" for row in self.rows)


class Run:
    """One run on one backend.

    Args:
        stop_wanted: None, ``"interrupted"`` (end in order) or ``"kill"``; asked often, from many threads.
    """

    def __init__(
        self,
        plan: RunPlan,
        backend: Backend,
        runs_dir: Path,
        *,
        progress: Progress | None = None,
        stop_wanted: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._plan = plan
        self._backend = backend
        self._progress = progress or Quiet()
        self._stop_wanted = stop_wanted
        self._lock = threading.Lock()
        self.layout = RunLayout(runs_dir / plan.run_id)
        self._tables = RunTables(self.layout)

    def execute(self) -> RunResult:
        """Run all jobs that have no equal result yet.

        Raises:
            ConfigError: the run's folder belongs to another config, or another controller is at work in it.
            Interrupted: after everything that had finished was recorded.
        """
        with _alone_in(self.layout):
            return self._execute()

    def _execute(self) -> RunResult:
        self._write_records()
        self._progress.begun(self._plan.run_id, len(self._plan.jobs))
        rows: dict[str, Results] = {}
        interrupted: Interrupted | None = None
        with Journal(self.layout.events) as journal:
            self._journal = journal
            self._note("run.start", jobs=len(self._plan.jobs))
            todo = []
            for plan in self._plan.jobs:
                row = self._reusable(plan)
                if row is None:
                    todo.append(plan)
                else:
                    rows[plan.spec.job_id] = row
                    self._progress.finished(plan, row, reused=True)
            try:
                self._run_jobs(todo, rows)
            except Interrupted as error:
                interrupted = error
            finally:
                self._note("run.end", finished=len(rows))
                self._finish(rows)
        if interrupted is not None:
            raise interrupted
        ordered = tuple(rows[p.spec.job_id] for p in self._plan.jobs if p.spec.job_id in rows)
        return RunResult(self._plan.run_id, self.layout, ordered, len(self._plan.jobs))

    # -- jobs ----------------------------------------------------------------------------------------------------

    def _run_jobs(self, todo: Sequence[JobPlan], rows: dict[str, Results]) -> None:
        if not todo:
            return
        orphans = sandboxes_by_job(self._backend, {RUN: self._plan.run_id, OWNER: owner()}) if self._known else {}
        runner = JobRunner(
            backend=self._backend,
            gateway=Gateway({"stub": StubProvider()}),
            uids=UidBlocks(self._backend.default_uid_base),
            layout=self.layout,
            taken=self._backend.uid_bases_in_use(),
            stop_wanted=self._stop_wanted,
        )
        waiting = list(todo)
        running: dict[Future[Results], JobPlan] = {}
        failed = False
        workers = self._plan.config.max_workers
        with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="job") as pool:
            while waiting or running:
                stop = self._stop_wanted() is not None or (failed and self._plan.config.fail_fast)
                while waiting and not stop and len(running) < workers:
                    plan = waiting.pop(0)
                    future = pool.submit(self._one, runner, plan, orphans.get(plan.spec.job_id))
                    running[future] = plan
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    plan = running.pop(future)
                    row = self._outcome(future, running)
                    rows[plan.spec.job_id] = row
                    failed |= row.status == "failed"
                    self._tables.maybe_refresh()
        if self._stop_wanted() is not None:
            finished = sum(row.stop_reason != "interrupted" for row in rows.values())
            raise Interrupted(
                f"interrupted; {finished} of {len(self._plan.jobs)} jobs have finished; "
                f"--run-id {self._plan.run_id} continues"
            )

    def _outcome(self, future: Future[Results], running: Mapping[Future[Results], JobPlan]) -> Results:
        try:
            return future.result()
        except BaseException:
            # The others end in order, and are recorded, before the error goes on.
            for other in running:
                with contextlib.suppress(BaseException):
                    other.result()
            raise

    def _one(self, runner: JobRunner, plan: JobPlan, orphan: Sandbox | None) -> Results:
        with self._lock:
            self._progress.started(plan)
        self._note("job.start", job_id=plan.spec.job_id, adopted=orphan is not None)
        listener = _JobListener(self, plan)
        row = runner.run(plan, listener) if orphan is None else runner.adopt(plan, orphan, listener)
        if orphan is not None and row.stop_reason == "interrupted" and self._stop_wanted() is None:
            # Its lease had ended before it was adopted. Nobody asked for half a search.
            row = runner.run(plan, listener)
        row = self._retried(runner, plan, listener, row)
        self._note("job.end", job_id=row.job_id, status=row.status, failure_kind=row.failure_kind)
        with self._lock:
            self._progress.finished(plan, row, reused=False)
        return row

    def _retried(self, runner: JobRunner, plan: JobPlan, listener: Listener, row: Results) -> Results:
        """`row`, or that of a later attempt where the failure was infrastructure's and not the job's."""
        for number in range(self._plan.config.retries):
            if row.failure_boundary is None or not row.failure_boundary.is_infrastructure:
                break
            self._note("job.retry", job_id=row.job_id, failure_kind=row.failure_kind, attempt=number + 2)
            # Spread, so that jobs that failed together do not come back together.
            again = time.monotonic() + FIRST_PAUSE * 2**number * random.uniform(0.5, 1.0)
            while time.monotonic() < again and self._stop_wanted() is None:
                time.sleep(0.1)
            if self._stop_wanted() is not None:
                break
            row = runner.run(plan, listener)
        return row

    def advanced(self, plan: JobPlan, line: Mapping[str, Any]) -> None:
        """A step of a job, from its thread."""
        with self._lock:
            self._progress.advanced(plan, line)

    def _reusable(self, plan: JobPlan) -> Results | None:
        """The result of an earlier start of this run, if it is whole, ok, and has the same fingerprint."""
        path = self.layout.job(plan.spec.job_id).results
        if self._plan.config.resume == "none" or not path.is_file():
            return None
        row = read_row(path)
        whole = row.status == "ok" and row.stop_reason != "interrupted"
        return row if whole and row.fingerprint == plan.spec.fingerprint else None

    # -- records -------------------------------------------------------------------------------------------------

    def _write_records(self) -> None:
        plan, layout = self._plan, self.layout
        self._known = layout.manifest.is_file()
        if self._known:
            manifest = read_manifest(layout)
            if manifest is not None and manifest.config_hash != plan.config_hash:
                raise ConfigError(
                    f"{layout.root}: this run was made from another config; give another --run-id, or take "
                    "run_id out of the config"
                )
        layout.make()
        write_text(layout.config_snapshot, dump_document(plan.config.to_snapshot()), durable=False)
        write_text(layout.salt, plan.salt)
        layout.salt.chmod(0o600)
        write_json(layout.lock, plan.lock, durable=False)
        write_json(layout.env, capture_env(os.environ, backend=self._backend.describe()), durable=False)
        write_json(layout.git, plan.git, durable=False)
        write_json(layout.manifest, plan.manifest, durable=False)

    def _finish(self, rows: Mapping[str, Results]) -> None:
        plan = self._plan
        entries = []
        for job in plan.jobs:
            row = rows.get(job.spec.job_id)
            meta: JobMeta = job.meta
            outcome = (
                {"status": "not_executed", "reason": "the run ended before it"}
                if row is None
                else {"status": row.status, "reason": row.failure_kind}
            )
            entries.append(manifest_entry(meta, **outcome))
        write_json(self.layout.manifest, plan.manifest.model_copy(update={"jobs": tuple(entries)}))
        if len(rows) == len(plan.jobs):
            # No job can profit from it any more, and whoever repeats the run needs it.
            write_json(self.layout.lock, plan.lock.model_copy(update={"salt": plan.salt}))
            with contextlib.suppress(FileNotFoundError):
                self.layout.salt.unlink()
        self._tables.refresh()
        write_files_index(self.layout)

    def _note(self, event: str, **fields: Any) -> None:
        self._journal.append({"t": now(), "event": event, **fields})


@contextlib.contextmanager
def _alone_in(layout: RunLayout) -> Iterator[None]:
    """Keeps a second controller out of the run's folder; the kernel lets go when this process ends, however it ends.

    Raises:
        ConfigError: another controller is at work in it.
    """
    layout.make()
    folder = os.open(layout.meta, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        raise ConfigError(
            f"{layout.root}: another controller is running this run; wait until it has ended, or give another --run-id"
        ) from error
    except OSError as error:
        # Some network file systems cannot lock a folder. Sandboxes are still guarded by the locks of their uid blocks.
        if error.errno not in (errno.ENOLCK, errno.EBADF, errno.EINVAL, errno.EOPNOTSUPP):
            os.close(folder)
            raise
    try:
        yield
    finally:
        os.close(folder)


def salt_of(layout: RunLayout) -> str | None:
    """The salt of a run that has been started before; None for a new one."""
    if layout.salt.is_file():
        return layout.salt.read_text(encoding="utf-8").strip()
    if layout.lock.is_file():
        return read_model(Lock, layout.lock.read_bytes()).salt
    return None


@dataclass(frozen=True)
class _JobListener:
    run: Run
    plan: JobPlan

    def event(self, line: Mapping[str, Any]) -> None: ...

    def history(self, line: Mapping[str, Any]) -> None:
        self.run.advanced(self.plan, line)

    def log(self, phase: str, text: str) -> None: ...

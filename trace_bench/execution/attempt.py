"""Make one attempt at a job: open its gateway scope, run it in a sandbox, record the outcome.

Whatever happens, one clear record comes out: ``job_meta.json`` and ``results.json`` of the job, with the failure and
its boundary if there was one. Only an interruption and a defect of the harness leave this module as exceptions.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from trace_bench.artifacts import layout as files
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.collector import CollectLimits
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Scores
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.writers import sync_folder, write_json, write_text
from trace_bench.errors import Boundary, HarnessError, Interrupted, TraceBenchError
from trace_bench.execution.answers import AFTER_A_BREAK, AFTER_THE_END, RequestHandler, ServesAttempts
from trace_bench.execution.attempt_files import (
    earlier_attempts,
    forget_attempt,
    keep_attempt,
    next_attempt,
    repair_journals,
)
from trace_bench.execution.attempt_outcome import AttemptOutcome, record_attempt
from trace_bench.execution.checkpoint import CheckpointFile
from trace_bench.execution.sandboxes import CreationRefused, NotStarted, Sandboxes, SandboxKept
from trace_bench.execution.session import Listener, NoListener
from trace_bench.execution.supervision import Supervision
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.planning.prepare import PreparedJob
from trace_bench.planning.recording import Recording
from trace_bench.records.reading import read_row
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.uids import UidBlocks
from trace_bench.scheduling.allocation import Allocation
from trace_bench.scheduling.starting import StartGate, Startup

MakeSandbox = Callable[[], AbstractContextManager[Sandbox]]


@dataclass(frozen=True)
class AttemptRunner:
    """Makes attempts at jobs of one run, on one backend. May be used by many threads.

    Attributes:
        taken: returns the uid blocks that sandboxes of dead controllers still use.
        lease: seconds that a sandbox lives without a controller.
        stop_wanted: called often, with the job's id; ``"interrupted"`` ends the job in order, ``"budget"`` ends its
            training, ``"kill"`` ends everything at once.
        gate: limits how many sandboxes start at a time, where there is no allocation.
        unremoved: sandboxes whose attempt is recorded and that could not be removed.
        recording: the run that is replayed; its stop points take the place of all budgets.
        services: answers other requests than LLM calls.
    """

    backend: Backend
    gateway: Gateway
    uids: UidBlocks
    layout: RunLayout
    taken: Callable[[], frozenset[int]] = frozenset
    lease: float = 60.0
    limits: CollectLimits = field(default_factory=CollectLimits)
    stop_wanted: Callable[[str], str | None] = lambda _: None
    gate: StartGate = field(default_factory=lambda: StartGate(os.cpu_count() or 1))
    unremoved: list[Sandbox] = field(default_factory=list)
    recording: Recording | None = None
    services: ServesAttempts | None = None

    def run(
        self,
        prepared: PreparedJob,
        listener: Listener | None = None,
        *,
        allocation: Allocation | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> Results:
        """Run `prepared` in a new sandbox. The files of an earlier attempt are moved to that attempt's folder.

        Args:
            allocation: None is the backend's only host.
            begun: called when the job's turn to start has come; again after the backend refused a sandbox.

        Raises:
            NotStarted: the job was stopped before the attempt had started. Nothing has changed.
            Interrupted: the user killed it. The sandbox is gone; what it had is collected and recorded.
            EngineGone, EnvironmentUnavailable: no other job would fare better. The attempt is recorded, unless the
                sandbox is there and could not be taken in (the disk is full): then it is kept for the next controller.
        """
        gate = allocation.gate if allocation is not None else self.gate
        host = allocation.host.name if allocation is not None else ""
        while True:
            startup = gate.enter(lambda: self._is_stopped(prepared.spec.job_id))
            if startup is None:
                raise NotStarted
            try:
                begun()
                kept = keep_attempt(self.layout.job(prepared.spec.job_id))
                try:
                    sandbox = partial(self._sandboxes.new, prepared, allocation, gate, startup)
                    return self._attempt(prepared, listener or NoListener(), sandbox, host, startup)
                except (CreationRefused, NotStarted):
                    kept.put_back()
                    raise
            except CreationRefused as refusal:
                gate.refused(startup, refusal.error)
            finally:
                startup.finish()

    def adopt(self, prepared: PreparedJob, sandbox: Sandbox, listener: Listener | None = None) -> Results:
        """Continue a job whose controller died, or collect it if it has ended meanwhile.

        Raises:
            Interrupted, EngineGone, EnvironmentUnavailable: as `run`.
        """
        repair_journals(self.layout.job(prepared.spec.job_id))
        adopted = partial(self._sandboxes.adopted, sandbox)
        return self._attempt(prepared, listener or NoListener(), adopted, sandbox.host, None)

    def last_row(self, prepared: PreparedJob) -> Results:
        """The recorded result of the last attempt at `prepared`."""
        return read_row(self.layout.job(prepared.spec.job_id).results)

    @cached_property
    def _sandboxes(self) -> Sandboxes:
        return Sandboxes(self.backend, self.uids, self.taken, self.lease, self._is_stopped, self.unremoved)

    def _is_stopped(self, job_id: str) -> bool:
        return self.stop_wanted(job_id) is not None

    def _attempt(
        self, prepared: PreparedJob, listener: Listener, sandbox: MakeSandbox, host: str, startup: Startup | None
    ) -> Results:
        """Record the start of an attempt, and make it. The record is removed if the attempt does not start."""
        job = self.layout.job(prepared.spec.job_id).make()
        before = job.meta.read_bytes() if job.meta.is_file() else None
        number = next_attempt(job)
        update = {
            "status": "running",
            "host": host or None,
            "started_at": now(),
            "attempts": earlier_attempts(job),
        }
        meta = prepared.meta.model_copy(update=update)
        write_json(job.meta, meta)
        sync_folder(self.layout.jobs)  # paid calls that are recorded in it must not go with the folder's name
        try:
            return _Attempt(self, prepared, listener, job, number, meta, startup).run(sandbox)
        except (CreationRefused, NotStarted):
            forget_attempt(job, number, before)
            raise


@dataclass
class _Attempt:
    """One attempt at a job, whose start is recorded. `startup` is None in an adopted sandbox."""

    runner: AttemptRunner
    prepared: PreparedJob
    listener: Listener
    job: JobLayout
    number: int
    meta: JobMeta
    startup: Startup | None
    outcome: AttemptOutcome = field(default_factory=AttemptOutcome)
    began: float = field(default_factory=time.monotonic)

    def run(self, make_sandbox: MakeSandbox) -> Results:
        """Run the job, and record the outcome."""
        runner, prepared, outcome = self.runner, self.prepared, self.outcome
        try:
            scope = runner.gateway.open(
                prepared.spec.job_id,
                prepared.spec.seed,
                prepared.spec.model,
                self.job.cassette,
                None if runner.recording is not None else prepared.spec.budget,
                attempt=self.number,
            )
        except HarnessError as error:
            outcome.fail(error.boundary, "damaged_cassette", str(error))  # the failure is this job's alone
            return self._write(self.meta, Usage())
        row: Results | None = None
        with scope, self._handler(scope) as handler, self._checkpoint():
            try:
                with make_sandbox() as sandbox:
                    self._supervise(sandbox, handler)
                    # While the sandbox is there: if this controller dies, the next one finds it.
                    row = self._record(scope, handler)
            except SandboxKept as kept:
                # With its sandbox, and a record that says it is running, the job can be continued.
                self._wait_for_answers(scope)
                raise kept.error from None
            except TraceBenchError as error:
                # The sandbox could not be made, or adopted.
                outcome.end(error)
                row = self._record(scope, handler)
        if outcome.fatal is not None:
            raise outcome.fatal
        return row

    def _supervise(self, sandbox: Sandbox, handler: RequestHandler) -> None:
        runner, prepared = self.runner, self.prepared
        Supervision(
            prepared=prepared,
            sandbox=sandbox,
            handler=handler,
            listener=self.listener,
            outcome=self.outcome,
            out=self.job.attempt_out(self.number),
            startup=self.startup,
            lease=runner.lease,
            limits=runner.limits,
            stop_wanted=partial(runner.stop_wanted, prepared.spec.job_id),
        ).run()

    def _handler(self, scope: Scope) -> AbstractContextManager[RequestHandler]:
        """The handler of the attempt's requests: its scope, with services in front of it."""
        if self.runner.services is None:
            return contextlib.nullcontext(scope)
        return self.runner.services.serving(self.prepared, self.job, scope, self.number)

    @contextmanager
    def _checkpoint(self) -> Iterator[None]:
        """Keep the checkpoint file open: results of the search in earlier attempts, and in this one."""
        if self.runner.recording is not None:
            yield
            return
        aside = self.job.attempt(self.number) / files.CHECKPOINT
        with contextlib.closing(CheckpointFile(self.job.checkpoint, self.prepared.spec.fingerprint, aside)) as found:
            self.outcome.checkpoint = found
            yield

    def _record(self, scope: Scope, handler: RequestHandler) -> Results:
        """Determine the cost and the failures of the model calls, and write the files of the attempt."""
        outcome = self.outcome
        provider_failures = handler.provider_failures()
        self._wait_for_answers(scope)
        failure = outcome.failure
        lost = failure is not None and failure.boundary.is_infrastructure and failure.kind != "interrupted"
        if provider_failures and (lost or (failure is None and outcome.failed_at_provider)):
            # The sandbox knows only that there was no answer; this host knows why. Other failures stay the job's own.
            outcome.fail(Boundary.PROVIDER, "provider_error", provider_failures[0])
        if self.runner.recording is not None:
            self._settle_replay(self.runner.recording, scope)
        outcome.usage_by_phase = scope.usage_by_phase()
        outcome.cut_by_run_budget = outcome.cut_by_run_budget or scope.cut_by_run_budget
        meta = self.meta.model_copy(update={"warnings": (*self.meta.warnings, *scope.warnings())})
        return self._write(meta, scope.usage())

    def _write(self, meta: JobMeta, usage: Usage) -> Results:
        seconds = time.monotonic() - self.began - (self.startup.waited if self.startup is not None else 0.0)
        return record_attempt(self.runner.layout, self.job, self.number, meta, self.outcome, usage, seconds)

    def _wait_for_answers(self, scope: Scope) -> None:
        """Wait for calls under way: they are paid for, and the next attempt finds their answers in the cassette."""
        outcome, runner = self.outcome, self.runner
        if outcome.answers is None:
            return
        killed = isinstance(outcome.fatal, Interrupted)
        lost = outcome.answers.wait(
            AFTER_THE_END if outcome.failure is None else AFTER_A_BREAK,
            hurry=lambda: killed or runner.stop_wanted(self.prepared.spec.job_id) == "kill",
        )
        if lost:
            outcome.warnings.append(
                f"{lost} LLM call{'s were' if lost > 1 else ' was'} under way when the job ended and came to no end in "
                "time; an answer that comes later is given to the next attempt, if there is one"
            )
            if outcome.failure is None:
                scope.give_up()

    def _settle_replay(self, recording: Recording, scope: Scope) -> None:
        """Fail a job that sent an unrecorded request, and count recorded calls that were not repeated as spent."""
        outcome, job_id = self.outcome, self.prepared.spec.job_id
        unknown = scope.not_recorded()
        if unknown is not None:
            outcome.fail(unknown.boundary, "not_recorded", str(unknown))
            if outcome.result is not None:
                outcome.result = outcome.result.model_copy(update={"scores": Scores()})
            write_text(self.job.attempt(self.number) / files.NOT_RECORDED, unknown.difference, durable=False)
            return
        failure = outcome.failure
        if outcome.result is None or (failure is not None and failure.boundary.is_infrastructure):
            return
        recorded = recording.rows[job_id]
        if outcome.result.stop_reason == recorded.stop_reason:
            outcome.cut_by_run_budget = recorded.cut_by_run_budget
            try:
                scope.carry_over(recording.unasked(job_id, scope.replayed))
            except HarnessError as error:
                outcome.fail(error.boundary, "damaged_cassette", str(error))

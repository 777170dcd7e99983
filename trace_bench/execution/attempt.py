"""Make one attempt at a job: start a sandbox, supervise it, collect its volume, and record the outcome.

Whatever happens, one clear record comes out: ``job_meta.json`` and ``results.json`` of the job, with the failure and
its boundary if there was one. Only an interruption and a defect of the harness leave this module as exceptions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

from trace_bench.artifacts import layout as files
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.collector import CollectLimits
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Scores
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import ControlRecord, JobMeta, Results
from trace_bench.artifacts.writers import sync_folder, write_json, write_text
from trace_bench.cancellation import Cancellation
from trace_bench.display.log import entry
from trace_bench.errors import (
    Boundary,
    EnvironmentUnavailable,
    HarnessError,
    Interrupted,
    SandboxError,
    TraceBenchError,
)
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
from trace_bench.execution.evidence import observed
from trace_bench.execution.session import Connection, Listener, Session, longest_silence
from trace_bench.gateway.base import NotRecorded
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.planning.prepare import PreparedJob, most_seconds
from trace_bench.planning.recording import Recording
from trace_bench.sandbox.base import Backend, Host, Sandbox, SandboxRequest, SeveralEngines
from trace_bench.sandbox.controls import missing
from trace_bench.sandbox.errors import ControlMissing, LeaseLost, NameConflict, RateLimited
from trace_bench.sandbox.labels import JOB, job_labels, sandbox_name, uid_base
from trace_bench.sandbox.leases import Lease, cores_in, devices_in
from trace_bench.sandbox.uids import UidBlocks
from trace_bench.scheduling.allocation import Allocation
from trace_bench.scheduling.starting import StartGate, Startup

_LOG = logging.getLogger(__name__)

WORKER_COMMAND = ("python3", "-sP", "-m", "trace_bench.worker")
END_PATIENCE = 0.5
"""Seconds that an engine has to report the end of a sandbox whose stream has ended; else the stream is reopened."""


class NotStarted(Exception):
    """The job was stopped before the attempt had started."""


class _CreationRefused(Exception):
    """The backend makes no further sandbox now. The attempt counts as not started."""

    def __init__(self, error: RateLimited) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class RunResources:
    """The resources that the attempts of one run share, on one backend. Used by many threads.

    Attributes:
        lease: seconds that a sandbox lives without a controller.
        limits: of the volumes that are collected.
        recording: the run that is replayed; its stop points take the place of all budgets.
        services: answers other requests than LLM calls.
        allocation: the backend's only host, for attempts without an allocation.
        unremoved: sandboxes whose attempt is recorded and that could not be removed.
    """

    backend: Backend
    gateway: Gateway
    layout: RunLayout
    lease: float = 60.0
    limits: CollectLimits = field(default_factory=CollectLimits)
    recording: Recording | None = None
    services: ServesAttempts | None = None
    allocation: Allocation = field(
        default_factory=lambda: Allocation(Host(), Lease(), StartGate(os.cpu_count() or 1), memory=0, suite="")
    )
    unremoved: list[Sandbox] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uids = UidBlocks(self.backend.default_uid_base)
        self.uids_in_use = briefly_cached(self.backend.uid_bases_in_use)


@dataclass
class Attempt:
    """One attempt at a job, in a new sandbox or in the sandbox of a dead controller.

    Attributes:
        stop: ``"budget"`` ends the training, ``"interrupted"`` ends the job in order, ``"kill"`` ends it at once.
        adopted: the sandbox of a dead controller. The job goes on in it; if it has ended meanwhile, it is collected.
        on_turn: called when the job's turn to start has come; again after the backend refused a sandbox.
        startup: the sandbox's turn to start; None for an adopted sandbox, which runs already.
    """

    resources: RunResources
    prepared: PreparedJob
    stop: Cancellation = field(default_factory=Cancellation)
    listener: Listener = field(default_factory=Listener)
    allocation: Allocation | None = None
    adopted: Sandbox | None = None
    on_turn: Callable[[], None] = lambda: None
    job: JobLayout = field(init=False)
    startup: Startup | None = field(init=False, default=None)
    outcome: AttemptOutcome = field(init=False, default_factory=AttemptOutcome)
    _place: Allocation = field(init=False)
    _number: int = field(init=False, default=0)
    _meta: JobMeta = field(init=False)
    _began: float = field(init=False, default=0.0)
    _handler: RequestHandler = field(init=False)

    def __post_init__(self) -> None:
        self.job = self.resources.layout.job(self.prepared.spec.job_id)
        self._place = self.allocation or self.resources.allocation

    def run(self) -> Results:
        """Make the attempt. The files of an earlier attempt are moved to that attempt's folder.

        Raises:
            NotStarted: the job was stopped before the attempt had started. Nothing has changed.
            Interrupted: the user killed it. The sandbox is gone; what it had is collected and recorded.
            EngineGone, EnvironmentUnavailable: no other job would fare better. The attempt is recorded, unless the
                sandbox is there and could not be taken in (the disk is full): then it is kept for the next controller.
        """
        if self.adopted is not None:
            repair_journals(self.job)
            return self._record_and_run()
        while (startup := self._place.gate.enter(self.stop)) is not None:
            self.startup = startup
            try:
                self.on_turn()
                kept = keep_attempt(self.job)
                try:
                    return self._record_and_run()
                except (_CreationRefused, NotStarted):
                    kept.put_back()
                    raise
            except _CreationRefused as refusal:
                self._place.gate.refused(startup, refusal.error)
            finally:
                startup.finish()
        raise NotStarted

    def _record_and_run(self) -> Results:
        """Record the start of the attempt, and run the job. The record is removed if the attempt does not start."""
        job = self.job.make()
        before = job.meta.read_bytes() if job.meta.is_file() else None
        self._number = next_attempt(job)
        start = {"status": "running", "host": self._place.host.name or None, "started_at": now()}
        self._meta = self.prepared.meta.model_copy(update={**start, "attempts": earlier_attempts(job)})
        write_json(job.meta, self._meta)
        sync_folder(self.resources.layout.jobs)  # paid calls that are recorded in it must not go with the folder's name
        self.outcome, self._began = AttemptOutcome(), time.monotonic()
        try:
            return self._run_with_scope()
        except (_CreationRefused, NotStarted):
            forget_attempt(job, self._number, before)
            raise

    def _run_with_scope(self) -> Results:
        """Run the job with a scope of the gateway, and record the outcome."""
        resources, spec = self.resources, self.prepared.spec
        budget = None if resources.recording is not None else spec.budget
        try:
            scope = resources.gateway.open(
                spec.job_id, spec.seed, spec.model, self.job.cassette, budget, attempt=self._number
            )
        except HarnessError as error:
            self.outcome.fail(error.boundary, "damaged_cassette", str(error))  # the failure is this job's alone
            return self._write(self._meta, Usage())
        with scope, ExitStack() as stack:
            self._handler = scope
            if resources.services is not None:
                services = resources.services.serving(self.prepared, self.job, scope, self._number)
                self._handler = stack.enter_context(services)
            if resources.recording is None:
                aside = self.job.attempt(self._number) / files.CHECKPOINT
                file = CheckpointFile(self.job.checkpoint, spec.fingerprint, aside)
                self.outcome.checkpoint = stack.enter_context(contextlib.closing(file))
            row = self._run_sandbox(scope, stack)
        if self.outcome.fatal is not None:
            raise self.outcome.fatal
        return row

    # -- the sandbox ---------------------------------------------------------------------------------------------

    def _run_sandbox(self, scope: Scope, stack: ExitStack) -> Results:
        """Run the job in its sandbox, record the outcome, and remove the sandbox. `stack` releases its uid block.

        A sandbox whose attempt could not be recorded is kept: it holds the only copy of the results.
        """
        try:
            sandbox = self.adopted or self._create(stack)
        except TraceBenchError as error:
            self.outcome.end(error)
            return self._record(scope)
        if self.adopted is not None and (base := uid_base(sandbox.labels)) is not None:
            # Another run may use the block by now. No controller of this run does: its folder is locked.
            with contextlib.suppress(EnvironmentUnavailable):
                stack.enter_context(self.resources.uids.adopt(base))
        try:
            self._supervise(sandbox)
            # While the sandbox is there: if this controller dies, the next one finds it.
            row = self._record(scope)
        except BaseException:
            self._wait_for_answers(scope)  # the job can be continued: its record says that it is running
            raise
        try:
            sandbox.remove()
        except SandboxError:
            self.resources.unremoved.append(sandbox)
        return row

    def _create(self, stack: ExitStack) -> Sandbox:
        """Create a sandbox without starting it.

        Raises:
            NotStarted, _CreationRefused: there is no sandbox.
            LeaseLost: another controller has part of the allocation. SandboxError, EnvironmentUnavailable: none was
                made.
        """
        resources, prepared, startup, place = self.resources, self.prepared, self.startup, self._place
        assert startup is not None
        run_id, job_id = prepared.spec.run_id, prepared.spec.job_id
        lease, host = place.lease, place.host.name
        if not lease.whole:
            raise LeaseLost(
                f"job {job_id} went on in a sandbox with GPUs or cores that another controller has "
                "leased meanwhile; it needs an allocation of its own."
            )
        if host and isinstance(resources.backend, SeveralEngines):
            began = time.monotonic()
            try:
                resources.backend.bring_image(prepared.image_ref, host)
            finally:
                startup.waited += time.monotonic() - began  # which job is the first that needs the image is chance
        base = stack.enter_context(resources.uids.acquire(resources.uids_in_use())).base
        request = SandboxRequest(
            name=sandbox_name(run_id, job_id),
            image=prepared.image_ref,
            command=(*WORKER_COMMAND, "--uid-base", str(base), "--lease", f"{resources.lease:g}"),
            labels=job_labels(run_id, job_id, resources.lease, exclusive=lease.exclusive),
            uid_base=base,
            resources=prepared.resources,
            runtime=prepared.runtime,
            require_controls=prepared.require_controls,
            allow_weaker=prepared.allow_weaker,
            host=host,
            gpu_names=lease.devices,
            cpuset=lease.cpuset,
            most_seconds=most_seconds(prepared.spec.limits, resources.lease),
        )
        if not place.gate.wait_to_create(startup, self.stop):
            raise NotStarted
        try:
            sandbox = self._create_on_backend(request)
        except RateLimited as error:
            if place.gate.gives_up():
                raise
            raise _CreationRefused(error) from error
        place.gate.accepted()
        _LOG.info(entry("sandbox.created", job_id=job_id, sandbox=sandbox.name, host=host or None,
                        image=prepared.image_ref, uid_base=base, gpus=lease.devices or None,
                        cores=lease.cpuset or None, waited=round(startup.waited, 3)))  # fmt: skip
        return sandbox

    def _create_on_backend(self, request: SandboxRequest) -> Sandbox:
        try:
            return self.resources.backend.create(request)
        except NameConflict:
            # A sandbox of this run, whose attempt is recorded, that could not be removed then.
            # Found by its job: some backends shorten names.
            wanted = (request.labels.get(JOB), request.host)
            remaining = [s for s in self.resources.unremoved if (s.labels.get(JOB), s.host) == wanted]
            if not remaining:
                raise
            for sandbox in remaining:
                sandbox.remove()
            return self.resources.backend.create(request)

    def _supervise(self, sandbox: Sandbox) -> None:
        """Run the sandbox to its end, and collect its volume.

        Raises:
            EnvironmentUnavailable, OSError: this machine could not take in the volume.
        """
        outcome, out = self.outcome, self.job.attempt_out(self._number)
        outcome.sandbox_id = sandbox.id
        outcome.devices, outcome.cpuset = devices_in(sandbox.labels), cores_in(sandbox.labels)
        try:
            self._converse(sandbox)
            outcome.evidence = observed(sandbox)
            if outcome.evidence.state == "running":
                sandbox.kill()
        except (Interrupted, SandboxError, EnvironmentUnavailable, NotRecorded) as error:
            outcome.end_session(sandbox, error, out.parent)
        outcome.collect(sandbox, out, self.resources.limits)
        stop_at = self.prepared.spec.stop_at
        unfinished = self.startup is not None and outcome.failure is None and outcome.was_stopped_from_outside
        if unfinished and not (stop_at is not None and stop_at.reason == "interrupted"):
            # Half of a search is not a result of the job.
            message = "something outside of the run stopped the sandbox before the search was over"
            outcome.fail(Boundary.SANDBOX, "sandbox_stopped", message)

    def _converse(self, sandbox: Sandbox) -> None:
        """Start the sandbox unless it is adopted, and serve its job to the end."""
        outcome, prepared, startup, lease = self.outcome, self.prepared, self.startup, self.resources.lease
        self._read_controls(sandbox)
        if startup is None and sandbox.status() == "exited":
            return
        with contextlib.closing(sandbox.attach()) as stream:
            if startup is not None:
                sandbox.start()
            self._read_controls(sandbox, prepared.require_controls)  # some are known only after the start
            session = Session(
                connection=Connection(
                    stream, lease, lambda: sandbox.attach() if sandbox.wait(END_PATIENCE) is None else None
                ),
                handler=self._handler,
                job=prepared.spec.model_dump(mode="json"),
                task=prepared.task,
                test_seed=prepared.test_seed,
                listener=self.listener,
                silence=longest_silence(lease, prepared.spec.limits.job_timeout),
                on_silence=sandbox.status,
                stop=self.stop,
                on_message=startup.finish if startup is not None else lambda: None,
                checkpoint=outcome.checkpoint,
                states=prepared.states,
            )
            outcome.answers = session.answers
            try:
                session.run(adopt=startup is None)
            finally:
                session.connection.stream.close()
                outcome.stops_sent = session.stops_sent
                if broken := session.connection.reconnections:
                    times = "once" if broken == 1 else f"{broken} times"
                    outcome.warnings.append(
                        f"the connection to the sandbox broke {times}, and was made again; nothing that was said is "
                        "lost"
                    )

    def _read_controls(self, sandbox: Sandbox, required: Iterable[str] = ()) -> None:
        """Record which controls of the sandbox are in force.

        Raises:
            ControlMissing: one of `required` is not.
        """
        controls = sandbox.controls()
        self.outcome.controls = tuple(
            ControlRecord(name=c.name, wanted=c.wanted, in_force=c.in_force, detail=c.detail) for c in controls
        )
        if not_in_force := missing(controls, required):
            names = "; ".join(f"{control.name} ({control.detail})" for control in not_in_force)
            raise ControlMissing(
                f"sandbox {sandbox.name} has started without a required control: {names}. It was ended before it "
                "was given its job. Repair the host, or take the control out of sandbox.require_controls."
            )

    # -- the record ----------------------------------------------------------------------------------------------

    def _record(self, scope: Scope) -> Results:
        """Determine the cost and the failures of the model calls, and write the files of the attempt."""
        outcome, recording = self.outcome, self.resources.recording
        provider_failures = self._handler.provider_failures()
        self._wait_for_answers(scope)
        failure = outcome.failure
        lost = failure is not None and failure.boundary.is_infrastructure and failure.kind != "interrupted"
        if provider_failures and (lost or (failure is None and outcome.failed_at_provider)):
            # The sandbox knows only that there was no answer; this host knows why. Other failures stay the job's own.
            outcome.fail(Boundary.PROVIDER, "provider_error", provider_failures[0])
        if recording is not None:
            self._settle_replay(recording, scope)
        outcome.usage_by_phase = scope.usage_by_phase()
        outcome.cut_by_run_budget = outcome.cut_by_run_budget or scope.cut_by_run_budget
        meta = self._meta.model_copy(update={"warnings": (*self._meta.warnings, *scope.warnings())})
        return self._write(meta, scope.usage())

    def _write(self, meta: JobMeta, usage: Usage) -> Results:
        seconds = time.monotonic() - self._began - (self.startup.waited if self.startup is not None else 0.0)
        return record_attempt(self.resources.layout, self.job, self._number, meta, self.outcome, usage, seconds)

    def _wait_for_answers(self, scope: Scope) -> None:
        """Wait for calls under way: they are paid for, and the next attempt finds their answers in the cassette."""
        outcome = self.outcome
        if outcome.answers is None:
            return
        killed = isinstance(outcome.fatal, Interrupted)
        lost = outcome.answers.wait(
            AFTER_THE_END if outcome.failure is None else AFTER_A_BREAK,
            hurry=lambda: killed or self.stop.reason == "kill",
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
            write_text(self.job.attempt(self._number) / files.NOT_RECORDED, unknown.difference, durable=False)
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


def briefly_cached(query: Callable[[], frozenset[int]], seconds: float = 5.0) -> Callable[[], frozenset[int]]:
    """Cache the answer of `query` for some seconds. The returned function may be called from many threads."""
    lock = threading.Lock()
    answer: tuple[float, frozenset[int]] | None = None

    def cached() -> frozenset[int]:
        nonlocal answer
        with lock:
            if answer is None or time.monotonic() - answer[0] > seconds:
                answer = (time.monotonic(), query())
            return answer[1]

    return cached

"""One job on the host: make a sandbox, see the session through, collect, record.

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
from functools import partial
from pathlib import Path

from trace_bench.artifacts import layout as files
from trace_bench.artifacts.collector import CollectLimits, collect
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, Scores
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import Results, Usage
from trace_bench.artifacts.writers import sync_folder, write_json, write_text
from trace_bench.errors import (
    Boundary,
    BrokenArchive,
    CollectError,
    EnvironmentUnavailable,
    HarnessError,
    Interrupted,
    SandboxError,
    TraceBenchError,
)
from trace_bench.execution.answers import AFTER_A_BREAK, AFTER_THE_END, Serves
from trace_bench.execution.attempts import earlier_attempts, forget_attempt, keep_attempt, mend, next_attempt
from trace_bench.execution.attribution import attributed
from trace_bench.execution.checkpoint import CheckpointFile
from trace_bench.execution.ending import (
    Ending,
    ends_more,
    kind_of,
    last_words,
    noted,
    observed,
    recorded,
)
from trace_bench.execution.service_host import ServiceHost
from trace_bench.execution.session import Listener, Session, Silence
from trace_bench.gateway.base import NotRecorded
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.planning.prepare import JobPlan, most_seconds
from trace_bench.planning.recording import Recording
from trace_bench.records.tables import read_row
from trace_bench.sandbox.base import Backend, Sandbox, SandboxRequest, SeveralEngines, Stream
from trace_bench.sandbox.errors import EngineGone, LeaseLost, NameConflict, RateLimited
from trace_bench.sandbox.labels import JOB, job_labels, sandbox_name, uid_base
from trace_bench.sandbox.leases import Lease, cores_in, devices_in
from trace_bench.sandbox.uids import UidBlock, UidBlocks
from trace_bench.scheduling.allocation import Allocation
from trace_bench.scheduling.starting import Start, StartGate

END_PATIENCE = 0.5
"""Seconds that an engine has to say that a sandbox has ended whose stream did; one that has not is attached again."""
WORKER_COMMAND = ("python3", "-sP", "-m", "trace_bench.worker")


class NotStarted(Exception):
    """The user wanted the job to stop before it had begun."""


class _TooFast(Exception):
    """The backend makes no further sandbox now: it is as if the attempt had not begun."""

    def __init__(self, error: RateLimited) -> None:
        super().__init__(str(error))
        self.error = error


class _Left(Exception):
    """`error` came before the attempt was recorded; its sandbox is still there."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class JobRunner:
    """Runs jobs of one run on one backend. Safe to use from many threads at once.

    Attributes:
        taken: says which uid blocks sandboxes of dead controllers still use.
        lease: seconds that a sandbox lives on without this controller.
        stop_wanted: asked often, with the job's id; ``"interrupted"`` ends it in order, ``"budget"`` its training,
            ``"kill"`` everything at once.
        gate: lets few sandboxes start at once.
        unremoved: sandboxes whose job is recorded and that could not be removed.
        recording: the run that is replayed, whose stop points stand in for all budgets.
        services: what the host does for jobs besides answering LLM calls.
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
    services: ServiceHost | None = None

    def run(
        self,
        plan: JobPlan,
        listener: Listener | None = None,
        *,
        allocation: Allocation | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> Results:
        """Run `plan` in a new sandbox. What an earlier attempt published is moved to that attempt's folder.

        Args:
            allocation: where; None is the backend's only host.
            begun: called when its turn to start has come; again, if the backend would not have it then.

        Raises:
            NotStarted: the user wanted it to stop before it had begun. Nothing has changed.
            Interrupted: the user wanted it killed. The sandbox is gone; what it had is collected and recorded.
            EngineGone, EnvironmentUnavailable: no other job would fare better. The attempt is recorded, unless the
                sandbox is there and could not be taken in (the disk is full): then it is kept for the next controller.
        """
        gate = allocation.gate if allocation is not None else self.gate
        while True:
            start = gate.enter(partial(self._is_unwanted, plan))
            if start is None:
                raise NotStarted
            try:
                begun()
                kept = keep_attempt(self.layout.job(plan.spec.job_id))
                try:
                    made = partial(self._new_sandbox, plan, allocation, gate, start)
                    host = allocation.host.name if allocation is not None else ""
                    return self._attempt(plan, listener or Silence(), made, host, start)
                except (_TooFast, NotStarted):
                    kept.put_back()
                    raise
            except _TooFast as refusal:
                gate.refused(start, refusal.error)
            finally:
                start.over()

    def adopt(self, plan: JobPlan, sandbox: Sandbox, listener: Listener | None = None) -> Results:
        """Continue a job whose controller died, or collect it if it has ended meanwhile.

        Raises:
            Interrupted, EngineGone, EnvironmentUnavailable: as `run`.
        """
        mend(self.layout.job(plan.spec.job_id))
        return self._attempt(plan, listener or Silence(), lambda: self._adopted_sandbox(sandbox), sandbox.host, None)

    def last_row(self, plan: JobPlan) -> Results:
        """What the last attempt at `plan` came to, as it is on disk."""
        return read_row(self.layout.job(plan.spec.job_id).results)

    def _attempt(
        self,
        plan: JobPlan,
        listener: Listener,
        sandbox_of: Callable[[], AbstractContextManager[Sandbox]],
        host: str,
        start: Start | None,
    ) -> Results:
        job = self.layout.job(plan.spec.job_id).make()
        before = job.meta.read_bytes() if job.meta.is_file() else None
        number = next_attempt(job)
        try:
            return self._attempt_number(number, plan, listener, sandbox_of, host, start)
        except (_TooFast, NotStarted):
            forget_attempt(job, number, before)
            raise

    def _attempt_number(
        self,
        number: int,
        plan: JobPlan,
        listener: Listener,
        sandbox_of: Callable[[], AbstractContextManager[Sandbox]],
        host: str,
        start: Start | None,
    ) -> Results:
        job = self.layout.job(plan.spec.job_id)
        started = time.monotonic()
        meta = plan.meta.model_copy(
            update={
                "status": "running",
                "host": host or None,
                "started_at": now(),
                "attempts": earlier_attempts(job),
            }
        )
        write_json(job.meta, meta)
        sync_folder(self.layout.jobs)  # what is paid for in it must not go with the folder's name
        ending = Ending()
        try:
            scope = self.gateway.open(
                plan.spec.job_id,
                plan.spec.seed,
                plan.spec.model,
                job.cassette,
                None if self.recording is not None else plan.spec.budget,
                attempt=number,
            )
        except HarnessError as error:
            # A damaged cassette: this job's alone.
            ending.failure = Failure(boundary=error.boundary, kind="damaged_cassette", message=str(error))
            return recorded(self.layout, job, number, meta, ending, Usage(), time.monotonic() - started)
        row: Results | None = None
        with scope, self._served(plan, job, scope, number) as served, self._checkpoint_of(plan, job, number, ending):

            def record() -> Results:
                failures = served.provider_failures()
                self._wait_for_answers(plan, scope, ending)
                found = ending.failure
                lost = found is not None and found.boundary.is_infrastructure and found.kind != "interrupted"
                if failures and (lost or (found is None and ending.failed_at_provider)):
                    # The sandbox knows that there was no answer; why is known here alone. What else the job did wrong
                    # meanwhile stays its own.
                    ending.failure = Failure(boundary=Boundary.PROVIDER, kind="provider_error", message=failures[0])
                if self.recording is not None:
                    self._settle_replay(self.recording, plan, scope, ending, job.attempt(number))
                ending.usage_by_phase = scope.usage_by_phase()
                ending.cut_by_run_budget = ending.cut_by_run_budget or scope.cut_by_run_budget
                told = meta.model_copy(update={"warnings": (*meta.warnings, *scope.warnings())})
                seconds = time.monotonic() - started - (start.waited if start is not None else 0.0)
                return recorded(self.layout, job, number, told, ending, scope.usage(), seconds)

            try:
                with sandbox_of() as sandbox:
                    self._drive(plan, sandbox, served, listener, ending, job.attempt_out(number), start)
                    # While it is there: a controller that dies here is followed by one that finds it.
                    row = record()
            except _Left as left:
                # With its sandbox, and the record that says it is running, the job can be taken up again.
                self._wait_for_answers(plan, scope, ending)
                raise left.error from None
            except TraceBenchError as error:
                # It could not be made, or adopted.
                ending.end(error)
                row = record()
        if ending.fatal is not None:
            raise ending.fatal
        return row

    def _served(self, plan: JobPlan, job: JobLayout, scope: Scope, number: int) -> AbstractContextManager[Serves]:
        """What answers the requests of an attempt."""
        if self.services is None:
            return contextlib.nullcontext(scope)
        return self.services.serving(plan, job, scope, number)

    @contextmanager
    def _checkpoint_of(self, plan: JobPlan, job: JobLayout, number: int, ending: Ending) -> Iterator[None]:
        """What the search has learnt so far, and learns in this attempt."""
        if self.recording is not None:
            yield
            return
        aside = job.attempt(number) / files.CHECKPOINT
        with contextlib.closing(CheckpointFile(job.checkpoint, plan.spec.fingerprint, aside)) as found:
            ending.checkpoint = found
            yield

    def _settle_replay(self, recording: Recording, plan: JobPlan, scope: Scope, ending: Ending, folder: Path) -> None:
        """A request that is not recorded is the job's failure; what was paid for and not asked again counts."""
        stranger = scope.not_recorded()
        if stranger is not None:
            ending.failure = Failure(boundary=stranger.boundary, kind="not_recorded", message=str(stranger))
            if ending.result is not None:
                ending.result = ending.result.model_copy(update={"scores": Scores()})
            write_text(folder / files.NOT_RECORDED, stranger.difference, durable=False)
            return
        failure = ending.failure
        if ending.result is None or (failure is not None and failure.boundary.is_infrastructure):
            return
        recorded = recording.rows[plan.spec.job_id]
        if ending.result.stop_reason == recorded.stop_reason:
            ending.cut_by_run_budget = recorded.cut_by_run_budget
            try:
                scope.carry_over(recording.unasked(plan.spec.job_id, scope.replayed))
            except HarnessError as error:
                ending.failure = Failure(boundary=error.boundary, kind="damaged_cassette", message=str(error))

    # -- the sandbox ---------------------------------------------------------------------------------------------

    @contextmanager
    def _new_sandbox(
        self, plan: JobPlan, allocation: Allocation | None, gate: StartGate, start: Start
    ) -> Iterator[Sandbox]:
        lease = allocation.lease if allocation is not None else Lease()
        if not lease.whole:
            raise LeaseLost(
                f"job {plan.spec.job_id} went on in a sandbox with GPUs or cores that somebody else has leased "
                "meanwhile; it needs a allocation of its own."
            )
        if allocation is not None and isinstance(self.backend, SeveralEngines):
            began = time.monotonic()
            try:
                self.backend.bring_image(plan.image_ref, allocation.host.name)
            finally:
                start.waited += time.monotonic() - began  # which job is the first there is chance
        with self.uids.acquire(self.taken()) as block:
            request = SandboxRequest(
                name=sandbox_name(plan.spec.run_id, plan.spec.job_id),
                image=plan.image_ref,
                command=(*WORKER_COMMAND, "--uid-base", str(block.base), "--lease", f"{self.lease:g}"),
                labels=job_labels(plan.spec.run_id, plan.spec.job_id, self.lease, exclusive=lease.exclusive),
                uid_base=block.base,
                resources=plan.resources,
                runtime=plan.runtime,
                require_controls=plan.require_controls,
                allow_weaker=plan.allow_weaker,
                host=allocation.host.name if allocation is not None else "",
                gpu_names=lease.devices,
                cpuset=lease.cpuset,
                most_seconds=most_seconds(plan.spec.limits, self.lease),
            )
            if not gate.wait_to_create(start, partial(self._is_unwanted, plan)):
                raise NotStarted
            try:
                made = self._created(request)
            except RateLimited as error:
                if gate.gives_up():
                    raise
                raise _TooFast(error) from error
            gate.accepted()
            with self._removed(made) as sandbox:
                yield sandbox

    def _created(self, request: SandboxRequest) -> Sandbox:
        try:
            return self.backend.create(request)
        except NameConflict:
            # One of ours, whose job is recorded, that could not be removed then.
            # By its job: some backends cut names.
            wanted = (request.labels.get(JOB), request.host)
            left = [s for s in self.unremoved if (s.labels.get(JOB), s.host) == wanted]
            if not left:
                raise
            for sandbox in left:
                sandbox.remove()
            return self.backend.create(request)

    def _is_unwanted(self, plan: JobPlan) -> bool:
        return self.stop_wanted(plan.spec.job_id) is not None

    @contextmanager
    def _adopted_sandbox(self, sandbox: Sandbox) -> Iterator[Sandbox]:
        base = uid_base(sandbox.labels)
        block: UidBlock | None = None
        if base is not None:
            # Somebody else may have it by now. Whoever that is, it is no controller of this run: its folder is locked.
            with contextlib.suppress(EnvironmentUnavailable):
                block = self.uids.adopt(base)
        try:
            with self._removed(sandbox):
                yield sandbox
        finally:
            if block is not None:
                block.release()

    @contextmanager
    def _removed(self, sandbox: Sandbox) -> Iterator[Sandbox]:
        """Remove `sandbox` once its job is recorded. One that is not is left: what it holds is the only copy."""
        try:
            yield sandbox
        except BaseException as error:
            raise _Left(error) from error
        try:
            sandbox.remove()
        except SandboxError:
            self.unremoved.append(sandbox)

    def _drive(
        self,
        plan: JobPlan,
        sandbox: Sandbox,
        scope: Serves,
        listener: Listener,
        ending: Ending,
        out: Path,
        start: Start | None,
    ) -> None:
        """See `sandbox` through to its end, and take in what it left. `start` is None for one that is adopted.

        Raises:
            EnvironmentUnavailable, OSError: the host could not take it in.
        """
        ending.sandbox_id = sandbox.id
        ending.devices, ending.cpuset = devices_in(sandbox.labels), cores_in(sandbox.labels)
        try:
            ending.note_controls(sandbox)
            if start is not None or sandbox.status() != "exited":
                stream = sandbox.attach()
                try:
                    if start is not None:
                        sandbox.start()
                    ending.note_controls(sandbox, plan.require_controls)  # some are known only after the start
                    self._converse(plan, scope, listener, sandbox, stream, start, ending)
                finally:
                    stream.close()
            ending.evidence = observed(sandbox)
            if ending.evidence.state == "running":
                sandbox.kill()
        except (Interrupted, SandboxError, EnvironmentUnavailable, NotRecorded) as error:
            if isinstance(error, SandboxError) and not ends_more(error):
                ending.evidence = observed(sandbox, error)
            try:
                sandbox.kill()
            except SandboxError as gone:
                # What came first is the cause, unless all that it says is that the engine hung up.
                ending.end(error if ends_more(error) else gone)
            else:
                if isinstance(error, Interrupted | EnvironmentUnavailable | NotRecorded) or ends_more(error):
                    ending.end(error)
                elif ending.evidence is not None:
                    words = last_words(sandbox, out.parent)
                    ending.evidence = ending.evidence.model_copy(update={"last_words": words})
                    ending.failure = attributed(ending.evidence)
        self._collect(sandbox, ending, out)
        asked = plan.spec.stop_at is not None and plan.spec.stop_at.reason == "interrupted"
        if start is not None and ending.failure is None and ending.was_stopped_from_outside and not asked:
            # Half a search that nobody asked for is no result of the job.
            ending.failure = Failure(
                boundary=Boundary.SANDBOX,
                kind="sandbox_stopped",
                message="something outside of the run stopped the sandbox before the search was over",
            )

    def _converse(
        self,
        plan: JobPlan,
        scope: Serves,
        listener: Listener,
        sandbox: Sandbox,
        stream: Stream,
        start: Start | None,
        ending: Ending,
    ) -> None:
        def reattach() -> Stream | None:
            return sandbox.attach() if sandbox.wait(END_PATIENCE) is None else None

        def stop_wanted() -> str | None:
            if (stranger := scope.not_recorded()) is not None:
                raise stranger  # the sandbox has been told; nothing that comes now can count
            return self.stop_wanted(plan.spec.job_id)

        session = Session(
            stream=stream,
            scope=scope,
            job=plan.spec.model_dump(mode="json"),
            task=plan.task,
            test_seed=plan.test_seed,
            lease=self.lease,
            listener=listener,
            stop_wanted=stop_wanted,
            on_answer=start.over if start is not None else lambda: None,
            reattach=reattach,
            states=plan.states,
        )
        if ending.checkpoint is not None:
            session.checkpoint = ending.checkpoint.beside(plan.task)
            session.on_checkpoint = ending.checkpoint.add
        ending.answers = session.answers
        try:
            if start is None:
                session.adopt()
            else:
                session.start()
        finally:
            session.stream.close()
            ending.told = session.told
            if session.mended:
                times = "once" if session.mended == 1 else f"{session.mended} times"
                ending.warnings.append(
                    f"the connection to the sandbox broke {times}, and was made again; nothing that was said is lost"
                )

    def _wait_for_answers(self, plan: JobPlan, scope: Scope, ending: Ending) -> None:
        """See calls under way into the cassette: what they cost is paid, and the next attempt finds their answers."""
        if ending.answers is None:
            return
        killed = isinstance(ending.fatal, Interrupted)
        lost = ending.answers.wait(
            AFTER_THE_END if ending.failure is None else AFTER_A_BREAK,
            hurry=lambda: killed or self.stop_wanted(plan.spec.job_id) == "kill",
        )
        if lost:
            ending.warnings.append(
                f"{lost} LLM call{'s were' if lost > 1 else ' was'} under way when the job ended and came to no end in "
                "time; an answer that comes later is given to the next attempt, if there is one"
            )
            if ending.failure is None:
                scope.give_up()

    def _collect(self, sandbox: Sandbox, ending: Ending, out: Path) -> None:
        try:
            try:
                ending.collected = collect(sandbox.collect(), out, self.limits)
            except (BrokenArchive, EngineGone):
                # Nobody inside writes the archive, and what it is of is still there.
                ending.collected = collect(sandbox.collect(), out, self.limits)
        except BrokenArchive as error:
            if ending.failure is None:
                ending.failure = Failure(boundary=Boundary.SANDBOX, kind=kind_of(error), message=str(error))
            return
        except CollectError as error:
            # Only the trainer's uid can put anything but the supervisor's own files there.
            if ending.failure is None:
                ending.failure = Failure(boundary=Boundary.TRAINER, kind="bad_output", message=str(error))
            return
        except EngineGone as error:
            # What it holds cannot be had, nor removed, before the engine is back: that is more than this job's trouble.
            if ending.failure is None:
                ending.end(error)
            return
        except SandboxError as error:
            if ending.failure is None:
                ending.failure = Failure(boundary=Boundary.SANDBOX, kind="not_collected", message=str(error))
            return
        ending.result = ending.collected.result
        if ending.result is not None and ending.fatal is None:
            # Its volume is complete: what broke afterwards, broke nothing.
            ending.failure = None
        if ending.result is None and ending.fatal is None and ending.evidence is not None:
            if not ending.evidence.last_words:
                words = last_words(sandbox, out.parent)
                ending.evidence = ending.evidence.model_copy(update={"last_words": words})
            ending.evidence = ending.evidence.model_copy(update=noted(ending.collected.root / files.EVENTS))
            ending.failure = attributed(ending.evidence)

"""One job on the host: make a sandbox, see the session through, collect, record.

Whatever happens, one clear record comes out: ``job_meta.json`` and ``results.json`` of the job, with the failure and
its boundary if there was one. Only an interruption and a defect of the harness leave this module as exceptions.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.artifacts import layout as files
from trace_bench.artifacts import yamlio
from trace_bench.artifacts.collector import Collected, CollectLimits, collect
from trace_bench.artifacts.contract import Failure, WorkerResult
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.provenance import cpu_model, now
from trace_bench.artifacts.records import Attempt, ControlRecord, JobMeta, Results, Usage
from trace_bench.artifacts.writers import write_json, write_text
from trace_bench.controller.prepare import JobPlan
from trace_bench.controller.schedule import Start, StartGate
from trace_bench.controller.session import Listener, SandboxGone, Session, Silence
from trace_bench.errors import (
    Boundary,
    CollectError,
    EnvironmentUnavailable,
    ExitCode,
    HarnessError,
    Interrupted,
    ProtocolError,
    SandboxError,
    TraceBenchError,
)
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.results.rows import results_row
from trace_bench.results.tables import read_row
from trace_bench.sandbox.base import Backend, ExitStatus, Sandbox, SandboxRequest, Stream
from trace_bench.sandbox.labels import UID_BASE, job_labels
from trace_bench.sandbox.uids import UidBlock, UidBlocks

WORKER_COMMAND = ("python3", "-sP", "-m", "trace_bench.worker")
EXIT_PATIENCE = 10.0
"""Seconds that a supervisor has to exit after its last message."""


@dataclass
class _Ending:
    """What became of one attempt."""

    result: WorkerResult | None = None
    failure: Failure | None = None
    collected: Collected | None = None
    controls: tuple[ControlRecord, ...] = ()
    sandbox_id: str = ""


@dataclass(frozen=True)
class JobRunner:
    """Runs jobs of one run on one backend. Safe to use from many threads at once.

    Attributes:
        taken: uid blocks that sandboxes of dead controllers still use.
        lease: seconds that a sandbox lives on without this controller.
        stop_wanted: asked often, with the job's id; ``"interrupted"`` ends it in order, ``"kill"`` at once.
        gate: lets few sandboxes start at once.
    """

    backend: Backend
    gateway: Gateway
    uids: UidBlocks
    layout: RunLayout
    taken: frozenset[int] = frozenset()
    lease: float = 60.0
    limits: CollectLimits = field(default_factory=CollectLimits)
    stop_wanted: Callable[[str], str | None] = lambda _: None
    gate: StartGate = field(default_factory=lambda: StartGate(os.cpu_count() or 1))

    def run(self, plan: JobPlan, listener: Listener | None = None, *, afresh: bool = False) -> Results:
        """Run `plan` in a new sandbox. What an earlier attempt published is moved to that attempt's folder.

        Args:
            afresh: pay for LLM calls again that an earlier attempt had answers to.

        Raises:
            Interrupted: the user wanted it killed. The sandbox is gone; what it had is collected.
            EngineGone, EnvironmentUnavailable: no other job would fare better. The attempt is recorded.
        """
        keep_attempt(self.layout.job(plan.spec.job_id), calls=afresh)
        return self._attempt(plan, listener or Silence(), None)

    def adopt(self, plan: JobPlan, sandbox: Sandbox, listener: Listener | None = None) -> Results:
        """Continue a job whose controller died, or collect it if it has ended meanwhile.

        Raises:
            Interrupted: as `run`.
            EnvironmentUnavailable: its controller is alive.
        """
        return self._attempt(plan, listener or Silence(), sandbox)

    def last_row(self, plan: JobPlan) -> Results:
        """What the last attempt at `plan` came to, as it is on disk."""
        return read_row(self.layout.job(plan.spec.job_id).results)

    def _attempt(self, plan: JobPlan, listener: Listener, adopted: Sandbox | None) -> Results:
        job = self.layout.job(plan.spec.job_id).make()
        number = _next_attempt(job)
        started = time.monotonic()
        meta = plan.meta.model_copy(
            update={"status": "running", "started_at": now(), "attempts": _earlier_attempts(job)}
        )
        write_json(job.meta, meta, durable=False)
        ending = _Ending()
        fatal: TraceBenchError | None = None
        try:
            scope = self.gateway.open(
                plan.spec.job_id, plan.spec.seed, plan.spec.model, job.cassette, plan.spec.budget, attempt=number
            )
        except HarnessError as error:
            # A damaged cassette: this job's alone.
            ending.failure = Failure(boundary=error.boundary, kind="damaged_cassette", message=str(error))
            return self._record(job, number, meta, ending, Usage(), time.monotonic() - started)
        with scope:
            out = job.attempt_out(number)
            try:
                if adopted is None:
                    with self._new_sandbox(plan) as (sandbox, start):
                        self._drive(plan, sandbox, scope, listener, ending, out, start)
                else:
                    with self._adopted_sandbox(adopted) as sandbox:
                        self._drive(plan, sandbox, scope, listener, ending, out, None)
            except Interrupted as error:
                fatal = error
                ending.failure = Failure(boundary=Boundary.HARNESS, kind="interrupted", message=str(error))
            except TraceBenchError as error:
                if error.exit_code == ExitCode.ENVIRONMENT:
                    fatal = error
                ending.failure = Failure(boundary=error.boundary, kind=_kind(error), message=str(error))
            if scope.provider_failures() and ending.failure is not None:
                ending.failure = Failure(
                    boundary=Boundary.PROVIDER, kind="provider_error", message=scope.provider_failures()[0]
                )
            row = self._record(job, number, meta, ending, scope.usage(), time.monotonic() - started)
        if fatal is not None:
            raise fatal
        return row

    # -- the sandbox ---------------------------------------------------------------------------------------------

    @contextmanager
    def _new_sandbox(self, plan: JobPlan) -> Iterator[tuple[Sandbox, Start]]:
        with contextlib.ExitStack() as stack:
            start = self.gate.enter()
            stack.callback(start.over)
            block = stack.enter_context(self.uids.acquire(self.taken))
            request = SandboxRequest(
                name=f"trace-bench-{plan.spec.run_id}-{plan.spec.job_id}"[:120],
                image=plan.image_ref,
                command=(*WORKER_COMMAND, "--uid-base", str(block.base), "--lease", f"{self.lease:g}"),
                labels=job_labels(plan.spec.run_id, plan.spec.job_id, self.lease),
                uid_base=block.base,
                resources=plan.resources,
                runtime=plan.runtime,
                require_controls=plan.require_controls,
                allow_weaker=plan.allow_weaker,
            )
            sandbox = self.backend.create(request)
            with _removed(sandbox):
                yield sandbox, start

    @contextmanager
    def _adopted_sandbox(self, sandbox: Sandbox) -> Iterator[Sandbox]:
        base = sandbox.labels.get(UID_BASE)
        block: UidBlock | None = None
        try:
            with _removed(sandbox):
                # One that has ended has no process that could have these uids, and they may be another job's by now.
                if base and sandbox.status() != "exited":
                    block = self._block_of(int(base))
                yield sandbox
        finally:
            if block is not None:
                block.release()

    def _block_of(self, base: int) -> UidBlock:
        try:
            return self.uids.adopt(base)
        except EnvironmentUnavailable as error:
            # Whoever holds it, it is no controller of this run, whose folder is locked.
            raise SandboxError(f"its uids have been given to another job meanwhile: {error}") from error

    def _drive(
        self,
        plan: JobPlan,
        sandbox: Sandbox,
        scope: Scope,
        listener: Listener,
        ending: _Ending,
        out: Path,
        start: Start | None,
    ) -> None:
        """See `sandbox` through to its end. `start` is None for one that is adopted."""
        adopt = start is None
        ending.sandbox_id = sandbox.id
        try:
            ending.controls = tuple(
                ControlRecord(name=c.name, wanted=c.wanted, in_force=c.in_force, detail=c.detail)
                for c in sandbox.controls()
            )
            if not (adopt and sandbox.status() == "exited"):
                stream = sandbox.attach()
                try:
                    if not adopt:
                        sandbox.start()
                    self._converse(plan, scope, listener, stream, start)
                finally:
                    stream.close()
                if sandbox.wait(EXIT_PATIENCE) is None:
                    sandbox.kill()
        except Interrupted:
            sandbox.kill()
            raise
        except (SandboxError, ProtocolError) as error:
            sandbox.kill()
            ending.failure = _sandbox_failure(error, sandbox, evidence=out.parent)
        finally:
            self._collect(sandbox, ending, out)

    def _converse(self, plan: JobPlan, scope: Scope, listener: Listener, stream: Stream, start: Start | None) -> None:
        session = Session(
            stream=stream,
            scope=scope,
            job=plan.spec.model_dump(mode="json"),
            task=plan.task,
            test_seed=plan.test_seed,
            lease=self.lease,
            listener=listener,
            stop_wanted=lambda: self.stop_wanted(plan.spec.job_id),
            on_answer=start.over if start is not None else lambda: None,
        )
        if start is None:
            session.adopt()
        else:
            session.start()

    def _collect(self, sandbox: Sandbox, ending: _Ending, out: Path) -> None:
        try:
            ending.collected = collect(sandbox.collect(), out, self.limits)
        except CollectError as error:
            # Only the trainer's uid can put anything but the supervisor's own files there.
            if ending.failure is None:
                ending.failure = Failure(boundary=Boundary.TRAINER, kind="bad_output", message=str(error))
            return
        except SandboxError as error:
            if ending.failure is None:
                ending.failure = Failure(boundary=Boundary.SANDBOX, kind="not_collected", message=str(error))
            return
        ending.result = ending.collected.result
        if ending.result is None and ending.failure is None:
            ending.failure = Failure(
                boundary=Boundary.SANDBOX, kind="no_result", message="the sandbox ended without a result"
            )

    # -- the record ----------------------------------------------------------------------------------------------

    def _record(
        self, job: JobLayout, number: int, meta: JobMeta, ending: _Ending, usage: Usage, seconds: float
    ) -> Results:
        result = ending.result
        failure = ending.failure or (result.failure if result is not None else None)
        status = "ok" if failure is None and result is not None and result.status == "ok" else "failed"
        killed = failure is not None and failure.kind == "interrupted"
        if ending.collected is not None:
            _publish(ending.collected, job)
        attempt = Attempt(
            number=number,
            started_at=meta.started_at or now(),
            ended_at=now(),
            status="interrupted" if killed else status,  # type: ignore[arg-type]
            failure=failure,
            sandbox_id=ending.sandbox_id,
        )
        warnings = [*meta.warnings, *(result.warnings if result is not None else ())]
        meta = meta.model_copy(
            update={
                "status": status,
                "failure": failure,
                "controls": ending.controls,
                "attempts": (*meta.attempts, attempt),
                "ended_at": now(),
                "stop_reason": result.stop_reason if result is not None else "interrupted" if killed else None,
                "warnings": tuple(warnings),
                "cpu_model": cpu_model(),
            }
        )
        row = results_row(meta, result, usage, seconds, self.layout)
        write_json(job.results, row)
        write_json(job.meta, meta, durable=False)
        return row


@contextmanager
def _removed(sandbox: Sandbox) -> Iterator[None]:
    """Remove `sandbox` on the way out, whatever happened, without making the record wait for it."""
    try:
        yield
    finally:
        sandbox.remove()


def _places(job: JobLayout) -> dict[str, Path]:
    """Where people look for what an attempt left under a name."""
    return {
        files.EVENTS: job.events,
        files.STDOUT: job.stdout,
        files.HISTORY: job.state_history,
        files.EXTRA: job.extra,
    }


def keep_attempt(job: JobLayout, *, calls: bool = False) -> None:
    """Move what the last attempt published, its result too, into that attempt's folder: the next one takes its place.

    Args:
        calls: its cassette as well.
    """
    last = max(_attempts(job), default=0)
    if last == 0:
        return
    folder, out = job.attempt(last), job.attempt_out(last)
    moves = {source: out / name for name, source in _places(job).items()}
    moves[job.results] = folder / job.results.name
    if calls:
        moves[job.cassette] = folder / job.cassette.name
    for source, target in moves.items():
        if source.exists() and not target.exists():
            target.parent.mkdir(exist_ok=True)
            source.replace(target)


def _publish(collected: Collected, job: JobLayout) -> None:
    """Move what the last attempt left to where people look for it."""
    job.artifacts.mkdir(exist_ok=True)
    for name, target in _places(job).items():
        source = collected.root / name
        if source.exists():
            if target.is_dir():
                shutil.rmtree(target)
            source.replace(target)
    states = collected.states
    for path, name in ((job.initial_state, "initial"), (job.best_state, "best"), (job.final_state, "final")):
        state = getattr(states, name, None)
        if state is not None:
            yamlio.write_state(path, state)
        else:
            # An earlier attempt's state is not this one's.
            path.unlink(missing_ok=True)


def _sandbox_failure(error: SandboxError, sandbox: Sandbox, evidence: Path) -> Failure:
    """What became of the sandbox; its last words are kept whole under `evidence`."""
    status: ExitStatus | None = None
    words = ""
    with contextlib.suppress(SandboxError):
        status = sandbox.wait(EXIT_PATIENCE)
        words = sandbox.last_words().strip()
    message, kind = str(error), _kind(error)
    if isinstance(error, SandboxGone) and status is not None:
        kind = "sandbox_died"
        message = f"the sandbox ended with exit code {status.code} before the job was done"
        if status.oom_killed:
            kind, message = "out_of_memory", f"{message}; the memory limit was hit"
        if status.error:
            message += f" ({status.error})"
    if words:
        write_text(evidence / files.STDERR, words + "\n", durable=False)
        message += f"; its last words: {words.splitlines()[-1][:500]}"
    return Failure(boundary=Boundary.SANDBOX, kind=kind, message=message)


def _kind(error: TraceBenchError) -> str:
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _earlier_attempts(job: JobLayout) -> tuple[Attempt, ...]:
    """What the record of the job says of the attempts before this one. It is not flushed: a power cut may empty it."""
    try:
        return read_model(JobMeta, job.meta.read_bytes()).attempts
    except (FileNotFoundError, JsonError):
        return ()


def _attempts(job: JobLayout) -> list[int]:
    return [int(p.name) for p in job.attempts.iterdir() if p.name.isdigit()] if job.attempts.is_dir() else []


def _next_attempt(job: JobLayout) -> int:
    number = max(_attempts(job), default=0) + 1
    job.attempt(number).mkdir(parents=True)
    return number

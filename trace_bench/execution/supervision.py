"""Run the sandbox of one attempt to its end, and collect what it left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts import layout as files
from trace_bench.artifacts.collector import CollectLimits, collect
from trace_bench.artifacts.records import ControlRecord
from trace_bench.errors import (
    Boundary,
    BrokenArchive,
    CollectError,
    EnvironmentUnavailable,
    Interrupted,
    SandboxError,
)
from trace_bench.execution.answers import RequestHandler
from trace_bench.execution.attempt_outcome import AttemptOutcome, is_fatal
from trace_bench.execution.attribution import attributed
from trace_bench.execution.connection import Connection
from trace_bench.execution.evidence import from_events, kind_of, last_words, observed
from trace_bench.execution.session import Listener, Session, longest_silence
from trace_bench.gateway.base import NotRecorded
from trace_bench.planning.prepare import PreparedJob
from trace_bench.sandbox.base import Sandbox, Stream
from trace_bench.sandbox.controls import missing
from trace_bench.sandbox.errors import ControlMissing, EngineGone, EngineRefused
from trace_bench.sandbox.leases import cores_in, devices_in
from trace_bench.scheduling.starting import Startup

END_PATIENCE = 0.5
"""Seconds that an engine has to report the end of a sandbox whose stream has ended; else the stream is reopened."""


@dataclass
class Supervision:
    """One sandbox of an attempt, from its start to the collection of its volume.

    Attributes:
        handler: answers the requests of the sandbox.
        outcome: is filled in.
        out: the folder into which the volume is collected.
        startup: the sandbox's turn to start; None for an adopted sandbox, which runs already.
        lease: seconds that the sandbox lives without a controller.
        stop_wanted: returns a reason if the job is to stop.
    """

    prepared: PreparedJob
    sandbox: Sandbox
    handler: RequestHandler
    listener: Listener
    outcome: AttemptOutcome
    out: Path
    startup: Startup | None
    lease: float
    limits: CollectLimits
    stop_wanted: Callable[[], str | None]

    def run(self) -> None:
        """Run the sandbox to its end, and collect its volume.

        Raises:
            EnvironmentUnavailable, OSError: this machine could not take in the volume.
        """
        outcome, sandbox = self.outcome, self.sandbox
        outcome.sandbox_id = sandbox.id
        outcome.devices, outcome.cpuset = devices_in(sandbox.labels), cores_in(sandbox.labels)
        try:
            self._run_session()
            outcome.evidence = observed(sandbox)
            if outcome.evidence.state == "running":
                sandbox.kill()
        except (Interrupted, SandboxError, EnvironmentUnavailable, NotRecorded) as error:
            self._end_early(error)
        self._collect()
        stop_is_recorded = self.prepared.spec.stop_at is not None and self.prepared.spec.stop_at.reason == "interrupted"
        unfinished = self.startup is not None and outcome.failure is None and outcome.was_stopped_from_outside
        if unfinished and not stop_is_recorded:  # half of a search is not a result of the job
            message = "something outside of the run stopped the sandbox before the search was over"
            outcome.fail(Boundary.SANDBOX, "sandbox_stopped", message)

    def _run_session(self) -> None:
        self._read_controls()
        if self.startup is None and self.sandbox.status() == "exited":
            return
        stream = self.sandbox.attach()
        try:
            if self.startup is not None:
                self.sandbox.start()
            self._read_controls(self.prepared.require_controls)  # some are known only after the start
            self._converse(stream)
        finally:
            stream.close()

    def _read_controls(self, required: Iterable[str] = ()) -> None:
        """Record which controls of the sandbox are in force.

        Raises:
            ControlMissing: one of `required` is not.
        """
        found = self.sandbox.controls()
        self.outcome.controls = tuple(
            ControlRecord(name=c.name, wanted=c.wanted, in_force=c.in_force, detail=c.detail) for c in found
        )
        if lacking := missing(found, required):
            names = "; ".join(f"{control.name} ({control.detail})" for control in lacking)
            raise ControlMissing(
                f"sandbox {self.sandbox.name} has started without a required control: {names}. It was ended before it "
                "was given its job. Repair the host, or take the control out of sandbox.require_controls."
            )

    def _converse(self, stream: Stream) -> None:
        outcome, prepared, startup = self.outcome, self.prepared, self.startup

        def reattach() -> Stream | None:
            return self.sandbox.attach() if self.sandbox.wait(END_PATIENCE) is None else None

        def stop_wanted() -> str | None:
            if (unknown := self.handler.not_recorded()) is not None:
                raise unknown  # the sandbox has its refusal; no later message can count
            return self.stop_wanted()

        session = Session(
            connection=Connection(stream, self.lease, reattach),
            handler=self.handler,
            job=prepared.spec.model_dump(mode="json"),
            task=prepared.task,
            test_seed=prepared.test_seed,
            listener=self.listener,
            silence=longest_silence(self.lease, prepared.spec.limits.job_timeout),
            on_silence=self.sandbox.status,
            stop_wanted=stop_wanted,
            on_message=startup.finish if startup is not None else lambda: None,
            states=prepared.states,
        )
        if outcome.checkpoint is not None:
            session.checkpoint = outcome.checkpoint.beside(prepared.task)
            session.on_checkpoint = outcome.checkpoint.add
        outcome.answers = session.answers
        try:
            if startup is None:
                session.adopt()
            else:
                session.start()
        finally:
            session.connection.stream.close()
            outcome.stops_sent = session.stops_sent
            if broken := session.connection.reconnections:
                times = "once" if broken == 1 else f"{broken} times"
                outcome.warnings.append(
                    f"the connection to the sandbox broke {times}, and was made again; nothing that was said is lost"
                )

    def _end_early(self, error: Interrupted | SandboxError | EnvironmentUnavailable | NotRecorded) -> None:
        """Kill the sandbox of a session that `error` ended, and attribute the failure."""
        outcome, sandbox = self.outcome, self.sandbox
        if isinstance(error, SandboxError) and not is_fatal(error):
            outcome.evidence = observed(sandbox, error)
        try:
            sandbox.kill()
        except SandboxError as gone:
            # The first error is the cause, unless it only reports that the engine closed the connection.
            outcome.end(error if is_fatal(error) else gone)
            return
        if not isinstance(error, SandboxError) or is_fatal(error):
            outcome.end(error)
            return
        assert outcome.evidence is not None
        words = last_words(sandbox, self.out.parent)
        outcome.evidence = outcome.evidence.model_copy(update={"last_words": words})
        outcome.failure = attributed(outcome.evidence)

    def _collect(self) -> None:
        outcome = self.outcome
        try:
            try:
                outcome.collected = collect(self.sandbox.collect(), self.out, self.limits)
            except (BrokenArchive, EngineGone):
                # The engine writes the archive, not the sandbox, and the volume is still there.
                outcome.collected = collect(self.sandbox.collect(), self.out, self.limits)
        except SandboxError as error:
            if outcome.failure is None:
                self._not_collected(error)
            return
        outcome.result = outcome.collected.result
        if outcome.fatal is not None:
            return
        if outcome.result is not None:
            outcome.failure = None  # the volume is complete: what failed afterwards did no harm
        elif outcome.evidence is not None:
            if not outcome.evidence.last_words:
                words = last_words(self.sandbox, self.out.parent)
                outcome.evidence = outcome.evidence.model_copy(update={"last_words": words})
            found = from_events(outcome.collected.root / files.EVENTS)
            outcome.evidence = outcome.evidence.model_copy(update=found)
            outcome.failure = attributed(outcome.evidence)

    def _not_collected(self, error: SandboxError) -> None:
        if isinstance(error, BrokenArchive):
            self.outcome.fail(Boundary.SANDBOX, kind_of(error), str(error))
        elif isinstance(error, CollectError):
            # Besides the supervisor, only the trainer's uid can write to the volume.
            self.outcome.fail(Boundary.TRAINER, "bad_output", str(error))
        elif isinstance(error, EngineGone | EngineRefused):
            # The volume cannot be read or removed before the engine is back, which concerns more than this job, or
            # at all.
            self.outcome.end(error)
        else:
            self.outcome.fail(Boundary.SANDBOX, "not_collected", str(error))

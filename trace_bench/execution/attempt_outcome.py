"""The outcome of one attempt at a job, and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.artifacts import layout as files
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.collector import Collected, CollectLimits, collect
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, WorkerResult
from trace_bench.artifacts.provenance import cpu_model, now
from trace_bench.artifacts.records import Attempt, AttemptEvidence, ControlRecord, JobMeta, Results
from trace_bench.artifacts.writers import sync_tree, write_json
from trace_bench.config.models import TENSORBOARD
from trace_bench.errors import (
    Boundary,
    BrokenArchive,
    CollectError,
    EnvironmentUnavailable,
    ExitCode,
    Interrupted,
    SandboxError,
    TraceBenchError,
)
from trace_bench.execution.answers import Answers
from trace_bench.execution.attempt_files import publish
from trace_bench.execution.attribution import attributed
from trace_bench.execution.checkpoint import CheckpointFile
from trace_bench.execution.evidence import from_events, kind_of, last_words, observed
from trace_bench.execution.tensorboard import write_events
from trace_bench.gateway.base import NotRecorded
from trace_bench.records.integrity import job_integrity
from trace_bench.records.pareto import pareto_front
from trace_bench.records.rows import is_final, results_row
from trace_bench.sandbox.base import Sandbox
from trace_bench.sandbox.errors import EngineGone, EngineRefused
from trace_bench.secrets import known


@dataclass
class AttemptOutcome:
    """The outcome of one attempt. It is filled in while the attempt runs.

    Attributes:
        failure: what the host attributes; it goes before the failure that the sandbox reports in `result`.
        fatal: an error that ends more than this job.
        answers: the LLM calls of the session, some of which may be under way.
        checkpoint: what the search learns; None in a replay, which repeats everything.
        stops_sent: reasons to stop that the sandbox was given.
    """

    result: WorkerResult | None = None
    failure: Failure | None = None
    collected: Collected | None = None
    controls: tuple[ControlRecord, ...] = ()
    devices: tuple[str, ...] = ()
    cpuset: tuple[int, ...] = ()
    sandbox_id: str = ""
    fatal: TraceBenchError | None = None
    answers: Answers | None = None
    checkpoint: CheckpointFile | None = None
    warnings: list[str] = field(default_factory=list)
    stops_sent: frozenset[str] = frozenset()
    usage_by_phase: Mapping[str, Usage] = field(default_factory=dict)
    cut_by_run_budget: bool = False
    evidence: AttemptEvidence | None = None

    @property
    def failed_at_provider(self) -> bool:
        """Whether the sandbox reports a failure of the provider."""
        failure = self.result.failure if self.result is not None else None
        return failure is not None and failure.boundary is Boundary.PROVIDER

    @property
    def was_stopped_from_outside(self) -> bool:
        """Whether the sandbox ended in order because of a stop that this controller did not send (``docker stop``)."""
        if self.result is None or self.result.stop_reason != "interrupted":
            return False
        return "interrupted" not in self.stops_sent

    def fail(self, boundary: Boundary, kind: str, message: str) -> None:
        """Record a failure, in place of an earlier one."""
        self.failure = Failure(boundary=boundary, kind=kind, message=message)

    def end(self, error: TraceBenchError) -> None:
        """Record that `error` ended the attempt."""
        if is_fatal(error):
            self.fatal = error
        if isinstance(error, Interrupted):
            self.fail(Boundary.HARNESS, "interrupted", str(error))
        else:
            self.fail(error.boundary, kind_of(error), str(error))

    def end_session(
        self, sandbox: Sandbox, error: Interrupted | SandboxError | EnvironmentUnavailable | NotRecorded, folder: Path
    ) -> None:
        """Kill the sandbox of a session that `error` ended, and attribute the failure.

        Args:
            folder: of the attempt; gets the stderr of the sandbox.
        """
        cause = error if isinstance(error, SandboxError) and not is_fatal(error) else None
        if cause is not None:
            self.evidence = observed(sandbox, cause)
        try:
            sandbox.kill()
        except SandboxError as gone:
            # The first error is the cause, unless it only reports that the engine closed the connection.
            self.end(error if is_fatal(error) else gone)
            return
        if cause is None or self.evidence is None:
            self.end(error)
            return
        self.evidence = self.evidence.model_copy(update={"last_words": last_words(sandbox, folder)})
        self.failure = attributed(self.evidence)

    def collect(self, sandbox: Sandbox, out: Path, limits: CollectLimits) -> None:
        """Collect the volume of a sandbox that has ended into `out`, and attribute its failure.

        Raises:
            EnvironmentUnavailable, OSError: this machine could not take in the volume.
        """
        try:
            try:
                self.collected = collect(sandbox.collect(), out, limits)
            except (BrokenArchive, EngineGone):
                # The engine writes the archive, not the sandbox, and the volume is still there.
                self.collected = collect(sandbox.collect(), out, limits)
        except SandboxError as error:
            if self.failure is None:
                self._fail_to_collect(error)
            return
        self.result = self.collected.result
        if self.fatal is not None:
            return
        if self.result is not None:
            self.failure = None  # the volume is complete: what failed afterwards did no harm
        elif self.evidence is not None:
            facts = from_events(self.collected.root / files.EVENTS)
            if not self.evidence.last_words:
                facts["last_words"] = last_words(sandbox, out.parent)
            self.evidence = self.evidence.model_copy(update=facts)
            self.failure = attributed(self.evidence)

    def _fail_to_collect(self, error: SandboxError) -> None:
        if isinstance(error, BrokenArchive):
            self.fail(Boundary.SANDBOX, kind_of(error), str(error))
        elif isinstance(error, CollectError):
            # Besides the supervisor, only the trainer's uid can write to the volume.
            self.fail(Boundary.TRAINER, "bad_output", str(error))
        elif isinstance(error, EngineGone | EngineRefused):
            # The volume cannot be read or removed before the engine is back, which concerns more than this job, or
            # at all.
            self.end(error)
        else:
            self.fail(Boundary.SANDBOX, "not_collected", str(error))


def is_fatal(error: TraceBenchError) -> bool:
    """Whether `error` ends more than its job: the user requests it, or the machine lacks something. What an engine
    refuses of one job it need not refuse of another."""
    if isinstance(error, EngineRefused):
        return False
    return isinstance(error, Interrupted) or error.exit_code == ExitCode.ENVIRONMENT


def record_attempt(
    run: RunLayout, job: JobLayout, number: int, meta: JobMeta, outcome: AttemptOutcome, usage: Usage, seconds: float
) -> Results:
    """Write the files of attempt `number` of a job: what was collected, ``job_meta.json`` and ``results.json``."""
    result = outcome.result
    if outcome.collected is not None:
        publish(outcome.collected, job)
    meta = meta.model_copy(update=_meta_update(number, meta, outcome, usage))
    front = pareto_front(job.state_history, job.job_id, meta.objective)
    if front is not None:
        write_json(job.pareto, front, durable=False)
    row = results_row(meta, result, usage, seconds, run, front)
    if meta.logger == TENSORBOARD:
        write_events(job, row)
        row = row.model_copy(update={"tb_logdir": run.relative(job.tb) if job.tb.is_dir() else None})
    # A job that is recorded as ended does not run again: after a power cut, all of its files must be there.
    write_json(job.meta, meta)
    if is_final(row) and row.status == "ok":
        job.checkpoint.unlink(missing_ok=True)
    sync_tree(job.root)
    write_json(job.results, row)  # from here on the job has ended
    return row


def _meta_update(number: int, meta: JobMeta, outcome: AttemptOutcome, usage: Usage) -> dict[str, Any]:
    """The fields of the job's record that the attempt determines."""
    result = outcome.result
    failure = outcome.failure or (result.failure if result is not None else None)
    if failure is not None:
        failure = failure.model_copy(update={"message": known.text(failure.message)})
    status = "ok" if failure is None and result is not None and result.status == "ok" else "failed"
    killed = failure is not None and failure.kind == "interrupted"
    evidence = outcome.evidence
    if evidence is not None and result is not None:
        evidence = evidence.model_copy(update={"worker": result.evidence})
    attempt = Attempt(
        number=number,
        started_at=meta.started_at or now(),
        ended_at=now(),
        status="interrupted" if killed else status,  # type: ignore[arg-type]
        failure=failure,
        sandbox_id=outcome.sandbox_id,
        host=meta.host,
        evidence=evidence,
    )
    stop_reason = result.stop_reason if result is not None else "interrupted" if killed else None
    cut = outcome.cut_by_run_budget or ("budget" in outcome.stops_sent and stop_reason == "budget")
    of_checkpoint = outcome.checkpoint.warnings if outcome.checkpoint is not None else []
    of_sandbox = result.warnings if result is not None else ()
    return {
        "status": status,
        "failure": failure,
        "controls": outcome.controls,
        "devices": outcome.devices,
        "cpuset": outcome.cpuset,
        "attempts": (*meta.attempts, attempt),
        "ended_at": now(),
        "stop_reason": stop_reason,
        "stop_point": result.stop_point if result is not None else None,
        "cut_by_run_budget": cut,
        "usage": usage,
        "usage_by_phase": dict(outcome.usage_by_phase),
        "warnings": (*meta.warnings, *outcome.warnings, *of_checkpoint, *of_sandbox),
        "integrity_report": job_integrity(result, meta, outcome.usage_by_phase),
        "cpu_model": (result.hardware.cpu if result is not None else "") or cpu_model(),
    }

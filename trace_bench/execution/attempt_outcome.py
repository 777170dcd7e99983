"""The outcome of one attempt at a job, and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.collector import Collected
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, WorkerResult
from trace_bench.artifacts.provenance import cpu_model, now
from trace_bench.artifacts.records import Attempt, AttemptEvidence, ControlRecord, JobMeta, Results
from trace_bench.artifacts.writers import sync_tree, write_json
from trace_bench.config.models import TENSORBOARD
from trace_bench.errors import Boundary, ExitCode, Interrupted, TraceBenchError
from trace_bench.execution.answers import Answers
from trace_bench.execution.attempt_files import publish
from trace_bench.execution.checkpoint import CheckpointFile
from trace_bench.execution.evidence import kind_of
from trace_bench.execution.tensorboard import write_events
from trace_bench.records.integrity import job_integrity
from trace_bench.records.pareto import pareto_front
from trace_bench.records.rows import is_final, results_row
from trace_bench.sandbox.errors import EngineRefused
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

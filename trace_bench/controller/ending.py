"""How one attempt at a job ended, and its record."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.artifacts import layout as files
from trace_bench.artifacts.collector import Collected
from trace_bench.artifacts.contract import Failure, WorkerResult
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.provenance import cpu_model, now
from trace_bench.artifacts.records import Attempt, ControlRecord, JobMeta, Results, Usage
from trace_bench.artifacts.secrets import known
from trace_bench.artifacts.writers import sync_tree, write_json, write_text
from trace_bench.controller.answers import Answers
from trace_bench.controller.attempts import publish
from trace_bench.controller.session import SandboxGone
from trace_bench.errors import Boundary, ExitCode, Interrupted, SandboxError, TraceBenchError
from trace_bench.results.integrity import integrity_report
from trace_bench.results.rows import results_row
from trace_bench.sandbox.base import ExitStatus, Sandbox

EXIT_PATIENCE = 10.0
"""Seconds that a supervisor has to exit after its last message."""


@dataclass
class Ending:
    """What became of one attempt."""

    result: WorkerResult | None = None
    failure: Failure | None = None
    collected: Collected | None = None
    controls: tuple[ControlRecord, ...] = ()
    sandbox_id: str = ""
    fatal: TraceBenchError | None = None
    """What ends more than this job."""
    answers: Answers | None = None
    """The LLM calls of the session, of which some may be under way."""
    warnings: list[str] = field(default_factory=list)
    told: frozenset[str] = frozenset()
    """Reasons that the sandbox was given to stop."""
    usage_by_phase: Mapping[str, Usage] = field(default_factory=dict)
    cut_by_run_budget: bool = False

    @property
    def failed_at_provider(self) -> bool:
        """So the sandbox says."""
        failure = self.result.failure if self.result is not None else None
        return failure is not None and failure.boundary is Boundary.PROVIDER

    def end(self, error: TraceBenchError) -> None:
        """`error` ended the attempt."""
        if isinstance(error, Interrupted):
            self.fatal = error
            self.failure = Failure(boundary=Boundary.HARNESS, kind="interrupted", message=str(error))
            return
        if error.exit_code == ExitCode.ENVIRONMENT:
            self.fatal = error
        self.failure = Failure(boundary=error.boundary, kind=kind_of(error), message=str(error))


def recorded(
    run: RunLayout, job: JobLayout, number: int, meta: JobMeta, ending: Ending, usage: Usage, seconds: float
) -> Results:
    """Write down what attempt `number` of a job came to: what was collected, ``job_meta.json``, ``results.json``."""
    result = ending.result
    failure = ending.failure or (result.failure if result is not None else None)
    if failure is not None:
        failure = failure.model_copy(update={"message": known.text(failure.message)})
    status = "ok" if failure is None and result is not None and result.status == "ok" else "failed"
    killed = failure is not None and failure.kind == "interrupted"
    if ending.collected is not None:
        publish(ending.collected, job)
    attempt = Attempt(
        number=number,
        started_at=meta.started_at or now(),
        ended_at=now(),
        status="interrupted" if killed else status,  # type: ignore[arg-type]
        failure=failure,
        sandbox_id=ending.sandbox_id,
    )
    stop_reason = result.stop_reason if result is not None else "interrupted" if killed else None
    cut = ending.cut_by_run_budget or ("budget" in ending.told and stop_reason == "budget")
    warnings = [*meta.warnings, *ending.warnings, *(result.warnings if result is not None else ())]
    meta = meta.model_copy(
        update={
            "status": status,
            "failure": failure,
            "controls": ending.controls,
            "attempts": (*meta.attempts, attempt),
            "ended_at": now(),
            "stop_reason": stop_reason,
            "stop_point": result.stop_point if result is not None else None,
            "cut_by_run_budget": cut,
            "usage": usage,
            "usage_by_phase": dict(ending.usage_by_phase),
            "warnings": tuple(warnings),
            "integrity_report": integrity_report(result),
            "cpu_model": cpu_model(),
        }
    )
    row = results_row(meta, result, usage, seconds, run)
    # What is recorded as ended is not run again: after a power cut, all that belongs to it must be there.
    write_json(job.meta, meta)
    sync_tree(job.root)
    write_json(job.results, row)  # from here on the job has ended
    return row


def ends_more(error: TraceBenchError) -> bool:
    """Whether `error` ends more than its job: the user wants it, or the machine lacks something."""
    return isinstance(error, Interrupted) or error.exit_code == ExitCode.ENVIRONMENT


def sandbox_failure(error: SandboxError, sandbox: Sandbox, evidence: Path) -> Failure:
    """What became of the sandbox; its last words are kept whole under `evidence`."""
    status: ExitStatus | None = None
    words = ""
    with contextlib.suppress(SandboxError):
        status = sandbox.wait(EXIT_PATIENCE)
        words = sandbox.last_words().strip()
    message, kind = str(error), kind_of(error)
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


def kind_of(error: TraceBenchError) -> str:
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

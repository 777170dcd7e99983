"""How one attempt at a job ended, and its record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_bench.artifacts import jsonio
from trace_bench.artifacts import layout as files
from trace_bench.artifacts.collector import Collected
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import Failure, WorkerResult
from trace_bench.artifacts.provenance import cpu_model, now
from trace_bench.artifacts.records import Attempt, AttemptEvidence, ControlRecord, JobMeta, Results, Usage
from trace_bench.artifacts.writers import sync_tree, write_json, write_text
from trace_bench.config.models import TENSORBOARD
from trace_bench.errors import Boundary, ExitCode, Interrupted, SandboxError, TraceBenchError
from trace_bench.execution.answers import Answers
from trace_bench.execution.attempts import publish
from trace_bench.execution.checkpoint import CheckpointFile
from trace_bench.execution.session import SandboxGone
from trace_bench.execution.tensorboard import write_events
from trace_bench.records.integrity import integrity_report
from trace_bench.records.pareto import pareto_front
from trace_bench.records.rows import is_final, results_row
from trace_bench.sandbox.base import Sandbox
from trace_bench.sandbox.controls import missing
from trace_bench.sandbox.errors import ControlMissing
from trace_bench.sandbox.errors import SandboxGone as SandboxRemoved
from trace_bench.secrets import known

EXIT_PATIENCE = 10.0
"""Seconds that a supervisor has to exit after its last message."""


@dataclass
class Ending:
    """What became of one attempt."""

    result: WorkerResult | None = None
    failure: Failure | None = None
    collected: Collected | None = None
    controls: tuple[ControlRecord, ...] = ()
    devices: tuple[str, ...] = ()
    cpuset: tuple[int, ...] = ()
    sandbox_id: str = ""
    fatal: TraceBenchError | None = None
    """What ends more than this job."""
    answers: Answers | None = None
    """The LLM calls of the session, of which some may be under way."""
    checkpoint: CheckpointFile | None = None
    """What the search learns; None in a replay, which repeats it all."""
    warnings: list[str] = field(default_factory=list)
    told: frozenset[str] = frozenset()
    """Reasons that the sandbox was given to stop."""
    usage_by_phase: Mapping[str, Usage] = field(default_factory=dict)
    cut_by_run_budget: bool = False
    evidence: AttemptEvidence | None = None

    def evidence_with(self, result: WorkerResult | None) -> AttemptEvidence | None:
        """What is known of how its sandbox ended, from inside and outside."""
        if self.evidence is None or result is None:
            return self.evidence
        return self.evidence.model_copy(update={"worker": result.evidence})

    @property
    def failed_at_provider(self) -> bool:
        """So the sandbox says."""
        failure = self.result.failure if self.result is not None else None
        return failure is not None and failure.boundary is Boundary.PROVIDER

    @property
    def was_stopped_from_outside(self) -> bool:
        """It ended in order before its time, and this controller did not tell it to: `docker stop`, say."""
        return self.result is not None and self.result.stop_reason == "interrupted" and "interrupted" not in self.told

    def note_controls(self, sandbox: Sandbox, required: Iterable[str] = ()) -> None:
        """Record which controls of `sandbox` are in force.

        Raises:
            ControlMissing: one of `required` is not.
        """
        found = sandbox.controls()
        self.controls = tuple(
            ControlRecord(name=c.name, wanted=c.wanted, in_force=c.in_force, detail=c.detail) for c in found
        )
        if lacking := missing(found, required):
            names = "; ".join(f"{control.name} ({control.detail})" for control in lacking)
            raise ControlMissing(
                f"sandbox {sandbox.name} has started without a required control: {names}. It was ended before it was "
                "given its job. Mend the host, or take the control out of sandbox.require_controls."
            )

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
        host=meta.host,
        evidence=ending.evidence_with(result),
    )
    stop_reason = result.stop_reason if result is not None else "interrupted" if killed else None
    cut = ending.cut_by_run_budget or ("budget" in ending.told and stop_reason == "budget")
    told = ending.checkpoint.warnings if ending.checkpoint is not None else []
    warnings = [*meta.warnings, *ending.warnings, *told, *(result.warnings if result is not None else ())]
    meta = meta.model_copy(
        update={
            "status": status,
            "failure": failure,
            "controls": ending.controls,
            "devices": ending.devices,
            "cpuset": ending.cpuset,
            "attempts": (*meta.attempts, attempt),
            "ended_at": now(),
            "stop_reason": stop_reason,
            "stop_point": result.stop_point if result is not None else None,
            "cut_by_run_budget": cut,
            "usage": usage,
            "usage_by_phase": dict(ending.usage_by_phase),
            "warnings": tuple(warnings),
            "integrity_report": integrity_report(
                result, meta.tolerance, comparable=not (meta.timing_sensitive or _asked_a_model(ending.usage_by_phase))
            ),
            "cpu_model": (result.hardware.cpu if result is not None else "") or cpu_model(),
        }
    )
    front = pareto_front(job.state_history, job.job_id, meta.objective)
    if front is not None:
        write_json(job.pareto, front, durable=False)
    row = results_row(meta, result, usage, seconds, run, front)
    if meta.logger == TENSORBOARD:
        write_events(job, row, row)
        row = row.model_copy(update={"tb_logdir": run.relative(job.tb) if job.tb.is_dir() else None})
    # What is recorded as ended is not run again: after a power cut, all that belongs to it must be there.
    write_json(job.meta, meta)
    if is_final(row) and row.status == "ok":
        job.checkpoint.unlink(missing_ok=True)
    sync_tree(job.root)
    write_json(job.results, row)  # from here on the job has ended
    return row


def _asked_a_model(usage: Mapping[str, Usage]) -> bool:
    """True if scoring did: its answers need not be those that training got."""
    scoring = usage.get("score", Usage())
    return bool(scoring.calls or scoring.reused or scoring.refused)


def ends_more(error: TraceBenchError) -> bool:
    """Whether `error` ends more than its job: the user wants it, or the machine lacks something."""
    return isinstance(error, Interrupted) or error.exit_code == ExitCode.ENVIRONMENT


def observed(sandbox: Sandbox, error: SandboxError | None = None) -> AttemptEvidence:
    """What there is to see of `sandbox`, to be asked before it is killed: what the controller does itself is no
    evidence.

    Args:
        error: what the controller met, if its session did not come to its end.
    """
    seen = AttemptEvidence(error=kind_of(error), message=str(error)) if error is not None else AttemptEvidence()
    # The end of a stream comes a little before the end of its sandbox.
    patience = EXIT_PATIENCE if error is None or isinstance(error, SandboxGone) else 0.0
    try:
        status = sandbox.wait(patience)
        if status is None:
            return seen.model_copy(update={"state": sandbox.status()})
    except SandboxRemoved:
        return seen.model_copy(update={"state": "removed"})
    except SandboxError:
        return seen
    found = {"exit_code": status.code, "oom_killed": status.oom_killed, "engine_error": status.error}
    return seen.model_copy(update={"state": "exited", **found})


def last_words(sandbox: Sandbox, folder: Path) -> str:
    """The last line that it said on stderr; all of it is kept under `folder`."""
    words = ""
    with contextlib.suppress(SandboxError):
        words = sandbox.last_words().strip()
    if words:
        write_text(folder / files.STDERR, words + "\n", durable=False)
    return words.splitlines()[-1][:500] if words else ""


def noted(events: Path) -> dict[str, Any]:
    """`phase` and `failure` of `AttemptEvidence`, from a supervisor's ``events.jsonl``, which has been checked."""
    at_work: list[str] = []
    failure: Failure | None = None
    with contextlib.suppress(FileNotFoundError), events.open("rb") as file:
        for raw in file:
            line = jsonio.loads(raw)
            name = str(line.get("phase"))
            if line["event"] == "phase.start":
                at_work.append(name)
            elif line["event"] == "phase.end" and name in at_work:
                at_work.remove(name)
            elif line["event"] == "failure" and failure is None:
                with contextlib.suppress(ValidationError):
                    failure = Failure.model_validate({key: line.get(key) for key in Failure.model_fields})
    return {"phase": at_work[0] if at_work else "", "failure": failure}


def kind_of(error: TraceBenchError) -> str:
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

"""The JSON lines of ``run --json``: every event and its fields.

``docs/reference/events.md`` describes them, and a test compares the two. Lines from a sandbox are copied field by
field: they cannot pass for another event, nor break a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from trace_bench.artifacts.jsonio import finite_number
from trace_bench.artifacts.records import Results
from trace_bench.errors import ExitCode
from trace_bench.execution.events import (
    CandidateEvaluated,
    Event,
    GapsMeasured,
    JobFinished,
    JobQueued,
    JobRetried,
    JobReused,
    JobSkipped,
    JobStarted,
    JobView,
    ModelCallDelayed,
    RunStarted,
    SandboxUp,
)
from trace_bench.records.tables import summarise

Fields = dict[str, Any]

_STEP_NUMBERS = (
    "step", "score", "best_score", "seconds", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd",
    "evaluations",
)  # fmt: skip
_STEP_TEXTS = ("candidate", "split", "reason")
_JOB = ("job_id", "task_id", "trainer_id", "variant", "model", "seed", "score_direction", "decision", "reason")


def line(event: str, fields: Mapping[str, Any]) -> str:
    """An event as one line of ASCII, so that no terminal takes any of it for a command."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = json.dumps({"t": stamp, "event": event, **fields}, allow_nan=False, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f")


def job_fields(job: JobView) -> Fields:
    """A planned job, in ``run.start`` and in the plan that ``--dry-run`` prints."""
    return {name: getattr(job, name) for name in _JOB}


def json_event(event: Event) -> tuple[str, Fields] | None:
    """Name and fields of `event`; None for an event that programs do not get. The last line is `run_end`."""
    match event:
        case RunStarted():
            return "run.start", _run_start(event)
        case JobReused(job, row):
            return "job.reuse", _row(job, row)
        case JobQueued(job, host):
            return "job.queue", {"job_id": job.job_id, "host": host or None}
        case JobStarted(job, adopted):
            return "job.start", {"job_id": job.job_id, "adopted": adopted}
        case SandboxUp(job, host):
            return "job.up", {"job_id": job.job_id, "host": host or None}
        case CandidateEvaluated(job, step):
            return "job.step", _step(job, step)
        case ModelCallDelayed(job, seconds, why):
            return "job.wait", {"job_id": job.job_id, "seconds": round(seconds, 3), "reason": why}
        case JobRetried(job, row, attempt):
            return "job.retry", {"job_id": job.job_id, "attempt": attempt, **_row(job, row)}
        case JobFinished(job, row):
            return "job.end", _row(job, row)
        case JobSkipped(job, row):
            return "job.skip", _row(job, row)
        case GapsMeasured(programs):
            return "gaps.measure", {"programs": programs}
    return None


def _run_start(run: RunStarted) -> Fields:
    return {
        "run_id": run.run_id,
        "folder": str(run.layout.root),
        "continued": run.continued,
        "workers": run.workers,
        "warnings": list(run.warnings),
        "jobs": [job_fields(job) for job in run.jobs],
    }


def _step(job: JobView, step: Mapping[str, Any]) -> Fields:
    """A line of ``state_history.jsonl`` without its parameters."""
    return {
        "job_id": job.job_id,
        **{name: finite_number(step.get(name)) for name in _STEP_NUMBERS},
        **{name: _text(step.get(name)) for name in _STEP_TEXTS},
        "parents": _texts(step.get("parents")),
        "accepted": accepted if isinstance(accepted := step.get("accepted"), bool) else None,
        "extra": _extra(step.get("extra")),
    }


def run_end(run: RunStarted, rows: Sequence[Results], *, exit_code: int, error: str | None) -> Fields:
    """The fields of the last line, from the rows of the jobs that have one."""
    summary = summarise(run.run_id, rows, len(rows))
    tokens = summary.token_totals
    return {
        "run_id": run.run_id,
        "folder": str(run.layout.root),
        "planned": len(run.jobs),
        "ok": exit_code == ExitCode.OK,
        "interrupted": exit_code == ExitCode.INTERRUPTED,
        "exit_code": exit_code,
        "error": error,
        "counts": summary.counts,
        "infrastructure_failures": summary.infrastructure_failures,
        "flagged_jobs": summary.flagged_jobs,
        "llm_calls": summary.llm_calls,
        "token_totals": {"prompt": tokens.prompt, "completion": tokens.completion, "total": tokens.total},
        "cost_usd": summary.cost_usd,
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list | tuple) else []


def _extra(value: object) -> object:
    if not isinstance(value, dict):
        return {}
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {}
    return value


def _row(job: JobView, row: Results) -> Fields:
    return {"job_id": job.job_id, "row": row.model_dump(mode="json")}

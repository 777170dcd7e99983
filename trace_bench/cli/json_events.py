"""The JSON lines of ``run --json``: every event and its fields, and nowhere else.

``docs/reference/events.md`` describes them; a test holds the two together. What a sandbox said is passed on field by
field, so that it can neither stand for an event of ours nor break a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from trace_bench.artifacts.jsonio import finite_number
from trace_bench.artifacts.records import Results
from trace_bench.cli.tally import Totals
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

Fields = dict[str, Any]

_STEP_NUMBERS = (
    "step", "score", "best_score", "seconds", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd",
    "evaluations",
)  # fmt: skip
_STEP_TEXTS = ("candidate", "split", "reason")


def line(event: str, fields: Mapping[str, Any]) -> str:
    """An event as one line of ASCII, so that no terminal takes any of it for a command."""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = json.dumps({"t": stamp, "event": event, **fields}, allow_nan=False, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f")


def job_fields(job: JobView) -> Fields:
    """A planned job, in ``run.start`` and in the plan that ``--dry-run`` prints."""
    return {
        "job_id": job.job_id,
        "task_id": job.task_id,
        "trainer_id": job.trainer_id,
        "variant": job.variant,
        "model": job.model,
        "seed": job.seed,
        "score_direction": job.score_direction,
        "decision": job.decision,
        "reason": job.reason,
    }


def json_event(event: Event) -> tuple[str, Fields] | None:
    """Name and fields of `event`; None for an event that programs do not get. The last line is `run_end`."""
    match event:
        case RunStarted():
            return "run.start", _run_start(event)
        case JobReused(job, row):
            return "job.reuse", {"job_id": job.job_id, "row": _row(row)}
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
            return "job.retry", {"job_id": job.job_id, "attempt": attempt, "row": _row(row)}
        case JobFinished(job, row):
            return "job.end", {"job_id": job.job_id, "row": _row(row)}
        case JobSkipped(job, row):
            return "job.skip", {"job_id": job.job_id, "row": _row(row)}
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
    """`rows` are those of the jobs that have one."""
    totals = Totals.of(rows)
    return {
        "run_id": run.run_id,
        "folder": str(run.layout.root),
        "planned": len(run.jobs),
        "ok": exit_code == ExitCode.OK,
        "interrupted": exit_code == ExitCode.INTERRUPTED,
        "exit_code": exit_code,
        "error": error,
        "counts": dict(totals.counts),
        "infrastructure_failures": totals.infrastructure,
        "flagged_jobs": totals.flagged,
        "llm_calls": totals.llm_calls,
        "token_totals": {
            "prompt": totals.prompt_tokens,
            "completion": totals.completion_tokens,
            "total": totals.total_tokens,
        },
        "cost_usd": totals.cost_usd,
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


def _row(row: Results) -> Fields:
    return row.model_dump(mode="json")

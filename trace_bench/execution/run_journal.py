"""Make the lines of the journal of a run, ``events.jsonl``, from its events.

Another controller, ``attach`` and ``show`` learn from them how far the run is. ``docs/reference/files.md`` describes
the lines.
"""

from __future__ import annotations

from typing import Any

from trace_bench.execution.events import (
    Event,
    GapsMeasured,
    GpusWithdrawn,
    HostLost,
    HostReturned,
    JobFinished,
    JobQueued,
    JobRetried,
    JobsEnded,
    JobStarted,
    RunStarted,
    SandboxLeft,
    SandboxUp,
)
from trace_bench.records.rows import is_final, was_cut


def journal_line(event: Event) -> dict[str, Any] | None:
    """The fields of `event` in the journal, ``event`` first; None for an event that is not kept."""
    match event:
        case RunStarted(jobs=jobs):
            reused = sum(job.decision == "reuse" for job in jobs)
            return {"event": "run.start", "jobs": len(jobs), "reused": reused, "workers": event.workers,
                    "continued": event.continued, "afresh": event.afresh}  # fmt: skip
        case JobQueued(job, host):
            return {"event": "lease.wait", "job_id": job.job_id, "host": host}
        case JobStarted(job, adopted, host, waited):
            where = {} if host is None else {"host": host}
            return {"event": "job.start", "job_id": job.job_id, "adopted": adopted, **where, "waited": waited}
        case SandboxUp(job, host):
            return {"event": "job.up", "job_id": job.job_id, "host": host or None}
        case JobRetried(job, row, attempt):
            return {"event": "job.retry", "job_id": job.job_id, "failure_kind": row.failure_kind, "attempt": attempt}
        case JobFinished(job, row):
            return {"event": "job.end", "job_id": job.job_id, "status": row.status,
                    "failure_kind": row.failure_kind, "stop_reason": row.stop_reason}  # fmt: skip
        case HostLost(host):
            return {"event": "host.lost", "host": host}
        case HostReturned(host):
            return {"event": "host.back", "host": host}
        case GpusWithdrawn(host, devices):
            return {"event": "gpus.withdrawn", "host": host or None, "devices": list(devices)}
        case SandboxLeft(job_id, sandbox, reason):
            return {"event": "sandbox.left", "job_id": job_id, "sandbox": sandbox, "message": reason}
        case GapsMeasured(programs):
            return {"event": "gaps.measure", "programs": programs}
        case JobsEnded(rows, error, exit_code):
            early = {} if error is None else {"error": error, "exit_code": exit_code}
            return {"event": "run.end", "finished": sum(map(is_final, rows)), "interrupted": sum(map(was_cut, rows)),
                    "jobs": len(rows), **early}  # fmt: skip
    return None

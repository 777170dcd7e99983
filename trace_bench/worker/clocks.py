"""Which limit on wall time a phase has passed: training has ``job_timeout`` and the budget, the others
``score_timeout``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trace_bench.worker.phase_process import Failure


@dataclass(frozen=True)
class Late:
    """Training has to end: `stop_reason` is ``timeout`` or ``budget``; only a timeout is a failure."""

    stop_reason: str
    failure: Failure | None = None


def late_training(job: dict[str, Any], seconds: float) -> Late | None:
    """What ends training after `seconds` of it; None if nothing does."""
    allowed = job["limits"].get("job_timeout")
    if allowed is not None and seconds > allowed:
        message = f"training took more than job_timeout = {allowed:g} s; its best state was scored"
        return Late("timeout", {"boundary": "trainer", "kind": "job_timeout", "message": message})
    allowed = job["budget"].get("seconds")
    return Late("budget") if allowed is not None and seconds > allowed else None


def late_task(job: dict[str, Any], phase: str, seconds: float) -> Failure | None:
    """The failure of `phase`, build or score, after `seconds` of it; None while it may go on."""
    allowed = job["limits"].get("score_timeout")
    if allowed is None or seconds <= allowed:
        return None
    message = f"{phase} took more than score_timeout = {allowed:g} s"
    return {"boundary": "task", "kind": f"{phase}_timeout", "message": message}

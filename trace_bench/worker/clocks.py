"""What ends a phase before it has come to its end: a limit on wall time (training has ``job_timeout`` and the budget,
the others ``score_timeout``), or, in a replay, the place where the recorded job was ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trace_bench.worker.phase_process import Failure
from trace_bench.worker.reports import PROVIDER_TIMEOUT


@dataclass(frozen=True)
class Late:
    """Training has to end: `stop_reason` is ``timeout`` or ``budget``; only a timeout is a failure."""

    stop_reason: str
    failure: Failure | None = None


@dataclass
class TrainClock:
    """Seconds of training over all attempts at a job. While a search only comes to where an earlier attempt left it,
    the clock stands: what it repeats has its time already.

    Attributes:
        before: seconds of earlier attempts, up to their last result that is kept.
        live_at: when the search passed that point (monotonic); None before.
    """

    before: float = 0.0
    live_at: float | None = None

    def seconds(self, now: float) -> float:
        """Seconds of training at the time `now`."""
        return self.before if self.live_at is None else self.before + now - self.live_at


def late_training(
    job: dict[str, Any], seconds: float, clock: TrainClock, now: float, waited: float = 0.0
) -> Late | None:
    """The limit that ends training after `seconds` of this attempt; None if none is reached. A replay asks no clock.

    Args:
        waited: seconds for which the phase has waited for a model (`LlmCalls.waited`).

    The budget is of all attempts, and `clock` theirs. It ends no search that is on its way to where it was: what is
    known by then has been paid for.
    """
    if job["mode"] == "replay":
        return None
    allowed = job["limits"].get("job_timeout")
    if allowed is not None and seconds > allowed:
        return Late("timeout", timed_out(job, waited))
    allowed = job["budget"].get("seconds")
    spent = 0.0 if clock.live_at is None else clock.seconds(now)
    return Late("budget") if allowed is not None and max(seconds, spent) > allowed else None


def timed_out(job: dict[str, Any], waited: float = 0.0) -> Failure:
    """The failure of training that has passed ``job_timeout``."""
    allowed = job["limits"].get("job_timeout")
    limit = "" if allowed is None else f" = {allowed:g} s"
    message = f"training took more than job_timeout{limit}"
    if allowed is not None and _was_providers_time(waited, allowed):
        return _unanswered(f"{message}; its best state was scored", waited)
    return {"boundary": "trainer", "kind": "job_timeout", "message": f"{message}; its best state was scored"}


def recorded_kill(job: dict[str, Any], checks: int, calls: int) -> Late | None:
    """The end of a replay of training that was killed, once it has reached that place again; None before.

    Args:
        checks: how often the trainer has looked whether it is to stop.
        calls: LLM calls that were answered.
    """
    place = job.get("stop_at")
    if place is None or not place["killed"] or checks < place["checks"] or calls < place["calls"]:
        return None
    return Late(place["reason"], timed_out(job) if place["reason"] == "timeout" else None)


def late_task(job: dict[str, Any], phase: str, seconds: float, waited: float = 0.0) -> Failure | None:
    """The failure of `phase`, build or score, after `seconds` of it; None while it may go on. `waited` as of
    `late_training`."""
    allowed = job["limits"].get("score_timeout")
    if allowed is None or seconds <= allowed:
        return None
    message = f"{phase} took more than score_timeout = {allowed:g} s"
    if _was_providers_time(waited, allowed):
        return _unanswered(message, waited)
    return {"boundary": "task", "kind": f"{phase}_timeout", "message": message}


def _was_providers_time(waited: float, allowed: float) -> bool:
    """True if a phase that has reached its limit of `allowed` seconds has waited for a model for most of them."""
    return waited > allowed / 2


def _unanswered(message: str, waited: float) -> Failure:
    message = f"the model did not answer for {waited:.1f} s, until {message}"
    return {"boundary": "provider", "kind": PROVIDER_TIMEOUT, "message": message}

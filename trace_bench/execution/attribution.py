"""Attribute the failure of a sandbox that ended without a result, and say whether another attempt may help.

No single observation is proof: the engine's ``OOMKilled`` is set when any process was killed for want of memory, and an
exit code is the supervisor's word or the kernel's. The table that this module is stands in
``docs/design/attribution.md``; every row of it has a test.
"""

from __future__ import annotations

import signal

from trace_bench.artifacts.outputs import Failure
from trace_bench.artifacts.records import AttemptEvidence
from trace_bench.errors import Boundary
from trace_bench.worker.exit_codes import LEASE_ENDED, SPAWNER_KILLED, VOLUME_FULL

KILLED = 128 + signal.SIGKILL
FUTILE = frozenset(
    {"damaged_cassette", "not_recorded", "interrupted", "control_missing", "scorer_changed", "engine_refused"}
)
"""Kinds of failures of infrastructure that would come again, or that the user requested."""


def is_retried(boundary: Boundary | None, kind: str | None) -> bool:
    """Whether a job with such a failure gets another attempt, within the limit of ``retries``."""
    return boundary is not None and boundary.is_infrastructure and kind not in FUTILE


def attributed(seen: AttemptEvidence) -> Failure:
    """The failure of an attempt whose sandbox left no result. The first row that fits is the answer."""
    if seen.failure is not None and not _ended_from_outside(seen):
        # The supervisor was alive when it noted that, and no other process can write where it did.
        text = f"{seen.failure.message}; then {_how(seen)}, before the job was scored"
        return seen.failure.model_copy(update={"message": text})
    kind, text = _sandbox_failure(seen)
    if seen.last_words:
        text += f"; its last words: {seen.last_words}"
    return Failure(boundary=Boundary.SANDBOX, kind=kind, message=text)


def _ended_from_outside(seen: AttemptEvidence) -> bool:
    """Whether the sandbox was certainly ended from outside. Then its best state was not scored, and it is retried."""
    return seen.state == "removed" or (seen.state == "exited" and seen.exit_code == KILLED and seen.oom_killed is False)


def _sandbox_failure(seen: AttemptEvidence) -> tuple[str, str]:
    code, oom = seen.exit_code, seen.oom_killed
    if seen.state == "removed":
        return "sandbox_gone", "the sandbox was removed from outside while the job ran"
    if seen.state == "running" and seen.error == "sandbox_gone":
        return "stream_lost", "the control stream ended while the sandbox was running"
    if seen.error in ("protocol", "engine_refused") or (seen.error and seen.state != "exited"):
        # Where it was running the controller has ended it: its exit code is no evidence.
        return seen.error, seen.message
    if code == VOLUME_FULL:
        return "out_of_disk", "the engine's disk was full, so that the sandbox could not write its result"
    if code == LEASE_ENDED:
        return "lease_ended", "the sandbox ended by itself: no controller had sent a message for as long as its lease"
    if code in (KILLED, SPAWNER_KILLED) and oom:
        who = "its supervisor" if code == KILLED else "the process that starts all others"
        return "out_of_memory", f"{_how(seen)}: {who} was killed for want of memory, which goes last of all"
    if not seen.error and code in (None, 0):
        return "no_result", "the sandbox ended without a result"
    hint = ""
    if code == KILLED:
        hint = ": it was killed from outside, and not for want of memory"
    elif oom:
        hint = " (a process of it had been killed for want of memory, which need not be why)"
    return "sandbox_died", f"{_how(seen)} before the job was done{hint}"


def _how(seen: AttemptEvidence) -> str:
    when = f" in phase {seen.phase}" if seen.phase else ""
    if seen.exit_code is None:
        return f"the sandbox ended{when}"
    error = f" ({seen.engine_error})" if seen.engine_error else ""
    return f"the sandbox ended with exit code {seen.exit_code}{when}{error}"

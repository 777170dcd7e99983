"""Decide what follows an attempt at a job: another attempt, another host, the end of the job, or the end of the run.

`decide` is pure. The caller carries out the step: it marks hosts as lost, pauses, and starts the next attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trace_bench.errors import Boundary, TraceBenchError
from trace_bench.execution.attribution import is_retried
from trace_bench.sandbox.errors import (
    ControlMissing,
    EngineGone,
    EngineUnfit,
    GpusMissing,
    ImageMissing,
    OutOfDisk,
    RuntimeMissing,
)
from trace_bench.worker.reports import DEVICE_LOST

Action = Literal["retry", "move", "finish", "abort"]
"""Try again in the same allocation, wait for another allocation, end the job as it is, or end the run."""
HostError = Literal["engine_gone", "unusable", "unfit"]
"""An error of the host that ended an attempt. The engine does not answer (`engine_gone`); it can make no sandbox now,
since its disk is full or the image is missing (`unusable`); it lacks something that the job requires (`unfit`)."""
UNFIT = frozenset({"control_missing", "engine_refused", "engine_unfit", "gpus_missing", "runtime_missing"})
"""Kinds of failures that come again on the same host, and need not on another."""
NOT_OF_THE_HOST = frozenset({"lease_lost", "rate_limited", "interrupted"})
"""Kinds of failures before a sandbox's first message that say nothing about its host."""


@dataclass(frozen=True)
class AttemptSummary:
    """What the decision after an attempt depends on.

    Attributes:
        boundary, kind: of the attempt's failure; None if there was none.
        attempts: number of attempts so far, this one included.
        retries: attempts that the config allows beyond the first.
        stop_requested: the user stops the run or the job.
        one_host: the run has one host.
        other_host: another reachable host could run the job.
        host_error: what the host lacked, if that ended the attempt.
        host_starts_nothing: several sandboxes in a row ended on the host before their first message.
        has_gpus: the allocation includes GPUs.
        allocation_lost: another controller has part of the job's allocation by now.
        lease_expired: the sandbox was adopted, and had ended by itself since no controller had been there for too long.
    """

    boundary: Boundary | None = None
    kind: str | None = None
    attempts: int = 1
    retries: int = 0
    stop_requested: bool = False
    one_host: bool = True
    other_host: bool = True
    host_error: HostError | None = None
    host_starts_nothing: bool = False
    has_gpus: bool = False
    allocation_lost: bool = False
    lease_expired: bool = False


@dataclass(frozen=True)
class NextStep:
    """What follows an attempt.

    Attributes:
        wait_for_engine: first wait until the only engine of the run answers again.
        host_lost: allocate nothing on the host until it is back.
        withdraw_gpus: give the GPUs of the allocation to no further job.
        pause: wait before the next attempt, longer after each one. A move with a pause avoids the host.
        counted: the attempt counts against the retries.
    """

    action: Action
    wait_for_engine: bool = False
    host_lost: bool = False
    withdraw_gpus: bool = False
    pause: bool = False
    counted: bool = True


def decide(attempt: AttemptSummary) -> NextStep:
    """The step after an attempt that `attempt` summarises. The first rule that applies decides."""
    if attempt.lease_expired:
        return NextStep("move" if attempt.allocation_lost else "retry", counted=False)
    if attempt.host_error is not None and _ends_run(attempt):
        return NextStep("abort", host_lost=not attempt.one_host)
    host_lost = not attempt.one_host and (attempt.host_error is not None or attempt.host_starts_nothing)
    withdraw_gpus = attempt.kind == DEVICE_LOST and attempt.has_gpus
    must_move = host_lost or withdraw_gpus or attempt.allocation_lost or attempt.kind == "lease_lost"
    wait = attempt.host_error == "engine_gone" and attempt.one_host
    refused = attempt.kind == "engine_refused" and attempt.other_host and not attempt.one_host and not must_move
    if refused and _may_help(attempt, elsewhere=True):
        return NextStep("move", pause=True)  # the host is fit for other jobs: this one avoids it
    if not _may_help(attempt, elsewhere=must_move):
        return NextStep("finish", wait_for_engine=wait, host_lost=host_lost, withdraw_gpus=withdraw_gpus)
    if must_move:
        return NextStep("move", wait_for_engine=wait, host_lost=host_lost, withdraw_gpus=withdraw_gpus)
    if not attempt.one_host and attempt.boundary is Boundary.SANDBOX:
        return NextStep("move", pause=True)
    return NextStep("retry", wait_for_engine=wait, pause=True)


def _ends_run(attempt: AttemptSummary) -> bool:
    """Whether no other job would fare better after an error of the host."""
    if attempt.one_host:
        return attempt.host_error != "engine_gone"
    return attempt.host_error == "unfit" and not attempt.other_host


def _may_help(attempt: AttemptSummary, *, elsewhere: bool) -> bool:
    """Whether another attempt is allowed and may succeed: infrastructure failed, and not the job."""
    unfit_here = elsewhere and attempt.kind in UNFIT
    if not unfit_here and not is_retried(attempt.boundary, attempt.kind):
        return False
    return attempt.attempts <= attempt.retries and not attempt.stop_requested


def host_error_of(error: TraceBenchError) -> HostError | None:
    """The error of a host that `error` is; None if another kind of error."""
    if isinstance(error, EngineGone):
        return "engine_gone"
    if isinstance(error, OutOfDisk | ImageMissing):
        return "unusable"
    if isinstance(error, ControlMissing | EngineUnfit | GpusMissing | RuntimeMissing):
        return "unfit"
    return None

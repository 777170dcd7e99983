"""The table of decisions after an attempt: each row is one situation and the step that follows."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from trace_bench.errors import Boundary, HarnessError
from trace_bench.execution.decision import UNFIT, AttemptSummary, NextStep, decide, host_error_of
from trace_bench.sandbox.errors import (
    ControlMissing,
    EngineGone,
    EngineUnfit,
    GpusMissing,
    ImageMissing,
    NameConflict,
    OutOfDisk,
    RuntimeMissing,
)
from trace_bench.worker.reports import DEVICE_LOST

OK: dict[str, Any] = {}
LOST: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": "stream_lost"}
PROVIDER: dict[str, Any] = {"boundary": Boundary.PROVIDER, "kind": "provider_error"}
GONE: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": "engine_gone", "host_error": "engine_gone"}
FULL: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": "out_of_disk", "host_error": "unusable"}
NO_GPU: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": "gpus_missing", "host_error": "unfit"}
UNCONTROLLED: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": "control_missing", "host_error": "unfit"}
REFUSED: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": "engine_refused"}
GPU_LOST: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": DEVICE_LOST, "has_gpus": True}
LEASE_LOST: dict[str, Any] = {"boundary": Boundary.SANDBOX, "kind": "lease_lost"}
EXPIRED: dict[str, Any] = {"lease_expired": True}
SEVERAL: dict[str, Any] = {"one_host": False}
TABLE = [
    # the job's own end
    ("it is done", OK, NextStep("finish")),
    ("the candidate failed", {"boundary": Boundary.CANDIDATE, "kind": "raised"}, NextStep("finish")),
    ("the trainer failed", {"boundary": Boundary.TRAINER, "kind": "raised"}, NextStep("finish")),
    ("the task failed", {"boundary": Boundary.TASK, "kind": "raised"}, NextStep("finish")),
    # failures of infrastructure, on the only host
    ("the stream was lost", LOST, NextStep("retry", pause=True)),
    ("the provider failed", PROVIDER, NextStep("retry", pause=True)),
    ("the harness failed", {"boundary": Boundary.HARNESS, "kind": "harness"}, NextStep("retry", pause=True)),
    ("no retry is left", LOST | {"attempts": 3}, NextStep("finish")),
    ("the last retry is left", LOST | {"attempts": 2}, NextStep("retry", pause=True)),
    ("the user stops the job", LOST | {"stop_requested": True}, NextStep("finish")),
    ("it was killed", {"boundary": Boundary.HARNESS, "kind": "interrupted"}, NextStep("finish")),
    ("its cassette is damaged", {"boundary": Boundary.HARNESS, "kind": "damaged_cassette"}, NextStep("finish")),
    ("its recording lacks a call", {"boundary": Boundary.HARNESS, "kind": "not_recorded"}, NextStep("finish")),
    ("the scorer was changed", {"boundary": Boundary.SANDBOX, "kind": "scorer_changed"}, NextStep("finish")),
    # errors of the only host
    ("the only engine is gone", GONE, NextStep("retry", wait_for_engine=True, pause=True)),
    ("the only engine is gone, no retry is left", GONE | {"attempts": 3}, NextStep("finish", wait_for_engine=True)),
    ("the only disk is full", FULL, NextStep("abort")),
    ("the only host has no GPU", NO_GPU, NextStep("abort")),
    ("the only host lacks a control", UNCONTROLLED, NextStep("abort")),
    ("the only engine refuses the job", REFUSED, NextStep("finish")),
    # the same, on one of several hosts
    ("another engine may not refuse it", SEVERAL | REFUSED, NextStep("move", pause=True)),
    ("all refuse it", SEVERAL | REFUSED | {"attempts": 3}, NextStep("finish")),
    ("no other engine can run it", SEVERAL | REFUSED | {"other_host": False}, NextStep("finish")),
    ("one of several engines is gone", SEVERAL | GONE, NextStep("move", host_lost=True)),
    ("no other can run the job now", SEVERAL | GONE | {"other_host": False}, NextStep("move", host_lost=True)),
    ("its engine is gone, no retry is left", SEVERAL | GONE | {"attempts": 3}, NextStep("finish", host_lost=True)),
    ("one of several disks is full", SEVERAL | FULL, NextStep("move", host_lost=True)),
    ("another host has GPUs", SEVERAL | NO_GPU, NextStep("move", host_lost=True)),
    ("another host has the control", SEVERAL | UNCONTROLLED, NextStep("move", host_lost=True)),
    ("another host has it, no retry is left", SEVERAL | NO_GPU | {"attempts": 3}, NextStep("finish", host_lost=True)),
    ("no host has GPUs", SEVERAL | NO_GPU | {"other_host": False}, NextStep("abort", host_lost=True)),
    # sandboxes that end before their first message, and sandboxes that fail
    ("its host starts nothing", SEVERAL | LOST | {"host_starts_nothing": True}, NextStep("move", host_lost=True)),
    ("one of several hosts failed", SEVERAL | LOST, NextStep("move", pause=True)),
    ("the provider failed a job of one of several hosts", SEVERAL | PROVIDER, NextStep("retry", pause=True)),
    ("one of several hosts failed, no retry is left", SEVERAL | LOST | {"attempts": 3}, NextStep("finish")),
    # what the job had of its host
    ("its GPU was lost", GPU_LOST, NextStep("move", withdraw_gpus=True)),
    ("its GPU was lost, no retry is left", GPU_LOST | {"attempts": 3}, NextStep("finish", withdraw_gpus=True)),
    ("a GPU was lost, and it had none", GPU_LOST | {"has_gpus": False}, NextStep("retry", pause=True)),
    ("its lease was lost", LEASE_LOST, NextStep("move")),
    ("part of an adopted allocation is lost, and it failed", LOST | {"allocation_lost": True}, NextStep("move")),
    ("part of an adopted allocation is lost, and it is done", {"allocation_lost": True}, NextStep("finish")),
    # an adopted sandbox that had ended by itself
    ("its lease had expired", EXPIRED, NextStep("retry", counted=False)),
    ("its lease had expired, no retry is left", EXPIRED | {"attempts": 3}, NextStep("retry", counted=False)),
    ("its lease had expired, and its allocation is lost", EXPIRED | {"allocation_lost": True},
     NextStep("move", counted=False)),
]  # fmt: skip


@pytest.mark.parametrize(("situation", "step"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_step_after_an_attempt(situation: dict[str, Any], step: NextStep) -> None:
    assert decide(AttemptSummary(**{"retries": 2, **situation})) == step


def test_every_situation_has_a_step_that_is_consistent() -> None:
    """All combinations: no attempt beyond the limits, and a host is lost only if there are several."""
    flags = ("one_host", "other_host", "stop_requested", "host_starts_nothing", "has_gpus", "allocation_lost")
    kinds = [(None, None), *((boundary, kind) for boundary in Boundary for kind in ("any", DEVICE_LOST, *UNFIT))]
    for boundary, kind in kinds:
        for error, attempts in product((None, "engine_gone", "unusable", "unfit"), (1, 3)):
            for values in product((False, True), repeat=len(flags)):
                given = dict(zip(flags, values, strict=True))
                summary = AttemptSummary(boundary, kind, attempts, 2, host_error=error, **given)  # type: ignore[arg-type]
                step = decide(summary)
                again = step.action in ("retry", "move")
                assert not (again and (summary.stop_requested or attempts > 2)), summary
                assert not (again and (boundary is None or not boundary.is_infrastructure) and kind not in UNFIT)
                assert not (step.host_lost and summary.one_host), summary
                assert not (step.action == "abort" and error is None), summary
                assert step.counted and not (step.wait_for_engine and not summary.one_host)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (EngineGone("x"), "engine_gone"),
        (OutOfDisk("x"), "unusable"),
        (ImageMissing("x"), "unusable"),
        (ControlMissing("x"), "unfit"),
        (EngineUnfit("x"), "unfit"),
        (GpusMissing("x"), "unfit"),
        (RuntimeMissing("x"), "unfit"),
        (NameConflict("x"), None),
        (HarnessError("x"), None),
    ],
)
def test_errors_of_hosts(error: Any, found: str | None) -> None:
    assert host_error_of(error) == found

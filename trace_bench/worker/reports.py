"""Checks what a phase reports before the supervisor acts on it.

A phase runs code of a task or a plug-in: whatever it sends must end in a failure of its own, never in the supervisor's.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

RESERVED = frozenset({
    "job.start", "job.end", "phase.start", "phase.end", "build.end", "train.end", "stop.requested", "failure",
    "warning",
})  # fmt: skip
"""Events of the supervisor. Hosts act on them: ``train.end`` has the held-out seed sent."""
PROVIDER_TIMEOUT = "provider_timeout"
RESERVED_KINDS = frozenset(
    {"interrupted", "job_timeout", PROVIDER_TIMEOUT, "scorer_changed", "not_recorded", "not_executed"}
)
"""Kinds of failure of supervisor and host, who act on them: what was interrupted counts as nothing, and runs again."""
DEVICE_LOST = "device_lost"
"""Kind of a failure: a GPU of the sandbox cannot be used any more."""
BOUNDARIES = ("config", "task", "trainer", "candidate", "provider", "sandbox", "harness")
SPLITS = ("train", "validate", "test")
STOP_REASONS = ("completed", "budget", "timeout", "interrupted")
LINES = 900_000
CHECKPOINT_LINE_BYTES = 1 << 20
"""Largest line of a checkpoint. A search with larger ones is kept up to the first of them."""
CHECKPOINT_BYTES = 16 << 20
"""Of all lines of the checkpoint of one job."""


class Allowance:
    """The bytes and lines that the phases of a job may still write into its files.

    Args:
        total_bytes: of all events and history lines, as they arrive.
    """

    def __init__(self, total_bytes: int) -> None:
        self._total = self._left = total_bytes
        self._lines = LINES

    def take(self, line: dict[str, Any]) -> None:
        """Count `line`. Raises ValueError when it is one too many."""
        self._left -= len(json.dumps(line, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace"))
        self._lines -= 1
        if self._left < 0 or self._lines < 0:
            raise ValueError(f"its events and history have more than {self._total} bytes or {LINES} lines")


def given_states(header: dict[str, Any], blob: bytes) -> tuple[bytes, dict[str, dict[str, Any]]]:
    """Takes the states of a job with ``states_given`` from the end of the blob of its message; returns the rest, and
    them, none of any other job. Raises ValueError where they are none."""
    size = int(header.get("states_bytes", 0))
    if not size:
        return blob, {}
    given = json.loads(blob[len(blob) - size :])
    if not isinstance(given, dict) or not given.keys() <= {"initial", "best", "final"}:
        raise ValueError("the states that are given are not initial, best and final")
    return blob[: len(blob) - size], {kind: state(values, size) for kind, values in given.items()}


def checkpoint_line(given: object) -> bytes:
    """One line of a checkpoint, which is not read here. Raises ValueError if it is no line."""
    if not isinstance(given, str) or "\n" in given:
        raise ValueError("a line of its checkpoint is none")
    return given.encode()


def count(given: object) -> int:
    """A number of evaluations. Raises ValueError if it is none."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 53:
        raise ValueError("its number of evaluations is none")
    return given


def saved(given: object) -> int | None:
    """A number of evaluations that were known; None where none are remembered. Raises ValueError if it is neither."""
    return None if given is None else count(given)


def event_kind(phase: str, kind: object) -> str:
    """The kind of a phase's event. Raises ValueError if it is not the phase's to send."""
    if not isinstance(kind, str) or not 1 <= len(kind) <= 100:
        raise ValueError("an event's kind is a word of up to 100 characters")
    if kind in RESERVED or (kind == "score" and phase != "score"):
        raise ValueError(f"events of kind {kind} are not the {phase} phase's to send")
    return kind


def state(values: object, limit: int) -> dict[str, Any]:
    """A state: parameter names to text or finite numbers, in at most `limit` bytes. Raises ValueError."""
    if not isinstance(values, dict):
        raise ValueError("a state is no object")
    for value in values.values():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("a value of a state is neither text nor a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a value of a state is not finite")
    try:
        size = len(json.dumps(values, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise ValueError("a text of a state holds half a surrogate pair") from None
    if size > limit:
        raise ValueError(f"a state has {size} bytes; the limit is {limit}")
    return values


def claim(given: object) -> dict[str, Any] | None:
    """The score that a trainer claims for a state, as `Claim` of the contract. Raises ValueError."""
    if given is None:
        return None
    if not isinstance(given, dict) or given.keys() != {"score", "split", "examples"}:
        raise ValueError("a claim has other than score, split and examples")
    score, split, examples = given["score"], given["split"], given["examples"]
    # Compared, not converted: an integer may be larger than any float.
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= sys.float_info.max:
        raise ValueError("the score of a claim is no finite number")
    if split not in SPLITS or not isinstance(examples, list) or not all(isinstance(e, str) for e in examples):
        raise ValueError("a claim has no split, or examples that are no ids")
    return {"score": score, "split": split, "examples": examples}


def failure(message: dict[str, Any], own: str, *, provider_failed: bool, has_gpus: bool) -> dict[str, str]:
    """The failure that a phase reports.

    Args:
        own: the boundary of the phase itself.
        provider_failed: a provider's answer has said so. Failures of infrastructure are retried and never count: the
            word of the one who failed is not enough.
        has_gpus: the sandbox has some, one of which may be lost.

    Raises:
        ValueError: the kind is not a phase's to say.
    """
    boundary = message["boundary"]
    if message["kind"] in RESERVED_KINDS:
        raise ValueError(f"failures of kind {message['kind']} are not a phase's to report")
    lost = has_gpus and message["kind"] == DEVICE_LOST
    believed = {"provider": provider_failed, "sandbox": lost, "harness": False}
    if boundary not in BOUNDARIES or not believed.get(boundary, True):
        boundary = own
    return {"boundary": boundary, "kind": str(message["kind"])[:100], "message": str(message["message"])[:4000]}


def _build(message: dict[str, Any]) -> dict[str, Any]:
    """The build phase's report of the problem, as `BuildReport` of the contract."""
    if message["direction"] not in ("maximize", "minimize"):
        raise ValueError("its direction is none")
    for parameter in message["parameters"]:
        if not (isinstance(parameter["name"], str) and isinstance(parameter["kind"], str)):
            raise ValueError("a parameter has no name or kind")
        if not isinstance(parameter["trainable"], bool):
            raise ValueError("a parameter is neither trainable nor fixed")
    for split, size in dict(message["examples"]).items():
        if split not in SPLITS or isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ValueError("its number of examples is none")
    return {
        "initial": message["initial"],
        "direction": message["direction"],
        "parameters": [{k: p[k] for k in ("name", "kind", "trainable")} for p in message["parameters"]],
        "examples": dict(message["examples"]),
        **{key: None if message[key] is None else float(message[key]) for key in ("bound", "best_known")},
        "programs": [_program(p) for p in message["programs"]],
    }


def _program(given: dict[str, Any]) -> dict[str, Any]:
    """The build phase's report of one of the task's own programs, as `ProgramReport`."""
    texts = {key: str(given[key])[:2000] for key in ("role", "name", "feedback")}
    numbers = {key: float(given[key]) for key in ("score", "seconds")}
    counts = {key: count(given[key]) for key in ("failed", "examples")}
    return {**texts, **numbers, **counts, "metrics": {str(k): float(v) for k, v in given["metrics"].items()}}


def result(phase: str, message: dict[str, Any], state_bytes: int) -> dict[str, Any]:
    """The last message of a phase that ended well. Raises ValueError, KeyError."""
    if phase == "build":
        state(message["initial"], state_bytes)
        return _build(message)
    evaluations = count(message["evaluations"])
    if phase == "train":
        if message["stop_reason"] not in STOP_REASONS:
            raise ValueError("its reason to stop is none")
        return {
            "evaluations": evaluations,
            "evaluations_saved": saved(message.get("evaluations_saved")),
            "stop_reason": message["stop_reason"],
        }
    if not isinstance(message["scores"], dict):
        raise ValueError("its scores are no object")
    return {"evaluations": evaluations, "scores": message["scores"]}

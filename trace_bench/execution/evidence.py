"""Observe the end of a sandbox from the host: the evidence for `trace_bench.execution.attribution`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_bench.artifacts import jsonio
from trace_bench.artifacts import layout as files
from trace_bench.artifacts.outputs import Failure
from trace_bench.artifacts.records import AttemptEvidence
from trace_bench.artifacts.writers import write_text
from trace_bench.errors import SandboxError, TraceBenchError
from trace_bench.execution.session import SandboxGone
from trace_bench.sandbox.base import Sandbox
from trace_bench.sandbox.errors import SandboxRemoved

EXIT_PATIENCE = 10.0
"""Seconds that a supervisor has to exit after its last message."""


def observed(sandbox: Sandbox, error: SandboxError | None = None) -> AttemptEvidence:
    """The state of `sandbox`. To be read before the controller kills it, since that would change the state.

    Args:
        error: what ended the session, if it did not end in order.
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
    """The last line of the sandbox's stderr. All of its stderr is kept under `folder`."""
    words = ""
    with contextlib.suppress(SandboxError):
        words = sandbox.last_words().strip()
    if words:
        write_text(folder / files.STDERR, words + "\n", durable=False)
    return words.splitlines()[-1][:500] if words else ""


def from_events(events: Path) -> dict[str, Any]:
    """`phase` and `failure` of `AttemptEvidence`, from a supervisor's ``events.jsonl``, which has been validated."""
    active: list[str] = []
    failure: Failure | None = None
    with contextlib.suppress(FileNotFoundError), events.open("rb") as file:
        for raw in file:
            line = jsonio.loads(raw)
            name = str(line.get("phase"))
            if line["event"] == "phase.start":
                active.append(name)
            elif line["event"] == "phase.end" and name in active:
                active.remove(name)
            elif line["event"] == "failure" and failure is None:
                with contextlib.suppress(ValidationError):
                    failure = Failure.model_validate({key: line.get(key) for key in Failure.model_fields})
    return {"phase": active[0] if active else "", "failure": failure}


def kind_of(error: TraceBenchError) -> str:
    """The kind of failure that records have for `error`: its class in snake case, unless the class names a kind."""
    if recorded := getattr(error, "recorded_kind", ""):
        return str(recorded)
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

"""Record events, warnings and the first failure of a job in the supervisor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trace_bench.worker.phase_process import Failure
from trace_bench.worker.recorder import Recorder
from trace_bench.worker.reports import PROVIDER_TIMEOUT

MOST_WARNINGS = 100


class JobLog:
    """Writes events to the job's files and sends them to the host.

    Args:
        send: called with kind and fields of each message for the host.

    Attributes:
        failure: the first one. It is the cause; later ones follow from it and would hide it.
    """

    def __init__(self, recorder: Recorder, send: Callable[[str, dict[str, Any]], None]) -> None:
        self._recorder = recorder
        self._send = send
        self._topics: set[str] = set()
        self.failure: Failure | None = None
        self.warnings: list[str] = []

    def event(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Record an event; returns its line of ``events.jsonl``."""
        line = self._recorder.event(kind, fields)
        self._send("event", {"event": line})
        return line

    def warn(self, message: str, topic: str = "") -> None:
        """Record a warning. Of those with the same `topic` only the first is recorded."""
        if topic and topic in self._topics:
            return
        self._topics.add(topic)
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(message)
        self.event("warning", {"message": message})

    def fail(self, boundary: str, kind: str, message: str) -> None:
        """Record a failure, if it is the first."""
        if self.failure is None:
            self.failure = {"boundary": boundary, "kind": kind, "message": message}
            self.event("failure", self.failure)
        elif self.failure["kind"] in ("job_timeout", PROVIDER_TIMEOUT) and message not in self.warnings:
            # The failure says that the best state was scored. Whether it was is another matter.
            self.warn(message)

    def time_out(self, failure: Failure | None) -> None:
        """Keep the failure of training that was stopped, if it is the first. It is no event: the stop is one."""
        self.failure = self.failure or failure

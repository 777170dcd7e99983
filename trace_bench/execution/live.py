"""Pass on the reports of a running job: as events, and in files that can be read while the job runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.outputs import HistoryLine
from trace_bench.execution.events import CandidateEvaluated, SandboxEvent, SandboxOutput, Subscriber
from trace_bench.execution.session import Listener
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.secrets import Masker, known

LIVE_BYTES = 128 << 20
"""Largest size of a file that grows while a job runs: as much as is collected of one."""
MOST_PHASES = 16
"""Phases of a job whose output is kept apart: an honest supervisor has three."""


class JobListener(Listener):
    """Receives what the sandbox of `job` reports, and masks secrets in it.

    Args:
        folder: of the job.
        notify: gets the events.
        on_event: called for each line of ``events.jsonl``, before `notify`.
    """

    def __init__(
        self, job: PlannedJob, folder: JobLayout, notify: Subscriber, on_event: Callable[[PlannedJob], None]
    ) -> None:
        self._job = job
        self._folder = folder
        self._notify = notify
        self._on_event = on_event
        self._maskers: dict[str, Masker[str]] = {}  # by phase: a secret may come in two pieces

    def event(self, line: Mapping[str, Any]) -> None:
        self._on_event(self._job)
        self._notify(SandboxEvent(self._job, _masked(line)))

    def history(self, line: Mapping[str, Any]) -> None:
        line = _masked(line)
        # A line that no file can hold (half of a surrogate pair), or that is invalid, is refused at collection.
        with contextlib.suppress(ValueError, RecursionError):
            self._append(self._folder.state_history, HistoryLine.model_validate(line).model_dump_json() + "\n")
        self._notify(CandidateEvaluated(self._job, line))

    def log(self, phase: str, text: str) -> None:
        if phase not in self._maskers and len(self._maskers) >= MOST_PHASES:
            return
        text = self._maskers.setdefault(phase, known.text_masker()).feed(text)
        self._append(self._folder.stdout, text)
        self._notify(SandboxOutput(self._job, phase, text))

    def _append(self, path: Path, text: str) -> None:
        """Append to a file that the collected one replaces later."""
        data = text.encode("utf-8", "replace")
        with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
            size = file.tell()
            if size < LIVE_BYTES and file.write(data) < len(data):
                file.truncate(size)  # the disk is full: the next line must not follow half of this one


def _masked(line: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return cast(Mapping[str, Any], known.value(line))
    except RecursionError:  # too deep for any file of ours
        return {}

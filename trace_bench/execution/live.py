"""What running jobs say, as events, and in files that people may read while a job runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.outputs import HistoryLine
from trace_bench.artifacts.records import Usage
from trace_bench.execution.events import (
    CandidateEvaluated,
    ModelCallDelayed,
    SandboxEvent,
    SandboxOutput,
    Subscriber,
    UsageChanged,
)
from trace_bench.execution.session import Listener
from trace_bench.gateway.server import Gateway
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.secrets import Masker, known

LONG_DELAY = 1.0
"""Seconds from which on the delay of a model call is an event."""
LIVE_BYTES = 128 << 20
"""Largest size of a file that grows while a job runs: as much as is collected of one."""
USAGE_EVERY = 1.0
"""Seconds between two events on what a running job has spent."""
MOST_PHASES = 16
"""Phases of a job whose output is kept apart: an honest supervisor has three."""


class LiveJobs:
    """Of one run.

    Attributes:
        jobs: by id.

    Args:
        on_word: called with the job of each event, before `notify`.
    """

    def __init__(
        self,
        layout: RunLayout,
        jobs: Iterable[PlannedJob],
        notify: Subscriber,
        on_word: Callable[[PlannedJob], None],
    ) -> None:
        self.layout = layout
        self.jobs = {job.job_id: job for job in jobs}
        self._notify = notify
        self._on_word = on_word
        self._usage: dict[str, Usage] = {}
        self._usage_notified = 0.0

    def listener(self, job: PlannedJob) -> Listener:
        """The listener for the session of `job`."""
        return _JobListener(self, job)

    def advanced(self, job: PlannedJob, line: Mapping[str, Any]) -> None:
        line = _masked(line)
        # What no file can hold (half of a surrogate pair), or is no line of a history, is collected or refused later.
        with contextlib.suppress(ValueError, RecursionError):
            self._keep(job, HistoryLine.model_validate(line).model_dump_json() + "\n", lambda f: f.state_history)
        self._notify(CandidateEvaluated(job, line))

    def event(self, job: PlannedJob, line: Mapping[str, Any]) -> None:
        self._on_word(job)
        line = _masked(line)
        self._notify(SandboxEvent(job, line))

    def spent(self, running: Iterable[PlannedJob], gateway: Gateway) -> None:
        """Make events of what running jobs have spent, at most every `USAGE_EVERY` seconds."""
        if time.monotonic() < self._usage_notified + USAGE_EVERY:
            return
        self._usage_notified = time.monotonic()
        found = gateway.usage()
        for job in running:
            usage = found.get(job.job_id)
            if usage is not None and usage != self._usage.get(job.job_id, Usage()):
                self._usage[job.job_id] = usage
                self._notify(UsageChanged(job, usage))

    def waits(self, job_id: str, seconds: float, why: str) -> None:
        """A model call of the job waits."""
        if seconds < LONG_DELAY:
            return
        why = known.text(why)
        if (job := self.jobs.get(job_id)) is not None:
            self._notify(ModelCallDelayed(job, seconds, why))

    def said(self, job: PlannedJob, phase: str, text: str) -> None:
        self._keep(job, text, lambda folder: folder.stdout)
        self._notify(SandboxOutput(job, phase, text))

    def _keep(self, job: PlannedJob, text: str, place: Callable[[JobLayout], Path]) -> None:
        """Add `text` to a file that people may look at while the job runs; what is collected takes its place."""
        data = text.encode("utf-8", "replace")
        with contextlib.suppress(OSError), place(self.layout.job(job.job_id)).open("ab", buffering=0) as file:
            size = file.tell()
            if size < LIVE_BYTES and file.write(data) < len(data):
                file.truncate(size)  # the disk is full: no half line may stand before the next one


def _masked(line: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return cast(Mapping[str, Any], known.value(line))
    except RecursionError:  # too deep for any file of ours
        return {}


@dataclass(frozen=True)
class _JobListener:
    live: LiveJobs
    job: PlannedJob
    maskers: dict[str, Masker[str]] = field(default_factory=dict)
    """By phase: a secret may come in two pieces."""

    def event(self, line: Mapping[str, Any]) -> None:
        self.live.event(self.job, line)

    def history(self, line: Mapping[str, Any]) -> None:
        self.live.advanced(self.job, line)

    def log(self, phase: str, text: str) -> None:
        if phase not in self.maskers and len(self.maskers) >= MOST_PHASES:
            return
        masker = self.maskers.setdefault(phase, known.text_masker())
        self.live.said(self.job, phase, masker.feed(text))

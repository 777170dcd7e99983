"""What jobs say while they run: passed on to who watches, and kept in files that people may look at."""

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
from trace_bench.execution.session import Listener
from trace_bench.execution.teller import Teller
from trace_bench.gateway.server import Gateway
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.secrets import Masker, known

WORTH_TELLING = 1.0
"""Seconds. Shorter waits of a model call nobody wonders about."""
LIVE_BYTES = 128 << 20
"""Of a file that people may look at while a job runs: as much as is collected of one."""
USAGE_EVERY = 1.0
"""Seconds between two words on what running jobs have spent."""
MOST_PHASES = 16
"""Whose output is told apart: an honest supervisor has three."""


class LiveJobs:
    """Of one run.

    Attributes:
        jobs: by id.

    Args:
        on_word: called with the job of each event, before anybody is told of it.
    """

    def __init__(
        self, layout: RunLayout, jobs: Iterable[PlannedJob], teller: Teller, on_word: Callable[[PlannedJob], None]
    ) -> None:
        self.layout = layout
        self.jobs = {job.job_id: job for job in jobs}
        self._teller = teller
        self._on_word = on_word
        self._usage: dict[str, Usage] = {}
        self._usage_told = 0.0

    def listener(self, job: PlannedJob) -> Listener:
        """Hears what `job` says."""
        return _JobListener(self, job)

    def advanced(self, job: PlannedJob, line: Mapping[str, Any]) -> None:
        line = _masked(line)
        # What no file can hold (half of a surrogate pair), or is no line of a history, is collected or refused later.
        with contextlib.suppress(ValueError, RecursionError):
            self._keep(job, HistoryLine.model_validate(line).model_dump_json() + "\n", lambda f: f.state_history)
        self._teller.tell(lambda progress: progress.advanced(job, line), droppable=True)

    def event(self, job: PlannedJob, line: Mapping[str, Any]) -> None:
        self._on_word(job)
        line = _masked(line)
        self._teller.tell(lambda progress: progress.event(job, line), droppable=True)

    def spent(self, running: Iterable[PlannedJob], gateway: Gateway) -> None:
        """What running jobs have spent since it was told last, at most every `USAGE_EVERY` seconds."""
        if time.monotonic() < self._usage_told + USAGE_EVERY:
            return
        self._usage_told = time.monotonic()
        found = gateway.usage()
        for job in running:
            usage = found.get(job.job_id)
            if usage is not None and usage != self._usage.get(job.job_id, Usage()):
                self._usage[job.job_id] = usage
                self._teller.tell(lambda progress, job=job, usage=usage: progress.spent(job, usage), droppable=True)  # type: ignore[misc]

    def waits(self, job_id: str, seconds: float, why: str) -> None:
        """A model call of the job waits."""
        if seconds < WORTH_TELLING:
            return
        why = known.text(why)
        if (job := self.jobs.get(job_id)) is not None:
            self._teller.tell(lambda progress: progress.waiting(job, seconds, why), droppable=True)

    def said(self, job: PlannedJob, phase: str, text: str) -> None:
        self._keep(job, text, lambda folder: folder.stdout)
        self._teller.tell(lambda progress: progress.said(job, phase, text), droppable=True)

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

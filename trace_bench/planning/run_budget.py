"""The budget of a run: what its earlier controllers have spent of it, and when it is used up.

Calls, tokens and dollars are those of all its jobs, finished ones included; seconds are those in which a controller was
at work. A run that is begun again (``resume: none``) has spent nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.usage import usage_of
from trace_bench.artifacts.writers import read_journal
from trace_bench.config.models import RunBudgetConfig, RunConfig
from trace_bench.errors import HarnessError
from trace_bench.gateway.meter import RunMeter
from trace_bench.records.calls import read_calls


@dataclass(frozen=True)
class Spent:
    """What earlier controllers spent: usage by job id, and seconds. `notes` say what could not be read."""

    jobs: Mapping[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class RunBudget:
    """The budget of a run, for one controller."""

    def __init__(self, limits: RunBudgetConfig, spent: Spent, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.meter = RunMeter(limits)
        for job_id, usage in spent.jobs.items():
            self.meter.restore(job_id, usage)
        self._seconds = limits.seconds
        self._clock = clock
        self._before = spent.seconds
        self._began: float | None = None

    def begin(self) -> None:
        """Start its time."""
        self._began = self._clock()

    @property
    def elapsed(self) -> float:
        """Seconds of this controller."""
        return self._clock() - self._began if self._began is not None else 0.0

    def time_is_up(self) -> bool:
        return self._seconds is not None and self._before + self.elapsed >= self._seconds

    def too_short_for(self, seconds: float) -> str | None:
        """Why a job of `seconds` cannot end within the budget; None if it can."""
        if self._seconds is None:
            return None
        left = self._seconds - self._before - self.elapsed
        if seconds <= left:
            return None
        return (
            f"the run's budget of {self._seconds:g} seconds has {max(0.0, left):.1f} left, and this job took "
            f"{seconds:.1f} or more in earlier runs"
        )

    def used_up(self) -> str | None:
        """Which limit is reached; None if none is."""
        if self.time_is_up():
            return f"the run's budget of {self._seconds:g} seconds is used up"
        return self.meter.used_up()


def limits_of(config: RunConfig) -> RunBudgetConfig:
    """The limits of the run of `config`: none in a replay, which pays for nothing and ends where its source ended."""
    return config.budget.run if config.mode != "replay" else RunBudgetConfig()


def spent_before(layout: RunLayout, job_ids: Iterable[str], limits: RunBudgetConfig) -> Spent:
    """What the run at `layout` has spent so far, as far as `limits` ask for it."""
    jobs: dict[str, Usage] = {}
    notes = []
    if (limits.calls, limits.tokens, limits.usd) != (None, None, None):
        for job_id in job_ids:
            cassette = layout.job(job_id).cassette
            try:
                jobs[job_id] = usage_of(read_calls(cassette))
            except HarnessError as error:
                notes.append(f"what job {job_id} has spent does not count against the run's budget: {error}")
    return Spent(jobs, _seconds(layout) if limits.seconds is not None else 0.0, tuple(notes))


def _seconds(layout: RunLayout) -> float:
    """Seconds that controllers have spent on the run: the sum of the largest count of each in the journal. Older code
    wrote no count; then the times of the lines are used, unless the clock was set back."""
    try:
        lines = read_journal(layout.events).lines
    except HarnessError:
        return 0.0
    total = current = 0.0
    began: datetime | None = None
    for line in lines:
        stamp, event, said = _moment(line.get("t")), line.get("event"), line.get("seconds")
        if event == "run.start":
            total = 0.0 if line.get("afresh") else total + current
            current, began = 0.0, stamp
        elif isinstance(said, int | float):
            current = max(current, said)
        elif began is not None and stamp is not None:
            current = max(current, (stamp - began).total_seconds())
    return total + current


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None

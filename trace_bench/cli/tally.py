"""The progress of a run: its jobs by outcome, their usage, and the best score of each task."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import finite_number
from trace_bench.artifacts.records import Results
from trace_bench.execution.events import (
    CandidateEvaluated,
    Event,
    JobFinished,
    JobRetried,
    JobReused,
    JobSkipped,
    JobStarted,
    JobView,
    ModelCallDelayed,
    SandboxUp,
    UsageChanged,
)
from trace_bench.records.rows import was_cut

Outcome = Literal["ok", "failed", "interrupted", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "failed", "interrupted", "skipped")
MEASURED = 2
"""Jobs that must have ended before the remaining time is estimated from them."""


def outcome_of(row: Results) -> Outcome:
    """The outcome of a job. A job that was cut off is neither ok nor failed: it runs again."""
    if row.status == "skipped":
        return "skipped"
    return "interrupted" if was_cut(row) else row.status


@dataclass
class Running:
    """A job that has started.

    Attributes:
        up: its sandbox has sent its first message.
        step, best: of the last evaluated candidate, as the trainer reports them.
        tokens, cost_usd: as the gateway has measured them if `metered`, else as the trainer reports them.
        waits_until: time of the clock at which its model call is sent; `waits_for` is the reason.
    """

    job: JobView
    since: float
    step: int | None = None
    best: float | None = None
    tokens: int = 0
    cost_usd: float = 0.0
    up: bool = False
    host: str = ""
    metered: bool = False
    waits_until: float = 0.0
    waits_for: str = ""

    def evaluated(self, step: Mapping[str, Any]) -> None:
        """Take over what `step`, an unvalidated line of the history, says."""
        step_number, best = finite_number(step.get("step")), finite_number(step.get("best_score"))
        self.step = self.step if step_number is None else int(step_number)
        self.best = self.best if best is None else float(best)
        if not self.metered:
            self.tokens = _count(step.get("prompt_tokens")) + _count(step.get("completion_tokens"))
            self.cost_usd = max(0.0, float(finite_number(step.get("cost_usd")) or 0))


@dataclass
class TaskBest:
    """A task of the run. `score` is the best official one so far and `row` the job that has it."""

    task_id: str
    direction: Direction
    planned: int = 0
    done: int = 0
    score: float | None = None
    row: Results | None = None


@dataclass
class Tally:
    """The state of a run that goes on; not safe for threads.

    Attributes:
        clock: seconds, monotonic.
    """

    jobs: Sequence[JobView]
    workers: int
    clock: Callable[[], float] = time.monotonic
    counts: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    running: dict[str, Running] = field(default_factory=dict)
    tasks: dict[str, TaskBest] = field(default_factory=dict)
    infrastructure: int = 0
    flagged: int = 0
    _tokens: int = 0
    _cost_usd: float = 0.0
    _measured: int = 0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.clock()
        for job in self.jobs:
            task = self.tasks.setdefault(job.task_id, TaskBest(job.task_id, job.score_direction))
            task.planned += 1

    def apply(self, event: Event) -> None:
        """Bring the state up to date with `event`."""
        match event:
            case JobStarted(job, adopted):
                self.running[job.job_id] = Running(job, self.clock(), up=adopted)
            case JobReused(job, row) | JobFinished(job, row) | JobSkipped(job, row):
                self._job_ended(job, row)
            case SandboxUp(job, host) if running := self.running.get(job.job_id):
                running.up, running.host = True, host
            case UsageChanged(job, usage) if running := self.running.get(job.job_id):
                running.metered, running.tokens, running.cost_usd = True, usage.total_tokens, usage.cost_usd
            case ModelCallDelayed(job, seconds, why) if running := self.running.get(job.job_id):
                running.waits_until, running.waits_for = self.clock() + seconds, why
            case JobRetried(job) if running := self.running.get(job.job_id):
                # What the last attempt reached is lost. Its time counts on.
                running.step = running.best = None
                running.up = False
            case CandidateEvaluated(job, step) if running := self.running.get(job.job_id):
                running.evaluated(step)

    def _job_ended(self, job: JobView, row: Results) -> None:
        """Count `row`, the last one of its job: the job ran, was skipped, or its earlier result counts."""
        outcome = outcome_of(row)
        running = self.running.pop(job.job_id, None)
        if running is not None and outcome in ("ok", "failed"):
            self._measured += 1
            self._seconds += self.clock() - running.since
        self.counts[outcome] += 1
        boundary = row.failure_boundary
        self.infrastructure += outcome == "failed" and boundary is not None and boundary.is_infrastructure
        self.flagged += bool(row.integrity_flags)
        self._tokens += row.total_tokens
        self._cost_usd += row.cost_usd
        task = self.tasks[job.task_id]
        task.done += outcome in ("ok", "failed")
        if outcome == "ok" and row.score_best is not None and _better(row.score_best, task):
            task.score, task.row = row.score_best, row

    @property
    def done(self) -> int:
        """Jobs that have come to an end of any kind."""
        return sum(self.counts.values())

    @property
    def waiting(self) -> int:
        return len(self.jobs) - self.done - len(self.running)

    @property
    def starting(self) -> int:
        """Jobs whose sandbox is being made, and has not spoken yet."""
        return sum(not running.up for running in self.running.values())

    @property
    def tokens(self) -> int:
        return self._tokens + sum(running.tokens for running in self.running.values())

    @property
    def cost_usd(self) -> float:
        return self._cost_usd + sum(running.cost_usd for running in self.running.values())

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return self.clock() - self.began

    def eta(self) -> float | None:
        """Seconds that the rest may take, if each takes the mean of those that ran; None before `MEASURED` have."""
        if self._measured < MEASURED:
            return None
        mean, now = self._seconds / self._measured, self.clock()
        rest = sum(max(0.0, mean - (now - running.since)) for running in self.running.values())
        return (mean * self.waiting + rest) / max(1, self.workers)


def _count(value: object) -> int:
    count = finite_number(value)
    return int(count) if count is not None and count > 0 else 0


def _better(score: float, than: TaskBest) -> bool:
    if than.score is None:
        return True
    return score > than.score if than.direction == "maximize" else score < than.score

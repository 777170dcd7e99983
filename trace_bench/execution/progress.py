"""What a run tells while it goes on. Whoever shows it (a table, lines, JSON, nothing) implements `Progress`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results, Usage
from trace_bench.planning.planned_job import Decision


class JobView(Protocol):
    """A planned job, as far as people look at it. `trace_bench.planning.plan.PlannedJob` is one."""

    @property
    def job_id(self) -> str: ...
    @property
    def task_id(self) -> str: ...
    @property
    def trainer_id(self) -> str: ...
    @property
    def variant(self) -> str:
        """The label of the variant."""

    @property
    def model(self) -> str:
        """The id of the model."""

    @property
    def seed(self) -> int: ...
    @property
    def score_direction(self) -> Direction: ...
    @property
    def decision(self) -> Decision: ...
    @property
    def reason(self) -> str:
        """Why, in a few words."""


@dataclass(frozen=True)
class RunStart:
    """A run whose first job is about to start. `jobs` are in the order of the plan; `workers` run at a time at most."""

    run_id: str
    layout: RunLayout
    jobs: Sequence[JobView]
    workers: int
    continued: bool = False
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class RunEnd:
    """A run that is over. `rows` are in the order of the plan; skipped jobs have one too (``skipped``). `error` is the
    sentence that ended it before its time, `left` the names of sandboxes that could not be removed."""

    run_id: str
    layout: RunLayout
    rows: Sequence[Results] = field(default_factory=tuple)
    interrupted: bool = False
    error: str | None = None
    left: Sequence[str] = ()


class Progress(Protocol):
    """Hears how a run goes on. Called from many threads, one call at a time; what it raises ends the run."""

    def begun(self, run: RunStart) -> None:
        """Once, before any job."""

    def reused(self, job: JobView, row: Results) -> None:
        """Its earlier result counts. Called for all such jobs right after `begun`."""

    def queued(self, job: JobView, host: str) -> None:
        """It waits for GPUs, cores or quiet of `host` that others may have; once at most. `host` as in `up`."""

    def started(self, job: JobView, *, adopted: bool) -> None:
        """Its sandbox is about to be made, or found again."""

    def up(self, job: JobView, host: str) -> None:
        """Its sandbox has started, and said its first word; once for each attempt. `host` is empty where there is but
        one."""

    def spent(self, job: JobView, usage: Usage) -> None:
        """What its models have used so far, over all its attempts; now and then, while it runs."""

    def advanced(self, job: JobView, line: Mapping[str, Any]) -> None:
        """A line of ``state_history.jsonl``: a candidate was evaluated."""

    def event(self, job: JobView, line: Mapping[str, Any]) -> None:
        """A line of the job's ``events.jsonl``."""

    def said(self, job: JobView, phase: str, text: str) -> None:
        """Output of a phase inside the sandbox; not whole lines."""

    def waiting(self, job: JobView, seconds: float, why: str) -> None:
        """A model call of the job is asked, or asked again, after so many seconds, since `why`."""

    def retrying(self, job: JobView, row: Results, attempt: int) -> None:
        """`row` failed at provider, sandbox or harness; `attempt` (from 2) comes after a pause."""

    def finished(self, job: JobView, row: Results) -> None:
        """It ended: ok, failed, or cut off (``stop_reason: interrupted``)."""

    def skipped(self, job: JobView, row: Results) -> None:
        """It never ran, and will not in this run's present course."""

    def ended(self, run: RunEnd) -> None:
        """Once, after the tables were written, also after an interruption."""


class Quiet:
    """No progress; a base for those that show some of it."""

    def begun(self, run: RunStart) -> None: ...

    def reused(self, job: JobView, row: Results) -> None: ...

    def queued(self, job: JobView, host: str) -> None: ...

    def started(self, job: JobView, *, adopted: bool) -> None: ...

    def up(self, job: JobView, host: str) -> None: ...

    def spent(self, job: JobView, usage: Usage) -> None: ...

    def advanced(self, job: JobView, line: Mapping[str, Any]) -> None: ...

    def event(self, job: JobView, line: Mapping[str, Any]) -> None: ...

    def said(self, job: JobView, phase: str, text: str) -> None: ...

    def waiting(self, job: JobView, seconds: float, why: str) -> None: ...

    def retrying(self, job: JobView, row: Results, attempt: int) -> None: ...

    def finished(self, job: JobView, row: Results) -> None: ...

    def skipped(self, job: JobView, row: Results) -> None: ...

    def ended(self, run: RunEnd) -> None: ...

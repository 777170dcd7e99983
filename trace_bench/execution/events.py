"""The events of a run: one type each, one union, and the dispatcher that hands them to a subscriber.

Everything that shows or mirrors a run (lines, JSON lines, the live table, a notebook, `attach`) is a function of this
stream, and so is the run's journal (`trace_bench.execution.run_journal`). ``trace-bench attach`` makes the same events
from the journal and the files of a run in another process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.planning.planned_job import Decision


class JobView(Protocol):
    """A planned job, as displays see it. `trace_bench.planning.planned_job.PlannedJob` is one."""

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
class RunStarted:
    """The first event. `jobs` are in the order of the plan, and at most `workers` of them run at a time.

    Attributes:
        continued: the run was started before; `afresh` if all of it is run again.
    """

    run_id: str
    layout: RunLayout
    jobs: Sequence[JobView]
    workers: int
    continued: bool = False
    warnings: Sequence[str] = ()
    afresh: bool = False


@dataclass(frozen=True)
class JobReused:
    """The earlier result of a job counts. These events follow `RunStarted` at once."""

    job: JobView
    row: Results


@dataclass(frozen=True)
class JobQueued:
    """A job waits for GPUs, cores or exclusive use of `host` that other jobs hold; once per job at most."""

    job: JobView
    host: str


@dataclass(frozen=True)
class JobStarted:
    """The sandbox of a job is about to be made, or was found again (`adopted`).

    Attributes:
        host: None if there is only one host.
        waited: seconds between the allocation of a host and this start.
    """

    job: JobView
    adopted: bool = False
    host: str | None = None
    waited: float = 0.0


@dataclass(frozen=True)
class SandboxUp:
    """The sandbox of a job has sent its first message; once per attempt. `host` is empty if there is only one host."""

    job: JobView
    host: str


@dataclass(frozen=True)
class UsageChanged:
    """What the models of a running job have used so far, over all its attempts."""

    job: JobView
    usage: Usage


@dataclass(frozen=True)
class CandidateEvaluated:
    """A candidate was evaluated. `line` is a line of ``state_history.jsonl``, from the sandbox and not validated."""

    job: JobView
    line: Mapping[str, Any]


@dataclass(frozen=True)
class SandboxEvent:
    """`line` is a line of the job's ``events.jsonl``, from the sandbox and not validated."""

    job: JobView
    line: Mapping[str, Any]


@dataclass(frozen=True)
class SandboxOutput:
    """Output of a phase inside the sandbox; `text` may begin and end within a line."""

    job: JobView
    phase: str
    text: str


@dataclass(frozen=True)
class ModelCallDelayed:
    """A model call of a job is sent, or sent again, after `seconds`; `why` is the reason."""

    job: JobView
    seconds: float
    why: str


@dataclass(frozen=True)
class JobRetried:
    """An attempt failed at provider, sandbox or harness with `row`; `attempt` (from 2) comes after a pause."""

    job: JobView
    row: Results
    attempt: int


@dataclass(frozen=True)
class JobFinished:
    """A job has ended: ok, failed, or cut off (``stop_reason: interrupted``)."""

    job: JobView
    row: Results


@dataclass(frozen=True)
class JobSkipped:
    """A job did not run, and will not run before the run is continued."""

    job: JobView
    row: Results


@dataclass(frozen=True)
class HostLost:
    """One of several hosts does not answer; its jobs move to others."""

    host: str


@dataclass(frozen=True)
class HostReturned:
    """A host that was lost answers again."""

    host: str


@dataclass(frozen=True)
class GpusWithdrawn:
    """No further job gets these `devices` of `host`, since one of them does not answer."""

    host: str
    devices: Sequence[str]


@dataclass(frozen=True)
class SandboxLeft:
    """The sandbox of this name could not be removed, and may go on costing."""

    job_id: str | None
    sandbox: str
    reason: str


@dataclass(frozen=True)
class GapsMeasured:
    """The jobs have ended, and so many reference programs are about to be scored, by which gaps are measured."""

    programs: int


@dataclass(frozen=True)
class JobsEnded:
    """No job of the run is running any more; its tables are about to be written.

    Attributes:
        rows: as in `RunEnded`.
        error: the sentence that ended the run early, with the `exit_code` of the command.
    """

    rows: Sequence[Results]
    error: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True)
class RunEnded:
    """The last event: the tables are written, also after an interruption.

    Attributes:
        rows: in the order of the plan; skipped jobs have one too.
        error: the sentence that ended the run early.
        left: names of sandboxes that could not be removed.
    """

    run_id: str
    layout: RunLayout
    rows: Sequence[Results] = ()
    interrupted: bool = False
    error: str | None = None
    left: Sequence[str] = ()


Event = (
    RunStarted
    | JobReused
    | JobQueued
    | JobStarted
    | SandboxUp
    | UsageChanged
    | CandidateEvaluated
    | SandboxEvent
    | SandboxOutput
    | ModelCallDelayed
    | JobRetried
    | JobFinished
    | JobSkipped
    | HostLost
    | HostReturned
    | GpusWithdrawn
    | SandboxLeft
    | GapsMeasured
    | JobsEnded
    | RunEnded
)
Subscriber = Callable[[Event], None]
"""Gets the events of a run from one thread, one at a time, in order. What it raises ends the run."""

FREQUENT = (UsageChanged, CandidateEvaluated, SandboxEvent, SandboxOutput, ModelCallDelayed)
"""Events that the dispatcher drops when `MOST_PENDING` events are pending. It never drops another one."""
MOST_PENDING = 10_000


def ignore(event: Event) -> None:
    """The subscriber that does nothing."""


class EventDispatcher:
    """Hands events to one subscriber in a thread of its own, so that a terminal that stands still does not hold up the
    threads that keep sandboxes alive. `notify` may be called from any thread, and never waits."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._pending: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="events", daemon=True)
        self._thread.start()

    def notify(self, event: Event) -> None:
        """Queue `event`, or drop it if it is one of `FREQUENT` and too many are pending."""
        if isinstance(event, FREQUENT) and self._pending.qsize() > MOST_PENDING:
            return
        self._pending.put(event)

    def check(self) -> None:
        """Raise what the subscriber raised. It gets no event after that.

        Raises:
            BaseException: of the subscriber.
        """
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Return once the subscriber has had every pending event."""
        self._pending.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (event := self._pending.get()) is not None:
            if self._error is None:
                try:
                    self._subscriber(event)
                except BaseException as error:
                    self._error = error

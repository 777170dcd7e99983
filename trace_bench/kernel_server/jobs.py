"""The queue of evaluations: one at a time on each device, a bounded number that wait, a bounded number that are kept.

All of it lives in one event loop, so nothing is locked. Only `Evaluate` runs in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from trace_bench.kernel_server.submission import Submission

KEPT = 1000
"""Finished jobs that can be asked for; the oldest go first."""
KEPT_SECONDS = 3600.0
"""Seconds for which a finished job can be asked for."""
SHOWN = 10
"""Finished jobs in a list of jobs."""
STOPPING = "the server is stopping"

_LOG = logging.getLogger(__name__)
Status = Literal["queued", "running", "completed", "failed"]
Result = dict[str, Any]


class EvaluationFailed(Exception):
    """There is no result. The message says why, in one sentence."""


class Evaluate(Protocol):
    """Evaluates one submission. Called in a thread.

    Args:
        stopped: asked often; True ends the evaluation at once.

    Raises:
        EvaluationFailed: there is no result.
    """

    def __call__(self, submission: Submission, device: str, stopped: Callable[[], bool]) -> Result: ...


class QueueFull(Exception):
    """The queue is full."""


class QueueStopped(Exception):
    """No job is taken any more."""


@dataclass(eq=False)
class Job:
    """One evaluation.

    Attributes:
        submission: None once the job is over.
        name: level, problem and sample.
        ends_by: on the monotonic clock. None while a job waits whose time in the queue does not count.
        timed_out: it took longer than its timeout.
        over: set when the job has ended.
    """

    submission: Submission | None
    name: dict[str, int | None]
    timeout: int
    ends_by: float | None
    queued_at: datetime
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: Status = "queued"
    result: Result | None = None
    error: str | None = None
    device: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    timed_out: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _why: str = ""
    _ended: float = 0.0

    @property
    def seconds(self) -> float | None:
        """From the start to the end."""
        if self.started_at is None or self.completed_at is None:
            return None
        return (self.completed_at - self.started_at).total_seconds()

    def stopped(self) -> bool:
        """Whether the evaluation is to end at once."""
        return self._stop.is_set() or (self.ends_by is not None and time.monotonic() > self.ends_by)


class Jobs:
    """All jobs of a server. A context manager: at its end every evaluation has ended.

    Args:
        room: jobs that may wait.
        kept, kept_seconds: for finished jobs.
        on_end: called with each job that ends.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        devices: Sequence[str] = ("cpu",),
        *,
        room: int = 64,
        kept: int = KEPT,
        kept_seconds: float = KEPT_SECONDS,
        on_end: Callable[[Job], None] = lambda _: None,
    ) -> None:
        self._evaluate = evaluate
        self._devices = devices
        self._room, self._kept, self._kept_seconds = room, kept, kept_seconds
        self._on_end = on_end
        self._known: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._running: dict[str, Job] = {}
        self._finished: deque[Job] = deque()
        self._arrived = asyncio.Event()
        self._stopping = False
        self._threads = ThreadPoolExecutor(len(devices), thread_name_prefix="evaluate")
        self._workers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Jobs:
        self._workers = [asyncio.create_task(self._work(device)) for device in self._devices]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.stop()
        await asyncio.gather(*self._workers)
        self._threads.shutdown()

    def submit(self, submission: Submission, *, from_now: bool = False) -> Job:
        """Queue a job.

        Args:
            from_now: the timeout counts from now on; otherwise, from the start of the evaluation.

        Raises:
            QueueFull: too many jobs wait. QueueStopped: the server is stopping.
        """
        if self._stopping:
            raise QueueStopped(STOPPING)
        if len(self._waiting) >= self._room:
            raise QueueFull(f"{len(self._waiting)} jobs wait already; try again later")
        job = Job(
            submission=submission,
            name={key: getattr(submission, key) for key in ("level", "problem_id", "sample_id")},
            timeout=submission.timeout,
            ends_by=time.monotonic() + submission.timeout if from_now else None,
            queued_at=_now(),
        )
        self._known[job.id] = job
        self._waiting.append(job)
        self._arrived.set()
        return job

    def cancel(self, job: Job, why: str) -> None:
        """End a job that has not ended yet."""
        if job.over.is_set():
            return
        job._why = job._why or why
        job._stop.set()
        if job.status == "queued":
            self._waiting.remove(job)
            self._end(job, error=job._why)

    def stop(self) -> None:
        """Take no further job, and end all jobs."""
        self._stopping = True
        for job in (*self._waiting, *self._running.values()):
            self.cancel(job, STOPPING)
        self._arrived.set()

    def find(self, job_id: str) -> Job | None:
        """A job by its id; None if there is none, or no more."""
        self._forget()
        return self._known.get(job_id)

    def devices(self) -> dict[str, str]:
        """``idle`` or ``busy``, by device."""
        return {device: "busy" if device in self._running else "idle" for device in self._devices}

    def active(self) -> list[Job]:
        """Jobs that run, then jobs that wait, oldest first."""
        return [*self._running.values(), *self._waiting]

    def counts(self) -> dict[str, int]:
        """How many jobs wait, run and have finished, and how many devices are idle."""
        self._forget()
        return {
            "queued_jobs": len(self._waiting),
            "active_jobs": len(self._running),
            "completed_jobs": len(self._finished),
            "available_devices": len(self._devices) - len(self._running),
        }

    def last(self) -> list[Job]:
        """The jobs that finished last, newest first."""
        self._forget()
        return list(reversed(self._finished))[:SHOWN]

    async def _work(self, device: str) -> None:
        while not self._stopping:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            job = self._waiting.popleft()
            self._running[device] = job
            try:
                await self._run(job, device)
            finally:
                del self._running[device]

    async def _run(self, job: Job, device: str) -> None:
        submission = job.submission
        assert submission is not None
        job.status, job.device, job.started_at = "running", device, _now()
        if job.ends_by is None:
            job.ends_by = time.monotonic() + job.timeout
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(self._threads, self._evaluate, submission, device, job.stopped)
        except EvaluationFailed as error:
            job.timed_out = job.stopped() and not job._stop.is_set()
            late = f"the evaluation took longer than its timeout of {job.timeout} s" if job.timed_out else ""
            self._end(job, error=job._why or late or str(error))
        except Exception:
            _LOG.exception("job %s: the evaluation broke", job.id)
            self._end(job, error="the server failed; its log says why")
        else:
            self._end(job, result=result)

    def _end(self, job: Job, *, result: Result | None = None, error: str | None = None) -> None:
        job.status, job.result, job.error = "completed" if error is None else "failed", result, error
        job.submission, job.completed_at, job._ended = None, _now(), time.monotonic()
        self._finished.append(job)
        job.over.set()
        self._forget()
        with contextlib.suppress(OSError):
            self._on_end(job)

    def _forget(self) -> None:
        """Drop finished jobs that are too old or too many."""
        oldest = time.monotonic() - self._kept_seconds
        while self._finished and (len(self._finished) > self._kept or self._finished[0]._ended < oldest):
            del self._known[self._finished.popleft().id]


def _now() -> datetime:
    return datetime.now(UTC)

"""The requests to stop a run or some of its jobs. Those of ``trace-bench cancel`` are in a file of the run's folder.

A file and not a signal: it works from another container or host that sees the folder, and can name jobs.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import write_json
from trace_bench.cancellation import Cancellation
from trace_bench.planning.run_budget import RunBudget

INTERVAL = 0.25
"""Seconds between two reads of the file."""


def request_cancellation(layout: RunLayout, job_ids: Iterable[str] = (), *, kill: bool = False) -> None:
    """Ask the run's controller to end `job_ids` (all of the run if there are none): in order, or at once if `kill`.

    Requests add up until the controller ends.
    """
    request = _read(layout)
    jobs, of_run, named = dict(request.jobs), request.of_run, set(job_ids)
    for job_id in named:
        jobs[job_id] = _stronger(jobs.get(job_id), kill)
    if not named:
        of_run = _stronger(of_run, kill)
    write_json(layout.cancel, {"run": of_run, "jobs": jobs}, durable=False)


def _stronger(before: str | None, kill: bool) -> str:
    return "kill" if kill or before == "kill" else "interrupted"


@dataclass(frozen=True)
class _Request:
    """The requested reasons to stop: of the run, and of single jobs."""

    of_run: str | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)


def _read(layout: RunLayout) -> _Request:
    """Read the request. Raises OSError if there is one that cannot be read."""
    try:
        content = json.loads(layout.cancel.read_bytes())
        jobs = {str(job_id): _stronger(None, how == "kill") for job_id, how in dict(content["jobs"]).items()}
        return _Request(content["run"] and _stronger(None, content["run"] == "kill"), jobs)
    except FileNotFoundError:
        return _Request()
    except (ValueError, KeyError, TypeError, RecursionError):
        return _Request("interrupted")  # a file that was written by other means


class RunCancellation(Cancellation):
    """The requests to stop a run: of the user, of ``trace-bench cancel``, and of an error that ends the run.

    The file is read once in `INTERVAL` seconds.

    Args:
        user: requests of the user's signals.
    """

    def __init__(self, layout: RunLayout, user: Cancellation, budget: RunBudget) -> None:
        super().__init__(lambda: self._request().of_run, parent=user)
        self._layout = layout
        self._budget = budget
        self._last_request = _Request()
        self._read_at = -float("inf")
        self._lock = threading.Lock()

    def of_job(self, job_id: str) -> Cancellation:
        """The requests to stop one job."""
        return self.child(lambda: self._request().jobs.get(job_id))

    def of_attempt(self, job_id: str) -> Cancellation:
        """The requests to stop an attempt at a job: its training also ends when the run's time is used up."""
        return self.of_job(job_id).child(lambda: "budget" if self._budget.time_is_up() else None)

    def reason_before_start(self, job_id: str | None = None) -> str:
        """The sentence for a job (without `job_id`, for the rest of the queue) that was stopped before its start."""
        request = self._request()
        if request.of_run is not None or job_id in request.jobs:
            return "cancelled"
        used_up = None if self.cancelled else self._budget.used_up()
        return used_up or "interrupted before its turn"

    def forget_requests(self) -> None:
        """Remove the requests of ``trace-bench cancel``: they were for the controller that was at work."""
        with contextlib.suppress(FileNotFoundError):
            self._layout.cancel.unlink()

    def _request(self) -> _Request:
        with self._lock:
            if time.monotonic() - self._read_at > INTERVAL:
                self._read_at = time.monotonic()
                with contextlib.suppress(OSError):  # the last request stays in force
                    self._last_request = _read(self._layout)
            return self._last_request

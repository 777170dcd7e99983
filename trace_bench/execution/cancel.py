"""A request to stop a run or some of its jobs, written to the run's folder for its controller.

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

INTERVAL = 0.25
"""Seconds between two reads of the file."""


def request_cancellation(layout: RunLayout, job_ids: Iterable[str] = (), *, kill: bool = False) -> None:
    """Ask the run's controller to end `job_ids` (all of the run if there are none): in order, or at once if `kill`.

    Requests add up until the controller ends.
    """
    request = _read(layout)
    jobs, whole, named = dict(request.jobs), request.whole, set(job_ids)
    for job_id in named:
        jobs[job_id] = _stronger(jobs.get(job_id), kill)
    if not named:
        whole = _stronger(whole, kill)
    write_json(layout.cancel, {"run": whole, "jobs": jobs}, durable=False)


def _stronger(before: str | None, kill: bool) -> str:
    return "kill" if kill or before == "kill" else "interrupted"


@dataclass(frozen=True)
class _Request:
    """What is requested of the whole run, and of single jobs."""

    whole: str | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)


def _read(layout: RunLayout) -> _Request:
    """Read the request. Raises OSError if there is one that cannot be read."""
    try:
        said = json.loads(layout.cancel.read_bytes())
        jobs = {str(job_id): _stronger(None, how == "kill") for job_id, how in dict(said["jobs"]).items()}
        return _Request(said["run"] and _stronger(None, said["run"] == "kill"), jobs)
    except FileNotFoundError:
        return _Request()
    except (ValueError, KeyError, TypeError, RecursionError):
        return _Request("interrupted")  # a file that was written by other means


@dataclass
class Cancellations:
    """The controller's end. `wanted` is cheap: the file is read once in `INTERVAL` seconds."""

    layout: RunLayout
    _request: _Request = field(default_factory=_Request)
    _looked: float = -float("inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wanted(self, job_id: str | None = None) -> str | None:
        """``"interrupted"`` or ``"kill"`` if the run (or `job_id`) is to stop, else None."""
        with self._lock:
            if time.monotonic() - self._looked > INTERVAL:
                self._looked = time.monotonic()
                with contextlib.suppress(OSError):  # as before, then
                    self._request = _read(self.layout)
            request = self._request
        requests = (request.whole, request.jobs.get(job_id) if job_id is not None else None)
        return "kill" if "kill" in requests else requests[0] or requests[1]

    def forget(self) -> None:
        """Remove the request: it was for the controller that was at work."""
        with contextlib.suppress(FileNotFoundError):
            self.layout.cancel.unlink()

"""A wish to stop a run or some of its jobs, left in the run's folder for the controller that works in it.

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
"""Seconds between two looks at the file."""


def ask_to_cancel(layout: RunLayout, job_ids: Iterable[str] = (), *, kill: bool = False) -> None:
    """Ask the run's controller to end `job_ids` (all of the run if there are none): in order, or at once if `kill`.

    Wishes add up until the controller ends.
    """
    wish = _read(layout)
    jobs, whole, named = dict(wish.jobs), wish.whole, set(job_ids)
    for job_id in named:
        jobs[job_id] = _hastier(jobs.get(job_id), kill)
    if not named:
        whole = _hastier(whole, kill)
    write_json(layout.cancel, {"run": whole, "jobs": jobs}, durable=False)


def _hastier(before: str | None, kill: bool) -> str:
    return "kill" if kill or before == "kill" else "interrupted"


@dataclass(frozen=True)
class _Wish:
    """What is wanted of the whole run, and of single jobs."""

    whole: str | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)


def _read(layout: RunLayout) -> _Wish:
    """
    Raises:
        OSError: there is a wish that cannot be read.
    """
    try:
        said = json.loads(layout.cancel.read_bytes())
        jobs = {str(job_id): _hastier(None, how == "kill") for job_id, how in dict(said["jobs"]).items()}
        return _Wish(said["run"] and _hastier(None, said["run"] == "kill"), jobs)
    except FileNotFoundError:
        return _Wish()
    except (ValueError, KeyError, TypeError, RecursionError):
        return _Wish("interrupted")  # somebody wanted it to stop, and said so in their own way


@dataclass
class Cancellations:
    """The controller's end. `wanted` is cheap: the file is looked at once in `INTERVAL` seconds."""

    layout: RunLayout
    _wish: _Wish = field(default_factory=_Wish)
    _looked: float = -float("inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wanted(self, job_id: str | None = None) -> str | None:
        """``"interrupted"`` or ``"kill"`` if the run (or `job_id`) is to stop, else None."""
        with self._lock:
            if time.monotonic() - self._looked > INTERVAL:
                self._looked = time.monotonic()
                with contextlib.suppress(OSError):  # as before, then
                    self._wish = _read(self.layout)
            wish = self._wish
        wishes = (wish.whole, wish.jobs.get(job_id) if job_id is not None else None)
        return "kill" if "kill" in wishes else wishes[0] or wishes[1]

    def forget(self) -> None:
        """Take the wish away: it was for the controller that was at work."""
        with contextlib.suppress(FileNotFoundError):
            self.layout.cancel.unlink()

"""A wish to stop a run or some of its jobs, left in the run's folder for the controller that works in it.

A file and not a signal: it works from another container or host that sees the folder, and can name jobs.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import write_json

INTERVAL = 0.25
"""Seconds between two looks at the file."""


def ask_to_cancel(layout: RunLayout, job_ids: Iterable[str] = (), *, kill: bool = False) -> None:
    """Ask the run's controller to end `job_ids` (all of the run if there are none): in order, or at once if `kill`.

    Wishes add up until the controller ends.
    """
    wish, named = _read(layout), set(job_ids)
    said = {"all": wish.all or not named, "jobs": sorted(wish.jobs | named), "kill": wish.kill or kill}
    write_json(layout.cancel, said, durable=False)


@dataclass(frozen=True)
class _Wish:
    all: bool = False
    jobs: frozenset[str] = frozenset()
    kill: bool = False


def _read(layout: RunLayout) -> _Wish:
    try:
        said = json.loads(layout.cancel.read_bytes())
        return _Wish(bool(said["all"]), frozenset(map(str, said["jobs"])), bool(said["kill"]))
    except FileNotFoundError:
        return _Wish()
    except (ValueError, KeyError, TypeError):
        return _Wish(all=True)  # somebody wanted it to stop, and said so in their own way


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
                self._wish = _read(self.layout)
                self._looked = time.monotonic()
            wish = self._wish
        if wish.all or (job_id is not None and job_id in wish.jobs):
            return "kill" if wish.kill else "interrupted"
        return None

    def forget(self) -> None:
        """Take the wish away: it was for the controller that was at work."""
        with contextlib.suppress(FileNotFoundError):
            self.layout.cancel.unlink()

"""An engine that has gone, and may come back: jobs wait for it instead of failing one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from trace_bench.errors import Interrupted, TraceBenchError
from trace_bench.sandbox.base import Backend
from trace_bench.sandbox.labels import JOB, OWNER, RUN, owner

PATIENCE = 120.0
"""Seconds that an engine may be gone. Restarting one takes a few; an upgrade about a minute."""
INTERVAL = 1.0


class Outage:
    """One per run: its jobs wait together.

    Args:
        stop_wanted: waiting ends when the user has had enough.
    """

    def __init__(self, backend: Backend, stop_wanted: Callable[[], str | None], *, patience: float = PATIENCE) -> None:
        self._backend = backend
        self._stop_wanted = stop_wanted
        self._patience = patience
        self._lock = threading.Lock()

    def wait(self, error: TraceBenchError, run_id: str, job_id: str) -> None:
        """Return once the engine answers again and has nothing of the job any more: what could not be removed while
        it was gone, is now.

        Raises:
            TraceBenchError: `error`, after the engine was gone too long.
            Interrupted: the user wants it to end.
        """
        deadline = time.monotonic() + self._patience
        while True:
            if self._stop_wanted() is not None:
                raise Interrupted(f"interrupted while the engine was gone: {error}") from error
            with self._lock:
                try:
                    for sandbox in self._backend.find({RUN: run_id, JOB: job_id, OWNER: owner()}):
                        sandbox.remove()
                    return
                except TraceBenchError:
                    if time.monotonic() > deadline:
                        raise error from None
            time.sleep(INTERVAL)

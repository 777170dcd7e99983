"""Limit how many sandboxes start at a time, and how fast they are created.

A start keeps a core busy, so that more of them only slow each other down. A service limits how many are created in a
second, and refuses more. A job that waits here stops waiting when it is cancelled.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from trace_bench.cancellation import Cancellation
from trace_bench.sandbox.errors import RateLimited
from trace_bench.sandbox.pace import Pace

LOOK = 0.5
"""Seconds between two checks of whether a waiting start is cancelled."""
FIRST_HOLD, LONGEST_HOLD = 1.0, 60.0
"""Seconds without a creation after the first refusal (none if the host has a pace), and at most. Each further refusal
doubles them."""
PATIENCE = 600.0
"""Seconds with nothing but refusals, after which a refusal is a failure of its job."""


class StartGate:
    """Limits the starts of sandboxes on one host. May be used by many threads.

    Args:
        width: starts at a time; one per core is about right.
        pace: the host's limit of creations per second; None has no limit.
    """

    def __init__(
        self,
        width: int,
        pace: Pace | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._free = threading.Semaphore(max(1, width))
        self._pace = pace
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._closed_until = -float("inf")
        self._refusals = 0
        self._epoch = 0
        self._refused_since: float | None = None

    def enter(self, stop: Cancellation | None = None) -> Startup | None:
        """Wait for a turn to start; None if `stop` ends the wait."""
        stop = stop or Cancellation()
        while not self._free.acquire(timeout=LOOK):
            if stop.cancelled:
                return None
        startup = Startup(self._free)
        if not self._sleep(self._closed_until, stop):
            startup.finish()
            return None
        return startup

    def wait_to_create(self, startup: Startup, stop: Cancellation | None = None) -> bool:
        """Wait until the caller may create the sandbox, which it does at once; False if `stop` ends the wait."""
        stop, came = stop or Cancellation(), self._clock()
        while True:
            at = self._clock() + (self._pace.take() if self._pace is not None else 0.0)
            if not self._sleep(max(at, self._closed_until), stop):
                return False
            with self._lock:
                if self._closed_until <= self._clock():  # else the host has refused another start meanwhile
                    startup.epoch, startup.waited = self._epoch, startup.waited + self._clock() - came
                    return True

    def accepted(self) -> None:
        """Record that the host has made a sandbox."""
        with self._lock:
            self._refusals, self._refused_since = 0, None

    def refused(self, startup: Startup, error: RateLimited) -> float:
        """Record that the host refused the sandbox of `startup`, and pause creations.

        Returns the seconds of the pause. Several refusals of the same moment count once.
        """
        with self._lock:
            now = self._clock()
            if self._refused_since is None:
                self._refused_since = now
            if startup.epoch == self._epoch:
                self._epoch += 1
                if self._pace is None:
                    pause = FIRST_HOLD * float(1 << min(self._refusals, 30))
                else:  # creations at the host's pace were hardly too fast: one more interval is enough
                    pause = min(FIRST_HOLD, self._pace.distance) * float((1 << min(self._refusals, 30)) - 1)
                pause = min(LONGEST_HOLD, pause)
                self._refusals += 1
                pause = max(pause * random.uniform(0.75, 1.25), min(error.retry_after or 0.0, PATIENCE))
                self._closed_until = now + pause
                if self._pace is not None:
                    self._pace.hold(pause)
            return max(0.0, self._closed_until - now)

    def gives_up(self) -> bool:
        """Whether there were only refusals for `PATIENCE`; if so, that time starts again."""
        with self._lock:
            stuck = self._refused_since is not None and self._clock() - self._refused_since > PATIENCE
            if stuck:
                self._refused_since = None
            return stuck

    def _sleep(self, until: float, stop: Cancellation) -> bool:
        """Sleep until `until`; False, at once, if `stop` ends the wait."""
        while (left := until - self._clock()) > 0:
            if stop.cancelled:
                return False
            self._pause(min(left, LOOK))
        return not stop.cancelled


class Startup:
    """The start of one sandbox, for which it has one of a host's places. `finish` returns the place."""

    def __init__(self, free: threading.Semaphore | None) -> None:
        self._free = free
        self._lock = threading.Lock()
        self.epoch = 0
        """Number of pauses of the host before its turn."""
        self.waited = 0.0
        """Seconds that it waited to be created, and for its image."""

    def finish(self) -> None:
        """Return the place, once the sandbox has sent a message or failed. A second call does nothing."""
        with self._lock:
            free, self._free = self._free, None
        if free is not None:
            free.release()

"""Sandboxes that start: few at once, at the pace that their host allows, and slower when it says that it is too fast.

A start keeps a core busy, and more of them only slow each other down; a service counts how many are created in a
second. Whoever waits here waits without asking again and again, and stops waiting when its job is no longer wanted.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from trace_bench.sandbox.errors import RateLimited
from trace_bench.sandbox.pace import Pace

LOOK = 0.5
"""Seconds between two looks at whether what waits is still wanted."""
FIRST_HOLD, LONGEST_HOLD = 1.0, 60.0
"""Seconds without a creation after the first refusal (none where a pace is kept), and after any: each further one
doubles them."""
PATIENCE = 600.0
"""Seconds of refusals alone after which one is a failure of its job."""


class StartGate:
    """Lets few sandboxes of a host start at once. May be used by many threads.

    Args:
        width: starts at a time; one per core is about right.
        pace: of the host; None is as fast as they come.
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

    def enter(self, unwanted: Callable[[], bool] = lambda: False) -> Start | None:
        """Wait for a turn to start; None if it is not wanted any more."""
        while not self._free.acquire(timeout=LOOK):
            if unwanted():
                return None
        start = Start(self._free)
        if not self._sleep(self._closed_until, unwanted):
            start.over()
            return None
        return start

    def wait_to_create(self, start: Start, unwanted: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the sandbox of `start` may be created, which is to be done at once; False if it is not wanted any
        more."""
        came = self._clock()
        while True:
            at = self._clock() + (self._pace.take() if self._pace is not None else 0.0)
            if not self._sleep(max(at, self._closed_until), unwanted):
                return False
            with self._lock:
                if self._closed_until <= self._clock():  # else the host has refused another one meanwhile
                    start.epoch, start.waited = self._epoch, start.waited + self._clock() - came
                    return True

    def accepted(self) -> None:
        """The host has made a sandbox."""
        with self._lock:
            self._refusals, self._refused_since = 0, None

    def refused(self, start: Start, error: RateLimited) -> float:
        """The host would not make the sandbox of `start`: nobody asks it again for a while.

        Returns how many seconds. Several that were refused together count once.
        """
        with self._lock:
            now = self._clock()
            if self._refused_since is None:
                self._refused_since = now
            if start.epoch == self._epoch:
                self._epoch += 1
                if self._pace is None:
                    pause = FIRST_HOLD * float(1 << min(self._refusals, 30))
                else:  # who keeps a pace was hardly too fast: another turn of it will do
                    pause = min(FIRST_HOLD, self._pace.distance) * float((1 << min(self._refusals, 30)) - 1)
                pause = min(LONGEST_HOLD, pause)
                self._refusals += 1
                pause = max(pause * random.uniform(0.75, 1.25), min(error.retry_after or 0.0, PATIENCE))
                self._closed_until = now + pause
                if self._pace is not None:
                    self._pace.hold(pause)
            return max(0.0, self._closed_until - now)

    def gives_up(self) -> bool:
        """Whether nothing but refusals has come for so long that this one is a failure; then that begins anew."""
        with self._lock:
            stuck = self._refused_since is not None and self._clock() - self._refused_since > PATIENCE
            if stuck:
                self._refused_since = None
            return stuck

    def _sleep(self, until: float, unwanted: Callable[[], bool]) -> bool:
        """Sleep until `until`; False, at once, if what sleeps is no longer wanted."""
        while (left := until - self._clock()) > 0:
            if unwanted():
                return False
            self._pause(min(left, LOOK))
        return not unwanted()


class Start:
    """One sandbox that is starting. `over` is called once it speaks, or has failed; twice does no harm."""

    def __init__(self, free: threading.Semaphore | None) -> None:
        self._free = free
        self._lock = threading.Lock()
        self.epoch = 0
        """How often its host had refused when its turn came."""
        self.waited = 0.0
        """Seconds that it waited to be created, for its image too."""

    def over(self) -> None:
        with self._lock:
            free, self._free = self._free, None
        if free is not None:
            free.release()

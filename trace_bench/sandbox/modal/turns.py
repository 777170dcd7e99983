"""Calls that leave at even distances, whichever threads they come from.

Whoever makes sandboxes has a turn already (`trace_bench.sandbox.pace`). But a thread that wakes up for it comes a
little late, now and then by many milliseconds, and those that waited for one image come all at once: a service that
counts in a strict window refuses what is too close. So the distance is kept once more where the calls leave, on the
loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trace_bench.sandbox.pace import MARGIN


class Turns:
    """So many a second. All but the constructor is for one loop.

    Args:
        per_second: calls, at most.
        clock: seconds.
    """

    def __init__(self, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._distance = 1.0 / per_second
        self._clock = clock
        self._one = asyncio.Lock()
        self._next = -float("inf")
        self.waiting = 0

    @property
    def seconds(self) -> float:
        """How long who comes now waits, at most."""
        return (self.waiting + 1) * MARGIN * self._distance

    async def next(self) -> None:
        """Wait for a turn, in the order of coming; the call is to be made at once."""
        self.waiting += 1
        try:
            async with self._one:
                at = self._next
                while (left := at - self._clock()) > 0:
                    await asyncio.sleep(left)
                # One that is late is made up for, but no two are ever closer than the limit allows.
                self._next = max(at + MARGIN * self._distance, self._clock() + self._distance)
        finally:
            self.waiting -= 1

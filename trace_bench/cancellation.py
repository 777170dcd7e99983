"""A request to stop, which the threads and the parts of a run share."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL = 0.1
"""Seconds between two queries of a thread that waits."""
_STRENGTH = {None: 0, "budget": 1, "interrupted": 2, "kill": 3}


class Cancellation:
    """A request to stop, and its reason. All methods may be called from any thread.

    Reasons, the weakest first: ``"budget"`` ends the training of a job, ``"interrupted"`` ends jobs in order, and
    ``"kill"`` ends them at once.

    Args:
        sources: return a reason or None. They are called at each query.
        parent: its reason is also a reason here.
    """

    def __init__(self, *sources: Callable[[], str | None], parent: Cancellation | None = None) -> None:
        self._sources = sources
        self._parent = parent
        self._own: str | None = None

    @property
    def reason(self) -> str | None:
        """The strongest reason so far; None if nothing is to stop."""
        reasons = [self._own, *(source() for source in self._sources)]
        if self._parent is not None:
            reasons.append(self._parent.reason)
        return max(reasons, key=lambda reason: _STRENGTH.get(reason, 2))

    @property
    def cancelled(self) -> bool:
        return self.reason is not None

    def cancel(self, reason: str = "interrupted") -> None:
        """Request to stop, for `reason`. A later reason replaces it."""
        self._own = reason

    def child(self, *sources: Callable[[], str | None]) -> Cancellation:
        """A request of a part, which stops for reasons of its own too."""
        return Cancellation(*sources, parent=self)

    def wait(self, seconds: float) -> bool:
        """Wait for a request to stop, for `seconds` at most; returns True if there is one."""
        end = time.monotonic() + seconds
        while not self.cancelled:
            if (remaining := end - time.monotonic()) <= 0:
                return False
            time.sleep(min(remaining, POLL))
        return True

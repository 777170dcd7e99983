"""Ends a search that goes on until its budget is used up, once it spends nothing any more."""

from __future__ import annotations

import threading

from trace_bench.worker.training import StopTraining

MOST_CALLS = 200
"""Model calls in a row, without an evaluation between them, after which a search has stalled."""
MOST_REQUESTS = 2000
"""Requests for evaluations in a row that were all known, without a model call between them."""


class Stalled(StopTraining):
    """The search spends nothing any more. It ends in order, as one that has come to its end."""

    def __init__(self) -> None:
        super().__init__("completed")


class Stall:
    """Counts what a search does without an evaluation that is counted.

    A search whose proposals are all known asks a model again and again, and evaluates nothing. One whose candidates
    have nothing to gain requests known evaluations only. A budget ends neither of them.

    Args:
        endless: nothing but a budget ends the search. A search that has a number of steps is left alone.

    Attributes:
        calls: model calls since the last evaluation. requests: known evaluations since the last evaluation or call.
    """

    def __init__(self, endless: bool = False) -> None:
        self.endless = endless
        self.calls = self.requests = 0
        self._lock = threading.Lock()

    def evaluated(self) -> None:
        """An evaluation was counted."""
        with self._lock:
            self.calls = self.requests = 0

    def known(self) -> None:
        """All evaluations of a request were known.

        Raises:
            Stalled: as often as `MOST_REQUESTS`, or after `MOST_CALLS`.
        """
        with self._lock:
            self.requests += 1
        self.check()

    def asked(self) -> None:
        """A model is asked, on any thread."""
        with self._lock:
            self.calls += 1
            self.requests = 0

    def check(self) -> None:
        """Look whether the search has stalled. On its own thread, so that a replay ends at the same place.

        Raises:
            Stalled: it has.
        """
        if self.endless and (self.calls >= MOST_CALLS or self.requests >= MOST_REQUESTS):
            raise Stalled

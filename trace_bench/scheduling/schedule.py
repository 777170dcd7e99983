"""The order over the matrix, memory that is left, answers that are remembered for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

MEMORY_SHARE = 0.9
"""How much of the engine's memory running jobs may declare together; the rest is the host's own."""


def spread(tasks: int, variants: int, seeds: int) -> Iterator[int]:
    """Places in the matrix (task, variant, seed, the last the fastest) in an order whose beginning covers it.

    Seed by seed; within a seed along diagonals, so that the first ``max(tasks, variants)`` jobs meet every task and
    every variant. Every place comes once.

    >>> list(spread(2, 2, 2))
    [0, 6, 2, 4, 1, 7, 3, 5]
    """
    for seed in range(seeds):
        for shift in range(min(tasks, variants)):
            for step in range(max(tasks, variants)):
                if tasks >= variants:
                    task, variant = step, (step + shift) % variants
                else:
                    task, variant = (step + shift) % tasks, step
                yield (task * variants + variant) * seeds + seed


class Room:
    """Declared memory of running jobs against what the engine has.

    One that is larger than the whole runs alone.

    Args:
        total: bytes of the engine's host; None where it is not known, and then nothing waits.
    """

    def __init__(self, total: int | None) -> None:
        self._total = None if total is None else int(total * MEMORY_SHARE)
        self._used = 0

    def fits(self, memory: int, beside: int = 0) -> bool:
        """Whether `memory` bytes more fit in, `beside` those that are kept for others."""
        used = self._used + beside
        return self._total is None or used == 0 or used + memory <= self._total

    @property
    def share(self) -> float:
        """How much of it is used; 0 where its size is not known."""
        return self._used / self._total if self._total else 0.0

    def at_a_time(self, memory: int) -> int | None:
        """How many jobs of `memory` bytes fit; None where there is no limit."""
        return None if self._total is None else max(1, self._total // memory)

    def take(self, memory: int) -> None:
        self._used += memory

    def give_back(self, memory: int) -> None:
        self._used -= memory


class SeldomAsked(Generic[T]):
    """Remembers the answer of `ask` for a few seconds; may be called from many threads."""

    def __init__(self, ask: Callable[[], T], seconds: float = 5.0) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answer: tuple[float, T] | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._answer is None or time.monotonic() - self._answer[0] > self._seconds:
                self._answer = (time.monotonic(), self._ask())
            return self._answer[1]

"""Passes on what happens in a run to whoever shows it, from a thread of its own: a terminal that stands still must not
hold up the threads that keep sandboxes alive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from trace_bench.execution.progress import Progress

MANY = 10_000
"""Waiting messages beyond which steps, events and output are dropped; beginnings and ends never are."""

Message = Callable[[Progress], None]


class Teller:
    """One per run. `tell` may be called from any thread and never waits; messages arrive one at a time, in order."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._queue: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="progress", daemon=True)
        self._thread.start()

    def tell(self, message: Message, *, droppable: bool = False) -> None:
        if droppable and self._queue.qsize() > MANY:
            return
        self._queue.put(message)

    def check(self) -> None:
        """
        Raises:
            BaseException: what the progress raised; nothing was told since.
        """
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Return once everything has been told."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (message := self._queue.get()) is not None:
            if self._error is None:
                try:
                    message(self._progress)
                except BaseException as error:
                    self._error = error

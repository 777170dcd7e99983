"""Runs the loop of another framework, which calls back, beside a search, which is asked for steps.

The framework has a thread of its own. What it needs of the search (an evaluation, a model's answer, a step to record)
crosses over to the search's thread and is done there, one at a time: budgets, stop requests and the order of calls are
what they are for every other trainer, whatever threads the framework has.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import State, Step

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds that a framework has to end once the search is over. Its thread dies with the process in any case."""


class Ended(BaseException):
    """The search is over. No `Exception`: frameworks take those for failures of a candidate, and go on."""


@dataclass
class _Request:
    """What is to be done on the search's thread: a step to yield, or a function to call."""

    work: Step | Callable[[], Any]
    reply: queue.SimpleQueue[tuple[bool, Any]] = field(default_factory=queue.SimpleQueue)


@dataclass(frozen=True)
class _Done:
    state: State | None = None
    error: BaseException | None = None


class Bridge:
    """One run of one framework.

    Args:
        framework: its name, for messages.
    """

    def __init__(self, framework: str) -> None:
        self._framework = framework
        self._asked: queue.SimpleQueue[_Request | _Done] = queue.SimpleQueue()
        self._over = False

    def call(self, function: Callable[[], T]) -> T:
        """On any thread of the framework: what `function` returns, called on the search's thread.

        Raises:
            Ended: the search is over, or `function` ended it by raising.
        """
        result: T = self._ask(function)
        return result

    def tell(self, step: Step) -> None:
        """On any thread of the framework: record `step`. Raises `Ended` as `call` does."""
        self._ask(step)

    def _ask(self, work: Step | Callable[[], Any]) -> Any:
        if self._over:
            raise Ended
        request = _Request(work)
        self._asked.put(request)
        went_on, result = request.reply.get()
        if not went_on:
            raise Ended
        return result

    def run(self, framework: Callable[[], State | None]) -> Generator[Step, None, State | None]:
        """On the search's thread: the steps that `framework` tells of, until it returns.

        Raises:
            TrainerError: the framework failed by itself. Whatever a function of `call` raised is passed on.
        """

        def body() -> None:
            try:
                done = _Done(framework())
            except BaseException as error:
                done = _Done(error=error)
            self._asked.put(done)

        threading.Thread(target=body, name=self._framework, daemon=True).start()
        while isinstance(request := self._asked.get(), _Request):
            try:
                result = None
                if isinstance(request.work, Step):
                    yield request.work
                else:
                    result = request.work()
            except BaseException:  # a stop, a failure, or the generator is closed
                self._end(request)
                raise
            request.reply.put((True, result))
        if request.error is None:
            return request.state
        if isinstance(request.error, TrainerError):
            raise request.error
        said = f"{type(request.error).__name__}: {request.error}"
        raise TrainerError(f"{self._framework} failed by itself: {said[:1000]}") from request.error

    def _end(self, request: _Request | None) -> None:
        """Answer everything with `Ended` until the framework has ended, or is too slow to wait for."""
        self._over = True
        until = time.monotonic() + PATIENCE
        while request is not None:
            request.reply.put((False, None))
            try:
                following = self._asked.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return
            request = following if isinstance(following, _Request) else None

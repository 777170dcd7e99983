"""Answer the LLM calls of one session on threads: a slow provider stops neither heartbeat nor events.

A provider that only computes is quick: its calls are answered on the reading thread. All others go to threads, which
are made as calls come and end with the session. A call that is under way when the session ends is not cut off: its
answer is paid for and goes into the cassette, where the next attempt, or the next controller, finds it. Before a scope
is closed, the attempt waits for such calls (`Answers.wait`), within bounds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from trace_bench.artifacts.layout import JobLayout
from trace_bench.errors import ProtocolError, SandboxError
from trace_bench.gateway.base import LlmRequest, LlmResponse, NotRecorded
from trace_bench.gateway.server import Scope
from trace_bench.planning.prepare import PreparedJob

MOST_THREADS = 32
"""Most calls of one job at a time; further ones wait."""
MOST_WAITING = 1024
MOST_WAITING_BYTES = 128 << 20
"""Most calls that wait, and most bytes of them. An honest supervisor sends fewer."""
AFTER_THE_END = 60.0
"""Seconds for calls under way after their job has ended in order: their answers only count as spent."""
AFTER_A_BREAK = 600.0
"""Seconds after a failed attempt: the next one would repeat the calls, and pay for them again."""
AFTER_A_KILL = 5.0
"""Seconds after the user has killed the job."""


class RequestHandler(Protocol):
    """Answers the requests of one attempt at a job: the gateway's scope, alone or behind services of the host."""

    job_id: str

    @property
    def quick(self) -> bool: ...

    def handle(self, request: LlmRequest) -> LlmResponse: ...

    def refuse_new_calls(self) -> None: ...

    def provider_failures(self) -> tuple[str, ...]: ...

    def not_recorded(self) -> NotRecorded | None: ...


class ServesAttempts(Protocol):
    """What stands before the scopes of a runner's attempts: the services of a run, or an evaluator."""

    def serving(
        self, prepared: PreparedJob, job: JobLayout, scope: Scope, attempt: int
    ) -> AbstractContextManager[RequestHandler]: ...


class Answers:
    """Answers calls through `handler`; called by one session.

    Args:
        send: gives an answer to the sandbox; called from many threads, one call at a time each.
    """

    def __init__(self, handler: RequestHandler, send: Callable[[LlmRequest, LlmResponse], None]) -> None:
        self._handler = handler
        self._send = send
        self._changed = threading.Condition()
        self._waiting: deque[LlmRequest] = deque()
        self._waiting_bytes = 0
        self._threads = self._idle = self._under_way = 0
        self._left = False
        self._error: BaseException | None = None
        self._lost = 0

    def ask(self, request: LlmRequest) -> None:
        """Answer `request`, at once or later.

        Raises:
            ProtocolError: more calls wait than a supervisor sends.
        """
        if self._handler.quick:
            self._send(request, self._handler.handle(request))
            return
        with self._changed:
            self._waiting_bytes += request.size
            if len(self._waiting) >= MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES:
                raise ProtocolError("the sandbox has more LLM calls under way than a supervisor lets through")
            self._waiting.append(request)
            if len(self._waiting) > self._idle and self._threads < MOST_THREADS:
                self._threads += 1
                # A daemon thread: a call that hangs must not keep the process from ending.
                threading.Thread(target=self._work, name=f"llm-{self._handler.job_id}", daemon=True).start()
            self._changed.notify()

    def check(self, *, quiet: bool) -> None:
        """Raise the error that ended a thread.

        An error of the sandbox is raised only if the stream is `quiet`: data that can still be read says more about its
        end.
        """
        error = self._error
        if error is not None and (quiet or not isinstance(error, SandboxError)):
            raise error

    def refuse_new_calls(self) -> None:
        """Send no further answer, and begin no call that waits: the session is over. Does not block."""
        with self._changed:
            self._left = True
            self._waiting.clear()
            self._changed.notify_all()
        self._handler.refuse_new_calls()

    def wait(self, seconds: float, *, hurry: Callable[[], bool] = lambda: False) -> int:
        """Wait until the calls under way are in the cassette, for `seconds` at most, and for no longer than
        `AFTER_A_KILL` once `hurry` says so. To be called after `refuse_new_calls`.

        Returns:
            the number of calls whose answers are lost.
        """
        end = time.monotonic() + seconds
        hurried = False
        with self._changed:
            while self._under_way and (left := end - time.monotonic()) > 0:
                if not hurried and hurry():
                    hurried, end = True, min(end, time.monotonic() + AFTER_A_KILL)
                    continue
                self._changed.wait(min(left, 0.25))
            return self._lost + self._under_way

    # -- the threads ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (request := self._next()) is not None:
            error: BaseException | None = None
            try:
                response = self._handler.handle(request)
                if not self._left:
                    self._send(request, response)
            except BaseException as caught:
                error = caught
            with self._changed:
                self._under_way -= 1
                if error is not None and self._left:
                    self._lost += not isinstance(error, SandboxError)
                elif error is not None:
                    self._error = self._error or error
                self._changed.notify_all()

    def _next(self) -> LlmRequest | None:
        """The next call, once there is one; None once the session is over. From here on it is under way."""
        with self._changed:
            self._idle += 1
            while not self._waiting and not self._left:
                self._changed.wait()
            self._idle -= 1
            if self._left:
                self._threads -= 1
                return None
            request = self._waiting.popleft()
            self._waiting_bytes -= request.size
            self._under_way += 1
            return request

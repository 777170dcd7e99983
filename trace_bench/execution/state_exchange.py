"""Between a program that has states to evaluate and the sandbox that asks for them (`trace_bench.worker.on_demand`).

The sandbox's question is a request to a service of the host, answered once the program has decided. What the sandbox
says is checked: it is not trusted.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import JsonError
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.records import Results
from trace_bench.cancellation import Cancellation
from trace_bench.errors import Boundary, ConfigError, Interrupted, SandboxError, TraceBenchError
from trace_bench.execution.answers import RequestHandler, ServesAttempts
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.gateway.base import LlmRequest, LlmResponse, NotRecorded, Refusal
from trace_bench.gateway.replies import encode, refused
from trace_bench.gateway.server import Scope
from trace_bench.planning.prepare import PreparedJob
from trace_bench.worker.llm_calls import SERVICES
from trace_bench.worker.on_demand import SERVICE

PATH = SERVICES + SERVICE
POLL = 0.1
"""Seconds between two looks at whether to stop, while nothing comes."""


class EvaluationFailed(TraceBenchError):
    """The job of an evaluator has ended: its task is at fault, a provider, or the sandbox. `boundary` says which."""

    def __init__(self, boundary: Boundary, message: str) -> None:
        super().__init__(message)
        self.boundary = boundary


class SaidRollout(BaseModel):
    """What a sandbox says of one example."""

    example_id: str
    score: float = Field(allow_inf_nan=False)
    feedback: str
    failed: bool
    metrics: dict[str, float]


class Ready(BaseModel):
    """What a sandbox says of its problem."""

    parameters: dict[str, dict[str, Any]]
    examples: dict[str, int]
    direction: Direction


class Said(BaseModel):
    """A message of the sandbox: once that the problem is built, then for each state what it comes to."""

    ready: Ready | None = None
    refused: str | None = None
    rollouts: list[SaidRollout] = []


def raise_failure(row: Results) -> None:
    """Raise EvaluationFailed if the job of `row` has failed."""
    if row.failure_boundary is not None:
        raise EvaluationFailed(row.failure_boundary, f"{row.task_id}: {row.feedback or row.failure_kind}")


class StateExchange:
    """Between the caller's thread, which has states, and the job's, whose sandbox asks for them.

    Args:
        stop: ends the wait of the caller.
    """

    def __init__(self, stop: Cancellation | None = None) -> None:
        self._stop = stop or Cancellation()
        self._closing = Cancellation()
        self._services: ServesAttempts | None = None
        self._states: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[Said | BaseException] = queue.SimpleQueue()
        self._ended: BaseException | None = None
        self._turn = threading.Lock()
        self._process = os.getpid()

    # -- of the caller -----------------------------------------------------------------------------------------------

    def ask(self, wanted: Mapping[str, Any]) -> Said:
        """Hand over a state, and wait for what it comes to. Threads take turns.

        Raises:
            ConfigError: this is another process than that of the sandbox's job, a fork of it; or no message can hold
                the state.
        """
        if os.getpid() != self._process:
            raise ConfigError("an evaluator belongs to the process that opened it; open one in each process")
        try:
            message = encode(wanted)  # not on the job's thread, whose sandbox an error would leave behind
        except ValueError as error:
            raise ConfigError(f"this state cannot be sent: {error}") from None
        with self._turn:
            if self._ended is not None:
                raise self._ended
            self._states.put(message)
            return self.answer()

    def answer(self) -> Said:
        """The next message of the sandbox."""
        try:
            said = self._next()
        except BaseException:  # a notebook goes on after it, and the next answer would be that of this question
            self._ended = EvaluationFailed(Boundary.SANDBOX, "the evaluator was interrupted; open another one")
            raise
        if isinstance(said, BaseException):
            self._ended = said
            raise said
        return said

    def _next(self) -> Said | BaseException:
        while not self._stop.cancelled:
            with suppress(queue.Empty):
                return self._said.get(timeout=POLL)
        raise Interrupted("interrupted; nothing is left of it")

    def close(self) -> None:
        """End the job: nothing of it is needed any more."""
        self._closing.cancel("kill")
        self.release()

    def before(self, services: ServesAttempts) -> StateExchange:
        """Stand before the `services` of the task."""
        self._services = services
        return self

    # -- of the job's threads ----------------------------------------------------------------------------------------

    def run(self, resources: RunResources, prepared: PreparedJob) -> None:
        """Run the job, and tell the caller how it ended."""
        ended: BaseException = SandboxError("the evaluator is closed")
        try:
            raise_failure(Attempt(resources, prepared, self._closing).run())
            ended = EvaluationFailed(Boundary.SANDBOX, f"{prepared.spec.task.id}: the evaluator's job has ended")
        except Interrupted:
            pass
        except BaseException as error:
            ended = error
        self._said.put(ended)

    @contextmanager
    def serving(self, prepared: PreparedJob, job: JobLayout, scope: Scope, attempt: int) -> Iterator[_Asked]:
        """As of `ServiceHost`: the handler of the sandbox's requests."""
        assert self._services is not None
        with self._services.serving(prepared, job, scope, attempt) as others:
            yield _Asked(self, others)

    def release(self) -> None:
        """Let a question that waits for a state go."""
        self._states.put(b"{}")

    def next_state(self, said: Said) -> bytes:
        """Take what the sandbox says, and wait for a state."""
        self._said.put(said)
        return self._states.get()


class _Asked:
    """Answers what the sandbox of an evaluator asks: for states, or what any job may ask for."""

    quick = False

    def __init__(self, exchange: StateExchange, others: RequestHandler) -> None:
        self.job_id = others.job_id
        self._exchange, self._others = exchange, others
        self._given: dict[str, LlmResponse] = {}
        self.provider_failures = others.provider_failures

    def handle(self, request: LlmRequest) -> LlmResponse:
        """See `RequestHandler.handle`. A question that is sent again, over a new connection, has the same answer."""
        if request.path != PATH:
            return self._others.handle(request)
        if request.id not in self._given:
            try:
                said = Said.model_validate(jsonio.loads(request.body, max_depth=jsonio.MAX_DEPTH_INSIDE))
            except (JsonError, ValidationError) as error:
                return refused(Refusal(400, "bad_request", f"this is no message of an evaluator: {error}"))
            self._given = {request.id: LlmResponse(200, self._exchange.next_state(said))}
        return self._given[request.id]

    def refuse_new_calls(self) -> None:
        """The session is over: nothing waits for a state any more."""
        self._exchange.release()
        self._others.refuse_new_calls()

    def not_recorded(self) -> NotRecorded | None:
        return self._others.not_recorded()

"""The host's end of the conversation with one sandbox: from ``job`` to ``done``, in a new or an adopted sandbox.

A session answers LLM calls through a gateway scope, renews the lease, and passes events on. It checks only the form of
messages: the files that count are collected from the volume afterwards. One thread reads; answers to LLM calls are
written by the threads that got them (`trace_bench.execution.answers`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from trace_bench.artifacts.calls import SCORE_PHASE
from trace_bench.errors import Interrupted, ProtocolError, SandboxError
from trace_bench.execution.answers import Answers, RequestHandler
from trace_bench.execution.connection import Connection
from trace_bench.gateway.base import LlmRequest, LlmResponse
from trace_bench.worker.control_stream import Message

OFTEN, SELDOM = 0.25, 1.0
"""Bounds of the seconds between two checks for a request to stop."""
SLACK = 10.0
"""Seconds that a message of a sandbox can be late on a busy machine."""


class Listener(Protocol):
    """Receives what a job reports while it runs."""

    def event(self, line: Mapping[str, Any]) -> None:
        """A line of ``events.jsonl``."""

    def history(self, line: Mapping[str, Any]) -> None:
        """A line of ``state_history.jsonl``."""

    def log(self, phase: str, text: str) -> None:
        """Captured output of a phase."""


@dataclass(frozen=True)
class NoListener:
    """A listener that does nothing."""

    def event(self, line: Mapping[str, Any]) -> None: ...

    def history(self, line: Mapping[str, Any]) -> None: ...

    def log(self, phase: str, text: str) -> None: ...


class SandboxSilent(SandboxError, TimeoutError):
    """The sandbox has sent no message for longer than its lease."""


@dataclass
class Session:
    """One conversation with one supervisor.

    Attributes:
        job, task: what is to be run: ``job.json`` as a dict, and the task folder as a tar.
        test_seed: handed over when the sandbox reports the end of training, never before.
        silence: seconds without any message after which a sandbox that has sent one counts as dead; 0 is the time
            that a new sandbox has for its first message.
        on_silence: called before it counts as dead; raises an error if the engine does not answer.
        stop_wanted: called often; ``"interrupted"`` asks the sandbox to end in order, ``"budget"`` asks it to end
            training.
        on_message: called for each message of the sandbox.
        answers: the LLM calls; some may be under way when the session has ended (`Answers.wait`).
        stops_sent: the reasons to stop that the sandbox was given.
        checkpoint: results of earlier attempts: JSON lines, and the seconds of training that were in them.
        on_checkpoint: called with each new line, and its seconds.
        states: of a job with ``states_given``, those states as JSON.
    """

    connection: Connection
    handler: RequestHandler
    job: Mapping[str, Any]
    task: bytes
    test_seed: int
    listener: Listener = field(default_factory=NoListener)
    silence: float = 0.0
    on_silence: Callable[[], object] = lambda: None
    stop_wanted: Callable[[], str | None] = lambda: None
    on_message: Callable[[], None] = lambda: None
    answers: Answers = field(init=False)
    stops_sent: frozenset[str] = frozenset()
    checkpoint: tuple[bytes, float] = (b"", 0.0)
    on_checkpoint: Callable[[bytes, Any], None] = lambda data, seconds: None
    states: bytes = b""
    _trained: bool = False
    _adopted: bool = False

    def __post_init__(self) -> None:
        self.answers = Answers(self.handler, self._answer)
        self.connection.on_no_job = self._hand_over

    def start(self) -> dict[str, Any]:
        """Hand over the job and serve it to its end; returns the ``done`` message's result.

        Raises:
            SandboxGone, SandboxSilent, ProtocolError. Interrupted: `stop_wanted` returns ``"kill"``.
        """
        with self._conversation():
            self.connection.open()
            self._hand_over()
            return self._serve(self._time_to_start)

    def adopt(self) -> dict[str, Any]:
        """Continue a job that another controller started; return value and errors as of `start`.

        The sandbox sends again what no controller acknowledged. An LLM call that was answered before is answered from
        the cassette.
        """
        self._adopted = True
        with self._conversation():
            self.connection.adopt()
            return self._serve(self.silence or self._time_to_start)

    @contextmanager
    def _conversation(self) -> Iterator[None]:
        """Close the stream for writing when the block ends, also for the threads that answer calls."""
        try:
            yield
        finally:
            self.answers.refuse_new_calls()
            self.connection.end()

    def _hand_over(self) -> None:
        lines, seconds = self.checkpoint
        known = {"checkpoint_bytes": len(lines), "seconds_before": seconds} if lines else {}
        given = {"states_bytes": len(self.states)} if self.states else {}
        self.connection.send("job", {"job": dict(self.job), **known, **given}, self.task + lines + self.states)

    @property
    def _time_to_start(self) -> float:
        """Seconds that a new sandbox has for its first message."""
        return 2 * self.connection.lease + SLACK

    def _serve(self, patience: float) -> dict[str, Any]:
        """Serve the job to its end. `patience` is the longest silence before the first message."""
        connection, lease = self.connection, self.connection.lease
        last_beat = last_data = time.monotonic()
        engine_answers = False
        while True:
            now = time.monotonic()
            if now - last_beat > lease / 4:
                connection.heartbeat()
                last_beat = now
            self._pass_on_stop()
            self.answers.check(quiet=False)
            data = connection.read(min(seconds_to_wait(now - last_data), lease / 8))
            if data is None:
                self.answers.check(quiet=True)
                if now - last_data > patience:
                    if engine_answers:
                        raise SandboxSilent(
                            f"the sandbox has sent nothing for {patience:.0f} s while its engine answers: it is frozen "
                            "(docker pause, SIGSTOP) or its machine is; it counts as dead"
                        )
                    # An engine that stands still passes nothing on. What it kept is read once it answers again.
                    self.on_silence()
                    engine_answers = True
            if not data:
                continue
            last_data, engine_answers, patience = time.monotonic(), False, self.silence or self._time_to_start
            for message in connection.decode(data):
                self.on_message()
                if connection.accept(message):
                    result = self._on_message(message)
                    if result is not None:
                        connection.acknowledge()
                        return result
            connection.acknowledge()

    def _on_message(self, message: Message) -> dict[str, Any] | None:
        """Handle a message; returns the result of the job if it is ``done``."""
        kind, header = message.type, message.header
        if kind == "event":
            self._on_event(header)
        elif kind == "history":
            self.listener.history(_mapping(header, "line"))
        elif kind == "log":
            self.listener.log(str(header.get("phase")), str(header.get("text", "")))
        elif kind == "checkpoint":
            self.on_checkpoint(message.blob, header.get("seconds"))
        elif kind == "llm.request":
            self._on_llm_request(header, message.blob)
        elif kind == "done":
            return dict(_mapping(header, "result"))
        return None

    def _on_event(self, header: Mapping[str, Any]) -> None:
        line = _mapping(header, "event")
        self.listener.event(line)
        if line.get("event") == "train.end":
            self._trained = True
            self.connection.send("heldout", {"test_seed": self.test_seed})

    def _on_llm_request(self, header: Mapping[str, Any], body: bytes) -> None:
        headers = {str(k): str(v) for k, v in _mapping(header, "headers").items()}
        phase = str(header.get("phase"))
        if phase == SCORE_PHASE and not (self._trained or self._adopted):
            phase = "train"  # what no budget of the job counts begins when training has ended
        request = LlmRequest(
            id=str(header.get("id")),
            method=str(header.get("method")),
            path=str(header.get("path")),
            headers=headers,
            body=body,
            phase=phase,
        )
        self.answers.ask(request)

    def _answer(self, request: LlmRequest, response: LlmResponse) -> None:
        fields = {
            "id": request.id,
            "status": response.status,
            "content_type": response.content_type,
            "inert": response.inert,
            "usage": dict(response.usage),
        }
        self.connection.send("llm.response", fields, response.body)

    def _pass_on_stop(self) -> None:
        reason = self.stop_wanted()
        if reason == "kill":
            raise Interrupted("it was killed before it had ended")
        # A message that is numbered before the sandbox has said where it stands would be lost.
        if reason is None or reason in self.stops_sent or self.connection.adopting:
            return
        if reason == "budget" and self._trained:
            return  # only scoring is left
        self.stops_sent |= {reason}
        self.connection.send("stop", {"reason": reason})


def longest_silence(lease: float, job_timeout: float | None) -> float:
    """The longest silence of a sandbox that works: its lease, or half of it where training takes less. It sends a
    heartbeat four times in its lease."""
    return max(lease / 2, min(lease, lease if job_timeout is None else job_timeout)) + SLACK


def seconds_to_wait(silent: float) -> float:
    """Seconds until the next check for a request to stop, for a sandbox that has been silent for `silent` seconds.

    Messages are read at once. Hundreds of silent sandboxes need not be checked four times a second each.
    """
    return min(max(OFTEN, silent / 4), SELDOM)


def _mapping(header: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = header.get(key)
    if not isinstance(value, dict):
        raise ProtocolError(f"a {header.get('type')} message has no object {key!r}")
    return value

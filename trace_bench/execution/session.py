"""The host's end of the conversation with one sandbox: from ``job`` to ``done``, in a new or an adopted sandbox.

`Connection` numbers messages: the stream may break and be opened again, and messages that the other side has not
acknowledged are sent again. `Session` answers LLM calls through a gateway scope, renews the lease, and passes events
on. It checks only the form of messages: the files that count are collected from the volume afterwards.

One thread reads. Answers to LLM calls are written by the threads that got them (`trace_bench.execution.answers`), so a
message is numbered and written under one lock.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.artifacts.calls import SCORE_PHASE
from trace_bench.cancellation import Cancellation
from trace_bench.errors import Interrupted, ProtocolError, SandboxError
from trace_bench.execution.answers import Answers, RequestHandler
from trace_bench.execution.checkpoint import CheckpointFile
from trace_bench.gateway.base import LlmRequest, LlmResponse
from trace_bench.sandbox.base import Stream
from trace_bench.sandbox.errors import SandboxRemoved, StreamTimeout
from trace_bench.worker.control_stream import PADDING, Decoder, Mailbox, Message

OFTEN, SELDOM = 0.25, 1.0
"""Bounds of the seconds between two checks for a request to stop."""
SLACK = 10.0
"""Seconds that a message of a sandbox can be late on a busy machine."""
MOST_RECONNECTIONS = 100
"""How often the stream of one session is opened again."""
RECONNECTIONS_WITHOUT_NEWS = 5
"""How often in a row, while no message comes over it."""
MOST_MESSAGES = 2**53
"""Of one conversation. A larger number is certainly wrong, and may have too many digits to be written."""


class SandboxGone(SandboxError, ConnectionError):
    """The stream ended before the job was done."""


class SandboxSilent(SandboxError, TimeoutError):
    """The sandbox has sent no message for longer than its lease."""


class Listener:
    """Receives what a job reports while it runs. This one does nothing."""

    def event(self, line: Mapping[str, Any]) -> None:
        """Receive a line of ``events.jsonl``."""

    def history(self, line: Mapping[str, Any]) -> None:
        """Receive a line of ``state_history.jsonl``."""

    def log(self, phase: str, text: str) -> None:
        """Receive captured output of a phase."""


@dataclass
class Connection:
    """The host's end of one control stream.

    Attributes:
        lease: seconds that the sandbox lives without a heartbeat.
        reattach: opens the stream again after it broke; returns None if the sandbox has ended. Without it, a broken
            stream ends the connection.
        reconnections: how often that was done.
        adopting: the sandbox has not said yet how far its conversation with another controller had come.
        on_no_job: called when an adopted sandbox says that it never got its job.
    """

    stream: Stream
    lease: float
    reattach: Callable[[], Stream | None] | None = None
    reconnections: int = 0
    adopting: bool = False
    on_no_job: Callable[[], None] = lambda: None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _decoder: Decoder = field(default_factory=Decoder)
    _mailbox: Mailbox = field(default_factory=Mailbox)
    _name: str = field(default_factory=lambda: secrets.token_hex(8))
    _closed: bool = False
    _resync_at: float = 0.0
    _broken: SandboxError | None = None
    _reconnections_without_news: int = 0
    _acknowledged: int = 0

    def open(self, *, adopt: bool) -> None:
        """Begin the conversation with a new sandbox, or go on with the conversation of another controller."""
        if adopt:
            self._write(PADDING)
            self.adopting = True
        self._hello()

    def end(self) -> None:
        """Send nothing from now on: `send` does nothing."""
        with self._lock:
            self._closed = True

    def send(self, kind: str, fields: dict[str, Any], blob: bytes = b"") -> None:
        """Send a numbered message."""
        with self._lock:
            if not self._closed:
                self._write(self._mailbox.pack(kind, fields, blob))

    def heartbeat(self) -> None:
        self._write(self._mailbox.pack_ephemeral("heartbeat"))

    def acknowledge(self) -> None:
        """Acknowledge all messages so far in one write, which may be a call of a service; nothing if there are none."""
        with self._lock:
            if self._mailbox.received > self._acknowledged:
                self._acknowledged = self._mailbox.received
                self._write(self._mailbox.ack())

    def read(self, timeout: float) -> bytes | None:
        """Read what has arrived: empty after a reconnection, None if nothing came in time.

        Raises:
            SandboxGone: the sandbox has ended. EngineGone: the engine does not answer.
            SandboxError: the stream breaks again and again.
        """
        try:
            data = self.stream.read(timeout)
            if data == b"":
                raise SandboxGone("the sandbox ended before the job was done")
            if data is not None:
                return data
        except SandboxError as error:
            if self.reattach is None:
                raise
            self._broken = self._broken or error
        if self._broken is None:
            return None
        self._reconnect(self._broken)
        return b""

    def decode(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with `data`."""
        for message in self._decoder.feed(data):
            self._reconnections_without_news = 0
            yield message

    def accept(self, message: Message) -> bool:
        """Return True if `message` is the next one for the session. Handles messages about the stream itself."""
        header = message.header
        if message.type == "ack":
            with self._lock:
                self._mailbox.acknowledged(number_in(header, "received"))
            return False
        if message.type == "hello":
            self._on_hello(number_in(header, "received"), number_in(header, "forgotten"))
            return False
        if self.adopting:
            return False  # until the sandbox has said where it stands, its numbers mean nothing
        if self._mailbox.accept(message):
            return True
        number = header.get("n")
        if isinstance(number, int) and number > self._mailbox.received and time.monotonic() > self._resync_at:
            # A message was lost on the way: ask for everything after the last one that came.
            self._resync_at = time.monotonic() + 1.0
            self._hello()
        return False

    def _reconnect(self, error: SandboxError) -> None:
        self._reconnections_without_news += 1
        if self.reconnections >= MOST_RECONNECTIONS or self._reconnections_without_news > RECONNECTIONS_WITHOUT_NEWS:
            times = self.reconnections + 1
            raise SandboxError(f"the connection to the sandbox broke {times} times; the last time: {error}")
        try:
            stream = self.reattach() if self.reattach is not None else None
        except SandboxRemoved:
            stream = None
        if stream is None:
            # The engine has answered, so it is not the engine that is gone.
            raise SandboxGone("the sandbox ended before the job was done") from error
        with self._lock:
            self.stream.close()
            self.stream, self._broken, self._decoder = stream, None, Decoder()
            self.reconnections += 1
            self._write(PADDING)
            self._hello()

    def _on_hello(self, received: int, forgotten: int) -> None:
        if self.adopting:
            # The numbers go on from those of the controller before.
            self.adopting = False
            self._mailbox.sent = received
            self._mailbox.received = forgotten
            if received == 0:  # the job is always the first message
                self.on_no_job()
                return
        with self._lock:
            self._write(self._mailbox.resend(received))

    def _hello(self) -> None:
        fields = {"controller": self._name, "received": self._mailbox.received, "lease": self.lease}
        self._write(self._mailbox.pack_ephemeral("hello", fields))

    def _write(self, data: bytes) -> None:
        if data:
            with self._lock:
                try:
                    self.stream.write(data)
                except StreamTimeout:
                    raise  # the stream works; the sandbox does not read
                except SandboxError as error:
                    if self.reattach is None:
                        raise
                    self._broken = self._broken or error  # numbered messages are sent again after a reconnection


@dataclass
class Session:
    """One conversation with one supervisor.

    Attributes:
        job, task: what is to be run: ``job.json`` as a dict, and the task folder as a tar.
        test_seed: handed over when the sandbox reports the end of training, never before.
        silence: seconds without any message after which a sandbox that has sent one counts as dead; 0 is the time
            that a new sandbox has for its first message.
        on_silence: called before it counts as dead; raises an error if the engine does not answer.
        stop: ``"interrupted"`` asks the sandbox to end in order; ``"budget"`` asks it to end training.
        on_message: called for each message of the sandbox.
        answers: the LLM calls; some may be under way when the session has ended (`Answers.wait`).
        stops_sent: the reasons to stop that the sandbox was given.
        checkpoint: has the results of earlier attempts, and keeps those of this one.
        states: of a job with ``states_given``, those states as JSON.
    """

    connection: Connection
    handler: RequestHandler
    job: Mapping[str, Any]
    task: bytes
    test_seed: int
    listener: Listener = field(default_factory=Listener)
    silence: float = 0.0
    on_silence: Callable[[], object] = lambda: None
    stop: Cancellation = field(default_factory=Cancellation)
    on_message: Callable[[], None] = lambda: None
    answers: Answers = field(init=False)
    stops_sent: frozenset[str] = frozenset()
    checkpoint: CheckpointFile | None = None
    states: bytes = b""
    _trained: bool = False
    _adopted: bool = False

    def __post_init__(self) -> None:
        self.answers = Answers(self.handler, self._answer)
        self.connection.on_no_job = self._hand_over

    def run(self, *, adopt: bool = False) -> dict[str, Any]:
        """Hand over the job and serve it to its end; returns the ``done`` message's result.

        The stream is closed for writing afterwards, also for the threads that answer calls.

        Args:
            adopt: continue a job that another controller started. The sandbox sends again what no controller
                acknowledged. An LLM call that was answered before is answered from the cassette.

        Raises:
            SandboxGone, SandboxSilent, ProtocolError. NotRecorded: a replay sent an unrecorded request.
            Interrupted: `stop` says ``"kill"``.
        """
        self._adopted = adopt
        time_to_start = 2 * self.connection.lease + SLACK
        try:
            self.connection.open(adopt=adopt)
            if not adopt:
                self._hand_over()
            silence = self.silence or time_to_start
            return self._serve(silence if adopt else time_to_start, silence)
        finally:
            self.answers.refuse_new_calls()
            self.connection.end()

    def _hand_over(self) -> None:
        lines, seconds = self.checkpoint.beside(self.task) if self.checkpoint is not None else (b"", 0.0)
        fields: dict[str, Any] = {"job": dict(self.job)}
        if lines:
            fields |= {"checkpoint_bytes": len(lines), "seconds_before": seconds}
        if self.states:
            fields["states_bytes"] = len(self.states)
        self.connection.send("job", fields, self.task + lines + self.states)

    def _serve(self, patience: float, silence: float) -> dict[str, Any]:
        """Serve the job to its end. `patience` is the longest silence before the first message, `silence` later."""
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
            # Messages are read at once. Hundreds of silent sandboxes need not be checked four times a second each.
            data = connection.read(min(max(OFTEN, (now - last_data) / 4), SELDOM, lease / 8))
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
            last_data, engine_answers, patience = time.monotonic(), False, silence
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
            line = _mapping(header, "event")
            self.listener.event(line)
            if line.get("event") == "train.end":
                self._trained = True
                self.connection.send("heldout", {"test_seed": self.test_seed})
        elif kind == "history":
            self.listener.history(_mapping(header, "line"))
        elif kind == "log":
            self.listener.log(str(header.get("phase")), str(header.get("text", "")))
        elif kind == "checkpoint" and self.checkpoint is not None:
            self.checkpoint.add(message.blob, header.get("seconds"))
        elif kind == "llm.request":
            self._on_llm_request(header, message.blob)
        elif kind == "done":
            return dict(_mapping(header, "result"))
        return None

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
        if (unknown := self.handler.not_recorded()) is not None:
            raise unknown  # the sandbox has its refusal; no later message can count
        reason = self.stop.reason
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


def number_in(header: Mapping[str, Any], key: str) -> int:
    """The number `key` of a header.

    Raises:
        ProtocolError: there is no such number, or an impossible one.
    """
    value = header.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_MESSAGES:
        raise ProtocolError(f"a {header.get('type')} message has no number {key!r} that can be")
    return value


def _mapping(header: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = header.get(key)
    if not isinstance(value, dict):
        raise ProtocolError(f"a {header.get('type')} message has no object {key!r}")
    return value

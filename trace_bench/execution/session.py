"""The host's end of one control stream: from ``job`` to ``done``, whoever starts or picks it up.

A session answers LLM calls through a gateway scope, renews the lease, and passes events on. It believes nothing beyond
their form: the files that count are collected from the volume afterwards. One thread reads; answers to LLM calls are
written by the threads that got them (`trace_bench.execution.answers`), so what is numbered and what is written is
under one lock.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from trace_bench.artifacts.jsonio import printable
from trace_bench.errors import Interrupted, ProtocolError, SandboxError
from trace_bench.execution.answers import Answers, Serves
from trace_bench.gateway.base import LlmRequest, LlmResponse
from trace_bench.sandbox import errors
from trace_bench.sandbox.base import Stream
from trace_bench.sandbox.errors import StreamTimeout
from trace_bench.worker.control_stream import PADDING, Decoder, Mailbox, Message

OFTEN, SELDOM = 0.25, 1.0
"""Seconds between two looks at what the user wants."""
MOST_MENDS = 100
"""How often the stream of one session is attached again."""
MENDS_WITHOUT_NEWS = 5
"""How often in a row, while no message comes over it."""
MOST_MESSAGES = 2**53
"""Of one conversation. A number beyond it can only be a lie, and may have more digits than can be written."""


class Listener(Protocol):
    """Hears what a job does while it does it."""

    def event(self, line: Mapping[str, Any]) -> None:
        """A line of ``events.jsonl``."""

    def history(self, line: Mapping[str, Any]) -> None:
        """A line of ``state_history.jsonl``."""

    def log(self, phase: str, text: str) -> None:
        """Captured output of a phase."""


@dataclass(frozen=True)
class Silence:
    """A listener that does nothing."""

    def event(self, line: Mapping[str, Any]) -> None: ...

    def history(self, line: Mapping[str, Any]) -> None: ...

    def log(self, phase: str, text: str) -> None: ...


class SandboxSilent(SandboxError, TimeoutError):
    """The sandbox has not been heard for longer than its lease."""


class SandboxGone(SandboxError, ConnectionError):
    """The stream ended before the job was done."""


@dataclass
class Session:
    """One conversation with one supervisor.

    Attributes:
        job, task: what is to be run: ``job.json`` as a dict, and the task folder as a tar.
        test_seed: handed over when the sandbox says that training has ended, never before.
        lease: seconds that the sandbox lives on without a heartbeat.
        silence: seconds without any message from the sandbox after which it counts as dead.
        stop_wanted: asked often; ``"interrupted"`` asks the sandbox to end in order, ``"budget"`` asks it to end
            training.
        on_answer: called once the sandbox has been heard.
        answers: the LLM calls; some may be under way when the session has ended (`Answers.wait`).
        told: the reasons that it was given to stop.
        reattach: opens the stream again after it broke, for the conversation to go on by the numbers; None if the
            sandbox has ended. Without it a stream that breaks is the end.
        mended: how often that was done.
        checkpoint: what earlier attempts have learnt: JSON lines, and the seconds of training that were in them.
        on_checkpoint: called with each new line, and its seconds.
        states: of a job with ``states_given``, those states as JSON.
    """

    stream: Stream
    scope: Serves
    job: Mapping[str, Any]
    task: bytes
    test_seed: int
    lease: float
    listener: Listener = field(default_factory=Silence)
    silence: float = 0.0
    stop_wanted: Callable[[], str | None] = lambda: None
    on_answer: Callable[[], None] = lambda: None
    answers: Answers = field(init=False)
    told: frozenset[str] = frozenset()
    reattach: Callable[[], Stream | None] | None = None
    mended: int = 0
    checkpoint: tuple[bytes, float] = (b"", 0.0)
    on_checkpoint: Callable[[bytes, Any], None] = lambda data, seconds: None
    states: bytes = b""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _decoder: Decoder = field(default_factory=Decoder)
    _mailbox: Mailbox = field(default_factory=Mailbox)
    _name: str = field(default_factory=lambda: secrets.token_hex(8))
    _adopting: bool = False
    _over: bool = False
    _trained: bool = False
    _resync_at: float = 0.0
    _broken: SandboxError | None = None
    _mends_without_news: int = 0
    _acknowledged: int = 0

    def __post_init__(self) -> None:
        self.answers = Answers(self.scope, self._answer)

    def start(self) -> dict[str, Any]:
        """Hand over the job and see it through; returns the ``done`` message's result.

        Raises:
            SandboxGone, SandboxSilent, ProtocolError. Interrupted: `stop_wanted` says ``"kill"``.
        """
        with self._conversation():
            self._hello()
            self._hand_over()
            return self._serve()

    def adopt(self) -> dict[str, Any]:
        """Pick up a job that another controller started; same return and errors as `start`.

        What the sandbox sent to nobody it sends again; an LLM call that was answered before is answered from the
        cassette.
        """
        with self._conversation():
            self._write(PADDING)
            self._adopting = True
            self._hello()
            return self._serve()

    @contextmanager
    def _conversation(self) -> Iterator[None]:
        """Whatever ends it, no thread writes to the stream afterwards."""
        try:
            yield
        finally:
            self.answers.leave()
            with self._lock:
                self._over = True

    def _hand_over(self) -> None:
        lines, seconds = self.checkpoint
        known = {"checkpoint_bytes": len(lines), "seconds_before": seconds} if lines else {}
        given = {"states_bytes": len(self.states)} if self.states else {}
        self._send("job", {"job": dict(self.job), **known, **given}, self.task + lines + self.states)

    def _serve(self) -> dict[str, Any]:
        last_beat = heard = time.monotonic()
        patience = self.silence or 2 * self.lease + 10
        while True:
            now = time.monotonic()
            if now - last_beat > self.lease / 4:
                self._write(self._mailbox.pack_ephemeral("heartbeat"))
                last_beat = now
            self._pass_on_stop()
            self.answers.check(quiet=False)
            data = self._read(min(patient(now - heard), self.lease / 8))
            if data is None and self._broken is not None:
                self._mend(self._broken)
                continue
            if data is None:
                self.answers.check(quiet=True)
                if now - heard > patience:
                    raise SandboxSilent(f"the sandbox has not been heard for {patience:.0f} s; it counts as dead")
                continue
            heard = time.monotonic()
            for message in self._decoder.feed(data):
                self.on_answer()
                self._mends_without_news = 0
                result = self._on_message(message)
                if result is not None:
                    return result
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Once for all that came together: each write may be a call of a service."""
        with self._lock:
            if self._mailbox.received > self._acknowledged:
                self._acknowledged = self._mailbox.received
                self._write(self._mailbox.ack())

    def _read(self, timeout: float) -> bytes | None:
        """What has come; None if nothing did, or the stream is broken."""
        try:
            data = self.stream.read(timeout)
            if data != b"":
                return data
            raise SandboxGone("the sandbox ended before the job was done")
        except SandboxError as error:
            if self.reattach is None:
                raise
            self._broken = self._broken or error
            return None

    def _mend(self, error: SandboxError) -> None:
        """Attach again: what was torn or lost with the connection is sent again by either side, for it was numbered.

        Raises:
            SandboxGone: the sandbox has ended. EngineGone: it cannot be asked. SandboxError: it breaks all the time.
        """
        self._mends_without_news += 1
        if self.mended >= MOST_MENDS or self._mends_without_news > MENDS_WITHOUT_NEWS:
            raise SandboxError(f"the connection to the sandbox broke {self.mended + 1} times; the last time: {error}")
        try:
            stream = self.reattach() if self.reattach is not None else None
        except errors.SandboxGone:
            stream = None
        if stream is None:
            # The engine has answered: whatever it was that broke, it is no engine that is gone.
            raise SandboxGone("the sandbox ended before the job was done") from error
        with self._lock:
            self.stream.close()
            self.stream, self._broken, self._decoder = stream, None, Decoder()
            self.mended += 1
            self._write(PADDING)
            self._hello()

    def _on_message(self, message: Message) -> dict[str, Any] | None:
        kind, header = message.type, message.header
        if kind == "ack":
            with self._lock:
                self._mailbox.acknowledged(_int(header, "received"))
            return None
        if kind == "hello":
            self._on_hello(_int(header, "received"), _int(header, "forgotten"))
            return None
        if self._adopting:
            # Until the sandbox has said where it stands, its numbers mean nothing.
            return None
        if not self._mailbox.accept(message):
            number = header.get("n")
            if isinstance(number, int) and number > self._mailbox.received and time.monotonic() > self._resync_at:
                # Something was lost on the way: ask for everything after what is here.
                self._resync_at = time.monotonic() + 1.0
                self._hello()
            return None
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
            result = dict(_mapping(header, "result"))
            self._write(self._mailbox.ack())
            return result
        return None

    def _on_hello(self, received: int, forgotten: int) -> None:
        if self._adopting:
            # The numbers go on where the controller before us left off.
            self._adopting = False
            self._mailbox.sent = received
            self._mailbox.received = forgotten
            if received == 0:
                # It died before it had handed over the job, which is always the first message.
                self._hand_over()
                return
        with self._lock:
            self._write(self._mailbox.resend(received))

    def _on_event(self, header: Mapping[str, Any]) -> None:
        line = _mapping(header, "event")
        self.listener.event(line)
        if line.get("event") == "train.end":
            self._trained = True
            self._send("heldout", {"test_seed": self.test_seed})

    def _on_llm_request(self, header: Mapping[str, Any], body: bytes) -> None:
        headers = {str(k): str(v) for k, v in _mapping(header, "headers").items()}
        request = LlmRequest(
            id=str(header.get("id")),
            method=str(header.get("method")),
            path=str(header.get("path")),
            headers=headers,
            body=body,
            phase=str(header.get("phase")),
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
        with self._lock:
            if not self._over:
                self._send("llm.response", fields, response.body)

    def _pass_on_stop(self) -> None:
        reason = self.stop_wanted()
        if reason == "kill":
            raise Interrupted("it was killed before it had ended")
        # A number that is given before the sandbox has said where it stands is forgotten again.
        if reason is None or reason in self.told or self._adopting:
            return
        if reason == "budget" and self._trained:
            return  # what is left is to score what it came to
        self.told |= {reason}
        self._send("stop", {"reason": reason})

    def _hello(self) -> None:
        fields = {"controller": self._name, "received": self._mailbox.received, "lease": self.lease}
        self._write(self._mailbox.pack_ephemeral("hello", fields))

    def _send(self, kind: str, fields: dict[str, Any], blob: bytes = b"") -> None:
        """Send a numbered message: in the order of the numbers, whichever threads send."""
        with self._lock:
            self._write(self._mailbox.pack(kind, fields, blob))

    def _write(self, data: bytes) -> None:
        if data:
            with self._lock:
                try:
                    self.stream.write(data)
                except StreamTimeout:
                    raise  # the connection is there; it is the sandbox that does not take it
                except SandboxError as error:
                    if self.reattach is None:
                        raise
                    self._broken = self._broken or error  # what is numbered is sent again once that is mended


def patient(silent: float) -> float:
    """Seconds until the next look at what the user wants, of a sandbox that has been silent for so many: whatever it
    says comes at once, and hundreds that have nothing to say need not be looked at four times a second each."""
    return min(max(OFTEN, silent / 4), SELDOM)


def _int(header: Mapping[str, Any], key: str) -> int:
    value = header.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_MESSAGES:
        raise ProtocolError(f"a {printable(str(header.get('type')), 60)} message has no number {key!r} that can be")
    return value


def _mapping(header: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = header.get(key)
    if not isinstance(value, dict):
        raise ProtocolError(f"a {printable(str(header.get('type')), 60)} message has no object {key!r}")
    return value

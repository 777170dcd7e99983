"""Numbered messages between a controller and one sandbox.

The stream may break and be opened again: messages that the other side has not acknowledged are sent again. One thread
reads; several threads write, so a message is numbered and written under one lock.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trace_bench.errors import ProtocolError, SandboxError
from trace_bench.sandbox import errors
from trace_bench.sandbox.base import Stream
from trace_bench.sandbox.errors import StreamTimeout
from trace_bench.worker.control_stream import PADDING, Decoder, Mailbox, Message

MOST_RECONNECTIONS = 100
"""How often the stream of one session is opened again."""
RECONNECTIONS_WITHOUT_NEWS = 5
"""How often in a row, while no message comes over it."""
MOST_MESSAGES = 2**53
"""Of one conversation. A larger number is certainly wrong, and may have too many digits to be written."""


class SandboxGone(SandboxError, ConnectionError):
    """The stream ended before the job was done."""


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

    def open(self) -> None:
        """Begin the conversation with a new sandbox."""
        self._hello()

    def adopt(self) -> None:
        """Go on with the conversation of another controller."""
        self._write(PADDING)
        self.adopting = True
        self._hello()

    def end(self) -> None:
        """Send nothing from now on: `send` does nothing."""
        with self._lock:
            self._closed = True

    # -- sending -------------------------------------------------------------------------------------------------

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

    # -- receiving -----------------------------------------------------------------------------------------------

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

    def _reconnect(self, error: SandboxError) -> None:
        self._reconnections_without_news += 1
        if self.reconnections >= MOST_RECONNECTIONS or self._reconnections_without_news > RECONNECTIONS_WITHOUT_NEWS:
            times = self.reconnections + 1
            raise SandboxError(f"the connection to the sandbox broke {times} times; the last time: {error}")
        try:
            stream = self.reattach() if self.reattach is not None else None
        except errors.SandboxRemoved:
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

    def decode(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with `data`."""
        for message in self._decoder.feed(data):
            self._reconnections_without_news = 0
            yield message

    def accept(self, message: Message) -> bool:
        """Whether `message` is the next one for the session. Handles messages about the stream itself."""
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


def number_in(header: Mapping[str, Any], key: str) -> int:
    """The number `key` of a header.

    Raises:
        ProtocolError: there is no such number, or an impossible one.
    """
    value = header.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_MESSAGES:
        raise ProtocolError(f"a {header.get('type')} message has no number {key!r} that can be")
    return value

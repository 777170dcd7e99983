"""The supervisor's end of the control stream: stdin, stdout, numbering, lease and heartbeat."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from typing import Any

from trace_bench.worker.control_stream import CHUNK, PADDING, Decoder, Mailbox, Message

_ALLOWED_PENDING = 64 << 20


class HostLink:
    """The connection to the controller, which may be replaced by another one.

    Args:
        selector: of the supervisor's loop; this class registers with it.
        lease: seconds without a word from a controller after which `lease_ended` is true.
        on_message: called with every new message that is neither hello nor ack.
        on_successor: called when another controller than before has said hello, after what it has not seen was resent.
        on_hang_up: called when stdin ends.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        lease: float,
        *,
        on_message: Callable[[Message], None],
        on_successor: Callable[[], None],
        on_hang_up: Callable[[], None],
    ) -> None:
        self._selector = selector
        self._lease = lease
        self._on_message = on_message
        self._on_successor = on_successor
        self._on_hang_up = on_hang_up
        self._decoder = Decoder()
        self._mailbox = Mailbox()
        self._outgoing = bytearray()
        self._controller: str | None = None
        self._last_received = time.monotonic()
        self._last_beat = 0.0
        for fd in (0, 1):
            os.set_blocking(fd, False)
        selector.register(0, selectors.EVENT_READ, lambda _: self._on_stdin())
        self._say_hello()

    def send(self, kind: str, fields: dict[str, Any], blob: bytes = b"") -> None:
        """Send a message that must not be lost: it is kept until it is acknowledged."""
        self._write(self._mailbox.pack(kind, fields, blob))

    def send_ephemeral(self, kind: str, fields: dict[str, Any] | None = None) -> None:
        """Send a message that may be lost."""
        self._write(self._mailbox.pack_ephemeral(kind, fields))

    @property
    def all_acknowledged(self) -> bool:
        return self._mailbox.pending == 0

    def lease_ended(self, now: float) -> bool:
        """True if no controller has sent anything for longer than the lease. Sends the heartbeat when it is time."""
        if now - self._last_received > self._lease:
            return True
        if now - self._last_beat > self._lease / 4:
            self._last_beat = now
            self.send_ephemeral("heartbeat")
        return False

    def flush(self) -> None:
        """Write as much as stdout takes; the rest follows when it takes more."""
        try:
            while self._outgoing:
                written = os.write(1, self._outgoing[: 4 * CHUNK])
                del self._outgoing[:written]
        except BlockingIOError:
            if 1 not in self._selector.get_map():
                self._selector.register(1, selectors.EVENT_WRITE, lambda _: self.flush())
            if len(self._outgoing) > _ALLOWED_PENDING:
                # The host does not read. What must not be lost is numbered, and will be resent.
                self._outgoing.clear()
            return
        except BrokenPipeError:
            self._outgoing.clear()
        if 1 in self._selector.get_map():
            self._selector.unregister(1)

    def _on_stdin(self) -> None:
        try:
            data = os.read(0, 1 << 18)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(0)
            self._on_hang_up()
            return
        for message in self._decoder.feed(data):
            self._last_received = time.monotonic()
            if message.type == "hello":
                self._on_hello(message)
            elif message.type == "ack":
                self._mailbox.acknowledged(int(message.header["received"]))
            elif self._mailbox.accept(message):
                self._on_message(message)
                if "n" in message.header:
                    self._write(self._mailbox.ack())
            elif message.header.get("n", 0) > self._mailbox.received:
                self._say_hello()

    def _on_hello(self, message: Message) -> None:
        self._lease = float(message.header.get("lease", self._lease))
        controller = str(message.header.get("controller"))
        self._write(PADDING)
        self._say_hello()
        self._write(self._mailbox.resend(int(message.header.get("received", 0))))
        before, self._controller = self._controller, controller
        if before not in (None, controller):
            self._on_successor()

    def _say_hello(self) -> None:
        self.send_ephemeral("hello", {"received": self._mailbox.received, "forgotten": self._mailbox.forgotten})

    def _write(self, data: bytes) -> None:
        self._outgoing += data
        self.flush()

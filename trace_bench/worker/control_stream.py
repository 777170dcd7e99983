"""The control stream: numbered messages over one byte stream that can break at any byte.

Both ends use this module. `Decoder` finds the next frame after garbage. `Mailbox` numbers what must not be lost, keeps
it until the peer has acknowledged it, and drops what it has seen before. Neither does I/O. A new controller can take
over a running sandbox of an older version, so the bytes of a frame never change. The module can be run from source.

A frame is ``MAGIC | length u32 | crc32 u32 | payload``. The payload starts with a flag byte: 1 on the last frame of
a message, else 0. A message is ``header length u32 | header JSON | blob``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAGIC = b"\xf5TB\x01"
_HEAD = struct.Struct(">4sII")
_LEN = struct.Struct(">I")
CHUNK = 32 * 1024
"""Largest payload of one frame, bytes. A torn frame can hold a reader up by no more than this."""
PADDING = bytes(2 * CHUNK)
"""Sent before the first message of a new controller, so that a reader inside a torn frame reaches its end."""
MAX_MESSAGE = 128 << 20
"""Largest message, bytes: a task folder fits, a runaway peer does not."""

MAX_HEADER = 16 << 20
"""Largest header, bytes. What is large goes into the blob: parsed JSON takes up to twenty times its size."""


def fits(fields: Mapping[str, Any]) -> bool:
    """Whether a header with these fields is one that a reader takes. What is larger is lost, and all that is numbered
    after it waits for it."""
    return len(json.dumps(fields, separators=(",", ":"), allow_nan=False)) <= MAX_HEADER - 1024


@dataclass(frozen=True)
class Message:
    """One message: its header (with ``type``, and ``n`` where it is numbered) and a blob, often empty."""

    header: dict[str, Any]
    blob: bytes = b""

    @property
    def type(self) -> str:
        return str(self.header.get("type", ""))


def encode(message: Message) -> bytes:
    """All frames of `message`."""
    header = json.dumps(message.header, separators=(",", ":"), allow_nan=False).encode()
    body = memoryview(_LEN.pack(len(header)) + header + message.blob)
    out = []
    step = CHUNK - 1
    for start in range(0, len(body), step):
        last = start + step >= len(body)
        payload = (b"\x01" if last else b"\x00") + bytes(body[start : start + step])
        out.append(_HEAD.pack(MAGIC, len(payload), zlib.crc32(payload)))
        out.append(payload)
    return b"".join(out)


class Decoder:
    """Bytes in, messages out. What does not check is skipped, and counted in `skipped` (bytes)."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._buffer = bytearray()
        self._body = bytearray()
        self._limit = limit
        self.skipped = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """Messages that `data` completes."""
        self._buffer += data
        while True:
            payload = self._next_payload()
            if payload is None:
                return
            self._body += payload[1:]
            if len(self._body) > self._limit:
                self._drop_message()
                continue
            if payload[0] == 1:
                message = self._assemble()
                if message is not None:
                    yield message

    def reset_message(self) -> None:
        """Forget the frames of an unfinished message: its sender is gone."""
        self._drop_message()

    def _drop_message(self) -> None:
        self.skipped += len(self._body)
        self._body.clear()

    def _assemble(self) -> Message | None:
        body = bytes(self._body)
        self._body.clear()
        try:
            (length,) = _LEN.unpack_from(body)
            header = json.loads(body[4 : 4 + length]) if length <= MAX_HEADER else None
        except (struct.error, ValueError, RecursionError):
            header = None
        if not isinstance(header, dict):
            # The tail of a message whose first frames were lost.
            self.skipped += len(body)
            return None
        return Message(header, body[4 + length :])

    def _next_payload(self) -> bytes | None:
        buffer = self._buffer
        while True:
            at = buffer.find(MAGIC)
            if at < 0:
                keep = min(len(buffer), len(MAGIC) - 1)
                self.skipped += len(buffer) - keep
                del buffer[: len(buffer) - keep]
                return None
            if at:
                # Garbage between frames means that a message was torn.
                self._drop_message()
                self.skipped += at
                del buffer[:at]
            if len(buffer) < _HEAD.size:
                return None
            _, length, checksum = _HEAD.unpack_from(buffer)
            if 1 <= length <= CHUNK:
                if len(buffer) < _HEAD.size + length:
                    return None
                payload = bytes(buffer[_HEAD.size : _HEAD.size + length])
                if zlib.crc32(payload) == checksum:
                    del buffer[: _HEAD.size + length]
                    return payload
            self._drop_message()
            self.skipped += 1
            del buffer[:1]


@dataclass
class Mailbox:
    """Numbers outgoing messages and sorts incoming ones.

    Usage: ``bytes_to_send = mailbox.pack("event", {...})``; for each decoded message ``mailbox.accept(m)`` says whether
    it is new. After a reattachment ``mailbox.resend(after=n)`` gives everything that the peer has not seen.
    """

    sent: int = 0
    received: int = 0
    _unacknowledged: OrderedDict[int, bytes] = field(default_factory=OrderedDict)

    def pack(self, kind: str, fields: dict[str, Any] | None = None, blob: bytes = b"") -> bytes:
        """Frames of a numbered message, kept until acknowledged."""
        self.sent += 1
        header = {"type": kind, "n": self.sent, **(fields or {})}
        data = encode(Message(header, blob))
        self._unacknowledged[self.sent] = data
        return data

    @staticmethod
    def pack_ephemeral(kind: str, fields: dict[str, Any] | None = None) -> bytes:
        """Frames of a message that may get lost (heartbeat, hello, ack)."""
        return encode(Message({"type": kind, **(fields or {})}))

    def ack(self) -> bytes:
        """Frames that acknowledge everything received so far."""
        return self.pack_ephemeral("ack", {"received": self.received})

    def accept(self, message: Message) -> bool:
        """True if `message` is to be acted on; False if it was seen before or came too early.

        Numbered messages are accepted strictly in order: after a gap the rest is refused, and arrives again with the
        next `resend`.
        """
        number = message.header.get("n")
        if number is None:
            return True
        if not isinstance(number, int) or isinstance(number, bool) or number != self.received + 1:
            return False
        self.received = number
        return True

    def acknowledged(self, received: int) -> None:
        """The peer has everything up to number `received`."""
        for number in list(self._unacknowledged):
            if number > received:
                break
            del self._unacknowledged[number]

    def resend(self, after: int) -> bytes:
        """Frames of everything numbered after `after`, oldest first."""
        self.acknowledged(after)
        return b"".join(self._unacknowledged.values())

    @property
    def forgotten(self) -> int:
        """Number up to which the peer has acknowledged everything; `resend` cannot go back behind it."""
        return self.sent - len(self._unacknowledged)

    @property
    def pending(self) -> int:
        """Messages that the peer has not acknowledged."""
        return len(self._unacknowledged)

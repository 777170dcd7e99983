"""Length-prefixed frames: how messages are delimited on a byte stream between two processes.

A frame is a head of fixed size and a payload. The last field of the head is the length of the payload, in bytes.
`FrameFormat` says what the head holds and how long a payload may be; `FrameReader` splits a stream into frames,
whatever pieces its bytes arrive in. `pack_json` and `JsonReader` are the common case: each payload is a JSON object.

A reader raises `FrameError` at the first bytes that are no frame. It cannot go on, as it no longer knows where the next
frame begins. The stream between host and sandbox can break at any byte, so `control_stream` has frames that a reader
finds again.

This module needs the standard library only, and can be run from its source.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


class FrameError(ValueError):
    """The stream holds something that is no frame, or no message, of the expected kind."""


class FrameTooLarge(FrameError):
    """A frame is longer than its format allows."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a message has {size} bytes; the limit is {limit}")
        self.size, self.limit = size, limit


@dataclass(frozen=True)
class FrameFormat:
    """What the frames of a stream look like.

    Attributes:
        head: its last field is the length of the payload.
        limit: the largest payload, bytes.
    """

    head: struct.Struct
    limit: int

    def pack(self, payload: bytes, *fields: Any) -> bytes:
        """One frame.

        Args:
            fields: values of the head, without the length.

        Raises:
            FrameTooLarge
        """
        if len(payload) > self.limit:
            raise FrameTooLarge(len(payload), self.limit)
        return self.head.pack(*fields, len(payload)) + payload

    def unpack_head(self, data: bytes | bytearray) -> tuple[Any, ...]:
        """The fields of the head at the beginning of `data`, the length among them.

        Raises:
            FrameTooLarge: the peer announces more than the limit.
        """
        fields = self.head.unpack_from(data)
        if fields[-1] > self.limit:
            raise FrameTooLarge(fields[-1], self.limit)
        return fields


class FrameReader:
    """Splits a stream into frames."""

    def __init__(self, layout: FrameFormat) -> None:
        self._layout = layout
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Any, ...]]:
        """Frames that `data` completes, each as ``(*fields, payload)``; the length is left out.

        Raises:
            FrameTooLarge: a frame is longer than the limit. It is not kept in memory.
        """
        self._buffer += data
        start = self._layout.head.size
        while len(self._buffer) >= start:
            *fields, length = self._layout.unpack_head(self._buffer)
            if len(self._buffer) < start + length:
                return
            payload = bytes(self._buffer[start : start + length])
            del self._buffer[: start + length]
            yield *fields, payload


_LENGTH = struct.Struct(">I")
JSON_LIMIT = 64 << 20
"""The largest JSON message, bytes, where nothing else is said."""


def pack_json(message: Mapping[str, Any], limit: int = JSON_LIMIT) -> bytes:
    """One frame with `message` as JSON.

    Raises:
        FrameTooLarge
        ValueError: it holds a number that JSON does not have.
    """
    data = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    return FrameFormat(_LENGTH, limit).pack(data)


class JsonReader:
    """Splits a stream of `pack_json` into messages."""

    def __init__(self, limit: int = JSON_LIMIT) -> None:
        self._reader = FrameReader(FrameFormat(_LENGTH, limit))

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Messages that `data` completes.

        Raises:
            FrameError: the peer sent something else, or more than the limit.
        """
        for (payload,) in self._reader.feed(data):
            yield parse_json(payload)


def parse_json(payload: bytes) -> dict[str, Any]:
    """The object that `payload` holds.

    Raises:
        FrameError: it holds no JSON object.
    """
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a message is not JSON: {type(error).__name__}: {error}") from None
    if not isinstance(message, dict):
        raise FrameError("a message is not a JSON object")
    return message

"""Messages between the controller and its provider process: JSON objects, each behind its length.

Four bytes, big-endian, then so many bytes of UTF-8. Both ends are ours; a length beyond `MAX_FRAME` or a body that
is no JSON object means that something else wrote into the pipe.
"""

from __future__ import annotations

import asyncio
import json
import struct
from typing import IO, Any

MAX_FRAME = 256 << 20
_LENGTH = struct.Struct(">I")

Frame = dict[str, Any]


class BrokenFrame(Exception):
    """The other end writes something that is no frame."""


def encode(frame: Frame) -> bytes:
    data = json.dumps(frame, ensure_ascii=True).encode("ascii")
    if len(data) > MAX_FRAME:
        raise BrokenFrame(f"a message of {len(data)} bytes is longer than {MAX_FRAME}")
    return _LENGTH.pack(len(data)) + data


def read(stream: IO[bytes]) -> Frame | None:
    """The next frame; None where the stream ends, also in the middle of one.

    Raises:
        BrokenFrame: see there.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    size = _size(head)
    data = stream.read(size)
    return _decode(data) if len(data) == size else None


async def read_async(stream: asyncio.StreamReader) -> Frame | None:
    """As `read`, for a stream of asyncio."""
    try:
        head = await stream.readexactly(_LENGTH.size)
        return _decode(await stream.readexactly(_size(head)))
    except asyncio.IncompleteReadError:
        return None


def _size(head: bytes) -> int:
    size = int(_LENGTH.unpack(head)[0])
    if size > MAX_FRAME:
        raise BrokenFrame(f"a message says that it has {size} bytes")
    return size


def _decode(data: bytes) -> Frame:
    try:
        frame = json.loads(data)
    except ValueError as error:
        raise BrokenFrame(f"a message is no JSON: {error}") from None
    if not isinstance(frame, dict):
        raise BrokenFrame("a message is no JSON object")
    return frame

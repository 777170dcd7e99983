"""JSON messages, with file descriptors, between the processes inside a sandbox.

Two shapes: datagrams (SOCK_SEQPACKET) to and from the spawner, which are small and may carry descriptors; and a
length-prefixed stream between the supervisor and a phase, whose messages may be large.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

DATAGRAM_LIMIT = 64 * 1024
_LENGTH = struct.Struct(">I")


def send_datagram(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one datagram with `fds` attached."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if fds:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        sock.sendmsg([data], rights)
    else:
        sock.send(data)


def receive_datagram(sock: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next datagram and its descriptors; None at the end.

    Raises:
        ValueError: the peer sent what is no message; its descriptors are closed.
    """
    size = array.array("i").itemsize
    data, ancillary, flags, _ = sock.recvmsg(DATAGRAM_LIMIT, socket.CMSG_LEN(8 * size))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % size])
    if not data:
        return None
    try:
        message = None if flags & socket.MSG_TRUNC else json.loads(data)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        for fd in fds:
            os.close(fd)
        raise ValueError("the peer sent a datagram that is no message")
    return message, list(fds)


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; real-time signals have no names of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def pack(message: dict[str, Any]) -> bytes:
    """One message of the stream."""
    data = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    return _LENGTH.pack(len(data)) + data


class Unpacker:
    """Bytes of the stream in, messages out."""

    def __init__(self, limit: int = 64 << 20) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Messages that `data` completes.

        Raises:
            ValueError: the peer sent something else. The stream is then unusable.
        """
        self._buffer += data
        while len(self._buffer) >= 4:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self._limit:
                raise ValueError(f"a message of {length} bytes was announced; the limit is {self._limit}")
            if len(self._buffer) < 4 + length:
                return
            data = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            message = json.loads(data)
            if not isinstance(message, dict):
                raise ValueError("a message is not an object")
            yield message

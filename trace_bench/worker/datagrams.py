"""Small JSON messages to and from the spawner, each one datagram (SOCK_SEQPACKET), with file descriptors."""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

from trace_bench.worker.frames import FrameError, parse_json

DATAGRAM_LIMIT = 64 * 1024


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
        FrameError: the peer sent something that is no message; its descriptors are closed.
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
        if flags & socket.MSG_TRUNC:
            raise FrameError(f"a datagram has more than {DATAGRAM_LIMIT} bytes")
        return parse_json(data), list(fds)
    except FrameError:
        for fd in fds:
            os.close(fd)
        raise

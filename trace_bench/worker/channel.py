"""Questions and answers on the socket between a phase and one candidate.

A frame is ``length u32 | op u8 | nonce u64 | body``; the body is an encoding of `trace_bench.worker.codec`. An answer
repeats the nonce of its question, which cannot be guessed before the question is sent. So an answer that is sent ahead
is not taken for the answer to the next question.

A policy is called thousands of times, so frames are read straight from a blocking socket, without the buffer of
`trace_bench.worker.frames.FrameReader`. Timeouts are the kernel's (SO_RCVTIMEO, SO_SNDTIMEO): Python's own would cost
a poll per call.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from trace_bench.worker import codec
from trace_bench.worker.codec import CodecError
from trace_bench.worker.frames import FrameTooLarge

LOAD, CALL, RESULT, ERROR = 1, 2, 3, 4
_HEAD = struct.Struct("<IBQ")
_NONCE = struct.Struct("<Q")
_TIMEVAL = struct.Struct("ll")


class ChannelTimeout(Exception):
    """The peer did not answer in time."""


class ChannelClosed(Exception):
    """The peer is gone."""


def set_timeout(sock: socket.socket, seconds: float) -> None:
    """Kernel timeouts of `sock`; 0 means none."""
    whole = int(seconds)
    value = _TIMEVAL.pack(whole, int((seconds - whole) * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def nonces() -> Iterator[int]:
    """Numbers that cannot be guessed, one for each question."""
    while True:
        for (number,) in _NONCE.iter_unpack(os.urandom(256)):
            yield number


def send(sock: socket.socket, op: int, nonce: int, value: Any, deadline: float | None = None) -> None:
    """Send one frame.

    Args:
        deadline: of ``time.monotonic``; it bounds a peer that reads byte by byte.

    Raises:
        CodecError: the value cannot cross.
        ChannelTimeout, ChannelClosed: the peer does not read, or is gone.
    """
    buffers = codec.encode(value)
    size = sum(map(len, buffers))
    if len(buffers) > 64:
        buffers = [b"".join(buffers)]
    head = _HEAD.pack(size, op, nonce)
    total = size + _HEAD.size
    try:
        if deadline is None:
            # Not sendmsg, which could send a descriptor along, and which a candidate's filter refuses therefore.
            sent = os.writev(sock.fileno(), [head, *buffers])
        else:
            try:
                sent = sock.sendmsg([head, *buffers], (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
        if sent < total:
            rest = memoryview(head + b"".join(buffers))[sent:]
            if deadline is None:
                sock.sendall(rest)
            else:
                _send_until(sock, rest, deadline)
    except BlockingIOError:
        raise ChannelTimeout from None
    except OSError:
        raise ChannelClosed from None


def _send_until(sock: socket.socket, rest: memoryview, deadline: float) -> None:
    # The kernel's own timeout begins anew with every piece that the peer takes.
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    while rest:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise ChannelTimeout
        try:
            rest = rest[sock.send(rest, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            continue


def receive(sock: socket.socket, limit: int) -> tuple[int, int, Any]:
    """Receive a question: ``(op, nonce, value)``. Arguments and errors as for `receive_answer`."""
    size, op, nonce = _HEAD.unpack(_exactly(sock, _HEAD.size, None))
    if size > limit:
        raise FrameTooLarge(size, limit)
    return op, nonce, codec.decode(_exactly(sock, size, None), max_items=None)


def receive_answer(sock: socket.socket, nonce: int, limit: int, deadline: float) -> tuple[int, Any]:
    """Receive the answer to the question `nonce`: ``(op, value)``.

    Args:
        limit: largest body, bytes.
        deadline: of ``time.monotonic``; it bounds a peer that sends byte by byte.

    Raises:
        FrameTooLarge, CodecError, ChannelTimeout, ChannelClosed
    """
    size, op, answered = _HEAD.unpack(_exactly(sock, _HEAD.size, deadline))
    if answered != nonce:
        raise CodecError("the program's process sent an answer that was not asked for")
    if size > limit:
        raise FrameTooLarge(size, limit)
    return op, codec.decode(_exactly(sock, size, deadline))


def _exactly(sock: socket.socket, size: int, deadline: float | None) -> bytearray:
    # The buffer grows with what really arrives: an announced length alone costs no memory.
    buffer = bytearray(min(size, 1 << 20))
    view = memoryview(buffer)
    got = 0
    while got < size:
        if got == len(buffer):
            view.release()
            buffer.extend(bytes(min(size - got, len(buffer))))
            view = memoryview(buffer)
        try:
            count = sock.recv_into(view[got:], 0, socket.MSG_WAITALL)
        except BlockingIOError:
            raise ChannelTimeout from None
        except OSError:
            raise ChannelClosed from None
        if count == 0:
            raise ChannelClosed
        got += count
        if deadline is not None and got < size and time.monotonic() > deadline:
            raise ChannelTimeout
    view.release()
    return buffer

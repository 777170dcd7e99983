"""A byte stream over non-blocking descriptors: all of `Stream` but the calls that move bytes."""

from __future__ import annotations

import select
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

from trace_bench.errors import SandboxError
from trace_bench.sandbox.errors import StreamTimeout

CHUNK = 64 * 1024
STDERR_BYTES = 64 * 1024
DEADLINE = 60.0
"""Seconds that one `write` may take before the sandbox counts as stuck."""
READ_BYTES = 1 << 20
"""About the most that one `read` returns."""
BACKLOG = 64 << 20
"""Bytes that `write` keeps for a later `read`. Further output stays with the sandbox."""


class PolledStream(ABC):
    """Implements `trace_bench.sandbox.base.Stream` on two descriptors, which may be one and the same.

    There is a lock for each direction, so a reader and a writer can work at once. A writer that waits also reads,
    unless another thread does: a sandbox that is stuck writing to us never reads what we write.
    """

    def __init__(self, deadline: float = DEADLINE) -> None:
        self._deadline = deadline
        self._stdout = bytearray()
        self._ended = False
        self._reading = threading.Lock()
        self._writing = threading.Lock()

    @abstractmethod
    def fileno(self) -> int: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _write_fileno(self) -> int: ...

    @abstractmethod
    def _receive(self) -> Iterable[bytes] | None:
        """Read once. Pieces of stdout, maybe none; None at the end of the stream.

        Raises:
            BlockingIOError: nothing is there.
        """

    @abstractmethod
    def _send(self, data: memoryview) -> int:
        """Write once; the number of bytes taken.

        Raises:
            BlockingIOError: nothing is taken now.
        """

    def read(self, timeout: float) -> bytes | None:
        end = time.monotonic() + timeout
        with self._reading:
            while True:
                if not self._stdout and not self._ended:
                    self._take_in(READ_BYTES)
                if self._stdout:
                    data = bytes(self._stdout)
                    self._stdout.clear()
                    return data
                if self._ended:
                    return b""
                left = end - time.monotonic()
                if left <= 0:
                    return None
                _wait(self.fileno(), select.POLLIN, left)

    def write(self, data: bytes) -> None:
        end = time.monotonic() + self._deadline
        rest = memoryview(data)
        with self._writing:
            while rest:
                if self._ended:
                    raise SandboxError("the sandbox takes no more input: it has ended.")
                try:
                    rest = rest[self._send(rest) :]
                    continue
                except BlockingIOError:
                    pass
                if time.monotonic() >= end:
                    raise StreamTimeout(
                        f"the sandbox did not take {len(rest)} bytes within {self._deadline:g} s; "
                        "it hangs or is overloaded."
                    )
                self._drain_while_waiting()

    def drain(self) -> None:
        """Keep what is there for a later `read`, unless another thread is reading. Beyond `BACKLOG` bytes the
        connection is closed."""
        if not self._ended and self._reading.acquire(blocking=False):
            try:
                self._take_in(BACKLOG)
                if len(self._stdout) >= BACKLOG:
                    self._ended = True
                    self.close()
            finally:
                self._reading.release()

    def _drain_while_waiting(self) -> None:
        if self._ended or len(self._stdout) >= BACKLOG or not self._reading.acquire(blocking=False):
            _wait(self._write_fileno(), select.POLLOUT, 0.1)
            return
        try:
            poll = select.poll()
            poll.register(self.fileno(), select.POLLIN)
            if self.fileno() == self._write_fileno():
                poll.modify(self.fileno(), select.POLLIN | select.POLLOUT)
            else:
                poll.register(self._write_fileno(), select.POLLOUT)
            poll.poll(100)
            self._take_in(BACKLOG)
        finally:
            self._reading.release()

    def _take_in(self, limit: int) -> None:
        """Read what is there, up to about `limit` bytes. Needs the reading lock."""
        while len(self._stdout) < limit:
            try:
                pieces = self._receive()
            except BlockingIOError:
                return
            if pieces is None:
                self._ended = True
                return
            for piece in pieces:
                self._stdout += piece


def _wait(descriptor: int, event: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    poll.poll(max(0.0, seconds) * 1000)

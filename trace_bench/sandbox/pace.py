"""The pace at which all controllers of a user of this machine create sandboxes: so many a second, at even distances.

A file holds the time of the next creation. A controller takes that time and moves it on by the distance (the generic
cell rate algorithm, ITU-T I.371, without tolerance). So it knows at once how long to wait, and is not overtaken. A time
that was taken and not used is lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox.locks import change_lock, default_directory

MARGIN = 1.02
"""Distances are this much longer: calls that leave at even distances do not arrive so."""
FURTHEST = 900.0
"""Seconds. A time further ahead is invalid: the clock has begun anew with the machine."""
_LOCK_SECONDS = 2.0
"""How long to wait for the lock. A process that was stopped while it held the lock stops no other."""
_TIME = struct.Struct("<d")


class Pace:
    """The pace at one machine or service. May be used by many threads and processes.

    Args:
        scope: the name that all users of the machine or service have for it (`trace_bench.sandbox.base.Host.scope`).
        per_second: creations, at most.
        directory: where the file is; None is that of the machine.
        clock: seconds, the same for all processes of this machine.
    """

    def __init__(
        self,
        scope: str,
        per_second: float,
        directory: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        name = hashlib.sha256(f"{os.getuid()}\0{scope}".encode()).hexdigest()[:16]
        self._name = f"pace-{name}"
        self.distance = MARGIN / per_second
        """Seconds between two creations, at least."""
        self._directory = directory
        self._clock = clock

    def take(self) -> float:
        """Take the next time. Return in how many seconds it is.

        Raises:
            EnvironmentUnavailable: the file cannot be opened.
        """
        with self._file() as file:
            now = self._clock()
            at = self._next(file, now)
            os.pwrite(file, _TIME.pack(at + self.distance), 0)
        return at - now

    def hold(self, seconds: float) -> None:
        """Let no controller take a time within the next `seconds`."""
        with self._file() as file:
            now = self._clock()
            os.pwrite(file, _TIME.pack(max(self._next(file, now), now + min(seconds, FURTHEST))), 0)

    def _next(self, file: int, now: float) -> float:
        """The next time, not before `now`. An invalid one was left by a process that died while it wrote."""
        data = os.pread(file, _TIME.size, 0)
        at = _TIME.unpack(data)[0] if len(data) == _TIME.size else now
        return at if now < at <= now + FURTHEST + self.distance else now

    @contextmanager
    def _file(self) -> Iterator[int]:
        path = (self._directory or default_directory()) / self._name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EnvironmentUnavailable(f"file {path} cannot be opened ({error.strerror}); remove it.") from error
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, descriptor)
            until = time.monotonic() + _LOCK_SECONDS
            while not change_lock(descriptor, fcntl.LOCK_EX) and time.monotonic() < until:
                time.sleep(0.002)
            yield descriptor

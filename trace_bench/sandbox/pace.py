"""How fast all controllers of a user of this host create sandboxes together: so many a second, at even distances.

The time at which the next one may be created stands in a file, under ``flock``. Whoever wants to create one takes that
time and moves it on by the distance (the generic cell rate algorithm, ITU-T I.371, without tolerance): it knows at once
how long to wait, waits without asking again, and nobody overtakes it. A time that was taken and not used is lost.
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
from trace_bench.sandbox.uids import default_directory

MARGIN = 1.02
"""Distances are this much longer: what leaves at even distances does not arrive at even ones."""
FURTHEST = 900.0
"""Seconds. A time further ahead is none that anybody has taken: the clock has begun anew with the machine."""
_PATIENCE = 2.0
"""Seconds that the file may be held; a process that was stopped while it held it stops nobody else."""
_TIME = struct.Struct("<d")


class Pace:
    """The pace at one machine or service. May be used by many threads and processes.

    Args:
        scope: what names the machine to everybody who shares it (`trace_bench.sandbox.base.Host.scope`).
        per_second: creations, at most.
        directory: where the file is; None is that of the machine.
        clock: seconds, the same for all processes of this host.
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
        self._distance = MARGIN / per_second
        self._directory = directory
        self._clock = clock

    @property
    def distance(self) -> float:
        """Seconds between two creations, at least."""
        return self._distance

    def take(self) -> float:
        """Take the next time; returns in how many seconds it is.

        Raises:
            EnvironmentUnavailable: the file cannot be opened.
        """
        with self._file() as file:
            now = self._clock()
            at = self._next(file, now)
            self._set(file, at + self._distance)
        return at - now

    def hold(self, seconds: float) -> None:
        """Nobody takes a time within the next `seconds`."""
        with self._file() as file:
            now = self._clock()
            self._set(file, max(self._next(file, now), now + min(seconds, FURTHEST)))

    def _next(self, file: int, now: float) -> float:
        """The time that is next, not before `now`. What is no time is of a process that died while it wrote."""
        data = os.pread(file, _TIME.size, 0)
        at = _TIME.unpack(data)[0] if len(data) == _TIME.size else now
        return at if now < at <= now + FURTHEST + self._distance else now

    def _set(self, file: int, at: float) -> None:
        os.pwrite(file, _TIME.pack(at), 0)

    @contextmanager
    def _file(self) -> Iterator[int]:
        path = (self._directory or default_directory()) / self._name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EnvironmentUnavailable(f"file {path} cannot be opened ({error.strerror}); remove it.") from error
        try:
            until = time.monotonic() + _PATIENCE
            while time.monotonic() < until:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.002)
            yield descriptor
        finally:
            os.close(descriptor)

"""Read files that grow, and notice when the reader of our own output has gone."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

INTERVAL = 0.2
"""Seconds between two looks."""
_CHUNK = 1 << 20


class GrowingFile:
    """The lines of a file that grows, and can be replaced by one with the same beginning.

    Attributes:
        began_again: number of times the file was shorter than the part that had been read. It is then read from its
            beginning.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began_again = 0
        self._offset = 0
        self._rest = b""

    def lines(self) -> Iterator[bytes]:
        """Return the complete lines since the last call, without their newline; none while there is no file."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if file.seek(0, 2) < self._offset:
                self.began_again += 1
                self._offset, self._rest = 0, b""
            file.seek(self._offset)
            while chunk := file.read(_CHUNK):
                self._offset += len(chunk)
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                yield from lines

    def rest(self) -> bytes:
        """Return the unfinished last line, once."""
        rest, self._rest = self._rest, b""
        return rest


class Audience:
    """The reader of our stdout. It is polled: a pipe reports that it is closed only to a writer."""

    def __init__(self) -> None:
        self._place = self._where()

    def gone(self) -> bool:
        """True once the other end of the pipe is closed."""
        if self._place is None:
            return False
        if self._where() != self._place:  # a write has met the closed end before us
            return True
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))

    @staticmethod
    def _where() -> tuple[int, int] | None:
        try:
            status = os.fstat(sys.stdout.fileno())
        except (OSError, ValueError):
            return None
        return status.st_dev, status.st_ino

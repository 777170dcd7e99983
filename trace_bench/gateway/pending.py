"""Files of calls that were sent to a provider and have no line in the cassette yet, in the folder ``llm.asked``.

The process that sends the call writes its file: the call, flushed to the disk before the request leaves this machine;
every failed try; and the answer, flushed before the controller gets it. The controller removes the file when the line
is in the cassette. So an answer outlives its controller, and the next controller finds it.

The writer holds a lock on the file. A reader that gets the lock knows that the writer has ended: a request without an
answer may then have been paid, and its answer is lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.calls import LlmTry
from trace_bench.artifacts.writers import Journal, make_folders, read_journal

Head = Mapping[str, Any]
"""What a cassette's line says of a call before it is answered, with ``path`` and ``body`` of the request."""


@dataclass(frozen=True)
class PendingRecord:
    """Where a provider process records a call while it is under way.

    Attributes:
        on_lost: called with all tries when a request was sent and its answer is lost. The call may then be sent again.
    """

    path: Path
    head: Head
    on_lost: Callable[[tuple[LlmTry, ...]], None]


class PendingFile:
    """The writer of one call's file, which is made before the first try. One process writes it."""

    def __init__(self, path: Path, head: Head) -> None:
        self._path = path
        self._head = dict(head)
        self._journal: Journal | None = None
        self._lock = -1
        self._last: dict[str, Any] = {}

    @property
    def begun(self) -> bool:
        """Whether a request may have been sent."""
        return self._journal is not None

    def begin_try(self) -> None:
        """Record that a request is about to be sent.

        Raises:
            OSError: the file cannot be written, or another controller has removed it. Nothing may be sent.
        """
        if self._journal is not None:
            self._journal.append({"again": True})
            return
        make_folders(self._path.parent)
        self._lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock).st_nlink == 0:
                raise FileNotFoundError(f"{self._path} is gone")
            self._journal = Journal(self._path, durable=True)
            self._journal.append({"asked": self._head})
        except BaseException:
            os.close(self._lock)
            self._lock = -1
            raise

    def end_try(self, made: LlmTry) -> None:
        """Record a try that failed. One that succeeded is recorded with its answer."""
        self._last = {} if made.error else {"try": made.model_dump()}
        if made.error and self._journal is not None:
            self._journal.append({"try": made.model_dump()})

    def answered(self, answer: Mapping[str, Any]) -> None:
        """Record the answer, or the error after which no further try is made."""
        if self._journal is not None:
            self._journal.append({**self._last, "answer": dict(answer)})

    def discard(self) -> None:
        """Remove the file: nothing was sent."""
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            os.close(self._lock)
            self._journal = None


@dataclass(frozen=True)
class PendingCall:
    """What the file of a call says.

    Attributes:
        head: empty if nothing was sent.
        tries: those that have ended, as far as is known.
        answer: the provider's answer or the final error; None if there is neither.
        lost: the answer to the last request is not known.
    """

    head: Head
    tries: tuple[LlmTry, ...] = ()
    answer: Mapping[str, Any] | None = None
    lost: bool = False


def read_pending(path: Path) -> PendingCall | None:
    """The call in the file at `path`; None if nothing was sent.

    Raises:
        BlockingIOError: its writer is still at work.
        HarnessError: the file is damaged.
    """
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lines = read_journal(path).lines
        if not lines:
            path.unlink(missing_ok=True)  # while the lock is held: a late writer then sends nothing
            return None
    finally:
        os.close(lock)
    tries = tuple(LlmTry.model_validate(line["try"]) for line in lines if "try" in line)
    answer = next((line["answer"] for line in lines if "answer" in line), None)
    return PendingCall(lines[0]["asked"], tries, answer, lost=answer is None and "try" not in lines[-1])

"""Calls that are with a provider and have no line in the cassette yet: a file each, in the folder ``llm.asked``.

The process that asks the provider writes the file: the call, flushed before the request leaves this machine; every try;
and the answer, flushed before the controller gets it. The file goes once the line is in the cassette. So an answer
outlives the controller that wanted it, and the next one finds it.

The writer holds a lock on the file. A reader that gets the lock knows that nothing more will come: a request without
an answer may then have been paid, and its answer is lost.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.records import LlmTry
from trace_bench.artifacts.writers import Journal, make_folders, read_journal


@dataclass(frozen=True)
class Keep:
    """Where a call is written down while it is with a provider that is asked by another process.

    Attributes:
        head: what makes a line of the cassette of an answer.
        lost: called, with all tries, when a request was sent whose answer is lost. The call may then be sent again.
    """

    path: Path
    head: Mapping[str, Any]
    lost: Callable[[tuple[LlmTry, ...]], None]


class AskedFile:
    """A call that is about to be sent. One process writes it.

    Args:
        path: of the file, which is made.

    Raises:
        OSError: it cannot be written, or another controller has taken it away meanwhile. Nothing may be sent.
    """

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self._path = path
        make_folders(path.parent)
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock).st_nlink == 0:
                raise FileNotFoundError(f"{path} is gone")
            self._journal = Journal(path, durable=True)
            self._journal.append({"asked": dict(head)})
        except BaseException:
            os.close(self._lock)
            raise

    def failed(self, made: LlmTry) -> None:
        """A try has come to nothing."""
        self._journal.append({"try": made.model_dump()})

    def again(self) -> None:
        """The request is about to be sent once more."""
        self._journal.append({"again": True})

    def answered(self, answer: Mapping[str, Any], made: LlmTry | None) -> None:
        """The last word, and the try that brought it; None where no try did."""
        last = {} if made is None else {"try": made.model_dump()}
        self._journal.append({**last, "answer": dict(answer)})

    def discard(self) -> None:
        """Nothing was sent."""
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        self._journal.close()
        os.close(self._lock)


@dataclass(frozen=True)
class Left:
    """What is known of a call that was sent.

    Attributes:
        tries: those that have ended, as far as is known.
        answer: the provider's, or the failure after which it was not asked again; None where there is neither.
        lost: the answer to the last request is not known.
    """

    head: Mapping[str, Any]
    tries: tuple[LlmTry, ...]
    answer: Mapping[str, Any] | None
    lost: bool


def left_at(path: Path) -> Left | None:
    """What the file at `path` says; None if nothing was sent.

    Raises:
        BlockingIOError: its writer is at work.
        HarnessError: it is damaged.
    """
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lines = read_journal(path).lines
        if not lines:
            path.unlink(missing_ok=True)  # while the lock is held: a writer that comes late sends nothing
            return None
    finally:
        os.close(lock)
    tries = tuple(LlmTry.model_validate(line["try"]) for line in lines if "try" in line)
    answer = next((line["answer"] for line in lines if "answer" in line), None)
    return Left(lines[0]["asked"], tries, answer, lost=answer is None and "try" not in lines[-1])


def files_in(folder: Path) -> list[Path]:
    """The files of calls that have no line yet, in the order in which they were made."""
    return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []

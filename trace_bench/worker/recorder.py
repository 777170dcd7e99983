"""Writes the job's files at ``/out``. Only the supervisor has one; phases report, they do not write."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
"""How a file system says that it, or what one may have of it, is used up."""


class Recorder:
    """The files of ``/out``, written so that a job that is stopped at any instant has everything up to then.

    A full volume ends no job: a part of it is kept free from the beginning, and what does not fit even there is
    left out whole, and counted.

    Args:
        stdout_bytes: cap of ``stdout.log``; what is beyond is counted, not kept.
        reserve_bytes: what is kept free, at most an eighth of what is free now: half of it for lines and states, half
            for the result alone.

    Attributes:
        full: the volume had no room for what was to be written.
        lost: lines, states and pieces of output that are not there for want of room.
    """

    def __init__(self, out: Path, stdout_bytes: int, reserve_bytes: int = 0) -> None:
        self._out = out
        self._started = time.monotonic()
        disk = os.statvfs(out)
        half = min(reserve_bytes // 2, disk.f_bavail * disk.f_frsize // 16)
        self._reserves = [_reserved(out, half), _reserved(out, half)]
        self._events = _appended(out / "events.jsonl")
        self._history = _appended(out / "state_history.jsonl")
        self._log = _appended(out / "stdout.log")
        self._log_left = stdout_bytes
        self.states: dict[str, dict[str, Any]] = {}
        self.full = False
        self.lost = 0

    def seconds(self) -> float:
        """Since the job started in this sandbox."""
        return round(time.monotonic() - self._started, 6)

    def event(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Append an event; returns the line."""
        line = {
            "t": self.seconds(),
            "event": kind,
            **{k: v for k, v in fields.items() if k not in ("t", "event")},
        }
        self._append(self._events, line)
        return line

    def history(self, line: dict[str, Any]) -> dict[str, Any]:
        """Append an evaluated step; returns the line as it was written."""
        self._append(self._history, line)
        written: dict[str, Any] = json.loads(_text(line))
        return written

    def _append(self, file: int, line: dict[str, Any]) -> None:
        # One write per line: a reader never sees half of one unless the machine itself stops.
        self._fitted(lambda: _add(file, (_text(line) + "\n").encode()))

    def _fitted(self, write: Callable[[], None], kept: int = 1) -> bool:
        """Do `write`, if need be with what was kept free; False if there is no room for it even then.

        Args:
            kept: of the two halves, how many stay as they are.
        """
        for _ in range(2):
            try:
                write()
                return True
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self.full = True
                while len(self._reserves) > kept:
                    file = self._reserves.pop()
                    if file is not None:
                        os.close(file)
        self.lost += 1
        return False

    def state(self, kind: str, values: dict[str, Any]) -> None:
        """Save the ``initial``, ``best`` or ``final`` state."""
        self.states[kind] = values
        self._fitted(lambda: self._replace("states.json", self.states))

    def result(self, result: dict[str, Any]) -> bool:
        """Write ``result.json``: from here on the volume is complete. False if there is no room for it."""
        # Flushed, and all that it speaks of before it: after a power cut an empty file beside it would be taken for the
        # trainer's doing. Without a result the rest is not read.
        self._flush("states.json", "events.jsonl", "state_history.jsonl", ".")
        if not self._fitted(lambda: self._replace("result.json", result), kept=0):
            return False
        self._flush(".")
        return True

    def _replace(self, name: str, value: Any) -> None:
        temporary = self._out / f".{name}.tmp"
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(_text(value))
                file.flush()
                if name == "result.json":
                    os.fsync(file.fileno())
        except OSError:
            # What it took would be lacking elsewhere.
            temporary.unlink(missing_ok=True)
            raise
        temporary.replace(self._out / name)

    def _flush(self, *names: str) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                file = os.open(self._out / name, os.O_RDONLY)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)

    def log(self, data: bytes) -> bool:
        """Append captured output; False once the cap is reached."""
        kept = data[: max(0, self._log_left)]
        if kept:
            self._fitted(lambda: _add(self._log, kept))
        self._log_left -= len(data)
        return self._log_left >= 0


def _appended(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _add(file: int, data: bytes) -> None:
    """Append `data` whole, or nothing of it."""
    end = os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        os.ftruncate(file, end)
        raise


def _reserved(out: Path, size: int) -> int | None:
    """A file without a name that holds `size` bytes of the volume until it is closed; None where that cannot be had."""
    if size <= 0:
        return None
    with contextlib.suppress(OSError):
        path = out / ".reserve"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        path.unlink()
        with contextlib.suppress(OSError):  # not every file system can
            os.posix_fallocate(file, 0, size)
        return file
    return None


def _text(value: Any) -> str:
    # Candidates return any string, and evaluators quote them: half a surrogate pair becomes a question mark, for the
    # host refuses a file that holds one.
    return (
        json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        .encode("utf-8", "replace")
        .decode()
    )

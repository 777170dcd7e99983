"""Writes the job's files at ``/out``. Only the supervisor has one; phases report, they do not write."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class Recorder:
    """The files of ``/out``, written so that a job that is stopped at any instant has everything up to then.

    Args:
        stdout_bytes: cap of ``stdout.log``; what is beyond is counted, not kept.
    """

    def __init__(self, out: Path, stdout_bytes: int) -> None:
        self._out = out
        self._started = time.monotonic()
        self._events = (out / "events.jsonl").open("a", encoding="utf-8")
        self._history = (out / "state_history.jsonl").open("a", encoding="utf-8")
        self._log = (out / "stdout.log").open("ab")
        self._log_left = stdout_bytes
        self.states: dict[str, dict[str, Any]] = {}

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

    @staticmethod
    def _append(file: Any, line: dict[str, Any]) -> None:
        # One write per line: a reader never sees half of one unless the machine itself stops.
        file.write(_text(line) + "\n")
        file.flush()

    def state(self, kind: str, values: dict[str, Any]) -> None:
        """Save the ``initial``, ``best`` or ``final`` state."""
        self.states[kind] = values
        self._replace("states.json", self.states)

    def result(self, result: dict[str, Any]) -> None:
        """Write ``result.json``: from here on the volume is complete."""
        self._replace("result.json", result)

    def _replace(self, name: str, value: Any) -> None:
        # Flushed: after a power cut an empty file would be taken for the trainer's doing.
        temporary = self._out / f".{name}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(_text(value))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._out / name)
        folder = os.open(self._out, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def log(self, data: bytes) -> bool:
        """Append captured output; False once the cap is reached."""
        kept = data[: max(0, self._log_left)]
        self._log.write(kept)
        self._log.flush()
        self._log_left -= len(data)
        return self._log_left >= 0


def _text(value: Any) -> str:
    # Candidates return any string, and evaluators quote them: half a surrogate pair becomes a question mark, for the
    # host refuses a file that holds one.
    return (
        json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        .encode("utf-8", "replace")
        .decode()
    )

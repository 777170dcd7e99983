"""The supervisor's part in checkpoints: it passes lines on, and reads none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trace_bench.worker import reports
from trace_bench.worker.clocks import TrainClock
from trace_bench.worker.phase_process import PhaseProcess

_LINES = 64
"""Handed over at a time."""


class CheckpointRelay:
    """Passes the results of earlier attempts to the train phase, and new ones to the host.

    Args:
        clock: of training; what was known before sets it.
        send: called with kind, fields and body of each message for the host.
        event: called with kind and fields of an event.
    """

    def __init__(
        self,
        clock: TrainClock,
        send: Callable[[str, dict[str, Any], bytes], None],
        event: Callable[[str, dict[str, Any]], object],
    ) -> None:
        self._clock = clock
        self._send = send
        self._event = event
        self._known = b""
        self._left = reports.CHECKPOINT_BYTES

    def split(self, header: dict[str, Any], blob: bytes) -> bytes:
        """Take the earlier results from the end of the blob of a ``job`` message; returns the rest, the task."""
        size = int(header.get("checkpoint_bytes", 0))
        self._known = blob[len(blob) - size :]
        self._clock.before = float(header.get("seconds_before", 0.0)) if size else 0.0
        return blob[: len(blob) - size]

    def hand_over(self, train: PhaseProcess) -> None:
        """Send the earlier results to the train phase. Candidates and the scorer must not get them."""
        lines, self._known = self._known.splitlines(keepends=True), b""
        for start in range(0, len(lines), _LINES):
            text = b"".join(lines[start : start + _LINES]).decode("utf-8", "replace")
            train.send("checkpoint", text=text)

    def pass_on(self, line: object, now: float) -> None:
        """Give a line of the train phase to the host. What is too large ends the checkpoint.

        Raises:
            ValueError: it is no line.
        """
        data = reports.checkpoint_line(line)
        if self._left <= 0:
            return
        self._left -= len(data)
        if self._left <= 0 or len(data) > reports.CHECKPOINT_LINE_BYTES:
            self._left = 0
            self._event("checkpoint.ended", {"reason": f"its lines have more than {reports.CHECKPOINT_BYTES} bytes"})
        else:
            self._send("checkpoint", {"seconds": round(self._clock.seconds(now), 6)}, data)

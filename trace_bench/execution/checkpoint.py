"""The results of a search's evaluations, kept for another attempt (`trace_bench.worker.checkpoint`).

It comes from the trainer's process and goes back to the trainer's process, so it cannot change official scores. The
host checks only its form and size.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.outputs import CheckpointHead, CheckpointLine
from trace_bench.artifacts.writers import Journal, read_journal
from trace_bench.errors import HarnessError
from trace_bench.worker.control_stream import MAX_MESSAGE
from trace_bench.worker.reports import CHECKPOINT_BYTES, CHECKPOINT_LINE_BYTES


class CheckpointFile:
    """``checkpoint.jsonl`` of one job, while an attempt at it is made.

    Args:
        aside: the path to which a checkpoint is moved that cannot be used.

    Attributes:
        known: results of earlier attempts: JSON lines, as they go into the sandbox.
        seconds: of training in those attempts, up to the last line.
        warnings: sentences for the record of the job.

    Raises:
        OSError: the disk does not take it.
    """

    def __init__(self, path: Path, fingerprint: str, aside: Path) -> None:
        self.warnings: list[str] = []
        self.seconds = 0.0
        self.known = b""
        self._size = 0
        self._full = False
        found = self._found(path, fingerprint)
        if found is None and path.exists():
            path.replace(aside)
        self._journal = Journal(path)
        self._journal.forget()
        if found is None:
            self.seconds = 0.0
            self._journal.append(CheckpointHead(fingerprint=fingerprint))
        else:
            self.known = b"".join(found)
            self._size = len(self.known)

    def beside(self, task: bytes) -> tuple[bytes, float]:
        """The lines that go into the sandbox in one message with `task`, and the seconds of training in them."""
        if self.known and len(task) + len(self.known) > MAX_MESSAGE - (1 << 20):
            self.warnings.append("the checkpoint of an earlier attempt has no room beside the task, and was not used")
            return b"", 0.0
        return self.known, self.seconds

    def add(self, data: bytes, seconds: Any) -> None:
        """Keep a line that came from the sandbox. Invalid lines, and those beyond the limit, are dropped."""
        if self._full or len(data) > CHECKPOINT_LINE_BYTES or type(seconds) not in (int, float):
            return
        try:
            line = CheckpointLine.model_validate({**jsonio.loads(data), "seconds": seconds})
        except (jsonio.JsonError, ValidationError, TypeError, RecursionError, OverflowError):
            return
        self._size += len(data)
        if self._size > CHECKPOINT_BYTES:
            self._full = True
            return
        try:
            self._journal.append(line)
        except OSError as error:
            self._full = True
            self.warnings.append(f"the checkpoint could not be written any further: {error.strerror or error}")

    def close(self) -> None:
        self._journal.close()

    def _found(self, path: Path, fingerprint: str) -> list[bytes] | None:
        """The lines of the file, each evaluation once; None if they cannot be used."""
        try:
            lines = read_journal(path).lines
            head = CheckpointHead.model_validate(lines[0]) if lines else None
            found = list(self._lines(lines[1:]))
        except (HarnessError, ValidationError) as error:
            why = jsonio.explain(error) if isinstance(error, ValidationError) else str(error)
            self.warnings.append(f"the checkpoint of an earlier attempt is damaged and was not used: {why}")
            return None
        if head is not None and head.fingerprint != fingerprint:
            self.warnings.append(
                "the checkpoint of an earlier attempt is of another task, image, code, budget or limit and was not used"
            )
            return None
        return found if head is not None else None

    def _lines(self, lines: tuple[dict[str, Any], ...]) -> Iterator[bytes]:
        known: set[tuple[str, int]] = set()
        for plain in lines:
            line = CheckpointLine.model_validate(plain)
            self.seconds = max(self.seconds, line.seconds)
            if (line.key, line.nth) not in known:  # a dead controller may not have acknowledged it
                known.add((line.key, line.nth))
                yield (jsonio.dumps(line.model_dump(mode="json")) + "\n").encode()

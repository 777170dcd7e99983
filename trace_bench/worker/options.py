"""How the processes of a sandbox are started, and the uids that they run under."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PHASE_OFFSETS = {"build": 0, "train": 1, "score": 2}
CANDIDATE_OFFSETS = range(4, 16)
SWEEPER_OFFSET = 3
"""Real uid of the helpers that act on another uid's behalf; nothing ever runs as it."""


@dataclass(frozen=True)
class Options:
    """How processes are started.

    Attributes:
        uid_base: the first uid of the job's block of 16. None: everything runs as the user (the local backend).
        tmp: the folder for the task and for each phase's home.
        file_bytes: the largest file that a phase may write.
        phase_processes: how many processes and threads a phase may have.
    """

    uid_base: int | None
    tmp: Path
    file_bytes: int
    phase_processes: int = 128

    def uid_of(self, phase: str) -> int | None:
        """The uid that `phase` runs under; None if it runs as the user."""
        return None if self.uid_base is None else self.uid_base + PHASE_OFFSETS[phase]

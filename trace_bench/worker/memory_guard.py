"""Chooses the process to kill when memory runs out under gVisor, whose processes are one to the host's kernel.

On Linux ``oom_score_adj`` decides: candidates, then phases, then the supervisor. Under gVisor the host sees one process
that holds the memory of all, and kills that: the whole sandbox would end, with its job, for what a candidate did. So
the spawner looks at what is left and acts before the host does; gVisor's ``/proc/meminfo`` is that of the sandbox, its
limit and all.

A candidate's own limit is what is left when it starts, if it asks for more: a look that comes late, on a busy machine,
does no harm then. A look costs 0.2 ms. Between two looks one core fills about 25 MB; the reserve is for that, and for
what gVisor needs for itself, which its ``meminfo`` does not count.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

INTERVAL = 0.02
RESERVE = 128 << 20
LEAST = 32 << 20
RELEASE = 1.0
"""Seconds that gVisor has to give back what a killed candidate held, before a phase is blamed for it."""
_MEMINFO = Path("/proc/meminfo")
_GVISOR = Path("/proc/sentry-meminfo")
"""Only gVisor has this file."""


class MemoryGuard:
    """Chooses the uid whose processes are killed. `interval` is None where the kernel takes care of it."""

    def __init__(self, meminfo: Path = _MEMINFO, *, gvisor: bool | None = None) -> None:
        self._meminfo = meminfo
        here = _GVISOR.exists() if gvisor is None else gvisor
        self.interval = INTERVAL if here else None
        self._last_candidate = -math.inf

    def room(self, asked: int) -> int:
        """Bytes that a candidate may have beyond what it starts with: `asked`, or what is left now if that is less.

        One that stays within its limit then cannot reach the sandbox's, however late a look comes.
        """
        if self.interval is None:
            return asked
        total, free = self._left()
        # Half as much again as the reserve: a candidate within this limit must never cause a kill.
        return min(asked, max(LEAST, free - _reserve(total) * 3 // 2))

    def victim(self, candidates: Iterable[int], phases: Iterable[int], now: float) -> int | None:
        """The uid that must go now: of the candidates the one with most memory, of the phases if there is none and half
        of the reserve is used up. None while enough is left, or soon will be.

        Args:
            now: seconds of a monotonic clock.
        """
        if self.interval is None:
            return None
        total, free = self._left()
        if free >= _reserve(total):
            return None
        held = memory_by_uid()
        candidate = _largest(candidates, held)
        if candidate is not None:
            self._last_candidate = now
            return candidate
        if free >= _reserve(total) // 2 or now - self._last_candidate < RELEASE:
            return None
        return _largest(phases, held)

    def _left(self) -> tuple[int, int]:
        """Bytes of the sandbox's limit, and of what is left of it."""
        lines = dict(line.split(":", 1) for line in self._meminfo.read_text().splitlines()[:8])
        total, free = (int(lines[key].split()[0]) << 10 for key in ("MemTotal", "MemFree"))
        return total, free


def _reserve(total: int) -> int:
    return min(RESERVE, total // 4)


def _largest(uids: Iterable[int], held: Mapping[int, int]) -> int | None:
    return max((uid for uid in uids if held.get(uid)), key=lambda uid: held[uid], default=None)


def memory_by_uid(proc: Path = Path("/proc")) -> dict[int, int]:
    """Resident pages of the processes of each uid together; shared pages count for each of them."""
    found: dict[int, int] = {}
    for name in os.listdir(proc):  # noqa: PTH208 - names only, and it is on a hot path
        if not name.isdigit():
            continue
        try:
            uid = os.stat(proc / name).st_uid  # noqa: PTH116 - hot path
            pages = int((proc / name / "statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
        found[uid] = found.get(uid, 0) + pages
    return found

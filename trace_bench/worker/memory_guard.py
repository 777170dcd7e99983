"""Who goes first when memory runs out under gVisor, whose processes the host's kernel cannot tell apart.

On Linux ``oom_score_adj`` decides: candidates, then phases, then the supervisor. Under gVisor the host sees one process
that holds the memory of all, and kills that: the whole sandbox would end, with its job, for what a candidate did. So
the spawner looks at what is left and acts before the host does; gVisor's ``/proc/meminfo`` is that of the sandbox, its
limit and all.

A look costs 0.2 ms. Between two looks one core fills about 25 MB; `RESERVE` is for that, and for what gVisor needs for
itself, which its ``meminfo`` does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

INTERVAL = 0.02
RESERVE = 128 << 20
_MEMINFO = Path("/proc/meminfo")
_GVISOR = Path("/proc/sentry-meminfo")
"""Only gVisor has this file."""


class MemoryGuard:
    """Says whose processes are to be killed. `interval` is None where the kernel takes care of it."""

    def __init__(self, meminfo: Path = _MEMINFO, *, gvisor: bool | None = None) -> None:
        self._meminfo = meminfo
        here = _GVISOR.exists() if gvisor is None else gvisor
        self.interval = INTERVAL if here else None

    def victim(self, candidates: Iterable[int], phases: Iterable[int]) -> int | None:
        """The uid that must go now: of the candidates the one with most memory, of the phases if there is none.

        None while enough is left.
        """
        if self.interval is None:
            return None
        total, free = self._left()
        if free >= min(RESERVE, total // 4):
            return None
        held = memory_by_uid()
        for uids in (candidates, phases):
            found = max((uid for uid in uids if held.get(uid)), key=lambda uid: held[uid], default=None)
            if found is not None:
                return found
        return None

    def _left(self) -> tuple[int, int]:
        """Bytes of the sandbox's limit, and of what is left of it."""
        lines = dict(line.split(":", 1) for line in self._meminfo.read_text().splitlines()[:8])
        total, free = (int(lines[key].split()[0]) << 10 for key in ("MemTotal", "MemFree"))
        return total, free


def memory_by_uid(proc: Path = Path("/proc")) -> dict[int, int]:
    """Resident pages of the processes of each uid together; pages that are shared count for everybody."""
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

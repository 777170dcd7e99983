"""What the kernel reports of the memory of this sandbox: its limit, its peak, and processes killed for want of it.

The memory control group of a container can be read from inside, at ``/sys/fs/cgroup`` (version 1: its folder
``memory``). Where there is no limit the group is the machine's, and says nothing about this sandbox.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 says "none" by a number of pages that no machine has."""


def account(root: Path = ROOT) -> dict[str, int | None] | None:
    """``limit_bytes``, ``peak_bytes`` (None from kernels that do not say) and ``oom_kills`` so far; None if it
    is not known, or there is no limit."""
    old = root / "memory"
    limit = _number(old / "memory.limit_in_bytes") or _number(root / "memory.max")
    kills = _field(old / "memory.oom_control", "oom_kill")
    if kills is None:
        kills = _field(root / "memory.events", "oom_kill")
    if limit is None or limit >= _NO_LIMIT or kills is None:
        return None
    peak = _number(old / "memory.max_usage_in_bytes")
    return {
        "limit_bytes": limit,
        "peak_bytes": _number(root / "memory.peak") if peak is None else peak,
        "oom_kills": kills,
    }


def oom_kills(root: Path = ROOT) -> int | None:
    """Processes of this sandbox that the kernel has killed for want of memory; None if it is not known."""
    found = account(root)
    return found["oom_kills"] if found is not None else None


def kills_since(before: int | None) -> int | None:
    """How many it has killed since there were `before`; None if either is not known."""
    after = oom_kills()
    return after - before if after is not None and before is not None else None


def said() -> str:
    """The limit, for a sentence."""
    found = account()
    size = found["limit_bytes"] if found is not None else None
    return f"the sandbox may use {size / 2**20:.0f} MiB" if size is not None else "the sandbox has a limit"


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _field(path: Path, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return None

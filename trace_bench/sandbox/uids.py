"""Each running job has a block of uids of its own on this machine.

``RLIMIT_NPROC`` counts processes per uid over all containers, so two jobs that shared a uid could starve each other.
A block is locked while its job runs (`trace_bench.sandbox.locks`). A container can outlive its controller, and with it
the lock. So a controller that adopts a sandbox locks its block again (`UidBlocks.adopt`; the base is in the label
``trace-bench.uid-base``), and `UidBlocks.acquire` leaves out blocks that sandboxes of the engine still use.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.sandbox.locks import default_directory, is_locked, lock_within, try_lock

BLOCK = 16
"""Uids of one job."""
DEFAULT_BASE = 0x70000000
"""Above all uids of people, services, directory services, containers and ``subuid`` ranges. systemd's table of uids
lists it as unused."""
MAPPED_BASE = 20_000
"""On engines that map uids (rootless, userns-remap) only 0-65535 exist inside, and none of them is a user's."""
SLOTS = 2048
_ADOPT_SECONDS = 0.5


class UidBlock:
    """The uids ``base … base + 15``, held until `release`. A context manager."""

    def __init__(self, base: int, lock: int) -> None:
        self.base = base
        self._lock: int | None = lock

    @property
    def held(self) -> bool:
        return self._lock is not None

    def release(self) -> None:
        """Free the block. A second call does nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class UidBlocks:
    """Hands out blocks, one per running job, over all controllers and users of this machine.

    Args:
        base: first uid of the first block.
        directory: where the lock files are; all controllers of a machine must use the same.
        slots: number of blocks.
    """

    def __init__(self, base: int = DEFAULT_BASE, directory: Path | None = None, slots: int = SLOTS) -> None:
        if base <= 0 or base + slots * BLOCK > 2**31:
            raise EnvironmentUnavailable(
                f"uid blocks: base {base} leaves no room for {slots} blocks; choose another base."
            )
        self.base = base
        self.slots = slots
        self.directory = directory or default_directory()
        self._own: dict[int, UidBlock] = {}

    def acquire(self, taken: Iterable[int] = ()) -> UidBlock:
        """The first free block.

        Args:
            taken: bases that must not be used although they are not locked.

        Raises:
            EnvironmentUnavailable: all blocks are in use, or uids of this range belong to users of the machine.
        """
        avoid = frozenset(taken)
        users = 0
        for slot in range(self.slots):
            base = self.base + slot * BLOCK
            own = self._own.get(base)
            if base in avoid or (own is not None and own.held):  # known without opening a file
                continue
            lock = try_lock(self._path(base))
            if lock is None:
                continue
            if _belongs_to_user(base):
                os.close(lock)
                users += 1
                continue
            self._own[base] = UidBlock(base, lock)
            return self._own[base]
        reason = f"{users} of them belong to users of this host" if users else "jobs are running on them"
        raise EnvironmentUnavailable(
            f"none of the {self.slots} uid blocks from {self.base} on is free: {reason}; "
            "choose another base or run fewer jobs."
        )

    def adopt(self, base: int) -> UidBlock:
        """The block of a sandbox that another controller left behind.

        Raises:
            EnvironmentUnavailable: a controller that is alive holds it.
        """
        lock = lock_within(self._path(base), _ADOPT_SECONDS)
        if lock is None:
            raise EnvironmentUnavailable(
                f"uid block {base} is held by a controller that is alive; that one owns the sandbox."
            )
        return UidBlock(base, lock)

    def is_held(self, base: int) -> bool:
        """Whether a controller holds the block of `base`."""
        return is_locked(self._path(base))

    def _path(self, base: int) -> Path:
        return self.directory / f"uid-{base}.lock"


def _belongs_to_user(base: int) -> bool:
    """Whether a uid of the block is a user's, or in a range that a user may use for containers."""
    for uid in (base, base + BLOCK - 1):
        with contextlib.suppress(KeyError):
            pwd.getpwuid(uid)
            return True
    return any(start < base + BLOCK and base < start + count for start, count in _subuid_ranges())


def _subuid_ranges() -> list[tuple[int, int]]:
    path = Path("/etc/subuid")
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    rows = [line.split(":") for line in lines]
    return [(int(row[1]), int(row[2])) for row in rows if len(row) == 3 and row[1].isdigit() and row[2].isdigit()]

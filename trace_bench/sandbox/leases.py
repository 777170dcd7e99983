"""What a running job has for itself on one machine: whole GPUs, cores, or the machine.

A lease is files that are locked with ``flock`` while the job runs, in the folder of `trace_bench.sandbox.uids`, so that
it holds among all controllers and users of the controller's host, and the kernel frees that of a dead holder. What a
sandbox holds whose controller died, or whose controller is on another host, stands in its labels: whoever leases says
what is taken by those (`Taken`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.sandbox.uids import default_directory, open_shared


@dataclass(frozen=True)
class Taken:
    """What sandboxes of a host hold by their labels, whoever made them."""

    devices: frozenset[str] = frozenset()
    cores: frozenset[int] = frozenset()
    exclusive: bool = False
    anything: bool = False
    """Whether any sandbox is there at all."""


@dataclass
class Lease:
    """What one job holds until `release`."""

    devices: tuple[str, ...] = ()
    cpuset: tuple[int, ...] = ()
    locks: list[int] = field(default_factory=list)

    def release(self) -> None:
        """Free it; twice does no harm."""
        while self.locks:
            os.close(self.locks.pop())


class Leases:
    """Hands out leases of one machine.

    Args:
        scope: `Host.scope` of the machine.
        directory: where the lock files are; all controllers of a host must use the same.
    """

    def __init__(self, scope: str, directory: Path | None = None) -> None:
        self._name = hashlib.sha256(scope.encode()).hexdigest()[:16]
        self._directory = directory

    def take(
        self,
        *,
        devices: Sequence[str] = (),
        gpus: int = 0,
        cores: int = 0,
        of_cores: Iterable[int] = (),
        exclusive: bool = False,
        taken: Taken | None = None,
    ) -> Lease | None:
        """A lease of all that is asked for, or None if it is not to be had now.

        Args:
            devices: the GPUs of the machine, of which `gpus` are wanted.
            of_cores: the cores of the machine, of which `cores` are wanted.
            exclusive: nobody else may hold a lease of the machine, not even an empty one.
        """
        taken = taken or Taken()
        if taken.exclusive or (exclusive and taken.anything):
            return None
        lease = Lease()
        try:
            if not self._lock(lease, "host", fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH):
                return None
            found = self._some(lease, "gpu", [d for d in devices if d not in taken.devices], gpus)
            held = self._some(lease, "core", [str(c) for c in of_cores if c not in taken.cores], cores)
            if len(found) == gpus and len(held) == cores:
                lease.devices, lease.cpuset = tuple(found), tuple(map(int, held))
                whole, lease = lease, Lease()
                return whole
            return None
        finally:
            lease.release()

    def _some(self, lease: Lease, kind: str, names: Iterable[str], count: int) -> list[str]:
        found: list[str] = []
        for name in names:
            if len(found) == count:
                break
            if self._lock(lease, f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:16]}", fcntl.LOCK_EX):
                found.append(name)
        return found

    def _lock(self, lease: Lease, what: str, kind: int) -> bool:
        folder = self._directory or default_directory()
        descriptor = open_shared(folder / f"lease-{self._name}-{what}.lock")
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            lease.locks.append(descriptor)
            return True
        os.close(descriptor)
        return False

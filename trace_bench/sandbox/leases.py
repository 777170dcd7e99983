"""What a running job has for itself on one machine: whole GPUs, cores, or the machine.

A lease is files that are locked with ``flock`` while the job runs, in the folder of `trace_bench.sandbox.uids`, so that
it holds among all controllers and users of the controller's host, and the kernel frees that of a dead holder. What a
sandbox holds whose controller died, or whose controller is on another host, stands in its labels (`Taken`). These are
asked for once the locks are held: from then on nobody of this host can make a sandbox with the same devices, so that no
answer is too old.

Who waits leaves a mark, a locked file too, and nobody overtakes a mark: neither a machine that is wanted quiet nor
several GPUs at once would come free otherwise. Who waits for the machine heeds the mark of whoever else does, who waits
for GPUs or cores that and the mark of others of that kind, and no running job heeds any: so nobody waits in a circle.
Whoever had the machine to itself lets others that wait, for anything, go before it has it again (`GRACE`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from trace_bench.config.gpus import device_of
from trace_bench.sandbox.labels import CPUSET, DEVICES, EXCLUSIVE
from trace_bench.sandbox.uids import default_directory, open_shared

GRACE = 1.0
"""Seconds for which whoever had the machine to itself lets others begin, if any wait: a queue of such jobs would keep
them out until its end. Who waits looks more often than that."""
_PATIENCE = 2.0
"""Seconds that `Leases.adopt` tries: somebody who looks holds a lock until the engine has answered."""


@dataclass(frozen=True)
class Taken:
    """What sandboxes of a host hold by their labels, whoever made them."""

    devices: frozenset[str] = frozenset()
    cores: frozenset[int] = frozenset()
    exclusive: bool = False
    anything: bool = False
    """Whether any sandbox is there at all."""

    @classmethod
    def by(cls, sandboxes: Iterable[Mapping[str, str]]) -> Taken:
        """What sandboxes with these labels hold."""
        found = list(sandboxes)
        return cls(
            frozenset(device for labels in found for device in devices_in(labels)),
            frozenset(core for labels in found for core in cores_in(labels)),
            any(EXCLUSIVE in labels for labels in found),
            bool(found),
        )


@runtime_checkable
class Shared(Protocol):
    """A backend on whose hosts there may be sandboxes of other controllers."""

    def taken(self, host: str) -> Taken:
        """What sandboxes of `host` hold that have not ended, whoever owns them.

        Raises:
            SandboxError: it cannot be asked.
        """


def devices_in(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the GPUs that a sandbox with `labels` holds."""
    return tuple(name for name in labels.get(DEVICES, "").split(",") if name)


def cores_in(labels: Mapping[str, str]) -> tuple[int, ...]:
    """Likewise, its cores."""
    return tuple(int(core) for core in labels.get(CPUSET, "").split(",") if core.isdecimal())


@dataclass
class Lease:
    """What one job holds until `release`.

    Attributes:
        whole: everything that was asked for is held. Only that of an adopted sandbox can be otherwise, where somebody
            else has meanwhile locked what it holds; its sandbox may end, and no other may be made with it.
    """

    devices: tuple[str, ...] = ()
    cpuset: tuple[int, ...] = ()
    exclusive: bool = False
    whole: bool = True
    locks: list[int] = field(default_factory=list)
    shares: Leases | None = None
    alone_on: Leases | None = None

    def release(self) -> None:
        """Free it; twice does no harm."""
        alone_on, self.alone_on = self.alone_on, None
        if alone_on is not None:
            alone_on._was_alone()
        while self.locks:
            os.close(self.locks.pop())
        shares, self.shares = self.shares, None
        if shares is not None:
            shares._leave()


class Leases:
    """Hands out leases of one machine, to one controller. All methods may be called from any thread.

    Args:
        scope: `Host.scope` of the machine.
        directory: where the lock files are; all controllers of a host must use the same.
    """

    def __init__(self, scope: str, directory: Path | None = None) -> None:
        self._name = hashlib.sha256(scope.encode()).hexdigest()[:16]
        self._directory = directory
        self._changing = threading.Lock()
        self._shared: int | None = None
        self._sharing = 0
        self._marks: dict[str, int] = {}
        self._waits: int | None = None
        self._lets_others_until = -float("inf")

    def take(
        self,
        *,
        devices: Sequence[str] = (),
        gpus: int = 0,
        cores: int = 0,
        of_cores: Iterable[int] = (),
        exclusive: bool = False,
        taken: Callable[[], Taken] = Taken,
    ) -> Lease | None:
        """A lease of all that is asked for, or None if it is not to be had now. Marks of `wait` do not hold up who
        left them.

        Args:
            devices: the GPUs of the machine, of which `gpus` are wanted.
            of_cores: the cores of the machine, of which `cores` are wanted.
            exclusive: nobody else may hold a lease of the machine, not even an empty one.
            taken: what sandboxes hold; asked for at most a few times, and not at all while nothing is free.

        Raises:
            Whatever `taken` raises; nothing is held then.
        """
        lease = Lease(exclusive=exclusive)
        with self._changing:
            try:
                if exclusive and self._lets_others():
                    return None
                some = (gpus or cores) and not exclusive  # whoever is alone has all GPUs and cores to choose from
                if self._overtakes("host") or (some and self._overtakes("some")):
                    return None
                first = self._enter(lease, exclusive)
                if first is None:
                    return None
                wanted = [("gpu", {device_of(name): name for name in devices}, gpus)]
                wanted += [("core", {str(core): str(core) for core in of_cores}, cores)]
                # Where this controller has been all the time, nobody of this host can be alone.
                if not self._fill(lease, wanted, taken, certain=not first):
                    return None
                whole, lease = lease, Lease()
                whole.alone_on = self if exclusive else None
                return whole
            finally:
                self._let_go(lease)

    def adopt(self, devices: Sequence[str], cpuset: Sequence[int], *, exclusive: bool) -> Lease:
        """The lease of a sandbox that another controller left behind, by what its labels say."""
        lease = Lease(exclusive=exclusive)
        wanted = [("gpu", device_of(name)) for name in devices] + [("core", str(core)) for core in cpuset]
        deadline = time.monotonic() + _PATIENCE
        with self._changing:
            while self._enter(lease, exclusive) is None:
                if time.monotonic() >= deadline:
                    lease.whole = False
                    break
                time.sleep(0.02)
            for kind, name in wanted:
                while not self._lock(lease, f"{kind}-{_digest(name)}"):
                    if time.monotonic() >= deadline:
                        lease.whole = False
                        break
                    time.sleep(0.02)
        lease.devices, lease.cpuset = tuple(devices), tuple(cpuset)
        return lease

    def wait(self, *, exclusive: bool = False, some: bool = True) -> None:
        """Leave a mark, if nobody else has: who has none does not get what is waited for.

        Args:
            exclusive: the machine is wanted, and nobody may begin anything on it.
            some: GPUs or cores are. Who wants neither waits for the end of somebody's quiet, and leaves no such mark.
        """
        with self._changing:
            if self._waits is None:
                self._waits = self._open("waiting")
            _locked(self._waits, fcntl.LOCK_SH)  # somebody who looks may just have had it
            kind = "host" if exclusive else "some" if some else ""
            if exclusive and self._lets_others():
                kind = ""
            for other in self._marks.keys() - {kind}:
                os.close(self._marks.pop(other))
            if kind and kind not in self._marks:
                mark = self._open(f"turn-{kind}")
                if _locked(mark, fcntl.LOCK_EX):
                    self._marks[kind] = mark
                else:
                    os.close(mark)

    def rest(self) -> None:
        """Take the mark away: nobody waits any more."""
        with self._changing:
            while self._marks:
                os.close(self._marks.popitem()[1])
            if self._waits is not None:
                os.close(self._waits)
                self._waits = None

    def _was_alone(self) -> None:
        self._lets_others_until = time.monotonic() + GRACE

    def _lets_others(self) -> bool:
        """Whether this controller had the machine to itself a moment ago, and others have waited for the end of it."""
        if time.monotonic() >= self._lets_others_until:
            return False
        mine = self._waits if self._waits is not None else self._open("waiting")
        try:
            others = not _locked(mine, fcntl.LOCK_EX)
            _locked(mine, fcntl.LOCK_SH)
        finally:
            if self._waits is None:
                os.close(mine)
        return others

    def _fill(
        self,
        lease: Lease,
        wanted: Sequence[tuple[str, Mapping[str, str], int]],
        taken: Callable[[], Taken],
        *,
        certain: bool,
    ) -> bool:
        """Lock what is free until none of it is a sandbox's that nobody holds a lock for.

        Args:
            wanted: kind, names by what their locks are called, and how many.
            certain: nobody needs to be asked unless something is locked.
        """
        held: dict[tuple[str, str], int] = {}
        gone: set[tuple[str, str]] = set()
        try:
            while True:
                before = len(held)
                chosen = {kind: self._some(held, kind, names, count, gone) for kind, names, count in wanted}
                if any(len(chosen[kind]) < count for kind, _, count in wanted):
                    return False
                if certain and len(held) == before:
                    break
                known, certain = taken(), True
                if known.exclusive or (lease.exclusive and known.anything):
                    return False
                gone = {("gpu", device_of(name)) for name in known.devices} | {("core", str(c)) for c in known.cores}
                lost = held.keys() & gone
                if not lost:
                    break
                for key in lost:
                    os.close(held.pop(key))
        finally:
            lease.locks += held.values()
        names = wanted[0][1]
        lease.devices = tuple(names[name] for name in chosen["gpu"])
        lease.cpuset = tuple(sorted(map(int, chosen["core"])))
        return True

    def _some(
        self, held: dict[tuple[str, str], int], kind: str, names: Iterable[str], count: int, gone: set[tuple[str, str]]
    ) -> list[str]:
        """`count` of `names`, locked, or as many as can be; those in `held` are."""
        found: list[str] = []
        for name in names:
            key = (kind, name)
            if len(found) == count:
                break
            if key not in held and key not in gone:
                descriptor = self._open(f"{kind}-{_digest(name)}")
                if not _locked(descriptor, fcntl.LOCK_EX):
                    os.close(descriptor)
                    continue
                held[key] = descriptor
            if key in held:
                found.append(name)
        return found

    def _enter(self, lease: Lease, exclusive: bool) -> bool | None:
        """Be on the machine, alone or with others; whether this controller was not before, None if it cannot be."""
        if exclusive:
            return True if self._lock(lease, "host") else None
        first = self._sharing == 0
        if first:
            descriptor = self._open("host")
            if not _locked(descriptor, fcntl.LOCK_SH):
                os.close(descriptor)
                return None
            self._shared = descriptor
        self._sharing += 1
        lease.shares = self
        return first

    def _leave(self) -> None:
        with self._changing:
            self._left()

    def _left(self) -> None:
        self._sharing -= 1
        if self._sharing == 0 and self._shared is not None:
            os.close(self._shared)
            self._shared = None

    def _let_go(self, lease: Lease) -> None:
        """As `Lease.release`, by whoever is changing this already."""
        if lease.shares is not None:
            lease.shares = None
            self._left()
        lease.release()

    def _overtakes(self, kind: str) -> bool:
        """Whether another controller waits."""
        if kind in self._marks:
            return False
        descriptor = self._open(f"turn-{kind}")
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def _lock(self, lease: Lease, what: str) -> bool:
        descriptor = self._open(what)
        if _locked(descriptor, fcntl.LOCK_EX):
            lease.locks.append(descriptor)
            return True
        os.close(descriptor)
        return False

    def _open(self, what: str) -> int:
        return open_shared((self._directory or default_directory()) / f"lease-{self._name}-{what}.lock")


def _locked(descriptor: int, kind: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]

"""Leases of a running job on one machine: whole GPUs, cores, or the machine.

A lease is a set of lock files (`trace_bench.sandbox.locks`) that are held while the job runs. They exclude all
controllers and users of the controller's machine. A sandbox can hold something without a lock: its controller died, or
is on another machine. Its labels say what (`Taken`). They are read once the locks are held: from then on no controller
of this machine can make a sandbox with the same devices, so the answer is not too old.

A controller that waits holds a mark, which is a lock too, and no other controller overtakes a mark. Without that, the
machine as a whole or several GPUs at once would never be free. A controller that waits for the machine respects the
mark of another that does. One that waits for GPUs or cores respects that mark, and marks of its own kind. Running jobs
respect none. So there is no circle of waiters. A controller that had the machine to itself lets others that wait, for
anything, go first before it has the machine again (`GRACE`).
"""

from __future__ import annotations

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
from trace_bench.sandbox.locks import change_lock, default_directory, is_locked, lock_within, open_shared, try_lock

GRACE = 1.0
"""Seconds for which a controller that had the machine to itself lets waiting others begin: a queue of such jobs would
keep them out until its end. Waiters try more often than that."""
_PATIENCE = 2.0
"""Seconds that `Leases.adopt` tries: a controller that looks holds a lock until the engine has answered."""


@dataclass(frozen=True)
class Taken:
    """The resources that sandboxes of a host hold by their labels, of all controllers."""

    devices: frozenset[str] = frozenset()
    cores: frozenset[int] = frozenset()
    exclusive: bool = False
    anything: bool = False
    """Whether there is any sandbox."""

    @classmethod
    def by(cls, sandboxes: Iterable[Mapping[str, str]]) -> Taken:
        """The resources of sandboxes with these labels."""
        found = list(sandboxes)
        return cls(
            frozenset(device for labels in found for device in devices_in(labels)),
            frozenset(core for labels in found for core in cores_in(labels)),
            any(EXCLUSIVE in labels for labels in found),
            bool(found),
        )


@runtime_checkable
class Shared(Protocol):
    """A backend on whose hosts other controllers may have sandboxes."""

    def taken(self, host: str) -> Taken:
        """The resources of sandboxes on `host` that have not ended, of all controllers.

        Raises:
            SandboxError: the host does not answer.
        """


def devices_in(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the GPUs that a sandbox with `labels` holds."""
    return tuple(name for name in labels.get(DEVICES, "").split(",") if name)


def cores_in(labels: Mapping[str, str]) -> tuple[int, ...]:
    """The cores that a sandbox with `labels` holds."""
    return tuple(int(core) for core in labels.get(CPUSET, "").split(",") if core.isdecimal())


@dataclass
class Lease:
    """The resources of one job until `release`.

    Attributes:
        whole: everything that was asked for is held. The lease of an adopted sandbox can lack what another controller
            has locked meanwhile. That sandbox may run to its end, and no other may be made with the lease.
        on_release: called by `release`.
    """

    devices: tuple[str, ...] = ()
    cpuset: tuple[int, ...] = ()
    exclusive: bool = False
    whole: bool = True
    locks: list[int] = field(default_factory=list)
    on_release: list[Callable[[], None]] = field(default_factory=list)

    def release(self) -> None:
        """Free it. A second call does nothing."""
        while self.on_release:
            self.on_release.pop()()
        while self.locks:
            os.close(self.locks.pop())


class Leases:
    """Hands out leases of one machine, to one controller. All methods may be called from any thread.

    Args:
        scope: `Host.scope` of the machine.
        directory: where the lock files are; all controllers of a machine must use the same.
    """

    def __init__(self, scope: str, directory: Path | None = None) -> None:
        self._name = _digest(scope)
        self._directory = directory
        self._lock = threading.RLock()
        self._entry: int | None = None
        """The shared lock of the machine, held while any lease of this controller is."""
        self._entered = 0
        self._marks: dict[str, int] = {}
        self._waiting: int | None = None
        self._yields_until = -float("inf")

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
        """A lease of all that is asked for, or None if it is not free now. The marks of this controller do not count.

        Args:
            devices: the GPUs of the machine, of which `gpus` are needed.
            of_cores: the cores of the machine, of which `cores` are needed.
            exclusive: no other lease of the machine may be held, not even an empty one.
            taken: what sandboxes hold; called a few times at most, and not at all while nothing is free.

        Raises:
            Exception: raised by `taken`; nothing is held then.
        """
        with self._lock:
            if exclusive and self._yields():
                return None
            some = (gpus or cores) and not exclusive  # an exclusive lease has all GPUs and cores to choose from
            if self._overtakes("host") or (some and self._overtakes("some")):
                return None
            lease = Lease(exclusive=exclusive)
            complete = False
            try:
                first = self._entered == 0
                if self._enter(lease):
                    needs = [("gpu", {device_of(name): name for name in devices}, gpus)]
                    needs += [("core", {str(core): str(core) for core in of_cores}, cores)]
                    # While this controller holds a lease, no other of this machine can be alone.
                    complete = self._fill(lease, needs, taken, certain=not exclusive and not first)
            finally:
                if not complete:
                    lease.release()
            if complete and exclusive:
                lease.on_release.append(self._was_alone)
            return lease if complete else None

    def adopt(self, devices: Sequence[str], cpuset: Sequence[int], *, exclusive: bool) -> Lease:
        """The lease of a sandbox that another controller left behind, by what its labels say."""
        lease = Lease(tuple(devices), tuple(cpuset), exclusive)
        names = [f"gpu-{_digest(device_of(name))}" for name in devices]
        names += [f"core-{_digest(str(core))}" for core in cpuset]
        deadline = time.monotonic() + _PATIENCE
        with self._lock:
            while not (entered := self._enter(lease)) and time.monotonic() < deadline:
                time.sleep(0.02)
            locks = [lock_within(self._path(name), deadline - time.monotonic()) for name in names]
        lease.locks += [lock for lock in locks if lock is not None]
        lease.whole = entered and None not in locks
        return lease

    def wait(self, *, exclusive: bool = False, some: bool = True) -> None:
        """Leave a mark, unless another controller has: other controllers do not get what is waited for.

        Args:
            exclusive: the machine is needed, and no other controller may begin anything on it.
            some: GPUs or cores are needed. A controller that needs neither only waits for the end of an exclusive
                lease, and leaves no such mark.
        """
        with self._lock:
            if self._waiting is None:
                self._waiting = open_shared(self._path("waiting"))
            change_lock(self._waiting, fcntl.LOCK_SH)  # another controller may just have looked
            kind = "host" if exclusive else "some" if some else ""
            if exclusive and self._yields():
                kind = ""
            for other in self._marks.keys() - {kind}:
                os.close(self._marks.pop(other))
            if kind and kind not in self._marks and (mark := try_lock(self._path(f"turn-{kind}"))) is not None:
                self._marks[kind] = mark

    def rest(self) -> None:
        """Take the mark away: this controller waits for nothing."""
        with self._lock:
            for mark in [*self._marks.values(), *([] if self._waiting is None else [self._waiting])]:
                os.close(mark)
            self._marks.clear()
            self._waiting = None

    # -- fairness ------------------------------------------------------------------------------------------------

    def _was_alone(self) -> None:
        self._yields_until = time.monotonic() + GRACE

    def _yields(self) -> bool:
        """Whether this controller had the machine to itself a moment ago, and others wait."""
        if time.monotonic() >= self._yields_until:
            return False
        if self._waiting is None:
            return is_locked(self._path("waiting"), fcntl.LOCK_EX)
        alone = change_lock(self._waiting, fcntl.LOCK_EX)
        change_lock(self._waiting, fcntl.LOCK_SH)
        return not alone

    def _overtakes(self, kind: str) -> bool:
        """Whether another controller waits."""
        return kind not in self._marks and is_locked(self._path(f"turn-{kind}"))

    # -- locks ---------------------------------------------------------------------------------------------------

    def _fill(
        self,
        lease: Lease,
        needs: Sequence[tuple[str, Mapping[str, str], int]],
        taken: Callable[[], Taken],
        *,
        certain: bool,
    ) -> bool:
        """Lock what is free, until all of it is held and none of it is that of a sandbox without a lock.

        Args:
            needs: kind, names by what their locks are called, and how many.
            certain: `taken` need not be called unless something is locked.
        """
        held: dict[tuple[str, str], int] = {}
        gone: set[tuple[str, str]] = set()
        try:
            while True:
                before = len(held)
                chosen = {kind: self._lock_some(held, kind, names, count, gone) for kind, names, count in needs}
                if any(len(chosen[kind]) < count for kind, _, count in needs):
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
        names = needs[0][1]
        lease.devices = tuple(names[name] for name in chosen["gpu"])
        lease.cpuset = tuple(sorted(map(int, chosen["core"])))
        return True

    def _lock_some(
        self, held: dict[tuple[str, str], int], kind: str, names: Iterable[str], count: int, gone: set[tuple[str, str]]
    ) -> list[str]:
        """`count` of `names`, locked, or as many as are free. Those in `held` count as locked."""
        found: list[str] = []
        for name in names:
            key = (kind, name)
            if len(found) == count:
                break
            if key not in held and key not in gone:
                lock = try_lock(self._path(f"{kind}-{_digest(name)}"))
                if lock is not None:
                    held[key] = lock
            if key in held:
                found.append(name)
        return found

    def _enter(self, lease: Lease) -> bool:
        """Enter the machine with `lease`, alone or with others; False if that is not possible now."""
        if lease.exclusive:
            lock = try_lock(self._path("host"))
            if lock is not None:
                lease.locks.append(lock)
            return lock is not None
        if self._entry is None:
            self._entry = try_lock(self._path("host"), fcntl.LOCK_SH)
            if self._entry is None:
                return False
        self._entered += 1
        lease.on_release.append(self._leave)
        return True

    def _leave(self) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0 and self._entry is not None:
                os.close(self._entry)
                self._entry = None

    def _path(self, name: str) -> Path:
        return (self._directory or default_directory()) / f"lease-{self._name}-{name}.lock"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]

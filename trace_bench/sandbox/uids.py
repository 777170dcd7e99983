"""Each running job has a block of uids of its own on this host.

``RLIMIT_NPROC`` counts processes per uid over all containers, so two jobs that shared a uid could starve each other.
A slot is a file that is locked with ``flock`` while its job runs. The kernel drops the lock with the process that held
it, so no slot is ever stale; but a container can outlive its controller. Two things close that gap: whoever adopts a
sandbox locks its slot again (`UidBlocks.adopt`; the base stands in the label ``trace-bench.uid-base``), and whoever
looks for a slot leaves out those that sandboxes of the engine still use (``taken``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pwd
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from trace_bench.errors import EnvironmentUnavailable

BLOCK = 16
"""Uids of one job."""
DEFAULT_BASE = 0x70000000
"""Above all that is handed out to people, services, directory services, containers and ``subuid`` ranges; systemd's
table of uids lists it as unused."""
MAPPED_BASE = 20_000
"""On engines that map uids (rootless, userns-remap) only 0-65535 exist inside, and none of them is a user's."""
SLOTS = 2048
LOCK_DIR_VARIABLE = "TRACE_BENCH_LOCK_DIR"
_PATIENCE = 0.5
"""Seconds that `UidBlocks.adopt` tries: somebody who only looks holds a lock for an instant."""


class UidBlock:
    """The uids ``base … base + 15``, held until `release`. A context manager."""

    def __init__(self, base: int, lock: int) -> None:
        self.base = base
        self._lock: int | None = lock

    @property
    def held(self) -> bool:
        return self._lock is not None

    def release(self) -> None:
        """Free the block; twice does no harm."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> UidBlock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class UidBlocks:
    """Hands out blocks, one per running job, over all controllers and users of this host.

    Args:
        base: first uid of the first block.
        directory: where the lock files are; all controllers of a host must use the same.
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
            taken: bases that must not be used although nobody holds their lock.

        Raises:
            EnvironmentUnavailable: all blocks are in use, or uids of this range belong to users of the host.
        """
        avoid = frozenset(taken)
        users = 0
        for slot in range(self.slots):
            base = self.base + slot * BLOCK
            own = self._own.get(base)
            if base in avoid or (own is not None and own.held):  # no file need be opened to know that
                continue
            lock = self._lock(base)
            if lock is None:
                continue
            if _belongs_to_somebody(base):
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
        deadline = time.monotonic() + _PATIENCE
        while (lock := self._lock(base)) is None:
            if time.monotonic() >= deadline:
                raise EnvironmentUnavailable(
                    f"uid block {base} is held by a controller that is alive; that one owns the sandbox."
                )
            time.sleep(0.02)
        return UidBlock(base, lock)

    def is_held(self, base: int) -> bool:
        """True while somebody holds the block of `base`. Those who ask do not disturb each other."""
        lock = self._lock(base, fcntl.LOCK_SH)
        if lock is not None:
            os.close(lock)
        return lock is None

    def _lock(self, base: int, kind: int = fcntl.LOCK_EX) -> int | None:
        """A descriptor that holds the lock of `base`, or None if somebody else does."""
        path = self.directory / f"uid-{base}.lock"
        descriptor = open_shared(path)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def default_directory() -> Path:
    """A folder that every user of the host shares where there is one, for uids are the host's; made if missing.

    Raises:
        EnvironmentUnavailable: no place for it.
    """
    chosen = os.environ.get(LOCK_DIR_VARIABLE)
    places = (
        [Path(chosen)]
        if chosen
        else [
            Path("/run/lock/trace-bench"),
            Path(tempfile.gettempdir()) / "trace-bench-locks",
        ]
    )
    for place in places:
        with contextlib.suppress(OSError):
            if not place.is_dir():
                place.mkdir()
                place.chmod(0o1777)
            if os.access(place, os.W_OK | os.X_OK):
                return place
    raise EnvironmentUnavailable(
        f"no place for lock files (tried {', '.join(map(str, places))}); "
        f"set {LOCK_DIR_VARIABLE} to a folder that you can write."
    )


def open_shared(path: Path) -> int:
    """Open `path` for locking, whoever made it. Reading rights are enough for that; no link is followed."""
    for _ in range(2):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                # Two steps, for the kernel denies O_CREAT on another user's file in a sticky folder.
                descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                return descriptor
            continue
        except OSError as error:
            why = "is a link" if error.errno == errno.ELOOP else str(error.strerror)
            raise EnvironmentUnavailable(f"lock file {path} cannot be opened ({why}); remove it.") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise EnvironmentUnavailable(f"lock file {path} is not a file; remove it.")
        return descriptor
    raise EnvironmentUnavailable(
        f"lock file {path} comes and goes; leave the folder {path.parent} alone while jobs run."
    )


def _belongs_to_somebody(base: int) -> bool:
    """True if a uid of the block is a user's, or lies in a range that one may use for containers of their own."""
    for uid in (base, base + BLOCK - 1):
        with contextlib.suppress(KeyError):
            pwd.getpwuid(uid)
            return True
    return any(start < base + BLOCK and base < start + count for start, count in _subuid_ranges())


def _subuid_ranges() -> list[tuple[int, int]]:
    path = Path("/etc/subuid")
    ranges = []
    if path.is_file():
        for line in path.read_text(errors="replace").splitlines():
            fields = line.split(":")
            if len(fields) == 3 and fields[1].isdigit() and fields[2].isdigit():
                ranges.append((int(fields[1]), int(fields[2])))
    return ranges

"""Lock files that all controllers and users of one machine share.

A lock is held with ``flock``. The kernel drops it with the process that holds it, so no lock is ever stale.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from pathlib import Path

from trace_bench.errors import EnvironmentUnavailable

LOCK_DIR_VARIABLE = "TRACE_BENCH_LOCK_DIR"
RETRY_SECONDS = 0.02


def default_directory() -> Path:
    """The folder of the lock files, which all users of the machine share if possible. It is made if missing.

    Raises:
        EnvironmentUnavailable: no such folder can be written.
    """
    chosen = os.environ.get(LOCK_DIR_VARIABLE)
    shared, private = Path("/run/lock/trace-bench"), Path(tempfile.gettempdir()) / "trace-bench-locks"
    folders = [Path(chosen)] if chosen else [shared, private]
    for folder in folders:
        with contextlib.suppress(OSError):
            if not folder.is_dir():
                folder.mkdir()
                folder.chmod(0o1777)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    raise EnvironmentUnavailable(
        f"found no folder for lock files (tried {', '.join(map(str, folders))}); "
        f"set {LOCK_DIR_VARIABLE} to a writable folder."
    )


def try_lock(path: Path, kind: int = fcntl.LOCK_EX) -> int | None:
    """A descriptor that holds the lock of `path`, or None if another one holds it."""
    descriptor = open_shared(path)
    if change_lock(descriptor, kind):
        return descriptor
    os.close(descriptor)
    return None


def lock_within(path: Path, seconds: float) -> int | None:
    """As `try_lock`, repeated for `seconds`: a process that only looks holds a lock for a moment."""
    deadline = time.monotonic() + seconds
    while (descriptor := try_lock(path)) is None and time.monotonic() < deadline:
        time.sleep(RETRY_SECONDS)
    return descriptor


def is_locked(path: Path, kind: int = fcntl.LOCK_SH) -> bool:
    """Whether another descriptor holds a lock of `path` that excludes one of `kind`. A shared `kind` does not disturb
    others that look."""
    descriptor = try_lock(path, kind)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def change_lock(descriptor: int, kind: int) -> bool:
    """Lock an open file, or change the kind of its lock; False if another descriptor's lock prevents it."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False


def open_shared(path: Path) -> int:
    """Open `path` for locking, whichever user made it: read permission is enough. No link is followed.

    Raises:
        EnvironmentUnavailable: it is not a file, or cannot be opened.
    """
    for _ in range(2):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                # Two steps, for the kernel denies O_CREAT on another user's file in a sticky folder.
                return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            continue
        except OSError as error:
            why = "is a link" if error.errno == errno.ELOOP else str(error.strerror)
            raise EnvironmentUnavailable(f"lock file {path} cannot be opened ({why}); remove it.") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise EnvironmentUnavailable(f"lock file {path} is not a file; remove it.")
        return descriptor
    raise EnvironmentUnavailable(
        f"lock file {path} is made and removed again; leave the folder {path.parent} alone while jobs run."
    )

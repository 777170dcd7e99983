"""One controller per run: a lock on the run's folder, which the kernel drops when its holder ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator

from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError

_NO_LOCKS_HERE = (errno.ENOLCK, errno.EBADF, errno.EINVAL, errno.EOPNOTSUPP)
"""Some network file systems cannot lock a folder. Sandboxes are still guarded by the locks of their uid blocks."""
_PATIENCE = 0.5
"""Seconds that a controller tries: somebody who only looks holds the lock for an instant."""


@contextlib.contextmanager
def alone_in(layout: RunLayout) -> Iterator[None]:
    """Keeps a second controller out of the run's folder.

    Raises:
        ConfigError: another controller is at work in it.
    """
    layout.make()
    folder = os.open(layout.meta, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _locked(folder, fcntl.LOCK_EX):
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            raise ConfigError(
                f"{layout.root}: another controller is running this run; wait until it has ended, "
                "or give another --run-id"
            )
        yield
    finally:
        os.close(folder)


def has_controller(layout: RunLayout) -> bool:
    """True while a controller is at work in the run's folder. Where folders cannot be locked it is always False."""
    try:
        folder = os.open(layout.meta, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _locked(folder, fcntl.LOCK_SH)
    finally:
        os.close(folder)


def _locked(folder: int, kind: int) -> bool:
    """Try to lock; True if it is ours now, or cannot be anybody's."""
    try:
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
    return True

"""The lock on a run's folder: its controller holds it, and the kernel drops it when the holder ends, however it ends.

Taking it is the controller's (`trace_bench.planning.run_lock`); commands that list runs only ask whether it is held.
"""

from __future__ import annotations

import errno
import fcntl
import os

from trace_bench.artifacts.layout import RunLayout

_NO_LOCKS_HERE = (errno.ENOLCK, errno.EBADF, errno.EINVAL, errno.EOPNOTSUPP)
"""Some network file systems cannot lock a folder. Sandboxes are still guarded by the locks of their uid blocks."""


def has_controller(layout: RunLayout) -> bool:
    """True while a controller is at work in the run's folder. Where folders cannot be locked it is always False."""
    try:
        folder = open_folder(layout)
    except OSError:
        return False
    try:
        return not try_lock(folder, fcntl.LOCK_SH)
    finally:
        os.close(folder)


def open_folder(layout: RunLayout) -> int:
    """A descriptor of what is locked; its owner closes it, and so gives the lock back.

    Raises:
        OSError: no such folder.
    """
    return os.open(layout.meta, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def try_lock(folder: int, kind: int) -> bool:
    """Try to lock, without waiting; True if it is ours now, or cannot be anybody's.

    Args:
        kind: ``fcntl.LOCK_EX`` or ``fcntl.LOCK_SH``.
    """
    try:
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
    return True

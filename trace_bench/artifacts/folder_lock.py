"""The lock on a run's folder: the kernel drops it when the process that holds it ends, however it ends.

A controller that works in the folder holds it. So does a command that changes, copies or reads a finished run, so that
no controller starts in it meanwhile. Commands that list runs only query whether it is held.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError

IMPORTING = ".importing-"
"""Beginning of the name of a folder in which an archive is unpacked."""
_PATIENCE = 0.5
"""Seconds that a controller tries: a command that only looks holds the lock for an instant."""
_NO_LOCKS_HERE = (errno.ENOLCK, errno.EBADF, errno.EINVAL, errno.EOPNOTSUPP)
"""Some network file systems cannot lock a folder. Sandboxes are still guarded by the locks of their uid blocks."""
_SECOND_CONTROLLER = "another controller is running this run; wait until it has ended, or give another --run-id"
_AT_WORK = "a controller is at work in it; wait until it has ended, or trace-bench cancel it"


@contextlib.contextmanager
def lock_run(layout: RunLayout) -> Iterator[None]:
    """Hold the lock as the controller of the run. The folder is made if it does not exist.

    Raises:
        ConfigError: another controller is at work in it.
    """
    with _held(layout.make(), fcntl.LOCK_EX, _SECOND_CONTROLLER, _PATIENCE):
        yield


@contextlib.contextmanager
def held_for_writing(run: RunLayout) -> Iterator[None]:
    """Hold the lock for a command that changes the run.

    Raises:
        ConfigError: a controller or another command works in it.
    """
    with _held(run, fcntl.LOCK_EX, _AT_WORK):
        yield


@contextlib.contextmanager
def held_for_reading(run: RunLayout) -> Iterator[None]:
    """Hold the lock for a command that reads the run. Others can read it too.

    Raises:
        ConfigError: a controller or a command that changes the run works in it.
    """
    with _held(run, fcntl.LOCK_SH, _AT_WORK):
        yield


def has_controller(layout: RunLayout) -> bool:
    """True while a controller is at work in the run's folder. Where folders cannot be locked it is always False."""
    return _is_locked(layout.meta)


def check_not_locked(layout: RunLayout) -> None:
    """Check that no controller is at work in the run, for a command that would run it.

    Raises:
        ConfigError: a controller is at work in the run's folder.
    """
    if has_controller(layout):
        raise ConfigError(f"{layout.root}: {_SECOND_CONTROLLER}")


def check_not_at_work(layout: RunLayout) -> None:
    """Check that no controller or command works in the run, before a command asks its user to confirm.

    Raises:
        ConfigError: a controller or another command works in the run.
    """
    if has_controller(layout):
        raise ConfigError(f"{layout.root}: {_AT_WORK}")


@contextlib.contextmanager
def marked_in_use(folder: Path) -> Iterator[None]:
    """Mark a folder that is not a run yet, or no longer, as in use (`is_in_use`)."""
    descriptor = _open(folder)
    try:
        try_lock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_in_use(folder: Path) -> bool:
    """Return True if a process holds the lock of `folder`, which is not a link."""
    return _is_locked(folder, os.O_NOFOLLOW)


def open_folder(layout: RunLayout) -> int:
    """A descriptor of the folder that is locked; its owner closes it, and so returns the lock.

    Raises:
        OSError: no such folder.
    """
    return _open(layout.meta)


def try_lock(folder: int, kind: int) -> bool:
    """Try to lock, without waiting; True if the lock is held now, or if no process can hold it.

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


@contextlib.contextmanager
def _held(layout: RunLayout, kind: int, refusal: str, seconds: float = 0.0) -> Iterator[None]:
    folder = open_folder(layout)
    try:
        deadline = time.monotonic() + seconds
        while not try_lock(folder, kind):
            if time.monotonic() >= deadline:
                raise ConfigError(f"{layout.root}: {refusal}")
            time.sleep(0.02)
        yield
    finally:
        os.close(folder)


def _is_locked(folder: Path, flags: int = 0) -> bool:
    try:
        descriptor = _open(folder, flags)
    except OSError:
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _open(folder: Path, flags: int = 0) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)

"""Locks a finished run while a command changes or copies it, so that no controller starts in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from trace_bench.artifacts.folder_lock import has_controller, open_folder, try_lock
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError

IMPORTING = ".importing-"
"""Beginning of the name of a folder in which an archive is unpacked."""


@contextlib.contextmanager
def held_for_reading(run: RunLayout) -> Iterator[None]:
    """Lock the run for a command that reads it. Others can read it too.

    Raises:
        ConfigError: a controller or a command that changes the run works in it.
    """
    with _held(run, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def held_for_writing(run: RunLayout) -> Iterator[None]:
    """Lock the run for a command that changes it.

    Raises:
        ConfigError: a controller or another command works in it.
    """
    with _held(run, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def marked_in_use(folder: Path) -> Iterator[None]:
    """Mark a folder that is not a run yet, or no longer, as in use (`is_in_use`)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try_lock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_in_use(folder: Path) -> bool:
    """Return True if a process has marked `folder` as in use."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def check_not_at_work(run: RunLayout) -> None:
    """Check that no controller or command works in the run, before a command asks its user to confirm.

    Raises:
        ConfigError: a controller or another command works in the run.
    """
    if has_controller(run):
        raise _at_work(run)


@contextlib.contextmanager
def _held(run: RunLayout, kind: int) -> Iterator[None]:
    folder = open_folder(run)
    try:
        if not try_lock(folder, kind):
            raise _at_work(run)
        yield
    finally:
        os.close(folder)


def _at_work(run: RunLayout) -> ConfigError:
    return ConfigError(f"{run.root}: a controller is at work in it; wait until it has ended, or trace-bench cancel it")

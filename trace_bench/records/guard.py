"""Who changes a finished run, or copies it, keeps controllers out of it meanwhile."""

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
"""How the name of a folder begins that an archive is unpacked in."""


@contextlib.contextmanager
def held_for_reading(run: RunLayout) -> Iterator[None]:
    """No controller begins in the run meanwhile; others may read it.

    Raises:
        ConfigError: a controller, or somebody who changes the run, is at work in it.
    """
    with _held(run, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def held_for_writing(run: RunLayout) -> Iterator[None]:
    """Nobody else is at work in the run meanwhile.

    Raises:
        ConfigError: somebody is.
    """
    with _held(run, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def marked_in_use(folder: Path) -> Iterator[None]:
    """`is_in_use` meanwhile; for folders that are no runs (yet, or any more)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try_lock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_in_use(folder: Path) -> bool:
    """True while somebody has `folder` `marked_in_use`."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def refuse_at_work(run: RunLayout) -> None:
    """As `held_for_writing`, for whoever has something to ask before.

    Raises:
        ConfigError: a controller, or somebody who reads or changes the run, is at work in it.
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

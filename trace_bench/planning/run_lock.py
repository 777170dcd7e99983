"""One controller per run: a controller that works in a run's folder holds its lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from trace_bench.artifacts.folder_lock import has_controller, open_folder, try_lock
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError

__all__ = ["check_not_locked", "has_controller", "lock_run"]

_PATIENCE = 0.5
"""Seconds that a controller tries: a command that only looks holds the lock for an instant."""


@contextlib.contextmanager
def lock_run(layout: RunLayout) -> Iterator[None]:
    """Hold the lock of the run's folder.

    Raises:
        ConfigError: another controller is at work in it.
    """
    layout.make()
    folder = open_folder(layout)
    try:
        deadline = time.monotonic() + _PATIENCE
        while not try_lock(folder, fcntl.LOCK_EX):
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            raise _occupied(layout)
        yield
    finally:
        os.close(folder)


def check_not_locked(layout: RunLayout) -> None:
    """Check that no controller holds the lock of the run's folder. For a caller that writes nothing there.

    Raises:
        ConfigError: a controller is at work in the run's folder.
    """
    if has_controller(layout):
        raise _occupied(layout)


def _occupied(layout: RunLayout) -> ConfigError:
    return ConfigError(
        f"{layout.root}: another controller is running this run; wait until it has ended, or give another --run-id"
    )

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

__all__ = ["alone_in", "has_controller", "refuse_a_second"]

_PATIENCE = 0.5
"""Seconds that a controller tries: a command that only looks holds the lock for an instant."""


@contextlib.contextmanager
def alone_in(layout: RunLayout) -> Iterator[None]:
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


def refuse_a_second(layout: RunLayout) -> None:
    """As `alone_in`, for a caller that writes nothing there and reports what a controller would do.

    Raises:
        ConfigError: a controller is at work in the run's folder.
    """
    if has_controller(layout):
        raise _occupied(layout)


def _occupied(layout: RunLayout) -> ConfigError:
    return ConfigError(
        f"{layout.root}: another controller is running this run; wait until it has ended, or give another --run-id"
    )

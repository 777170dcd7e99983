"""Keeps a mirror up to date while a run goes on, and until it has been."""

from __future__ import annotations

import time
from collections.abc import Callable

from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import HarnessError
from trace_bench.mirrors.registry import Mirror, Mirrored, MirrorError

INTERVAL = 5.0
"""Seconds between two looks; after a failure twice as long each time …"""
LONGEST = 40.0
"""… up to this."""
PATIENCE = 60.0
"""Seconds after the run's end in which the other side may come back."""
_GLANCE = 0.25


def follow(
    mirror: Mirror,
    run: RunLayout,
    say: Callable[[str], None],
    *,
    interval: float = INTERVAL,
    patience: float = PATIENCE,
    running: Callable[[RunLayout], bool] = has_controller,
) -> Mirrored:
    """Look at `run` again and again until no controller is at work in it and all of it is copied.

    Args:
        say: called with each new error.

    Raises:
        MirrorError, HarnessError: the last look's, `patience` seconds after the run's end.
    """
    over: float | None = None
    pause, last = interval, ""
    while True:
        going_on = running(run)  # before the look, so that the last one sees all there is
        if not going_on and over is None:
            over = time.monotonic()
        try:
            found = mirror.sync(run)
        except (MirrorError, HarnessError) as error:  # a file of a run that goes on may be half there
            if over is not None and time.monotonic() - over >= patience:
                raise
            if str(error) != last:
                last = str(error)
                say(f"{last}; trying again")
            pause = min(2 * pause, LONGEST)
        else:
            if not going_on:
                return found
            pause, last = interval, ""
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0 and (over is not None or running(run)):
            time.sleep(min(_GLANCE, left))

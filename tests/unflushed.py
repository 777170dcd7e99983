"""Leave out what flushes files to the disk, which several lanes of tests share and wait for.

Which files are flushed, and in which order, is checked by tests that replace `os.fsync` by their own. With --full
everything is flushed.
"""

from __future__ import annotations

import os

VARIABLE = "TRACE_BENCH_TESTS_FLUSH_NOTHING"
"""Environment variable that is set where nothing is flushed; for the server of `tests.forked`."""


def flush_nothing() -> None:
    """Make `os.fsync` of this process do nothing, and that of processes that `tests.forked` starts."""
    os.environ[VARIABLE] = "1"
    os.fsync = _nothing  # type: ignore[assignment]


def _nothing(descriptor: int) -> None: ...

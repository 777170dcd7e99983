"""Report the results of checks, each in a line."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from trace_bench.display.console import emit
from trace_bench.errors import ExitCode, TraceBenchError

_MARKS = {"passed": "ok     ", "failed": "FAILED ", "skipped": "skipped"}


class CheckReport:
    """Prints the results of checks, and counts them by state.

    Attributes:
        failed: names of the checks that failed.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[str] = []

    @property
    def exit_code(self) -> int:
        return int(ExitCode.ENVIRONMENT if self.counts["failed"] else ExitCode.OK)

    def add(self, check: str, state: Literal["passed", "failed", "skipped"], detail: str = "") -> None:
        self.counts[state] += 1
        if state == "failed":
            self.failed.append(check)
        emit(f"{_MARKS[state]} {check}" + (f": {detail}" if detail else ""))

    @contextlib.contextmanager
    def step(self, check: str) -> Iterator[Callable[[str], None]]:
        """Run the block as a check, which passes unless the block raises. Yields a function that adds details."""
        details: list[str] = []
        began = time.monotonic()
        try:
            yield details.append
        except (TraceBenchError, AssertionError, OSError, subprocess.SubprocessError) as error:
            self.add(check, "failed", f"{type(error).__name__}: {error}")
        else:
            self.add(check, "passed", ", ".join([*details, f"{time.monotonic() - began:.1f} s"]))

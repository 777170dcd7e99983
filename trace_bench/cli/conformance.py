"""``doctor --conformance``: run the checks for backends on one of them, and report each in a line."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from trace_bench.display.console import emit, emit_json
from trace_bench.errors import ConfigError, EnvironmentUnavailable, ExitCode, TraceBenchError

_MARKS = {"passed": "ok     ", "failed": "FAILED ", "skipped": "skipped"}


class CheckReport:
    """Counts the results of checks, and prints each as a line unless it is `silent`."""

    def __init__(self, *, silent: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.results: list[dict[str, str]] = []
        self._silent = silent

    @property
    def failed(self) -> list[str]:
        return [result["check"] for result in self.results if result["state"] == "failed"]

    @property
    def exit_code(self) -> int:
        return int(ExitCode.ENVIRONMENT if self.counts["failed"] else ExitCode.OK)

    def add(self, check: str, state: Literal["passed", "failed", "skipped"], detail: str = "") -> None:
        self.counts[state] += 1
        self.results.append({"check": check, "state": state, "detail": detail})
        if not self._silent:
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


def conformance_command(
    *, backend: str, config: Path | None, image: str | None, only: str | None, as_json: bool
) -> int:
    """Run all checks, or those with `only` in their name. Return 0 if none has failed, else 3.

    Raises:
        ConfigError: no check has such a name. EnvironmentUnavailable: the backend does not work here, or there is no
            image to run the checks with.
    """
    from trace_bench.cli.backends import backend_for
    from trace_bench.sandbox.conformance import CHECKS, Lab, examine

    checks = [check for check in CHECKS if only is None or only in check.name]
    if not checks:
        raise ConfigError(f"no check has {only!r} in its name; leave --only out to see them all.")
    examined = backend_for(backend, config)
    report = CheckReport(silent=as_json)
    for outcome in examine(Lab(examined, image or _image(examined.name)), checks):
        report.add(outcome.check, outcome.state, outcome.detail)
    if as_json:
        emit_json(report.results)
    else:
        counts = report.counts
        emit(f"{examined.name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return report.exit_code


def _image(backend: str) -> str:
    """The default image for the checks of `backend`."""
    if backend == "local":
        return "none"
    from trace_bench.images.pins import list_images

    for row in list_images():
        if row.family == "core" and row.pin is not None:
            if backend == "modal" and row.pin.repo_digest is not None:
                return row.pin.repo_digest
            if backend != "modal" and row.present:
                return row.pin.ref
    raise EnvironmentUnavailable(
        "there is no image to try the backend with; run trace-bench images build core"
        + (", and images push core" if backend == "modal" else "")
        + ", or name one that has a python3 with --image."
    )

"""The tasks of suites, for commands that list or check them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trace_bench.display.console import note
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.suites.registry import TaskEntry


def tasks_of(bench: str | None, roots: Sequence[Path]) -> list[TaskEntry]:
    """The tasks of the suites that ``--bench`` names, or of all suites. A suite without tasks is noted."""
    from trace_bench.suites.registry import discover

    wanted = suites_of(bench)
    entries = discover(wanted, roots)
    for name in wanted or []:
        if not any(entry.suite == name for entry in entries):
            note(f"note: suite {name} has no tasks here")
    for root in roots:
        if not any(root.resolve() in (folder := entry.folder.resolve(), *folder.parents) for entry in entries):
            note(f"note: --root {root} has no task of {', '.join(wanted or ['these suites'])}")
    return entries


def suites_of(bench: str | None) -> list[str] | None:
    """The suites that ``--bench`` names, with commas or plus signs between them; None if it was not given.

    Raises:
        ConfigError: there is no such suite.
    """
    from trace_bench.suites.registry import suite_names

    if bench is None:
        return None
    wanted = [name for name in re.split(r"[,+\s]+", bench) if name]
    known = suite_names()
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        said = ", ".join(unknown) or repr(bench)
        raise ConfigError(f"--bench: there is no suite {said}; known are {', '.join(known)}")
    return wanted

"""The ``veribench`` suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trace_bench.suites.base import MadeTasks, Suite
from trace_bench.suites.veribench import described


class LeanSuite(Suite):
    """Tasks with a table ``[lean]``."""

    def completed(self, raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return described.described(raw)

    def needed_files(self, raw: Mapping[str, Any]) -> Iterable[str]:
        return ("program.py", "cases.toml")

    def new_tasks(self, source: Path) -> MadeTasks:
        from trace_bench.suites.veribench.rows import task_folders

        return task_folders(source)


SUITE = LeanSuite(
    name="veribench",
    title="Lean 4: Python programs to translate and prove, judged by Lean",
    image="lean",
    root="veribench",
    builder="trace_bench.suites.veribench.problem:build",
    tables=("lean",),
)

"""The ``llm4ad`` suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.suites.base import Suite


class ForeignSuite(Suite):
    """Tasks with a table ``[foreign]``, and folders of foreign code whose shapes belong to this suite."""

    def reads(self, path: Path) -> bool:
        from trace_bench.suites import foreign  # which parses source: no sandbox pays for it

        plain = (path / "task.toml").exists() or foreign.module_of(path) is None
        return not plain and foreign.suite_of(path) == self.name

    def tasks_in(self, folder: Path, name: str, content: Collection[str]) -> Iterator[tuple[str, Path]]:
        if "task.toml" not in content and any(file.endswith(".py") for file in content) and self.reads(folder):
            yield name, folder

    def described(self, path: Path) -> dict[str, Any]:
        from trace_bench.suites import foreign

        return foreign.described(path, foreign.module_of(path) or "")

    def completed(self, raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return `raw` with the places that execute source, as the code beside it shows them, whatever `raw` says."""
        from trace_bench.suites import foreign

        table: Mapping[str, Any] = raw["foreign"]
        if "package" in table or not (signs := list(foreign.signs_of_execution(folder))):
            return dict(raw)
        return {**raw, "foreign": {**table, "executes_candidates": True, "signs": signs[:8]}}

    def needed_files(self, raw: Mapping[str, Any]) -> Iterable[str]:
        table: Mapping[str, Any] = raw["foreign"]
        return () if table.get("package") else (str(table["module"]),)


SUITE = ForeignSuite(
    name="llm4ad",
    title="Algorithm design: heuristics judged on generated instances",
    image="llm4ad",
    root="LLM4AD/benchmark_tasks",
    builder="trace_bench.suites.llm4ad.problem:build",
    tables=("foreign",),
    checkout=("LLM4AD", "benchmark_tasks"),
    in_roots=True,
)

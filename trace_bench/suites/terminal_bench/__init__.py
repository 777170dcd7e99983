"""The ``terminal_bench`` suite: prompts of agents that work in a terminal, judged by trials of Harbor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.suites.base import Suite
from trace_bench.suites.terminal_bench import described


class HarborSuite(Suite):
    """Tasks with a table ``[harbor]``, and folders in Harbor's own format."""

    def reads(self, path: Path) -> bool:
        return described.is_harbor_task(path)

    def tasks_in(self, folder: Path, name: str, content: Collection[str]) -> Iterator[tuple[str, Path]]:
        if described.INSTRUCTION in content and self.reads(folder):
            yield name, folder

    def described(self, path: Path) -> dict[str, Any]:
        return described.described_folder(path)

    def sends(self, name: str) -> bool:
        return name in described.SENT

    def completed(self, raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return described.described(raw)

    def needed_files(self, raw: Mapping[str, Any]) -> Iterable[str]:
        return ()

    def install(self, python: Path | None, say: Callable[[str], None]) -> Path:
        from trace_bench.suites.terminal_bench import install

        return install.install(python, say)


SUITE = HarborSuite(
    name="terminal_bench",
    title="Terminal-Bench: prompts of agents in a terminal, by trials of Harbor",
    image="core",
    root="terminal_bench",
    builder="trace_bench.suites.terminal_bench.problem:build",
    services=("trace_bench.suites.terminal_bench.host:HarborService",),
    any_task=".other",
    tables=("harbor",),
)

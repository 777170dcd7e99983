"""The ``kernelbench`` suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_bench.suites.base import Suite
from trace_bench.suites.kernelbench import described

if TYPE_CHECKING:
    import pandas as pd

    from trace_bench.suites.tables import Statistics, SuiteTable


class KernelSuite(Suite):
    """Tasks with a table ``[kernel]``, and files of KernelBench in folders called ``level1``, ``level2``, …"""

    def reads(self, path: Path) -> bool:
        return described.is_file_of_kernelbench(path)

    def tasks_in(self, folder: Path, name: str, content: Collection[str]) -> Iterator[tuple[str, Path]]:
        if (level := name.rpartition("/")[2]).startswith("level"):
            yield from ((f"{level}/{path.stem}", path) for file in content if self.reads(path := folder / file))

    def described(self, path: Path) -> dict[str, Any]:
        return described.described_file(path)

    def members(self, path: Path) -> Iterable[tuple[str, Path | bytes]]:
        return described.members(path)

    def completed(self, raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return described.described(raw)

    def table_of(self, jobs: pd.DataFrame, statistics: Statistics) -> SuiteTable | None:
        from trace_bench.suites.kernelbench import speedups

        return speedups.table_of(jobs, statistics)


SUITE = KernelSuite(
    name="kernelbench",
    title="Kernels: PyTorch modules rewritten to run faster, with the same outputs",
    image="kernelbench-cpu",
    root="kernelbench",
    builder="trace_bench.suites.kernelbench.problem:build",
    tables=("kernel",),
    in_roots=True,
)

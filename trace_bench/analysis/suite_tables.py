"""The tables that suites have about their own jobs (`trace_bench.suites.base.Suite.table_of`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from trace_bench.analysis.bounds import within
from trace_bench.analysis.statistics import LEVEL, Estimate, interval_text, means, task_sample
from trace_bench.display.table import Table
from trace_bench.suites import tables
from trace_bench.suites.installed import load_suites
from trace_bench.suites.tables import SuiteTable


@dataclass(frozen=True)
class TaskStatistics:
    """`trace_bench.suites.tables.Statistics`."""

    level: float = LEVEL

    def mean(
        self, tasks: Sequence[str], values: Sequence[float], bounds: tuple[float, float] | None = None
    ) -> Estimate:
        sample, unit = task_sample(list(tasks), list(values))
        (found,) = means([sample], self.level, [unit])
        return within(found, [bounds] if bounds else [])

    def geometric_mean(self, tasks: Sequence[str], values: Sequence[float]) -> Estimate:
        found = self.mean(tasks, np.log(np.asarray(values, dtype=float)).tolist())
        if found.mean is None:
            return found
        ends = None if found.interval is None else (math.exp(found.interval[0]), math.exp(found.interval[1]))
        return replace(found, mean=math.exp(found.mean), interval=ends, se=found.se if found.se == 0 else None)

    def text(self, estimate: tables.Estimate) -> str:
        assert isinstance(estimate, Estimate), "a suite shows the estimates that it got"
        return interval_text(estimate)


def suite_tables(jobs: pd.DataFrame, counts: Sequence[bool], *, level: float = LEVEL) -> list[SuiteTable]:
    """The tables of the suites of those of `jobs` that count."""
    counted = jobs[np.asarray(counts, dtype=bool)]
    suites, found = load_suites(), []
    for name in dict.fromkeys(counted["suite"]):
        own = counted[counted["suite"] == name]
        table = suites[name].table_of(own, TaskStatistics(level)) if name in suites else None
        found += [table] if table is not None else []
    return found


def as_table(table: SuiteTable) -> Table:
    """`table` for the display of a terminal."""
    return Table.of(table.header, table.rows, table.numeric, title=table.title)

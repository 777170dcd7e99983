"""The result of a run, also as data frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trace_bench.artifacts.derived import ReplayReport
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.records.reading import read_manifest, read_rows
from trace_bench.records.replay_check import read_report

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RunResult:
    """The result of a run. `rows` are in the order of the plan; a job that never ran has one that says ``skipped``."""

    run_id: str
    layout: RunLayout
    rows: tuple[Results, ...] = field(repr=False)
    planned: int
    replay: ReplayReport | None = None

    @property
    def ok(self) -> bool:
        """Whether every job is ok; in a replay, whether every job has the recorded result."""
        if self.replay is not None:
            return not self.replay.differing and not self.replay.skipped
        whole = all(row.status == "ok" and row.stop_reason != "interrupted" for row in self.rows)
        return whole and len(self.rows) == self.planned

    @classmethod
    def read(cls, layout: RunLayout) -> RunResult:
        """The result so far of the run in a folder. The run may still be under way.

        Raises:
            HarnessError: a file of it is damaged.
        """
        manifest = read_manifest(layout)
        rows = tuple(read_rows(layout))
        report = read_report(layout)
        return cls(layout.run_id, layout, rows, len(manifest.jobs) if manifest else len(rows), report)

    def _repr_html_(self) -> str:
        """The outcome and the leaderboard, as a notebook shows them."""
        spending = import_module("trace_bench.analysis.spending").spending_sentences(self.layout, self.rows)
        table = import_module("trace_bench.analysis.leaderboard_table")
        html: str = table.run_html(self.run_id, self.rows, self.planned, spending)
        return html

    def jobs(self) -> pd.DataFrame:
        """One row per job; see `trace_bench.analysis.frames.jobs_frame`."""
        return _frames().jobs_frame(self.rows)

    def scores(self) -> pd.DataFrame:
        """Official scores in long form; see `trace_bench.analysis.frames.scores_frame`."""
        return _frames().scores_frame(self.rows)

    def steps(self, *, parameters: bool = False) -> pd.DataFrame:
        """Every evaluated candidate; see `trace_bench.analysis.frames.steps_frame`."""
        return _frames().steps_frame(self.layout, self.rows, parameters=parameters)

    def calls(self) -> pd.DataFrame:
        """Every model call; see `trace_bench.analysis.frames.calls_frame`."""
        return _frames().calls_frame(self.layout, self.rows)


def _frames() -> Any:
    """Import pandas, which takes a third of a second, only when frames are used."""
    return import_module("trace_bench.analysis.frames")

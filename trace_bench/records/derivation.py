"""Derive what follows from the files of jobs: a row from each job's files, and all tables from the rows.

``rebuild`` replaces files that differ from these, and ``audit`` reports them. Nothing is read or written here; of a job
it is only looked up which files exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.derived import ParetoFront, Yardstick
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.outputs import WorkerResult
from trace_bench.artifacts.records import JobMeta, Manifest, Results
from trace_bench.records.gaps import Gaps
from trace_bench.records.leaderboard import rank
from trace_bench.records.parquet import parquet_bytes
from trace_bench.records.reading import ordered_rows
from trace_bench.records.rows import results_row
from trace_bench.records.tables import (
    Objectives,
    json_bytes,
    leaderboard_csv,
    results_csv,
    standings_page,
    summarise,
)
from trace_bench.secrets import known


def derive_row(
    run: RunLayout,
    meta: JobMeta,
    result: WorkerResult | None,
    usage: Usage,
    seconds: float | None,
    front: ParetoFront | None,
    gaps: Gaps,
) -> Results:
    """Derive the row of a job that has ended.

    Args:
        result: as collected from the sandbox of the last attempt; None if it left none.
        usage: sums over the cassette.
        seconds: wall time, which only the row records.
        front: of its history (`trace_bench.records.pareto`), if the task has metrics.
        gaps: of the run.

    Raises:
        HarnessError: the job has no final status yet.
    """
    return gaps.put(results_row(meta, result, usage, seconds, run, front), result)


def derive_rows(manifest: Manifest | None, rows: Mapping[str, Results]) -> list[Results]:
    """Return the rows that count, in the order of `manifest`; by job id if there is none.

    Args:
        rows: by job id.
    """
    return ordered_rows(manifest, rows) if manifest is not None else [rows[job_id] for job_id in sorted(rows)]


def derive_tables(
    run: RunLayout,
    run_id: str,
    rows: Sequence[Results],
    manifest: Manifest | None,
    yardsticks: Sequence[Yardstick],
    objectives: Objectives,
) -> dict[Path, bytes]:
    """Return the content of every table of a run, by its path.

    Args:
        run: only names the paths.
        rows: as of `derive_rows`.
        objectives: returns the objective of a job by its id, with the metric ``gap`` if its task has one.
    """
    planned, tags = (len(manifest.jobs), manifest.tags) if manifest is not None else (len(rows), ())
    tables = {
        run.results_csv: results_csv(rows),
        run.summary: json_bytes(summarise(run_id, rows, planned, tags)),
        run.leaderboard: leaderboard_csv(rank(rows)),
        run.leaderboard_md: standings_page(run, rows, yardsticks, objectives).encode(),
        run.results_parquet: parquet_bytes(rows),
    }
    return {path: known.data(data) for path, data in tables.items()}

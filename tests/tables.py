"""Writes the tables of a run again, as its controller does."""

from __future__ import annotations

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.records.reading import manifest_and_rows
from trace_bench.records.tables import write_standings, write_tables


def refresh_tables(run: RunLayout) -> list[Results]:
    """Write the tables of `run` from its job files; returns the rows."""
    manifest, rows = manifest_and_rows(run)
    planned, tags = (len(manifest.jobs), manifest.tags) if manifest is not None else (len(rows), ())
    write_tables(run, rows, planned, tags)
    write_standings(run, rows)
    return rows

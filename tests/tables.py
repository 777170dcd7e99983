"""Writes the tables of a run again, as its controller does."""

from __future__ import annotations

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.records.reading import manifest_and_rows
from trace_bench.records.tables import write_all_tables


def refresh_tables(run: RunLayout) -> list[Results]:
    """Write the tables of `run` from its job files; returns the rows."""
    manifest, rows = manifest_and_rows(run)
    write_all_tables(run, rows, manifest)
    return rows

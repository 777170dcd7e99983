"""A column of its own for each metric of each state: what tables of rows have beside the fields of `Results`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trace_bench.artifacts.records import Results

STATES = ("initial", "final", "best", "test")


def metric_columns(rows: Sequence[Results]) -> Mapping[str, Callable[[Results], float | None]]:
    """Columns and how each is read off a row: ``metric_best:NAME`` and so on, by metric in the order in which `rows`
    have them first; none that is empty in every row.

    Metrics of different tasks stand side by side: a row has nothing in those of another task.
    """
    names = dict.fromkeys(name for row in rows for state in ("best", *STATES) for name in _metrics(row, state))
    return {
        f"metric_{state}:{name}": _reader(state, name)
        for name in names
        for state in STATES
        if any(name in _metrics(row, state) for row in rows)
    }


def _reader(state: str, name: str) -> Callable[[Results], float | None]:
    return lambda row: _metrics(row, state).get(name)


def _metrics(row: Results, state: str) -> Mapping[str, float]:
    found: Mapping[str, float] = getattr(row, f"metrics_{state}")
    return found

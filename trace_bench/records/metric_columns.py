"""The columns of metrics, one for each metric of each state, that tables have beside the fields of `Results`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trace_bench.artifacts.records import OTHER_NAMES, Results

STATES = ("initial", "final", "best", "test")
LATER = ("evaluations_saved", "search_answers", "unusable_answers", "scoring_calls")
"""The last fields of `Results`. ``results.csv`` of a run of an earlier version is made again without them."""
FIELDS = tuple(name for name in Results.model_fields if name not in LATER)
"""Columns of every ``results.csv``."""


def field_columns(rows: Sequence[Results]) -> tuple[str, ...]:
    """The fields of `Results` that ``results.csv`` of `rows` has as columns, in order."""
    return *FIELDS, *(name for name in LATER if any(getattr(row, name) is not None for row in rows))


def other_columns(rows: Sequence[Results]) -> Mapping[str, str]:
    """`OTHER_NAMES`; nothing for the rows of an earlier version, which were written without most `LATER` fields."""
    ended = [row for row in rows if row.status != "skipped"]
    return OTHER_NAMES if not ended or any("unusable_answers" in row.model_fields_set for row in ended) else {}


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

"""Names that commands still use for `trace_bench.display.console`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from trace_bench.display import console
from trace_bench.display.console import emit_pairs, emit_sentence, screen, takes_escapes
from trace_bench.display.table import Table

__all__ = ["emit_pairs", "emit_rows", "emit_sentence", "emit_table", "screen", "takes_escapes"]

_NOTHING: Mapping[str, int] = MappingProxyType({})


def emit_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Collection[str] = (),
    *,
    elastic: Mapping[str, int] = _NOTHING,
    spare: Sequence[str] = (),
    by: str = "",
) -> None:
    """Print a table; see `trace_bench.display.console.emit_table`."""
    console.emit_table(Table.of(header, rows, numeric, shrink=elastic, drop=spare), by=by)


def emit_rows(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    elastic: Mapping[str, int] = _NOTHING,
    spare: Sequence[str] = (),
) -> None:
    """Print rows; see `trace_bench.display.console.emit_rows`."""
    console.emit_rows(Table.of(header, rows, shrink=elastic, drop=spare))

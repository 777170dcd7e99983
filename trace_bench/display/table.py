"""One table as a value: columns, rows, and what a narrow terminal may leave out of it.

`trace_bench.display.terminal` renders it for a terminal or a pipe, `trace_bench.display.markup` as Markdown, HTML, TeX
and CSV. Cells hold raw values: a column's format makes their text, and the renderers escape it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trace_bench.display.text import clean_line

EMPTY = ("", "-", "–")
"""Cells without content."""
UNPROTECTED = " (unprotected)"
"""Mark behind the name of a job whose score a candidate could have written. Renderers never cut it off."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        right: flush right, as numbers are.
        format: makes the text of a value that is neither text nor None.
        limit: characters of a cell. A longer text loses its end.
    """

    heading: str
    right: bool = False
    format: Callable[[Any], str] = str
    limit: int = 200

    def __post_init__(self) -> None:
        object.__setattr__(self, "heading", clean_line(self.heading, 200))


@dataclass(frozen=True)
class Table:
    """Rows of values below columns.

    Attributes:
        notes: sentences below the table, in formats that have a place for them.
        shrink: columns whose texts a narrow terminal may cut, the first one first, with the width that they keep.
        drop: columns that a narrow terminal may leave out, the first one first.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    shrink: Mapping[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Sequence[str | Column],
        rows: Iterable[Sequence[Any]],
        right: Iterable[str] = (),
        *,
        title: str = "",
        notes: Sequence[str] = (),
        shrink: Mapping[str, int] | None = None,
        drop: Sequence[str] = (),
        limit: int = 200,
    ) -> Table:
        """A table. A column given as text is flush right if `right` names it, and has cells of up to `limit`
        characters. Cells that a row lacks are empty."""
        names = frozenset(right)
        made = tuple(one if isinstance(one, Column) else Column(one, one in names, limit=limit) for one in columns)
        whole = ((*row, *[""] * (len(made) - len(row))) for row in rows)
        return cls(made, tuple(whole), title, tuple(notes), shrink or {}, tuple(drop))

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(column.heading for column in self.columns)

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The text of each cell: on one line, with secrets masked. None is a dash."""
        return [tuple(map(_text, self.columns, row)) for row in self.rows]

    def column(self, heading: str) -> list[Any]:
        """The values below `heading`."""
        place = self.header.index(heading)
        return [row[place] for row in self.rows]

    def texts_of(self, heading: str) -> list[str]:
        """The texts of the cells below `heading`."""
        place = self.header.index(heading)
        return [_text(self.columns[place], row[place]) for row in self.rows]

    def with_column(self, heading: str, values: Iterable[Any]) -> Table:
        """The table with these `values` below `heading`."""
        place = self.header.index(heading)
        rows = zip(self.rows, values, strict=True)
        return replace(self, rows=tuple((*row[:place], value, *row[place + 1 :]) for row, value in rows))

    def only(self, headings: Iterable[str]) -> Table:
        """The table with the columns of these `headings`, in the table's order."""
        kept = set(headings)
        places = [place for place, name in enumerate(self.header) if name in kept]
        return replace(
            self,
            columns=tuple(self.columns[place] for place in places),
            rows=tuple(tuple(row[place] for place in places) for row in self.rows),
        )

    def without(self, *headings: str) -> Table:
        """The table without the columns of these `headings`."""
        return self.only(name for name in self.header if name not in headings)

    def without_empty(self, keep: Iterable[str] = ()) -> Table:
        """The table without the columns that have no content, except those to `keep`."""
        texts = self.texts
        filled = {name for place, name in enumerate(self.header) if any(row[place] not in EMPTY for row in texts)}
        return self.only(filled | set(keep))

    def first(self, most: int) -> Table:
        """The first rows, at most `most`. A note counts the others."""
        left_out = len(self.rows) - most
        if left_out <= 0:
            return self
        return replace(self, rows=self.rows[:most], notes=(*self.notes, f"{left_out} more rows were left out."))


def _text(column: Column, value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else column.format(value)
    mark = UNPROTECTED if text.endswith(UNPROTECTED) else ""
    return clean_line(text.removesuffix(mark), column.limit) + mark


def dollars(value: float) -> str:
    """US dollars with four decimals; with two digits where four decimals would hide the amount.

    >>> dollars(0.0), dollars(1.25), dollars(0.0000153)
    ('0.0000', '1.2500', '0.000015')
    """
    decimals = 4 if value <= 0 or value >= 0.001 else 1 - math.floor(math.log10(value))
    return f"{value:.{decimals}f}"


def number(value: float | None, decimals: int | None = None) -> str:
    """`value` with six significant digits, or with this number of `decimals`; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.6g}" if decimals is None else f"{value:.{decimals}f}"


def megabytes(size: int) -> str:
    """Bytes as MiB with one decimal."""
    return f"{size / 2**20:.1f} MiB"

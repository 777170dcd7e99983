"""Tables, the leaderboard among them, for a terminal, and as plain text for a pipe."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from trace_bench.artifacts.jsonio import printable
from trace_bench.results.leaderboard import LeaderboardRow

if TYPE_CHECKING:
    from rich.table import Table

_HEADER = ("task", "#", "trainer", "variant", "optimizer", "model", "seeds", "initial", "best", "test", "s", "tokens")
_NUMERIC = frozenset({"#", "seeds", "initial", "best", "test", "s", "tokens"})
SHORT = 12
"""Characters of an id: what is no longer is never broken over lines."""
EMPTY = "No job qualifies for the leaderboard: failed and unprotected jobs are left out."


def leaderboard_table(rows: Sequence[LeaderboardRow]) -> Table:
    """A rich table. ``best`` is the mean over seeds with its standard deviation; an arrow tells the
    direction."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Leaderboard", title_justify="left")
    for name in _HEADER:
        table.add_column(name, justify="right" if name in _NUMERIC else "left", overflow="fold")
    previous = None
    for row in rows:
        if previous not in (None, row.task_id):
            table.add_section()
        # Text, not str: a name with brackets in it is not markup.
        cells = [Text(cell) for cell in _cells(row)]
        if previous == row.task_id:
            cells[0] = Text("")
        table.add_row(*cells, style="bold" if row.rank == 1 else "")
        previous = row.task_id
    return table


def leaderboard_text(rows: Sequence[LeaderboardRow], *, width: int | None = None, colour: bool = False) -> str:
    """The leaderboard as text; without `colour` and `width` as aligned columns, one line a row, for pipes."""
    if not rows:
        return EMPTY + "\n"
    if width is None and not colour:
        return aligned(_HEADER, [_cells(row) for row in rows], _NUMERIC)
    return _drawn(leaderboard_table(rows), width or 120, colour=colour)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[str] = ()) -> str:
    """Columns as wide as they must be, one line a row; those named in `numeric` are flush right. For pipes."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = ""
    for line in lines:
        padded = [
            cell.rjust(width) if name in numeric else cell.ljust(width)
            for cell, width, name in zip(line, widths, header, strict=True)
        ]
        text += "  ".join(padded).rstrip() + "\n"
    return text


def framed(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[str] = (), *, width: int) -> str:
    """The same as a coloured table for a terminal of `width` columns. Short cells are never broken, and columns without
    content are left out."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [place for place in range(len(header)) if any(row[place] not in ("", "-") for row in rows)]
    for place in shown:
        name = header[place]
        short = max(len(row[place]) for row in rows) <= SHORT
        table.add_column(name, justify="right" if name in numeric else "left", overflow="fold", no_wrap=short)
    for row in rows:
        table.add_row(*(Text(row[place]) for place in shown))
    return _drawn(table, width, colour=True)


def _drawn(table: Table, width: int, *, colour: bool) -> str:
    from rich.console import Console  # a terminal only: a pipe does not pay for the import

    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _cells(row: LeaderboardRow) -> tuple[str, ...]:
    arrow = "↑" if row.score_direction == "maximize" else "↓"
    spread = f" ± {row.score_std:.2g}" if row.score_std is not None else ""
    mark = " (unprotected)" if row.integrity == "unprotected" else ""
    return (
        printable(row.task_id, 80),
        str(row.rank),
        printable(row.trainer_id, 60) + mark,
        printable(row.variant, 200),
        printable(row.optimizer, 40),
        printable(row.model, 40),
        str(row.jobs),
        number(row.score_initial),
        f"{number(row.score_mean)}{spread} {arrow}",
        number(row.score_test),
        number(row.time_seconds, 1),
        f"{row.total_tokens:.0f}",
    )


def number(value: float | None, decimals: int | None = None) -> str:
    """`value` with six significant digits, or so many `decimals`; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.6g}" if decimals is None else f"{value:.{decimals}f}"

"""The leaderboard for a terminal, and as plain text for a pipe."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trace_bench.artifacts.jsonio import printable
from trace_bench.results.leaderboard import LeaderboardRow

if TYPE_CHECKING:
    from rich.table import Table

_HEADER = ("task", "#", "trainer", "variant", "optimizer", "model", "seeds", "initial", "best", "test", "s", "tokens")
_NUMERIC = frozenset({"#", "seeds", "initial", "best", "test", "s", "tokens"})
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
        return _plain(rows)
    from rich.console import Console  # a terminal only: a pipe does not pay for the import

    console = Console(
        file=io.StringIO(),
        width=width or 120,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    with console.capture() as captured:
        console.print(leaderboard_table(rows))
    return captured.get()


def _plain(rows: Sequence[LeaderboardRow]) -> str:
    lines = [_HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADER))]
    text = ""
    for line in lines:
        padded = [
            cell.rjust(width) if name in _NUMERIC else cell.ljust(width)
            for cell, width, name in zip(line, widths, _HEADER, strict=True)
        ]
        text += "  ".join(padded).rstrip() + "\n"
    return text


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
        _number(row.score_initial),
        f"{_number(row.score_mean)}{spread} {arrow}",
        _number(row.score_test),
        _number(row.time_seconds, 1),
        f"{row.total_tokens:.0f}",
    )


def _number(value: float | None, decimals: int | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if decimals is None else f"{value:.{decimals}f}"

"""A table as lines of text: laid out by rich on a terminal, or as plain columns for a pipe. One line a row in both."""

from __future__ import annotations

import io
import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING

from trace_bench.display.names import initials_of, shared_parameters, shortened, with_initials, without
from trace_bench.display.table import EMPTY, UNPROTECTED, Table
from trace_bench.display.text import clean_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable

BETTER = {"maximize": "higher is better", "minimize": "lower is better"}
_NAMES = frozenset({
    "task", "trainer", "variant", "configuration", "optimizer", "model", "guide", "parameters", "run",
    "optimizer_kwargs", "guide_kwargs", "eval_kwargs", "hardware",
})  # fmt: skip
"""Columns that tell rows apart: `shortened` cuts them. Other texts lose their end."""


@dataclass(frozen=True)
class Screen:
    """A terminal of `width` columns. `styled`: it takes escapes."""

    width: int
    styled: bool = True

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.styled else text


def plain_lines(table: Table) -> list[str]:
    """Columns as wide as their texts, one line a row, for a pipe."""
    lines = [table.header, *table.texts]
    widths = _widths(table).values()
    return ["  ".join(map(_padded, line, widths, (c.right for c in table.columns))).rstrip() for line in lines]


def run_table_lines(
    table: Table, screen: Screen | None, directions: Sequence[str | None], shared: Collection[str]
) -> list[str]:
    """A table of a run with a row for each job or group of jobs.

    A pipe (no `screen`) gets all columns. A terminal gets a section for each task if the rows are in the order of
    tasks, with the direction in its heading in place of arrows. Lines above the table state what all rows share (see
    `state_shared`).

    Args:
        directions: direction of the score of each row; empty for none.
        shared: columns that are left out where all rows have the same value.
    """
    if screen is None:
        return plain_lines(table)
    sections: list[tuple[str, str]] = []
    tasks = table.texts_of("task") if "task" in table.header else []
    if tasks and len(list(groupby(tasks))) == len(set(tasks)):
        sections = [(task, BETTER.get(each or "", "")) for task, each in zip_longest(tasks, directions)]
        table = table.without("task")
        if "validation" in table.header:
            scores = table.column("validation")
            table = table.with_column("validation", [re.sub(" [↑↓]", "", str(score)) for score in scores])
    table, lines = state_shared(table, shared)
    return [*lines, *terminal_lines(table, screen, sections)]


def terminal_lines(table: Table, screen: Screen, sections: Sequence[tuple[str, str]] = ()) -> list[str]:
    """The table in the width of a terminal, as `fit` lays it out.

    Args:
        sections: for each row a heading and a remark behind it, printed where they change.
    """
    from rich.console import Console
    from rich.text import Text

    rich_table, foot = fit(table, screen.width)
    console = Console(file=io.StringIO(), width=screen.width, height=25, color_system=None)
    with console.capture() as capture:
        console.print(rich_table)
    header, *rows = (line.rstrip() for line in capture.get().splitlines())
    lines = [screen.strong(header)]
    lines += ["─" * max(map(_width, (header, *rows)))] if screen.styled else []
    before = None
    for place, row in enumerate(rows):
        if sections and sections[place] != before:
            before = name, remark = sections[place]
            heading = Text(clean_line(name))
            heading.truncate(screen.width, overflow="ellipsis")
            lines.append(screen.strong(heading.plain) + (f"  {remark}" if remark else ""))
        lines.append(row)
    for line in foot:
        lines += textwrap.wrap(line, max(screen.width, 20), subsequent_indent="  ")
    return lines


def fit(table: Table, width: int, keep: Iterable[str] = ()) -> tuple[RichTable, list[str]]:
    """The table for `width` columns of a terminal, one line a row, and the lines below it.

    Columns without content are left out. Where the table is too wide, names of a variant's parameters become initials,
    and the texts of the columns `table.shrink` are cut, except those with the mark of unprotected jobs. Where that does
    not suffice, the columns `table.drop` are left out. The lines below explain the initials and name these columns.

    Args:
        keep: columns that stay without content.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    foot: list[str] = []
    table = table.without_empty(keep)
    if "variant" in table.header and _excess(_widths(table), width) > 0:
        variants = table.texts_of("variant")
        initials = initials_of(variants)
        table = table.with_column("variant", [with_initials(variant, initials) for variant in variants])
        foot += [", ".join(f"{short}: {name}" for name, short in initials.items())] if initials else []
    widths = _widths(table)
    marked = {name for name in widths if any(cell.endswith(UNPROTECTED) for cell in table.texts_of(name))}
    least = {n: min(widths[n], max(k, len(n))) for n, k in table.shrink.items() if n in widths and n not in marked}
    dropped: list[str] = []
    for name in table.drop:
        if _excess(widths | least, width) <= 0:
            break
        if widths.pop(name, None) is not None:
            least.pop(name, None)
            dropped.append(name)
    for name, fewest in [*least.items(), *((name, 1) for name in least)]:  # no number is cut while a text can be
        widths[name] = max(fewest, widths[name] - max(0, _excess(widths, width)))
    foot += [f"no room for: {', '.join(dropped)}"] if dropped else []
    rich_table = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="none")
    table = table.only(widths)
    for column in table.columns:
        rich_table.add_column(
            Text(column.heading),
            justify="right" if column.right else "left",
            width=widths[column.heading],
            overflow="ellipsis",
            no_wrap=True,
        )
    cells = {name: table.texts_of(name) for name in widths}
    cells |= {name: shortened(cells[name], widths[name]) for name in _NAMES & (widths.keys() - marked)}
    for row in zip(*cells.values(), strict=True):
        rich_table.add_row(*map(Text, row))
    return rich_table, foot


def state_shared(table: Table, names: Collection[str]) -> tuple[Table, list[str]]:
    """The table without the content that all rows share, and lines that state this content.

    This covers columns among `names` with one value (``held-out``: without any), the parameters that all variants with
    parameters have, and the mark of unprotected jobs in the column ``trainer``.
    """
    shared: list[str] = []
    cells = {name: table.texts_of(name) for name in table.header}
    if all(cell.endswith(UNPROTECTED) for cell in cells.get("trainer", [""])):
        cells["trainer"] = [cell.removesuffix(UNPROTECTED) for cell in cells["trainer"]]
        table = table.with_column("trainer", cells["trainer"])
        shared.append("unprotected")
    for name in (name for name in cells if name in names):
        value, is_empty = cells[name][0], set(cells[name]) <= set(EMPTY)
        if is_empty or (name != "held-out" and len(set(cells[name])) == 1):
            table = table.without(name)
            shared += [f"{name} {value}"] if not is_empty else ["no held-out score"] if name == "held-out" else []
    lines = ["all: " + ", ".join(shared)] if shared else []
    variants = cells["variant"] if "variant" in table.header else []
    if parameters := shared_parameters(variants):
        every = all("=" in cell for cell in variants)
        table = table.with_column("variant", [without(cell, parameters) for cell in variants])
        lines.append(f"variants: all {'' if every else 'that have parameters '}with {','.join(parameters)}")
    return table, lines


def _widths(table: Table) -> dict[str, int]:
    """The columns that the widest cell of each column of the table takes."""
    return {column[0]: max(map(_width, column)) for column in zip(table.header, *table.texts, strict=True)}


def _excess(widths: dict[str, int], width: int) -> int:
    """The number of columns by which a line is too wide."""
    return sum(widths.values()) + 2 * (len(widths) - 1) - width


def _width(text: str) -> int:
    """Columns that `text` takes on a terminal. (rich can count them, and takes a tenth of a command's start.)"""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _padded(text: str, width: int, right: bool) -> str:
    pad = " " * (width - _width(text))
    return pad + text if right else text + pad

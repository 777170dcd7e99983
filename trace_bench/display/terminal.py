"""A table as lines of text: fitted to a terminal, or as plain columns for a pipe. One line a row in both."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from trace_bench.display.names import cut, initials_of, shared_parameters, shortened, width_of, with_initials, without
from trace_bench.display.table import EMPTY, UNPROTECTED, Column, Table
from trace_bench.display.text import clean_line

_NAMES = frozenset({
    "task", "trainer", "variant", "configuration", "optimizer", "model", "guide", "parameters", "run",
    "optimizer_kwargs", "guide_kwargs", "eval_kwargs", "hardware",
})  # fmt: skip
"""Columns that tell rows apart: `shortened` cuts them. Other texts lose their end."""
_MOST_NAMES = 100
"""Different names of one column up to which the narrowest width that tells them apart is searched."""


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
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    return [_line(line, table.columns, widths) for line in lines]


def terminal_lines(table: Table, screen: Screen, sections: Sequence[tuple[str, str]] = ()) -> list[str]:
    """The table as `fit` fits it to a terminal.

    Args:
        sections: for each row a heading and a remark behind it, shown where they change.
    """
    fitted = fit(table, screen.width)
    lines = [fitted.header]
    if screen.styled:
        rule = min(screen.width, max(map(width_of, (fitted.header, *fitted.rows))))
        lines = [screen.strong(fitted.header), "─" * rule]
    for place, row in enumerate(fitted.rows):
        if sections and (place == 0 or sections[place] != sections[place - 1]):
            name, remark = sections[place]
            lines.append(screen.strong(cut(clean_line(name), screen.width)) + (f"  {remark}" if remark else ""))
        lines.append(row)
    foot = [fitted.legend] if fitted.legend else []
    foot += [f"no room for: {', '.join(fitted.dropped)}"] if fitted.dropped else []
    return lines + [
        part for line in foot for part in textwrap.wrap(line, max(screen.width, 20), subsequent_indent="  ")
    ]


@dataclass(frozen=True)
class Fitted:
    """Lines of a table. `dropped` are the columns without room; `legend` explains short names of parameters."""

    header: str
    rows: Sequence[str]
    dropped: Sequence[str]
    legend: str = ""


def fit(table: Table, width: int, keep: Collection[str] = ()) -> Fitted:
    """The table in at most `width` columns, one line a row, without columns that have no content.

    Texts of the columns `table.shrink` are cut where that is enough to fit, and no other cell ever is. Names keep the
    part that tells them apart as long as there is room. Names of a variant's parameters become initials first. Where
    cutting does not suffice, the columns `table.drop` are left out.

    Args:
        keep: columns that stay without content.
    """
    table = table.without_empty(keep)
    columns = {column.heading: column for column in table.columns}
    cells = {name: list(found) for name, found in zip(columns, zip(*table.texts, strict=True), strict=False)}
    whole = {name: max(map(width_of, (name, *cells.get(name, ())))) for name in columns}
    elastic = [name for name in table.shrink if name in whole]
    fewest, legend = whole, ""
    if _excess(whole, width) > 0:
        if "variant" in elastic:
            initials = initials_of(cells["variant"])
            cells["variant"] = [with_initials(variant, initials) for variant in cells["variant"]]
            whole["variant"] = max(map(width_of, ("variant", *cells["variant"])))
            legend = ", ".join(f"{short}: {name}" for name, short in initials.items())
        fewest = {name: _fewest(name, cells[name], table.shrink[name]) for name in elastic}
    dropped: list[str] = []
    for name in (*table.drop, None):
        widths = _shrunk(whole, width, {name: fewest[name] for name in elastic if name in whole})
        if _excess(widths, width) <= 0 or name is None:
            break
        if name in whole:
            del whole[name]
            dropped.append(name)
    if _excess(widths, width) > 0:
        widths = _shrunk(whole, width, {name: 1 for name in elastic if name in whole})
    for name, room in widths.items():
        if name in _NAMES:
            cells[name] = _shortened_before_marks(cells[name], room)
    shown = [columns[name] for name in widths]
    lines = [
        _line([cut(cell, room) for cell, room in zip(line, widths.values(), strict=True)], shown, [*widths.values()])
        for line in [tuple(widths), *zip(*(cells.get(name, ()) for name in widths), strict=True)]
    ]
    return Fitted(lines[0], lines[1:], dropped, legend)


def state_shared(table: Table, names: Collection[str]) -> tuple[Table, list[str]]:
    """The table without the content that all rows share, and lines that state this content.

    This covers columns among `names` with one value (``held-out``: without any), the parameters that all variants with
    parameters have, and the mark of unprotected jobs in the column ``trainer``.
    """
    shared: list[str] = []
    cells = {name: list(found) for name, found in zip(table.header, zip(*table.texts, strict=True), strict=True)}
    if all(cell.endswith(UNPROTECTED) for cell in cells["trainer"]):
        cells["trainer"] = [cell.removesuffix(UNPROTECTED) for cell in cells["trainer"]]
        shared.append("unprotected")
    for name in [name for name in cells if name in names and name != "held-out" and len(set(cells[name])) == 1]:
        value = cells.pop(name)[0]
        shared += [f"{name} {value}"] if value not in EMPTY else []
    if "held-out" in names and all(cell in EMPTY for cell in cells["held-out"]):
        del cells["held-out"]
        shared.append("no held-out score")
    lines = ["all: " + ", ".join(shared)] if shared else []
    parameters = shared_parameters(cells.get("variant", ()))
    if parameters:
        every = all("=" in cell for cell in cells["variant"])
        cells["variant"] = [without(cell, parameters) for cell in cells["variant"]]
        lines.append(f"variants: all {'' if every else 'that have parameters '}with {','.join(parameters)}")
    rows = tuple(zip(*cells.values(), strict=True))
    return replace(table, columns=table.only(cells).columns, rows=rows), lines


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        pad = " " * (width - width_of(cell))
        padded.append(pad + cell if column.right else cell + pad)
    return "  ".join(padded).rstrip()


def _excess(widths: Mapping[str, int], width: int) -> int:
    """The number of columns by which a line is too wide."""
    return sum(widths.values()) + 2 * (len(widths) - 1) - width


def _shrunk(whole: Mapping[str, int], width: int, fewest: Mapping[str, int]) -> dict[str, int]:
    """Widths of columns after cutting those in `fewest`, the first one first, as far as that is needed."""
    widths = dict(whole)
    for name, least in fewest.items():
        if (excess := _excess(widths, width)) > 0:
            widths[name] -= min(excess, widths[name] - min(widths[name], least))
    return widths


def _fewest(name: str, cells: Sequence[str], least: int) -> int:
    """The width that the cells below `name` need: `least`, or more where that tells them apart."""
    start, widest = max(least, len(name)), max(map(width_of, cells))
    if any(cell.endswith(UNPROTECTED) for cell in cells):
        start += len(UNPROTECTED)
    if name not in _NAMES or widest <= start or len(set(cells)) > _MOST_NAMES:
        return start
    for room in range(start, widest):
        if len(set(_shortened_before_marks(cells, room))) == len(set(cells)):
            return room
    return widest


def _shortened_before_marks(cells: Sequence[str], width: int) -> list[str]:
    """`cells` in at most `width` columns each. The mark of an unprotected job stays whole where it fits."""
    room = width - len(UNPROTECTED)
    if room < 1 or not any(cell.endswith(UNPROTECTED) for cell in cells):
        return shortened(cells, width)
    names = [cell.removesuffix(UNPROTECTED) for cell in cells]
    marked, free = shortened(names, room), shortened(names, width)
    return [
        short + UNPROTECTED if cell.endswith(UNPROTECTED) else plain
        for cell, short, plain in zip(cells, marked, free, strict=True)
    ]

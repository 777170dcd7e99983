"""Tables, the leaderboard among them: fitted to a terminal, or as plain columns for a pipe. One line a row in both."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import printable
from trace_bench.results.integrity import MARK
from trace_bench.results.leaderboard import LeaderboardRow

_HEADER = (
    "task", "#", "trainer", "variant", "optimizer", "model", "seeds", "initial", "best", "test", "evals",
    "calls", "s", "tokens", "usd", "direction",
)  # fmt: skip
_NUMERIC = frozenset({"#", "seeds", "initial", "best", "test", "evals", "calls", "s", "tokens", "usd"})
_ELASTIC = {"variant": 8, "trainer": 14, "optimizer": 8, "model": 8}
_FOR_PIPES = frozenset({"task", "calls", "direction"})
_SPARE = ("tokens", "s", "initial", "evals", "usd")
MOST_METRICS = 6
"""Columns of metrics below a leaderboard."""
NOTHING: Mapping[str, int] = MappingProxyType({})
EMPTY = "No job qualifies for the leaderboard: failed and unprotected jobs are left out, and those that were cut off."
BETTER = {"maximize": "higher is better", "minimize": "lower is better"}
UNPROTECTED = " (unprotected)"
"""Behind the trainer of a job whose score a candidate could have written."""
_NEXT_PARAMETER = re.compile(r",(?=[A-Za-z_]\w*=)")

Row = Sequence[str]


@dataclass(frozen=True)
class Screen:
    """A terminal of `width` columns. `styled`: it takes escapes."""

    width: int
    styled: bool = True

    def strong(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.styled else text


# ---------------------------------------------------------------------------------------------------- leaderboard


def leaderboard_text(rows: Sequence[LeaderboardRow], screen: Screen | None = None) -> str:
    """The leaderboard as text. ``best`` is the mean over seeds with its standard deviation,
    ``evals`` (in training), ``calls`` and what follows are means of what was spent.

    For a pipe (no `screen`) all columns are there. A terminal gets a section per task, headed by the direction, and a
    line above that says what holds for all rows.
    """
    if not rows:
        return EMPTY + "\n"
    cells = [_cells(row) for row in rows]
    if screen is None:
        return aligned(_HEADER, cells, _NUMERIC) + _metrics_text(rows, None)
    shown = [place for place, name in enumerate(_HEADER) if name not in _FOR_PIPES]
    header, short, said = told_once(
        [_HEADER[place] for place in shown],
        [[row[place] for place in shown] for row in cells],
        ("variant", "optimizer", "model", "test"),
    )
    sections = [heading(row.task_id, row.score_direction, screen) for row in rows]
    table = framed(header, short, _NUMERIC, screen=screen, elastic=_ELASTIC, spare=_SPARE, sections=sections)
    return "".join(f"{line}\n" for line in said) + table + _metrics_text(rows, screen)


def _metrics_text(rows: Sequence[LeaderboardRow], screen: Screen | None) -> str:
    """The metrics of the best states below a leaderboard; nothing where no task has any."""
    measured = [row for row in rows if row.metrics]
    names = list(dict.fromkeys(name for row in measured for name in row.metrics))
    if not names:
        return ""
    shown = names[:MOST_METRICS]
    header = ("task", "#", "trainer", "variant", *(printable(name, 40) for name in shown), "hypervolume")
    cells = [
        (*_cells(row)[:4], *(number(row.metrics.get(name)) for name in shown), number(row.hypervolume))
        for row in measured
    ]
    title = "metrics of the best states, means over seeds"
    title += (
        f"; the first {MOST_METRICS} of {len(names)}, all are in leaderboard.csv" if len(names) > len(shown) else ""
    )
    numeric = ("#", *header[4:])
    if screen is None:
        return f"\n{title}\n{aligned(header, cells, numeric)}"
    table = framed(header, cells, numeric, screen=screen, elastic={"variant": 8, "task": 8}, spare=("variant",))
    return f"\n{title}\n{table}"


def left_out_sentence(rows: Sequence[LeaderboardRow]) -> str:
    """What ``2/3`` among the seeds means; empty where all count."""
    if all(row.jobs == row.seeds for row in rows):
        return ""
    failed, unfinished = sum(row.failed_jobs for row in rows), sum(row.unfinished_jobs for row in rows)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{unfinished} failed by infrastructure, were cut off or never ran"] if unfinished else []
    unprotected = sum(row.seeds - row.jobs for row in rows) - failed - unfinished
    parts += [f"{unprotected} unprotected"] if unprotected else []
    return f"seeds: those that count, of all; in no mean: {', '.join(parts)}"


def heading(task_id: str, direction: Direction, screen: Screen) -> str:
    """Above the rows of a task."""
    return f"{screen.strong(printable(task_id, 80))}  {BETTER[direction]}"


def _cells(row: LeaderboardRow) -> tuple[str, ...]:
    spread = f" ± {row.score_std:.2g}" if row.score_std is not None else ""
    return (
        printable(row.task_id, 80),
        str(row.rank),
        printable(row.trainer_id, 60) + (UNPROTECTED if row.integrity == "unprotected" else ""),
        printable(row.variant, 200),
        printable(row.optimizer, 40),
        printable(row.model, 40),
        str(row.jobs) if row.jobs == row.seeds else f"{row.jobs}/{row.seeds}",
        number(row.score_initial),
        f"{number(row.score_mean)}{spread}{MARK if row.flagged_jobs else ''}",
        number(row.score_test),
        f"{row.evaluations:.0f}",
        f"{row.llm_calls:.0f}",
        number(row.time_seconds, 1),
        f"{row.total_tokens:.0f}",
        dollars(row.cost_usd) if row.cost_usd else "-",
        row.score_direction,
    )


# --------------------------------------------------------------------------------------------------- any table


def aligned(header: Row, rows: Sequence[Row], numeric: Collection[str] = ()) -> str:
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


def framed(
    header: Row,
    rows: Sequence[Row],
    numeric: Collection[str] = (),
    *,
    screen: Screen,
    elastic: Mapping[str, int] = NOTHING,
    spare: Sequence[str] = (),
    sections: Sequence[str] = (),
) -> str:
    """The same for a terminal, as `fitted` fits it. `sections` has a heading for each row, shown where it changes."""
    table = fitted(header, rows, numeric, width=screen.width, elastic=elastic, spare=spare)
    lines = _head(table, screen)
    for place, row in enumerate(table.rows):
        if sections and (place == 0 or sections[place] != sections[place - 1]):
            lines.append(sections[place])
        lines.append(row)
    return "\n".join([*lines, *_foot(table)]) + "\n"


@dataclass(frozen=True)
class Fitted:
    """Lines of a table. `left_out` are the columns that found no room."""

    header: str
    rows: Sequence[str]
    left_out: Sequence[str]


def fitted(
    header: Row,
    rows: Sequence[Row],
    numeric: Collection[str] = (),
    *,
    width: int,
    elastic: Mapping[str, int] = NOTHING,
    spare: Sequence[str] = (),
    keep: Collection[str] = (),
) -> Fitted:
    """A table of at most `width` columns, one line a row. Columns without content are left out, but those to `keep`.

    Args:
        elastic: columns whose text may be cut, the first one first, and what it keeps, where that is enough to fit. No
            other cell ever is cut.
        spare: columns to leave out where cutting does not suffice, the first one first.
    """
    shown = [p for p, name in enumerate(header) if name in keep or any(row[p] not in ("", "-") for row in rows)]
    whole = {place: max(wide(header[place]), *(wide(row[place]) for row in rows)) for place in shown}
    left_out: list[str] = []
    for name in (*spare, None):
        widths, excess = _shrunk(header, whole, width, elastic, None)
        if excess <= 0 or name is None:
            break
        if name in header and header.index(name) in whole:
            del whole[header.index(name)]
            left_out.append(name)
    if excess > 0:
        widths, _ = _shrunk(header, whole, width, elastic, 1)
    return Fitted(
        _line(header, header, widths, numeric), [_line(row, header, widths, numeric) for row in rows], left_out
    )


def _shrunk(
    header: Row, whole: dict[int, int], width: int, elastic: Mapping[str, int], fewest: int | None
) -> tuple[dict[int, int], int]:
    """Widths by place, and by how many columns they still are too wide."""
    widths = dict(whole)
    excess = sum(widths.values()) + 2 * (len(widths) - 1) - width
    for name, least in elastic.items():
        place = header.index(name) if name in header else -1
        if place in widths and excess > 0:
            keep = min(widths[place], fewest or max(least, len(name)))
            taken = min(excess, widths[place] - keep)
            widths[place] -= taken
            excess -= taken
    return widths, excess


def _line(row: Row, header: Row, widths: dict[int, int], numeric: Collection[str]) -> str:
    cells = []
    for place, width in widths.items():
        text = (
            _cut_name(row[place], width)
            if header[place] == "trainer"
            else cut(row[place], width, middle=header[place] == "variant")
        )
        pad = " " * (width - wide(text))
        cells.append(pad + text if header[place] in numeric else text + pad)
    return "  ".join(cells).rstrip()


def _head(table: Fitted, screen: Screen) -> list[str]:
    if not screen.styled:
        return [table.header]
    rule = min(screen.width, max(wide(line) for line in (table.header, *table.rows)))
    return [screen.strong(table.header), "─" * rule]


def _foot(table: Fitted) -> list[str]:
    return [f"no room for: {', '.join(table.left_out)}"] if table.left_out else []


def told_once(header: Row, rows: Sequence[Row], names: Collection[str]) -> tuple[Row, list[Row], list[str]]:
    """The table without what all rows share, and the lines that say it: columns among `names` with one value
    (``test``: with none), the parameters that all variants have which have any, and the mark of unprotected jobs.

    Args:
        header: with ``trainer`` in it.
    """
    said = []
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    if all(cell.endswith(UNPROTECTED) for cell in columns["trainer"]):
        columns["trainer"] = [cell.removesuffix(UNPROTECTED) for cell in columns["trainer"]]
        said.append("unprotected")
    for name in [name for name in header if name in names and name != "test" and len(set(columns[name])) == 1]:
        value = columns.pop(name)[0]
        if value not in ("", "-"):
            said.append(f"{name} {value}")
    if "test" in names and all(cell in ("", "-") for cell in columns["test"]):
        del columns["test"]
        said.append("no test score")
    lines = ["all: " + ", ".join(said)] if said else []
    shared = shared_parameters(columns.get("variant", ()))
    if shared:
        every = all("=" in cell for cell in columns["variant"])
        columns["variant"] = [without(cell, shared) for cell in columns["variant"]]
        lines.append(f"variants: all {'' if every else 'that have parameters '}with {','.join(shared)}")
    return tuple(columns), list(zip(*columns.values(), strict=True)), lines


def shared_parameters(variants: Collection[str]) -> list[str]:
    """The ``name=value`` that all variants have which have any, if these are several."""
    split = [_NEXT_PARAMETER.split(variant) for variant in dict.fromkeys(variants) if "=" in variant]
    if len(split) < 2:
        return []
    return [part for part in split[0] if all(part in parts for parts in split[1:])]


def without(variant: str, shared: Collection[str]) -> str:
    """`variant` without the parameters in `shared`."""
    return ",".join(part for part in _NEXT_PARAMETER.split(variant) if part not in shared)


def wide(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, width: int, *, middle: bool = False) -> str:
    """`text` in at most `width` columns, with an ellipsis where something is missing: its end, or its `middle`."""
    if wide(text) <= width:
        return text
    end = "" if not middle else _beginning(text[::-1], width // 2)[::-1]
    return _beginning(text, width - 1 - wide(end)) + "…" + end


def _cut_name(text: str, width: int) -> str:
    """The same for a trainer, of which the mark of unprotected jobs stays to be seen."""
    short = UNPROTECTED[:5] + "…)"
    if wide(text) <= width or not text.endswith(UNPROTECTED) or width <= len(short):
        return cut(text, width)
    return cut(text.removesuffix(UNPROTECTED), width - len(short)) + short


def _beginning(text: str, width: int) -> str:
    kept = ""
    for letter in text:
        width -= _columns(letter)
        if width < 0:
            break
        kept += letter
    return kept


def dollars(value: float) -> str:
    """US dollars with four decimals; where these would hide what was spent, with two digits.

    >>> dollars(0.0), dollars(1.25), dollars(0.0000153)
    ('0.0000', '1.2500', '0.000015')
    """
    decimals = 4 if value <= 0 or value >= 0.001 else 1 - math.floor(math.log10(value))
    return f"{value:.{decimals}f}"


def number(value: float | None, decimals: int | None = None) -> str:
    """`value` with six significant digits, or so many `decimals`; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.6g}" if decimals is None else f"{value:.{decimals}f}"

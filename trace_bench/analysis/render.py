"""Tables, the leaderboard among them: fitted to a terminal, or as plain columns for a pipe. One line a row in both."""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import printable
from trace_bench.display.terminal import Screen
from trace_bench.records.integrity import MARK
from trace_bench.records.leaderboard import LeaderboardRow, task_names

_HEADER = (
    "task", "#", "trainer", "variant", "optimizer", "model", "seeds", "initial", "validation", "held-out", "evals",
    "calls", "s", "tokens", "usd", "direction",
)  # fmt: skip
_NUMERIC = frozenset({"#", "seeds", "initial", "validation", "held-out", "evals", "calls", "s", "tokens", "usd"})
_ELASTIC = {"variant": 16, "trainer": 14, "optimizer": 8, "model": 8}
_FOR_PIPES = frozenset({"task", "calls", "direction"})
_SPARE = ("tokens", "s", "optimizer", "initial", "evals", "usd")
TASK = 160
"""Characters of a task's name, which may have the hardware behind it."""
MOST_METRICS = 6
"""Columns of metrics below a leaderboard."""
NOTHING: Mapping[str, int] = MappingProxyType({})
EMPTY = "No job qualifies for the leaderboard: failed and unprotected jobs are left out, and those that were cut off."
BETTER = {"maximize": "higher is better", "minimize": "lower is better"}
UNPROTECTED = " (unprotected)"
"""Behind the trainer of a job whose score a candidate could have written."""
_NAMES = frozenset({
    "task", "trainer", "variant", "configuration", "optimizer", "model", "guide", "parameters", "run",
    "optimizer_kwargs", "guide_kwargs", "eval_kwargs", "hardware",
})  # fmt: skip
"""Columns that tell rows apart: `shortened` cuts them. Other texts lose their end."""
_MOST_NAMES = 100
"""Different names of one column up to which the narrowest width that tells them apart is looked for."""
_NEXT_PARAMETER = re.compile(r",(?=[A-Za-z_]\w*=)")

Row = Sequence[str]


# ---------------------------------------------------------------------------------------------------- leaderboard


def leaderboard_text(
    rows: Sequence[LeaderboardRow], screen: Screen | None = None, *, several_objectives: bool = False
) -> str:
    """The leaderboard as text. ``validation`` is the mean over seeds with its standard deviation,
    ``evals`` (in training), ``calls`` and what follows are means of what was spent.

    For a pipe (no `screen`) all columns are there. A terminal gets a section per task, headed by the direction, and a
    line above that says what holds for all rows.

    Args:
        several_objectives: the searches traded metrics off against each other, so that their fronts have a hypervolume.
    """
    if not rows:
        return EMPTY + "\n"
    tasks = task_names(rows)
    cells = [_cells(row, task) for row, task in zip(rows, tasks, strict=True)]
    if screen is None:
        return aligned(_HEADER, cells, _NUMERIC) + _metrics_text(rows, None, several_objectives)
    shown = [place for place, name in enumerate(_HEADER) if name not in _FOR_PIPES]
    header, short, said = told_once(
        [_HEADER[place] for place in shown],
        [[row[place] for place in shown] for row in cells],
        ("variant", "optimizer", "model", "held-out"),
    )
    sections = [heading(task, row.score_direction, screen) for row, task in zip(rows, tasks, strict=True)]
    table = framed(header, short, _NUMERIC, screen=screen, elastic=_ELASTIC, spare=_SPARE, sections=sections)
    return "".join(f"{line}\n" for line in said) + table + _metrics_text(rows, screen, several_objectives)


def _metrics_text(rows: Sequence[LeaderboardRow], screen: Screen | None, several_objectives: bool) -> str:
    """The metrics of the best states below a leaderboard; nothing where no task has any."""
    named = [(row, task) for row, task in zip(rows, task_names(rows), strict=True) if row.metrics]
    measured = [row for row, _ in named]
    names = list(dict.fromkeys(name for row in measured for name in row.metrics))
    if not names:
        return ""
    shown = names[:MOST_METRICS]
    header = ("task", "#", "trainer", "variant", *(printable(name, 40) for name in shown))
    cells = [(*_cells(row, task)[:4], *(number(row.metrics.get(name)) for name in shown)) for row, task in named]
    if several_objectives:
        header = (*header, "hypervolume")
        cells = [(*row, number(of.hypervolume)) for row, of in zip(cells, measured, strict=True)]
    title = "validation metrics of the best states, means over seeds"
    title += (
        f"; the first {MOST_METRICS} of {len(names)}, all are in leaderboard.csv" if len(names) > len(shown) else ""
    )
    numeric = ("#", *header[4:])
    if screen is None:
        return f"\n{title}\n{aligned(header, cells, numeric)}"
    table = framed(header, cells, numeric, screen=screen, elastic={"task": 8, "variant": 16}, spare=header[:3:-1])
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
    return f"{screen.strong(printable(task_id, TASK))}  {BETTER[direction]}"


def _cells(row: LeaderboardRow, task: str) -> tuple[str, ...]:
    spread = f" ± {row.score_std:.2g}" if row.score_std is not None else ""
    return (
        printable(task, TASK),
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
    return "\n".join([*lines, *_foot(table, screen.width)]) + "\n"


@dataclass(frozen=True)
class Fitted:
    """Lines of a table. `left_out` are the columns that found no room; `legend` says what short names of parameters
    stand for."""

    header: str
    rows: Sequence[str]
    left_out: Sequence[str]
    legend: str = ""


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
            other cell ever is cut. Names keep what tells them apart as long as there is room; of a variant, names of
            parameters become initials first.
        spare: columns to leave out where cutting does not suffice, the first one first.
    """
    shown = [p for p, name in enumerate(header) if name in keep or any(row[p] not in ("", "-") for row in rows)]
    cells = {place: [row[place] for row in rows] for place in shown}
    whole = {place: max(wide(header[place]), *map(wide, cells[place])) for place in shown}
    places = {name: header.index(name) for name in elastic if name in header and header.index(name) in whole}
    legend = ""
    if sum(whole.values()) + 2 * (len(whole) - 1) > width:
        if "variant" in places:
            variants = cells[places["variant"]]
            initials = _initials(variants)
            cells[places["variant"]] = [_with_initials(variant, initials) for variant in variants]
            whole[places["variant"]] = max(len("variant"), *map(wide, cells[places["variant"]]))
            legend = ", ".join(f"{short}: {name}" for name, short in initials.items())
        fewest = {place: _fewest(header[place], cells[place], elastic[name]) for name, place in places.items()}
    else:
        fewest = whole
    left_out: list[str] = []
    for name in (*spare, None):
        widths, excess = _shrunk(whole, width, {place: fewest[place] for place in places.values() if place in whole})
        if excess <= 0 or name is None:
            break
        if name in header and header.index(name) in whole:
            del whole[header.index(name)]
            left_out.append(name)
    if excess > 0:
        widths, _ = _shrunk(whole, width, {place: 1 for place in places.values() if place in whole})
    for place, room in widths.items():
        if header[place] in _NAMES:
            cells[place] = _shortened_before_marks(cells[place], room)
    lines = [_line([cells[place][n] for place in widths], header, widths, numeric) for n in range(len(rows))]
    return Fitted(_line([header[place] for place in widths], header, widths, numeric), lines, left_out, legend)


def _fewest(name: str, cells: Sequence[str], least: int) -> int:
    """Columns that the cells under `name` need, which are cut down to `least` where that says enough."""
    start, widest = max(least, len(name)), max(map(wide, cells))
    if any(cell.endswith(UNPROTECTED) for cell in cells):
        start += len(UNPROTECTED)
    if name not in _NAMES or widest <= start or len(set(cells)) > _MOST_NAMES:
        return start
    return next((room for room in range(start, widest) if _apart(_shortened_before_marks(cells, room), cells)), widest)


def _shortened_before_marks(cells: Sequence[str], width: int) -> list[str]:
    """`cells` in at most `width` columns each. The mark of an unprotected job stays whole where it fits."""
    room = width - len(UNPROTECTED)
    if room < 1 or not any(cell.endswith(UNPROTECTED) for cell in cells):
        return shortened(cells, width)
    names = shortened([cell.removesuffix(UNPROTECTED) for cell in cells], room)
    plain = shortened([cell.removesuffix(UNPROTECTED) for cell in cells], width)
    return [
        name + UNPROTECTED if cell.endswith(UNPROTECTED) else free
        for cell, name, free in zip(cells, names, plain, strict=True)
    ]


def _shrunk(whole: dict[int, int], width: int, fewest: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Widths by place, and by how many columns they still are too wide."""
    widths = dict(whole)
    excess = sum(widths.values()) + 2 * (len(widths) - 1) - width
    for place, least in fewest.items():
        if excess > 0:
            taken = min(excess, widths[place] - min(widths[place], least))
            widths[place] -= taken
            excess -= taken
    return widths, excess


def _line(row: Row, header: Row, widths: dict[int, int], numeric: Collection[str]) -> str:
    cells = []
    for cell, (place, width) in zip(row, widths.items(), strict=True):
        text = cut(cell, width)
        pad = " " * (width - wide(text))
        cells.append(pad + text if header[place] in numeric else text + pad)
    return "  ".join(cells).rstrip()


def _head(table: Fitted, screen: Screen) -> list[str]:
    if not screen.styled:
        return [table.header]
    rule = min(screen.width, max(wide(line) for line in (table.header, *table.rows)))
    return [screen.strong(table.header), "─" * rule]


def _foot(table: Fitted, width: int) -> list[str]:
    lines = [table.legend] if table.legend else []
    lines += [f"no room for: {', '.join(table.left_out)}"] if table.left_out else []
    return [part for line in lines for part in textwrap.wrap(line, max(width, 20), subsequent_indent="  ")]


def told_once(header: Row, rows: Sequence[Row], names: Collection[str]) -> tuple[Row, list[Row], list[str]]:
    """The table without what all rows share, and the lines that say it: columns among `names` with one value
    (``held-out``: with none), the parameters that all variants have which have any, and the mark of unprotected jobs.

    Args:
        header: with ``trainer`` in it.
    """
    said = []
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    if all(cell.endswith(UNPROTECTED) for cell in columns["trainer"]):
        columns["trainer"] = [cell.removesuffix(UNPROTECTED) for cell in columns["trainer"]]
        said.append("unprotected")
    for name in [name for name in header if name in names and name != "held-out" and len(set(columns[name])) == 1]:
        value = columns.pop(name)[0]
        if value not in ("", "-"):
            said.append(f"{name} {value}")
    if "held-out" in names and all(cell in ("", "-") for cell in columns["held-out"]):
        del columns["held-out"]
        said.append("no held-out score")
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


def parameters_of(variant: str) -> list[str]:
    """The ``name=value`` of a variant; itself where it has none."""
    return _NEXT_PARAMETER.split(variant)


def without(variant: str, shared: Collection[str]) -> str:
    """`variant` without the parameters in `shared`."""
    return ",".join(part for part in parameters_of(variant) if part not in shared)


def wide(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns, with an ellipsis for an end that is missing."""
    return text if wide(text) <= width else _beginning(text, width - 1) + "…"


def shortened(names: Sequence[str], width: int) -> list[str]:
    """`names` in at most `width` columns each; those that differ still do, if that is possible.

    What they all begin with goes first, then the beginning of each, then its middle. An ellipsis stands for it.

    >>> shortened(["llm4ad:tsp_construct", "llm4ad:set_cover"], 14)
    ['…tsp_construct', '…set_cover']
    """
    if all(wide(name) <= width for name in names):
        return list(names)
    every = list(dict.fromkeys(names))
    found: list[str] = []
    for form in (_without_beginning, list[str], _middles(width)):
        told = [_end(text, width) for text in form(every)]
        if len(set(told)) > len(set(found)):
            found = told
        if len(set(found)) == len(every):
            break
    short = dict(zip(every, found, strict=True))
    return [short[name] for name in names]


def _apart(short: Sequence[str], names: Sequence[str]) -> bool:
    return len(set(short)) == len(set(names))


def _without_beginning(names: list[str]) -> list[str]:
    """Without what all ids of tasks among them begin with."""
    ids = [name for name in names if ":" in name]
    differ = (n for n, letters in enumerate(zip(*ids, strict=False)) if len(set(letters)) > 1)
    shared = ids[0][: next(differ, min(map(len, ids)))] if ids else ""
    place = max(shared.rfind(":"), shared.rfind("/")) + 1
    return ["…" + name[place:] if place and ":" in name else name for name in names]


def _middles(width: int) -> Callable[[list[str]], list[str]]:
    """Cuts the middle out of names that are too long."""
    half = width // 2
    return lambda names: [
        name if wide(name) <= width else _beginning(name, width - half - 1) + _end(name, half + 1) for name in names
    ]


def _initials(variants: Sequence[str]) -> dict[str, str]:
    """A short form of each name of a parameter that is long.

    >>> _initials(["num_steps=3,num_candidates=2,k=1", "default"])
    {'num_steps': 'ns', 'num_candidates': 'nc'}
    """
    found: dict[str, str] = {}
    parts = [part for variant in dict.fromkeys(variants) for part in _NEXT_PARAMETER.split(variant) if "=" in part]
    names = list(dict.fromkeys(part.partition("=")[0] for part in parts))
    for name in names:
        short = "".join(word[0] for word in name.split("_") if word)
        while short in found.values() or short in names:
            short += "'"
        if len(short) < len(name):
            found[name] = short
    return found


def _with_initials(variant: str, initials: Mapping[str, str]) -> str:
    parts = [part.partition("=") for part in _NEXT_PARAMETER.split(variant)]
    return ",".join(f"{initials.get(name, name)}{equals}{value}" for name, equals, value in parts)


def _end(text: str, width: int) -> str:
    """`text` without its beginning, if it is too long."""
    return text if wide(text) <= width else "…" + _beginning(text[::-1], width - 1)[::-1]


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

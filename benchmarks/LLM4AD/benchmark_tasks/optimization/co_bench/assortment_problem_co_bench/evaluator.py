"""Assortment: pieces cut from sheets of at most two sizes; what is wasted of the sheets counts, and less is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import cutting

TYPES = 2
"""So many sizes of sheets may be used."""

Sheets = list[tuple[int, np.ndarray]]
"""Of each sheet its type and rows (piece type, x, y, turned)."""


def instance(rng: np.random.Generator, *, n_items: int, n_stocks: int) -> dict[str, Any]:
    """Every piece fits every sheet, turned or not."""
    count = int(rng.integers(max(1, n_items // 2), n_items + 1))
    least = rng.integers(1, 6, count)
    return {
        "stocks": rng.integers(120, 301, (n_stocks, 2)),
        "sizes": rng.integers(20, 121, (count, 2)),
        "least": least,
        "most": least + rng.integers(0, 4, count),
    }


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's assort files: the numbers of pieces and of sheets, a cost; for each sheet length, width and fixed
    cost; for each piece length, width, least and greatest number, value. Costs and values are not used."""
    numbers = Numbers(text)
    count = cutting.read_count(numbers, "the number of pieces")
    kinds = cutting.read_count(numbers, "the number of stock rectangles")
    numbers.real("the cost of waste")
    stocks, rows = [], []
    for i in range(kinds):
        stocks.append(cutting.read_sizes(numbers, f"length and width of stock rectangle {i + 1}"))
        numbers.real(f"the fixed cost of stock rectangle {i + 1}")
    for i in range(count):
        size = cutting.read_sizes(numbers, f"length and width of piece {i + 1}")
        least, most = (numbers.count(f"the {end} number of piece {i + 1}") for end in ("least", "greatest"))
        numbers.real(f"the value of piece {i + 1}")
        if least > most:
            raise DataError(f"piece {i + 1} is to be cut at least {least} and at most {most} times")
        if least and not any(min(size) <= min(stock) and max(size) <= max(stock) for stock in stocks):
            raise DataError(f"piece {i + 1} is to be cut at least {least} times and fits no stock rectangle")
        rows.append((*size, least, most))
    numbers.end()
    table = np.array(rows, dtype=np.int64)
    return [
        {
            "stocks": np.array(stocks, dtype=np.int64),
            "sizes": table[:, :2],
            "least": table[:, 2],
            "most": table[:, 3],
        }
    ]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> Sheets:
    pieces = np.column_stack([instance["sizes"], instance["least"], instance["most"]])
    total = max(1, int(instance["most"].sum()))
    columns = [("the piece type", 0, len(pieces) - 1), ("x", -cutting.FAR, cutting.FAR)]
    columns += [("y", -cutting.FAR, cutting.FAR), ("turned", 0, 1)]
    found, placed = [], 0
    for i, sheet in enumerate(checks.sequence(program(instance["stocks"], pieces), "the sheets", longest=total)):
        stock, placements = checks.sequence(sheet, f"sheet {i}", length=2)
        kind = checks.integer(stock, f"the type of sheet {i}", low=0, high=len(instance["stocks"]) - 1)
        rows = cutting.rows(placements, f"the placements on sheet {i}", columns, longest=total)
        found.append((kind, rows))
        placed += len(rows)
        if placed > total:
            raise checks.refuse(f"sheets 0 .. {i} hold {placed} pieces, and at most {total} may be cut in all")
    return found


def corners(instance: dict[str, Any], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sizes = instance["sizes"][rows[:, 0]]
    return rows[:, 1:3], rows[:, 1:3] + np.where(rows[:, 3:] == 1, sizes[:, ::-1], sizes)


def violations(instance: dict[str, Any], sheets: Sheets) -> Iterator[str]:
    used = sorted({stock for stock, _ in sheets})
    if not used:
        yield "no sheet is cut, and one at least must be"
    if len(used) > TYPES:
        yield f"sheets of {len(used)} types are used ({', '.join(map(str, used[:8]))}), and at most {TYPES} may be"
    counts = np.zeros(len(instance["sizes"]), dtype=np.int64)
    for number, (stock, rows) in enumerate(sheets):
        names = [f"placement {i} on sheet {number} (piece type {row[0]})" for i, row in enumerate(rows.tolist())]
        where = f"the sheet of type {stock}"
        yield from cutting.misplaced(
            *corners(instance, rows), instance["stocks"][stock].tolist(), names.__getitem__, where
        )
        counts += np.bincount(rows[:, 0], minlength=len(counts))
    yield from cutting.too_many(counts, instance["least"], instance["most"])


def score(instance: dict[str, Any], sheets: Sheets) -> float:
    """Share of the sheets' area that no piece covers."""
    return 1.0 - _covered(instance, sheets) / sum(_area(instance, stock) for stock, _ in sheets)


def _covered(instance: dict[str, Any], sheets: Sheets) -> int:
    return sum(int(instance["sizes"][rows[:, 0]].prod(axis=1).sum()) for _, rows in sheets)


def _area(instance: dict[str, Any], stock: int) -> int:
    return int(instance["stocks"][stock].prod())


def worst(instance: dict[str, Any]) -> float:
    """All is waste."""
    return 1.0


def bound(instance: dict[str, Any]) -> float:
    """No sheet wastes less than the one that pieces, turned or not, can cover best; often that is nothing."""
    both = np.concatenate([instance["sizes"], instance["sizes"][:, ::-1]])
    most = np.tile(instance["most"], 2)
    shares = []
    for stock in instance["stocks"].tolist():
        area = cutting.value_bound(stock, both, both.prod(axis=1), np.zeros_like(most), most)
        shares.append(min(1.0, area / (stock[0] * stock[1])))
    return max(0.0, 1.0 - max(shares))


def remark(instance: dict[str, Any], sheets: Sheets) -> str:
    total = sum(_area(instance, stock) for stock, _ in sheets)
    waste = [_area(instance, sheet[0]) - _covered(instance, [sheet]) for sheet in sheets]
    shares = [w / _area(instance, stock) for w, (stock, _) in zip(waste, sheets, strict=True)]
    worst_sheet = int(np.argmax(shares))
    listed = ", ".join(
        f"{sum(s == stock for s, _ in sheets)} of type {stock} ({' x '.join(map(str, instance['stocks'][stock]))})"
        for stock in sorted({stock for stock, _ in sheets})
    )
    pieces = sum(len(rows) for _, rows in sheets)
    return (
        f"{pieces} pieces (at least {instance['least'].sum()}, at most {instance['most'].sum()}) on {len(sheets)} "
        f"sheets: {listed}. Sheet {worst_sheet} wastes most, {shares[worst_sheet]:.1%} of itself, which is "
        f"{waste[worst_sheet] / total:.1%} of all."
    )


def draw(instance: dict[str, Any], sheets: Sheets) -> Drawing:
    """All sheets, four in a row."""
    across, up = (instance["stocks"][sorted({s for s, _ in sheets})].max(axis=0) + 10).tolist()
    lines = -(-len(sheets) // 4)
    drawing = Drawing(0, across * min(4, len(sheets)), 0, up * lines, width=560)
    for number, (stock, rows) in enumerate(sheets):
        at = (across * (number % 4), up * (lines - 1 - number // 4))
        cutting.add_pieces(drawing, at, instance["stocks"][stock].tolist(), *corners(instance, rows), kinds=rows[:, 0])
    return drawing

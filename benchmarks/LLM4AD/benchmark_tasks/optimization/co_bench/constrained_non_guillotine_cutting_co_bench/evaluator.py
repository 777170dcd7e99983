"""Constrained non-guillotine cutting: the value of pieces placed anywhere on one sheet; more is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import cutting, reading


def instance(rng: np.random.Generator, *, n_items: int, stock_size: int) -> dict[str, Any]:
    """Pieces of at most half the sheet's sides, so that the two that must be cut always fit."""
    sheet = rng.integers(max(10, stock_size // 2), stock_size + 1, 2).tolist()
    count = int(rng.integers(max(2, n_items // 2), n_items + 1))
    sizes = cutting.draw_sizes(rng, count, sheet, 0.1, 0.5)
    values = np.maximum(1, np.rint(sizes.prod(axis=1) * rng.uniform(0.5, 1.5, count))).astype(np.int64)
    return {
        "sheet": sheet,
        "sizes": sizes,
        "values": values,
        "least": (np.arange(count) < 2).astype(np.int64),
        "most": rng.integers(1, 5, count),
    }


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's ngcut files: the number of problems; for each m, length and width of the sheet, and for each piece
    length, width, least number, greatest number, value."""
    numbers = Numbers(text)
    found = []
    for _ in range(reading.some(numbers, "the number of test problems", most=10_000)):
        count = cutting.read_count(numbers, "the number of pieces")
        sheet = cutting.read_sizes(numbers, "length and width of the sheet")
        sizes, rest = [], []
        for i in range(count):
            sizes.append(cutting.read_piece(numbers, sheet, i))
            least, most = (numbers.count(f"the {end} number of piece {i + 1}") for end in ("least", "greatest"))
            if least > most:
                raise DataError(f"piece {i + 1} is to be cut at least {least} and at most {most} times")
            if least > (room := (sheet[0] // sizes[-1][0]) * (sheet[1] // sizes[-1][1])):
                raise DataError(f"piece {i + 1} is to be cut at least {least} times, and the sheet has room for {room}")
            rest.append((least, most, numbers.count(f"the value of piece {i + 1}", most=cutting.FAR)))
        limits = np.array(rest, dtype=np.int64).reshape(-1, 3)
        asked = sum(least * length * width for (length, width), (least, _, _) in zip(sizes, rest, strict=True))
        if asked > sheet[0] * sheet[1]:
            raise DataError(f"pieces that must be cut have an area of {asked}, and the sheet {sheet[0] * sheet[1]}")
        found.append(
            {
                "sheet": sheet,
                "sizes": np.array(sizes, dtype=np.int64).reshape(-1, 2),
                "values": limits[:, 2],
                "least": limits[:, 0],
                "most": limits[:, 1],
            }
        )
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    columns = [instance[name] for name in ("sizes", "least", "most", "values")]
    return cutting.on_sheet(program(*instance["sheet"], np.column_stack(columns)), instance)


def violations(instance: dict[str, Any], placements: np.ndarray) -> Iterator[str]:
    return cutting.sheet_violations(instance, placements, guillotine=False)


score = cutting.value_of


def worst(instance: dict[str, Any]) -> float:
    """Nothing: values are not negative."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    given = (instance[name] for name in ("sheet", "sizes", "values", "least", "most"))
    return float(np.floor(cutting.value_bound(*given) + 1e-6))


remark = cutting.sheet_remark
draw = cutting.sheet_picture

"""Unconstrained guillotine cutting: value of the pieces that edge-to-edge cuts take from a sheet; more is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import Numbers
from trace_bench.suites.llm4ad import cutting


def instance(rng: np.random.Generator, *, n_items: int, stock_size: int) -> dict[str, Any]:
    """As Beasley (1985) drew his: sides within a quarter and three quarters of the sheet's, value the area."""
    sheet = rng.integers(max(4, stock_size // 2), stock_size + 1, 2).tolist()
    count = int(rng.integers(max(1, n_items // 2), n_items + 1))
    sizes = cutting.draw_sizes(rng, count, sheet, 0.25, 0.75)
    return _unlimited(sheet, sizes, sizes.prod(axis=1))


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's gcut files: m; length and width of the sheet; for each piece length, width and value."""
    numbers = Numbers(text)
    count = cutting.read_count(numbers, "the number of pieces")
    sheet = cutting.read_sizes(numbers, "length and width of the sheet")
    sizes, values = [], []
    for i in range(count):
        sizes.append(cutting.read_piece(numbers, sheet, i))
        values.append(numbers.count(f"the value of piece {i + 1}", most=cutting.FAR))
    numbers.end()
    return [_unlimited(sheet, np.array(sizes, dtype=np.int64).reshape(-1, 2), np.array(values, dtype=np.int64))]


def _unlimited(sheet: list[int], sizes: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    most = np.prod(np.array(sheet) // sizes, axis=1)
    return {"sheet": sheet, "sizes": sizes, "values": values, "least": np.zeros_like(most), "most": most}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    pieces = np.column_stack([instance["sizes"], instance["values"]])
    return cutting.on_sheet(program(*instance["sheet"], pieces), instance)


def violations(instance: dict[str, Any], placements: np.ndarray) -> Iterator[str]:
    return cutting.sheet_violations(instance, placements, guillotine=True)


score = cutting.value_of


def worst(instance: dict[str, Any]) -> float:
    """Nothing is cut."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """The optimum by dynamic programming; on large sheets a bound by areas."""
    given = instance["sheet"], instance["sizes"], instance["values"]
    best = cutting.guillotine_optimum(*given)
    return cutting.value_bound(*given, instance["least"], instance["most"]) if best is None else best


remark = cutting.sheet_remark
draw = cutting.sheet_picture

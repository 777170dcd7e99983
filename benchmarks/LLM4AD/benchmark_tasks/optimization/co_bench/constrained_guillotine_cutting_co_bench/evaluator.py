"""Constrained guillotine cutting: value of limited pieces that edge-to-edge cuts take from a sheet; more is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import Numbers
from trace_bench.suites.llm4ad import cutting


def instance(rng: np.random.Generator, *, n_items: int, stock_size: int) -> dict[str, Any]:
    """As Christofides and Whitlock (1977) drew theirs: few of each piece, values near the areas."""
    sheet = rng.integers(max(10, stock_size // 2), max(10, stock_size) + 1, 2).tolist()
    count = int(rng.integers(max(1, n_items // 2), n_items + 1))
    sizes = cutting.draw_sizes(rng, count, sheet, 0.1, 0.5)
    values = np.maximum(1, np.rint(sizes.prod(axis=1) * rng.uniform(0.5, 1.5, count))).astype(np.int64)
    return {
        "sheet": sheet,
        "sizes": sizes,
        "values": values,
        "least": np.zeros(count, dtype=np.int64),
        "most": rng.integers(1, 5, count),
    }


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's cgcut files: m; length and width of the sheet; for each piece length, width, max, value."""
    numbers = Numbers(text)
    count = cutting.read_count(numbers, "the number of pieces")
    sheet = cutting.read_sizes(numbers, "length and width of the sheet")
    sizes, most, values = [], [], []
    for i in range(count):
        sizes.append(cutting.read_piece(numbers, sheet, i))
        most.append(numbers.count(f"how often piece {i + 1} may be cut"))
        values.append(numbers.count(f"the value of piece {i + 1}", most=cutting.FAR))
    numbers.end()
    return [
        {
            "sheet": sheet,
            "sizes": np.array(sizes, dtype=np.int64).reshape(-1, 2),
            "values": np.array(values, dtype=np.int64),
            "least": np.zeros(count, dtype=np.int64),
            "most": np.array(most, dtype=np.int64),
        }
    ]


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    pieces = np.column_stack([instance["sizes"], instance["most"], instance["values"]])
    return cutting.on_sheet(program(*instance["sheet"], pieces), instance)


def violations(instance: dict[str, Any], placements: np.ndarray) -> Iterator[str]:
    return cutting.sheet_violations(instance, placements, guillotine=True)


score = cutting.value_of


def worst(instance: dict[str, Any]) -> float:
    """Nothing is cut."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """The least of the bounds by areas and of the optimum without limits on the numbers."""
    given = instance["sheet"], instance["sizes"], instance["values"]
    by_area = cutting.value_bound(*given, instance["least"], instance["most"])
    free = cutting.guillotine_optimum(*given)
    return float(np.floor(by_area + 1e-6)) if free is None else min(float(np.floor(by_area + 1e-6)), free)


remark = cutting.sheet_remark
draw = cutting.sheet_picture

"""Container loading: the share of a container that boxes fill; more is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import Numbers
from trace_bench.suites.llm4ad import cutting, loading, reading


def instance(rng: np.random.Generator, *, n_items: int) -> dict[str, Any]:
    return loading.cargo(rng, int(rng.integers(max(1, n_items // 2), n_items + 1)))


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's thpack1 … thpack8: the number of problems; of each its number and (not in thpack8) a seed, the
    container, the number of box types, and for each of these its number, three times a dimension and whether it may be
    vertical, and how many boxes there are."""
    numbers = Numbers(text)
    first = text.split("\n", 2)[1:2]
    seeded = bool(first) and len(first[0].split()) > 1
    found = []
    for _ in range(reading.some(numbers, "the number of test problems", most=10_000)):
        numbers.integers(2 if seeded else 1, "the number of the problem")
        container = cutting.read_sizes(numbers, "the container's dimensions", 3)
        kinds = cutting.read_count(numbers, "the number of box types")
        rows = []
        for kind in range(kinds):
            numbers.integer("the number of the box type")
            rows.append(loading.read_box(numbers, kind))
        sizes, vertical, counts = zip(*rows, strict=True)
        found.append(
            {
                "container": container,
                "sizes": np.array(sizes, dtype=np.int64),
                "vertical": np.array(vertical, dtype=bool),
                "counts": np.array(counts, dtype=np.int64),
            }
        )
    numbers.end()
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    given = (instance[name] for name in ("container", "sizes", "vertical", "counts"))
    return loading.placements(program(*given), instance)


def violations(instance: dict[str, Any], placed: np.ndarray) -> Iterator[str]:
    return loading.violations(instance, placed)


score = loading.utilisation


def worst(instance: dict[str, Any]) -> float:
    """An empty container."""
    return 0.0


bound = loading.volume_bound
remark = loading.remark
draw = loading.picture

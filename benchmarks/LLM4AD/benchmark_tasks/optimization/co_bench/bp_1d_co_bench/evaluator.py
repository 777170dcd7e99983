"""One-dimensional bin packing: counts the bins of a packing; fewer are better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing
from trace_bench.suites.llm4ad import binpacking, reading

UNIFORM = {"capacity": 150, "sizes": (20, 100)}
TRIPLETS = {"capacity": 1000, "largest": (380, 490), "least": 250}
_MOST = 1_000_000_000
_DECIMALS = 6


def instance(rng: np.random.Generator, *, n_items: int) -> dict[str, Any]:
    """Of one of Falkenauer's two classes, with between half of `n_items` and all of them."""
    n = int(rng.integers(max(1, n_items // 2), n_items, endpoint=True))
    if rng.random() < 0.5 and n >= 3:
        return {"capacity": TRIPLETS["capacity"], "sizes": _triplets(rng, n // 3)}
    return {"capacity": UNIFORM["capacity"], "sizes": rng.integers(*UNIFORM["sizes"], n, endpoint=True).tolist()}


def _triplets(rng: np.random.Generator, bins: int) -> list[int]:
    """Three items for each of so many bins, which they fill; in random order."""
    sizes: list[int] = []
    for first in rng.integers(*TRIPLETS["largest"], bins, endpoint=True).tolist():
        rest = TRIPLETS["capacity"] - first
        second = int(rng.integers(TRIPLETS["least"], rest // 2, endpoint=True))
        sizes += [first, second, rest - second]
    return [sizes[i] for i in rng.permutation(len(sizes))]


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's binpack files: the number of problems; of each its name, the capacity, the number of items, the best
    known number of bins, and the sizes. Sizes with decimals are made whole, with the capacity."""
    numbers = Numbers(text)
    found = [_problem(numbers) for _ in range(reading.some(numbers, "the number of problems", most=10_000))]
    numbers.end()
    return found


def _problem(numbers: Numbers) -> dict[str, Any]:
    label = numbers.word("the name of a problem")
    capacity = numbers.real("the capacity")
    n = numbers.count("the number of items", most=100_000)
    known = numbers.count("the best known number of bins")
    sizes = numbers.reals(n, "a size")
    if not n or not 0 < min(sizes) <= max(sizes) <= capacity:
        raise DataError(f"problem {label[:40]}: sizes must be above 0 and no larger than the capacity {capacity:g}")
    scale = _scale([capacity, *sizes])
    if scale is None or capacity * scale > _MOST:
        raise DataError(
            f"problem {label[:40]}: sizes and capacity need more than {_DECIMALS} decimals, or are too large"
        )
    return {"capacity": round(capacity * scale), "sizes": [round(size * scale) for size in sizes], "best_known": known}


def _scale(values: list[float]) -> int | None:
    """The least power of ten that makes whole numbers of all."""
    for places in range(_DECIMALS + 1):
        scale = 10**places
        if all(abs(value * scale - round(value * scale)) < 1e-6 for value in values):
            return int(scale)
    return None


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[list[int]]:
    """The items of each bin. Bins without any are left out."""
    sizes, n = instance["sizes"], len(instance["sizes"])
    bins = checks.sequence(program(instance["capacity"], n, np.array(sizes)), "the bins", longest=2 * n)
    lists = []
    for number, one in enumerate(bins):
        name = f"bin {number}"
        lists.append(checks.integers(checks.sequence(one, name, longest=n), name, low=0, high=n - 1))
    return [items for items in lists if items]


def violations(instance: dict[str, Any], bins: list[list[int]]) -> Iterator[str]:
    """Items that lie nowhere or twice, and bins that hold too much."""
    sizes, capacity = instance["sizes"], instance["capacity"]
    where: dict[int, int] = {}
    for number, items in enumerate(bins):
        for item in items:
            if item in where:
                yield f"item {item} lies in bin {where[item]} and again in bin {number}"
            where.setdefault(item, number)
        total = sum(sizes[item] for item in items)
        if total > capacity:
            yield (
                f"bin {number} holds {total} of {capacity}, {total - capacity} too much "
                f"(sizes {binpacking.listed(sizes[item] for item in items)})"
            )
    missing = [item for item in range(len(sizes)) if item not in where]
    if missing:
        yield f"{len(missing)} of {len(sizes)} items lie in no bin (items {binpacking.listed(missing)})"


def score(instance: dict[str, Any], bins: list[list[int]]) -> float:
    """The number of bins."""
    return float(len(bins))


def worst(instance: dict[str, Any]) -> float:
    """A bin for each item."""
    return float(len(instance["sizes"]))


def bound(instance: dict[str, Any]) -> float:
    """See `binpacking.lower_bound`; of triplets it is the optimum."""
    return float(binpacking.lower_bound(instance["sizes"], instance["capacity"]))


def remark(instance: dict[str, Any], bins: list[list[int]]) -> str:
    return binpacking.told(instance["sizes"], instance["capacity"], _chosen(instance, bins))


def draw(instance: dict[str, Any], bins: list[list[int]]) -> Drawing:
    return binpacking.draw(instance["sizes"], instance["capacity"], _chosen(instance, bins))


def _chosen(instance: dict[str, Any], bins: list[list[int]]) -> list[int]:
    """The bin of each item."""
    chosen = [0] * len(instance["sizes"])
    for number, items in enumerate(bins):
        for item in items:
            chosen[item] = number
    return chosen

"""Container loading with weight restrictions: the share of a container that boxes fill without crushing one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.llm4ad import cutting, loading

DENSITY = 1e-3
"""kg per cm3: what the boxes of the published problems weigh."""


def instance(rng: np.random.Generator, *, n_items: int) -> dict[str, Any]:
    """Boxes bear one to seven times their own weight, drawn for each dimension that points upwards."""
    made = loading.cargo(rng, int(rng.integers(max(1, n_items // 2), n_items + 1)))
    sizes = made["sizes"]
    weights = np.round(sizes.prod(axis=1) * DENSITY, 2)
    tops = sizes.prod(axis=1)[:, None] / sizes
    strengths = np.round(rng.uniform(1.0, 7.0, sizes.shape) * weights[:, None] / tops, 5)
    return made | {"weights": weights, "strengths": strengths}


def read(text: str, name: str) -> list[dict[str, Any]]:
    """OR-Library's wtpack files: maybe the number of problems on a line; of each the container; the number of box types
    and the volume of the cargo; for each type three times a dimension and whether it may be vertical, how many boxes,
    their weight, and how much weight per area they bear for each dimension upwards."""
    numbers = Numbers(text)
    announced = numbers.count("the number of test problems") if len(text.split("\n", 1)[0].split()) == 1 else None
    found = []
    while not numbers.done:
        container = cutting.read_sizes(numbers, "the container's dimensions", 3)
        kinds = cutting.read_count(numbers, "the number of box types")
        numbers.real("the volume of the cargo")
        boxes, weights, strengths = [], [], []
        for kind in range(kinds):
            boxes.append(loading.read_box(numbers, kind))
            weights.append(numbers.real(f"the weight of box type {kind + 1}"))
            strengths.append(numbers.reals(3, f"the load-bearing ability of box type {kind + 1}"))
            if weights[-1] <= 0 or min(strengths[-1]) < 0:
                raise DataError(f"box type {kind + 1} has no weight, or a negative load-bearing ability")
        sizes, vertical, counts = zip(*boxes, strict=True)
        found.append(
            {
                "container": container,
                "sizes": np.array(sizes, dtype=np.int64),
                "vertical": np.array(vertical, dtype=bool),
                "counts": np.array(counts, dtype=np.int64),
                "weights": np.array(weights),
                "strengths": np.array(strengths),
            }
        )
    if not found:
        raise DataError("ends where the container's dimensions are due")
    if announced not in (None, len(found)):
        raise DataError(f"announces {announced} problems and holds {len(found)}")
    return found


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    names = ("container", "sizes", "vertical", "counts", "weights", "strengths")
    return loading.placements(program(*(instance[name] for name in names)), instance)


def violations(instance: dict[str, Any], placed: np.ndarray) -> Iterator[str]:
    """What rests on what is asked only if the boxes lie as boxes can."""
    broken = False
    for sentence in loading.violations(instance, placed):
        broken = True
        yield sentence
    if not broken:
        yield from loading.weight_violations(instance, placed)


score = loading.utilisation


def worst(instance: dict[str, Any]) -> float:
    """An empty container."""
    return 0.0


bound = loading.volume_bound


def remark(instance: dict[str, Any], placed: np.ndarray) -> str:
    if not len(placed):
        return loading.remark(instance, placed)
    limit = loading.limits(instance, placed)
    share = np.where(limit > 0, loading.loads(placed, instance["weights"]) / np.maximum(limit, 1e-12), 0.0)
    floor = int((placed[:, 3] == 0).sum())
    most = int(share.argmax())
    return (
        f"{loading.remark(instance, placed)} {floor} boxes stand on the floor; box {most} is nearest to its limit "
        f"(type {placed[most, 0]}), at {share[most]:.0%} of what it can bear."
    )


draw = loading.picture

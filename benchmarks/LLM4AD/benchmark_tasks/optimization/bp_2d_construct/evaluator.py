"""Bin packing in the plane by construction: plays a rule that chooses an item and a free place; fewer bins are better.

The free space of a bin is kept as its maximal free rectangles: those that no item reaches into and that lie in no
larger one. An item fits somewhere if and only if it fits into one of them, and whatever cannot be moved left or down
lies in the lower left corner of one, so that every packing can be built up to such moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, colour

SIDES = (0.1, 0.6)
"""Least and largest side of an item, in parts of that of a bin."""
_DRAWN = 24
_HUGE = 2**62

Rectangle = tuple[int, int, int, int]
"""x, y of the lower left corner, width, height."""


class Placed(NamedTuple):
    """Where an item lies."""

    item: int
    bin: int
    x: int
    y: int


def instance(rng: np.random.Generator, *, n_items: int, bin_width: int, bin_height: int) -> dict[str, Any]:
    """Widths and heights, drawn uniformly and apart from one another."""
    sides = [
        rng.integers(max(1, round(SIDES[0] * side)), max(1, round(SIDES[1] * side)), n_items, endpoint=True)
        for side in (bin_width, bin_height)
    ]
    return {"items": np.column_stack(sides), "bin": (bin_width, bin_height)}


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> list[Placed]:
    """All items, in the order in which they were packed."""
    sizes = [(int(width), int(height)) for width, height in instance["items"]]
    left = list(range(len(sizes)))
    free: list[list[Rectangle]] = []
    placed: list[Placed] = []
    for step in range(1, len(sizes) + 1):
        offered = [(number, *place) for number, places in enumerate(free) for place in places]
        found = program(instance["items"][left], np.array(offered, dtype=np.int64).reshape(-1, 5))
        index, place = checks.sequence(found, f"the answer of step {step}", length=2)
        row = checks.integer(index, f"the item of step {step}", low=0, high=len(left) - 1)
        number, x, y, *room = (
            _chosen(place, offered, step) if place is not None else (len(free), 0, 0, *instance["bin"])
        )
        width, height = sizes[left[row]]
        if width > room[0] or height > room[1]:
            raise checks.refuse(
                f"step {step}: item {row} ({width} x {height}) does not fit into the free rectangle of {room[0]} x "
                f"{room[1]} at ({x}, {y}) of bin {number}"
            )
        if number == len(free):
            free.append([(0, 0, *instance["bin"])])
        free[number] = without(free[number], (x, y, width, height))
        placed.append(Placed(left.pop(row), number, x, y))
    return placed


def _chosen(place: Any, offered: list[tuple[int, ...]], step: int) -> tuple[int, ...]:
    found = checks.integer(place, f"the free rectangle of step {step}", low=-_HUGE, high=_HUGE)
    if not 0 <= found < len(offered):
        raise checks.refuse(f"step {step}: there is no free rectangle {found}, only {len(offered)}, counted from 0")
    return offered[found]


def without(free: list[Rectangle], taken: Rectangle) -> list[Rectangle]:
    """The maximal free rectangles once `taken` is filled: lowest first, then leftmost."""
    x, y, width, height = taken
    kept: list[Rectangle] = []
    parts: set[Rectangle] = set()
    for left, low, across, up in free:
        right, top = left + across, low + up
        if x >= right or x + width <= left or y >= top or y + height <= low:
            kept.append((left, low, across, up))
            continue
        if x > left:
            parts.add((left, low, x - left, up))
        if x + width < right:
            parts.add((x + width, low, right - x - width, up))
        if y > low:
            parts.add((left, low, across, y - low))
        if y + height < top:
            parts.add((left, y + height, across, top - y - height))
    maximal = [part for part in parts if not any(_inside(part, other) for other in (*kept, *parts) if other != part)]
    return sorted(kept + maximal, key=lambda place: (place[1], place[0], place[2], place[3]))


def _inside(one: Rectangle, other: Rectangle) -> bool:
    return (
        one[0] >= other[0]
        and one[1] >= other[1]
        and one[0] + one[2] <= other[0] + other[2]
        and one[1] + one[3] <= other[1] + other[3]
    )


def score(instance: dict[str, Any], placed: list[Placed]) -> float:
    """The number of bins used."""
    return float(1 + max(one.bin for one in placed))


def worst(instance: dict[str, Any]) -> float:
    """A bin for each item."""
    return float(len(instance["items"]))


def bound(instance: dict[str, Any]) -> float:
    """Of Fekete and Schepers (Mathematical Methods of Operations Research 60, 2004): widths and heights are replaced by
    others with which all that fits still fits, and their areas are added up. Those used here count a side that leaves
    less than a threshold as a full one, and a side below the threshold as none."""
    areas, (width, height) = instance["items"], instance["bin"]
    across, up = (_counted(areas[:, axis], side) for axis, side in enumerate((width, height)))
    return float(-(-int((across @ up.T).max()) // (width * height)))


def _counted(sides: np.ndarray, full: int) -> np.ndarray:
    """The sides by each threshold from 0 to half of `full`, one row for each that matters."""
    thresholds = np.unique(np.concatenate([[0], sides[2 * sides <= full], [full // 2]]))[:, None]
    return np.where(sides > full - thresholds, full, np.where(sides < thresholds, 0, sides))


def remark(instance: dict[str, Any], placed: list[Placed]) -> str:
    area = instance["items"].prod(axis=1)
    filled = np.zeros(1 + max(one.bin for one in placed))
    for one in placed:
        filled[one.bin] += area[one.item]
    share = filled / np.prod(instance["bin"])
    most, least = int(share.argmax()), int(share.argmin())
    return (
        f"{len(share)} bins for {len(area)} items, which need {share.sum():.1f} by area. Bins are filled to "
        f"{share.mean():.1%} on average, bin {most} most, to {share[most]:.1%}, bin {least} least, to "
        f"{share[least]:.1%}."
    )


def draw(instance: dict[str, Any], placed: list[Placed]) -> Drawing:
    """The first bins, eight in a row."""
    width, height = instance["bin"]
    bins = min(_DRAWN, 1 + max(one.bin for one in placed))
    rows = -(-bins // 8)
    drawing = Drawing(0, 8.8 * width, -1.1 * height * rows, 0, width=640)
    corner = [(1.1 * width * (number % 8), -1.1 * height * (number // 8 + 1)) for number in range(bins)]
    for one in placed:
        if one.bin < bins:
            x, y = corner[one.bin]
            across, up = instance["items"][one.item].tolist()
            drawing.rectangle(x + one.x, y + one.y, across, up, fill=colour(one.item), line="#ffffff")
    for x, y in corner:
        drawing.rectangle(x, y, width, height)
    return drawing

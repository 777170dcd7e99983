"""What the tasks of packing a round container share: circles or rectangles in a disc around the origin.

An instance has ``radius``, of the container, and either ``radii`` (n,) or ``sizes`` (n, 2) of the items, in ascending
order of their areas. Rectangles lie along the axes, turned by 90 degrees or not.

Tolerance. Items that touch are found to overlap by some 1e-16 when they are computed in floating point. Violations up
to `TOLERANCE` times the container's radius, or `TOLERANCE_OF_ITEM` times the smallest radius or side of an item if that
is less, are therefore accepted. Where areas are scored they are taken back: with v
the largest violation, radii are reduced by v and the sides of rectangles by 2 v, half of it at each end, before areas
are summed. What is left then lies in the container and apart, so that the score is that of a packing valid as it
stands. Where items are counted all bounds are those of items so reduced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import cutting
from trace_bench.suites.llm4ad.cutting import Floats, Ints

TOLERANCE = 1e-9
TOLERANCE_OF_ITEM = 1e-6
"""So that in a container that is far larger than its items they cannot lie on one another."""
FILLS = (1 / 3, 1 / 2, 2 / 3)
"""Area of the container as a part of that of all items: the three sizes for each set of items."""
_FAR = 1e6
_RADII = 3

Instance = Mapping[str, Any]


@dataclass(frozen=True)
class Packing:
    """Which items lie where.

    Attributes:
        items: their numbers, int64, shape (k,).
        centres: shape (k, 2).
        turned: of rectangles whether the second size lies along x; shape (k,).
    """

    items: Ints
    centres: Floats
    turned: NDArray[np.bool_]


# -- instances


def container_radius(rng: np.random.Generator, area: float) -> float:
    """Of a container for items of this total area, to two decimals."""
    return round(math.sqrt(float(rng.choice(FILLS)) * area / math.pi), 2)


def draw_circles(rng: np.random.Generator, n_items: int) -> dict[str, Any]:
    """Circles with uniform radii within 1 .. 5, to two decimals."""
    radii = np.sort(np.round(rng.uniform(1, 5, int(rng.integers((n_items + 1) // 2, n_items + 1))), 2))
    return {"radius": container_radius(rng, math.pi * float(radii @ radii)), "radii": radii}


def draw_rectangles(rng: np.random.Generator, n_items: int) -> dict[str, Any]:
    """Rectangles with uniform sides within 1 .. 5, to two decimals; in every other instance on average, squares."""
    count = int(rng.integers((n_items + 1) // 2, n_items + 1))
    sizes = np.round(rng.uniform(1, 5, (count, 2)), 2)
    if rng.random() < 0.5:
        sizes[:, 1] = sizes[:, 0]
    sizes = _ascending(sizes)
    return {"radius": container_radius(rng, float(sizes.prod(axis=1).sum())), "sizes": sizes}


def _ascending(sizes: Floats) -> Floats:
    return sizes[np.argsort(sizes.prod(axis=1), kind="stable")]


def read_circles(text: str) -> list[dict[str, Any]]:
    """The number of circles, one or more radii of the container, and the radius of each circle: an instance for each
    container."""
    numbers = Numbers(text)
    count = cutting.read_count(numbers, "the number of circles")
    containers = len(text.split()) - 1 - count
    if not 1 <= containers <= 10:
        raise DataError(f"names {count} circles and has {containers} more numbers than these; due are 1 .. 10 radii")
    found = [_positive(numbers, f"radius {i + 1} of the container") for i in range(containers)]
    radii = np.sort([_positive(numbers, f"the radius of circle {i + 1}") for i in range(count)])
    return [{"radius": radius, "radii": radii} for radius in found]


def read_rectangles(text: str) -> list[dict[str, Any]]:
    """OR-Library's square and rect files: n, three radii of the container, and the side or the two sides of each item:
    an instance for each container."""
    numbers = Numbers(text)
    count = cutting.read_count(numbers, "the number of items")
    found = [_positive(numbers, f"radius {i + 1} of the container") for i in range(_RADII)]
    columns = 2 if len(text.split()) > 1 + _RADII + count else 1
    rows = [[_positive(numbers, f"a side of item {i + 1}") for _ in range(columns)] for i in range(count)]
    numbers.end()
    sizes = _ascending(np.array([[row[0], row[-1]] for row in rows]))
    return [{"radius": radius, "sizes": sizes} for radius in found]


def _positive(numbers: Numbers, what: str) -> float:
    value = numbers.real(what)
    if not 1e-6 <= value <= _FAR:
        raise DataError(f"{what} must be within 1e-6 .. 1e6, not {value:g}")
    return value


# -- answers


def first_items(value: object, instance: Instance) -> Packing:
    """Rows (x, y), of rectangles (x, y, turned), of items 0, 1, … in this order; not necessarily of all."""
    return _packing(value, instance, numbered=False)


def chosen_items(value: object, instance: Instance) -> Packing:
    """Rows (item, x, y), of rectangles (item, x, y, turned), in any order."""
    return _packing(value, instance, numbered=True)


def _packing(value: object, instance: Instance, *, numbered: bool) -> Packing:
    count = len(areas(instance))
    rows = checks.sequence(value, "the packing", longest=count)
    rectangles = "sizes" in instance
    items, centres, turned = [], [], []
    for i, row in enumerate(rows):
        cells = checks.sequence(row, f"row {i}", length=2 + numbered + rectangles)
        items.append(_whole(cells.pop(0), f"the item of row {i}", count - 1) if numbered else i)
        turned.append(bool(_whole(cells.pop(), f"turned in row {i}", 1)) if rectangles else False)
        pairs = zip("xy", cells, strict=True)
        centres.append([checks.real(cell, f"{axis} of row {i}", low=-_FAR, high=_FAR) for axis, cell in pairs])
    return Packing(
        np.array(items, dtype=np.int64),
        np.array(centres, dtype=np.float64).reshape(-1, 2),
        np.array(turned, dtype=bool),
    )


def _whole(value: object, name: str, high: int) -> int:
    """A whole number, which in an array of floats is one of them; True and False are 1 and 0."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    number = checks.real(value, name, low=0, high=high)
    if number != int(number):
        raise checks.refuse(f"{name} must be a whole number, not {number!r}")
    return int(number)


# -- judging


def areas(instance: Instance) -> Floats:
    """Of each item."""
    found: Floats = math.pi * instance["radii"] ** 2 if "radii" in instance else instance["sizes"].prod(axis=1)
    return found


def tolerance(instance: Instance) -> float:
    """How far items may overlap or reach beyond the container."""
    items = instance["radii"] if "radii" in instance else instance["sizes"]
    return min(TOLERANCE * float(instance["radius"]), TOLERANCE_OF_ITEM * float(items.min()))


def extents(instance: Instance, packing: Packing) -> Floats:
    """Of each packed rectangle the sizes along x and y."""
    sizes = instance["sizes"][packing.items]
    found: Floats = np.where(packing.turned[:, None], sizes[:, ::-1], sizes)
    return found


def excess(instance: Instance, packing: Packing) -> tuple[Floats, Floats]:
    """How far each item reaches beyond the container, and how far each two overlap; not above zero where all is
    well."""
    x, y = packing.centres.T
    if "radii" in instance:
        radii = instance["radii"][packing.items]
        beyond = np.hypot(x, y) + radii - instance["radius"]
        shared = radii[:, None] + radii[None, :] - np.hypot(x[:, None] - x[None, :], y[:, None] - y[None, :])
    else:
        half = extents(instance, packing) / 2
        beyond = np.hypot(np.abs(x) + half[:, 0], np.abs(y) + half[:, 1]) - instance["radius"]
        gaps = [half[:, None, k] + half[None, :, k] - np.abs(c[:, None] - c[None, :]) for k, c in enumerate((x, y))]
        shared = np.minimum(*gaps)
    np.fill_diagonal(shared, -np.inf)
    return beyond, shared


def violations(instance: Instance, packing: Packing) -> Iterator[str]:
    """Items packed twice, beyond the container, or over one another."""
    kind = "circle" if "radii" in instance else "rectangle"

    def named(i: int) -> str:
        x, y = packing.centres[i].tolist()
        return f"{kind} {packing.items[i]} at ({x:.6g}, {y:.6g})"

    counts = np.bincount(packing.items, minlength=1)
    for item in np.flatnonzero(counts > 1).tolist():
        yield f"{kind} {item} is packed {counts[item]} times"
    tolerated = tolerance(instance)
    beyond, shared = excess(instance, packing)
    for i in np.flatnonzero(beyond > tolerated).tolist():
        yield f"{named(i)} reaches {beyond[i]:.3g} beyond the container's radius {instance['radius']:g}"
    for i, j in np.argwhere(np.triu(shared > tolerated)).tolist():
        yield f"{named(i)} and {named(j)} overlap by {shared[i, j]:.3g}"


def packed_area(instance: Instance, packing: Packing) -> float:
    """Total area of the packed items, reduced by what they overlap or reach beyond the container."""
    if not len(packing.items):
        return 0.0
    beyond, shared = excess(instance, packing)
    v = max(0.0, float(beyond.max()), float(shared.max()))
    if "radii" in instance:
        found = math.pi * np.maximum(instance["radii"][packing.items] - v, 0.0) ** 2
    else:
        found = np.maximum(instance["sizes"][packing.items] - 2 * v, 0.0).prod(axis=1)
    return math.fsum(found.tolist())


def _reduced_areas(instance: Instance) -> Floats:
    """Areas of the items as small as the tolerance can make them; infinite for one that fits in no position."""
    v = tolerance(instance)
    if "radii" in instance:
        radii = np.maximum(instance["radii"] - v, 0.0)
        return np.where(radii > instance["radius"], np.inf, math.pi * radii**2)
    sizes = np.maximum(instance["sizes"] - 2 * v, 0.0)
    return np.where(np.hypot(*sizes.T) > 2 * instance["radius"], np.inf, sizes.prod(axis=1))


def number_bound(instance: Instance) -> float:
    """No more of the first items fit than their areas allow; and of circles the two largest lie beside one another."""
    room = math.pi * instance["radius"] ** 2
    count = int((np.cumsum(_reduced_areas(instance)) <= room * (1 + 1e-12)).sum())
    if "radii" in instance:
        radii = instance["radii"] - tolerance(instance)
        while count > 1 and radii[count - 1] + radii[count - 2] > instance["radius"] * (1 + 1e-12):
            count -= 1
    return float(count)


def area_bound(instance: Instance) -> float:
    """The container's area, or that of all items that fit by themselves."""
    reduced = _reduced_areas(instance)
    room = math.pi * float(instance["radius"]) ** 2
    return min(room, float(areas(instance)[np.isfinite(reduced)].sum())) * (1 + 1e-12)


def remark(instance: Instance, packing: Packing) -> str:
    """How full the container is, and how large what is left out."""
    room, area = math.pi * instance["radius"] ** 2, areas(instance)
    out = np.setdiff1d(np.arange(len(area)), packing.items)
    text = f"{len(packing.items)} of {len(area)} items cover {area[packing.items].sum() / room:.1%} of the container"
    if not len(out):
        return f"{text}; none is left out."
    free = room - area[packing.items].sum()
    return (
        f"{text}. The smallest item left out has the area {area[out].min():.4g}, the largest {area[out].max():.4g}; "
        f"{free:.4g} of the container is free."
    )


def picture(instance: Instance, packing: Packing) -> Drawing:
    """The container with its items, numbered."""
    radius = float(instance["radius"])
    drawing = Drawing(-radius, radius, -radius, radius)
    drawing.circle(0, 0, radius, fill="#eeeeee")
    shapes: Sequence[Any] = (
        instance["radii"][packing.items] if "radii" in instance else extents(instance, packing).tolist()
    )
    for item, (x, y), shape in zip(packing.items.tolist(), packing.centres.tolist(), shapes, strict=True):
        if "radii" in instance:
            drawing.circle(x, y, float(shape), fill=colour(item), line="#ffffff")
        else:
            drawing.rectangle(x - shape[0] / 2, y - shape[1] / 2, *shape, fill=colour(item), line="#ffffff")
        drawing.text(x, y, str(item), size=9, fill="#ffffff")
    return drawing

"""What container loading tasks share: drawing cargo, how boxes may stand, what rests on what, a bound, pictures.

An instance has ``container`` (length, width, height), and for each type of box ``sizes`` (n, 3), ``vertical`` (n, 3),
which of its dimensions may point upwards, and ``counts`` (n,). A solution is an array of rows (type, x, y, z, dx, dy,
dz): the corner nearest to the origin, and the extents along the container's length, width and height as the box
stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import cutting
from trace_bench.suites.llm4ad.cutting import FAR, Floats, Ints

CONTAINER = (587, 233, 220)
"""Of Bischoff and Ratcliff (1995), cm."""
TOLERANCE = 1e-9
"""Relative, of a load: what sums in floating point may differ by."""

Instance = Mapping[str, Any]


def cargo(rng: np.random.Generator, count: int) -> dict[str, Any]:
    """Boxes for the usual container as Bischoff and Ratcliff (1995) drew theirs: as many as its volume could hold.

    Dimensions are uniform within 30 .. 120, 25 .. 100 and 20 .. 80 cm, then sorted; one may point upwards if it is less
    than twice the smaller of the other two. Boxes of random types are added until the next would exceed the volume.
    """
    sizes = np.sort(rng.integers([30, 25, 20], [121, 101, 81], (count, 3)), axis=1)[:, ::-1].astype(np.int64)
    vertical = sizes < 2 * sizes[:, [2, 2, 1]]
    volumes = sizes.prod(axis=1)
    left = int(np.prod(CONTAINER)) - int(volumes.sum())
    counts = np.ones(count, dtype=np.int64)
    while True:
        kind = int(rng.integers(count))
        left -= int(volumes[kind])
        if left < 0:
            return {"container": list(CONTAINER), "sizes": sizes, "vertical": vertical, "counts": counts}
        counts[kind] += 1


def read_box(numbers: Numbers, kind: int) -> tuple[list[int], list[bool], int]:
    """Each dimension of a box with whether it may point upwards, then how many there are."""
    size, vertical = [], []
    for name in ("length", "width", "height"):
        size.append(cutting.read_sizes(numbers, f"the {name} of box type {kind + 1}", 1)[0])
        vertical.append(bool(numbers.count(f"whether the {name} of box type {kind + 1} may be vertical", most=1)))
    if not any(vertical):
        raise DataError(f"box type {kind + 1} may not stand in any way")
    return size, vertical, numbers.count(f"the number of boxes of type {kind + 1}", most=100_000)


def placements(value: object, instance: Instance) -> Ints:
    """Checked rows (type, x, y, z, dx, dy, dz), no more than there are boxes."""
    columns = [("the box type", 0, len(instance["sizes"]) - 1)]
    columns += [(name, -FAR, FAR) for name in ("x", "y", "z")] + [(name, 1, FAR) for name in ("dx", "dy", "dz")]
    return cutting.rows(value, "the placements", columns, longest=int(instance["counts"].sum()))


def named(instance: Instance, placed: Ints, i: int) -> str:
    return f"box {i} (type {placed[i, 0]} at {', '.join(map(str, placed[i, 1:4].tolist()))})"


def violations(instance: Instance, placed: Ints) -> Iterator[str]:
    """Boxes that stand as they must not, leave the container, overlap, or are more than there are."""
    for i, row in enumerate(placed.tolist()):
        if not _stands(instance["sizes"][row[0]], instance["vertical"][row[0]], row[4:]):
            size, up = instance["sizes"][row[0]].tolist(), instance["vertical"][row[0]].tolist()
            may = " or ".join(str(d) for d, flag in zip(size, up, strict=True) if flag)
            yield (
                f"{named(instance, placed, i)} is placed as {' x '.join(map(str, row[4:]))}, which is no orientation "
                f"of {' x '.join(map(str, size))} with {may} upright"
            )
    low, high = corners(placed)
    yield from cutting.misplaced(
        low, high, instance["container"], lambda i: named(instance, placed, i), "the container"
    )
    used = np.bincount(placed[:, 0], minlength=len(instance["sizes"]))
    for kind in np.flatnonzero(used > instance["counts"]).tolist():
        yield f"box type {kind} is placed {used[kind]} times, and there are {instance['counts'][kind]} of it"


def _stands(size: Ints, vertical: NDArray[np.bool_], extents: list[int]) -> bool:
    """Whether a box so large, with these dimensions allowed upright, can have these extents."""
    return any(
        vertical[axis] and extents[2] == size[axis] and sorted(extents[:2]) == sorted(np.delete(size, axis).tolist())
        for axis in range(3)
    )


def corners(placed: Ints) -> tuple[Ints, Ints]:
    """Of each box the corners nearest to the origin and farthest from it."""
    return placed[:, 1:4], placed[:, 1:4] + placed[:, 4:]


def utilisation(instance: Instance, placed: Ints) -> float:
    """Share of the container's volume that is filled."""
    return float(placed[:, 4:].prod(axis=1).sum() / np.prod(instance["container"]))


def volume_bound(instance: Instance) -> float:
    """No loading fills more: neither more than there is, nor than the container cut down to sums of dimensions.

    Pushed towards the origin, boxes end at sums of dimensions, so that what of a side exceeds the greatest of these
    sums stays empty (Christofides and Whitlock, 1977).
    """
    sizes, sides = instance["sizes"], instance["container"]
    upright = sizes[instance["vertical"]].tolist()
    reach = [int(cutting.patterns(sizes.ravel().tolist(), side)[-1]) for side in sides[:2]]
    room = reach[0] * reach[1] * int(cutting.patterns(upright, sides[2])[-1])
    volumes = zip(sizes.prod(axis=1).tolist(), instance["counts"].tolist(), strict=True)  # sums may exceed an int64
    cargo_volume: int = sum(volume * count for volume, count in volumes)
    return min(room, cargo_volume) / float(math.prod(sides))


# -- weight


def contacts(placed: Ints) -> Iterator[tuple[int, Ints, Ints]]:
    """Of each box above the floor, the highest first: its number, the boxes that it touches below and the areas."""
    low, high = corners(placed)
    for i in np.argsort(-low[:, 2], kind="stable").tolist():
        if low[i, 2] > 0:
            below = np.flatnonzero(high[:, 2] == low[i, 2])
            shared = np.minimum(high[below, :2], high[i, :2]) - np.maximum(low[below, :2], low[i, :2])
            area = np.maximum(shared, 0).prod(axis=1)
            yield i, below[area > 0], area[area > 0]


def loads(placed: Ints, weights: Floats) -> Floats:
    """What rests on each box. The base of every box is supported; its weight and load spread evenly over it."""
    resting = np.zeros(len(placed))
    for i, below, area in contacts(placed):
        resting[below] += (resting[i] + weights[placed[i, 0]]) * area / float(placed[i, 4] * placed[i, 5])
    return resting


def limits(instance: Instance, placed: Ints) -> Floats:
    """What may rest on each box: its strength, per area, for the dimension that points upwards, times its top."""
    sizes, strengths = instance["sizes"][placed[:, 0]], instance["strengths"][placed[:, 0]]
    options = (sizes == placed[:, 6:7]) & instance["vertical"][placed[:, 0]]
    found: Floats = np.where(options, strengths, 0.0).max(axis=1) * placed[:, 4] * placed[:, 5]
    return found


def weight_violations(instance: Instance, placed: Ints) -> Iterator[str]:
    """Boxes that are not supported all over; if there are none, boxes that bear more than they can."""
    hanging = False
    for i, _, area in contacts(placed):
        base = int(placed[i, 4] * placed[i, 5])
        if int(area.sum()) < base:
            hanging = True
            yield f"{named(instance, placed, i)} rests on other boxes with {area.sum()} of its base of {base} only"
    if hanging:
        return
    resting, limit = loads(placed, instance["weights"]), limits(instance, placed)
    for i in np.flatnonzero(resting > limit * (1 + TOLERANCE)).tolist():
        yield f"{named(instance, placed, i)} bears {resting[i]:.2f} kg and can bear {limit[i]:.2f} kg as it stands"


# -- words and pictures


def remark(instance: Instance, placed: Ints) -> str:
    """How much is loaded, and which type leaves most behind."""
    used = np.bincount(placed[:, 0], minlength=len(instance["sizes"]))
    left = (instance["counts"] - used) * instance["sizes"].prod(axis=1)
    worst = int(left.argmax())
    volume = float(np.prod(instance["container"]))
    top = int((placed[:, 3] + placed[:, 6]).max(initial=0))
    return (
        f"{len(placed)} of {int(instance['counts'].sum())} boxes are loaded, up to height {top} of "
        f"{instance['container'][2]}; left out are {left.sum() / volume:.1%} of the container's volume, most of it "
        f"{instance['counts'][worst] - used[worst]} boxes of type {worst}."
    )


def picture(instance: Instance, placed: Ints) -> Drawing:
    """The load seen from the side and, above that, from the top; nearer boxes hide those behind them."""
    length, width, height = instance["container"]
    gap = 0.06 * length
    drawing = Drawing(0, length, 0, height + gap + width)
    for level, up, depth, near in ((0.0, 2, 1, -1), (height + gap, 1, 2, 1)):
        drawing.rectangle(0, level, length, instance["container"][up], fill="#eeeeee")
        key = placed[:, 1 + depth] + (placed[:, 4 + depth] if near == 1 else 0)
        for i in np.argsort(near * key, kind="stable").tolist():
            kind, *rest = placed[i].tolist()
            drawing.rectangle(rest[0], level + rest[up], rest[3], rest[3 + up], fill=colour(kind), line="#ffffff")
    return drawing

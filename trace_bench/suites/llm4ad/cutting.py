"""What cutting and loading tasks share: pieces along the axes, the check of guillotine patterns, bounds.

Positions and sizes are integers and everything is checked exactly. A placement is a row of ints; where pieces lie is
kept as two arrays of shape (n, d), the least and the greatest corner of each: d = 2 for sheets, 3 for containers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.suites.llm4ad import reading

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FAR = 10**9
"""No coordinate is further out: sums and products of two such fit an int64."""
_STATES = 40_000


def rows(value: object, name: str, columns: Sequence[tuple[str, int, int]], *, longest: int) -> Ints:
    """At most `longest` rows of ints, as int64 of shape (n, len(columns)).

    Args:
        columns: of each cell what it is called, its least and its greatest value.
    """
    found = []
    for i, row in enumerate(checks.sequence(value, name, longest=longest)):
        cells = checks.sequence(row, f"{name}[{i}]", length=len(columns))
        pairs = zip(columns, cells, strict=True)
        found.append([checks.integer(cell, f"{what} of {name}[{i}]", low=a, high=b) for (what, a, b), cell in pairs])
    return np.array(found, dtype=np.int64).reshape(-1, len(columns))


def misplaced(low: Ints, high: Ints, size: Sequence[int], what: Callable[[int], str], where: str) -> Iterator[str]:
    """A sentence for each piece that leaves ``0 .. size`` and for each two that overlap; to touch is no overlap."""
    for i, axis in np.argwhere((low < 0) | (high > np.array(size))).tolist():
        yield (
            f"{what(i)} reaches from {low[i, axis]} to {high[i, axis]} along {'xyz'[axis]}, and {where} from 0 to "
            f"{size[axis]}"
        )
    for i, j in overlaps(low, high):
        shared = (np.minimum(high[i], high[j]) - np.maximum(low[i], low[j])).tolist()
        yield f"{what(i)} and {what(j)} overlap by {' x '.join(map(str, shared))}"


def overlaps(low: Ints, high: Ints) -> Iterator[tuple[int, int]]:
    """Pairs of pieces that share inner points."""
    order = np.argsort(low[:, 0], kind="stable")
    starts = low[order, 0]
    for at, i in enumerate(order.tolist()):
        others = order[at + 1 : int(np.searchsorted(starts, high[i, 0], side="left"))]
        hit = ((low[others] < high[i]) & (high[others] > low[i])).all(axis=1)
        for j in others[hit].tolist():
            yield min(i, j), max(i, j)


def inseparable(low: Ints, high: Ints) -> list[int]:
    """Pieces of a sheet, without overlaps, that no edge-to-edge cuts separate; empty for a guillotine pattern.

    A cut never spoils a later one: what can be cut apart by guillotine can be so in every part of the sheet. So cutting
    wherever it is possible decides the question.
    """
    parts = [np.arange(len(low))]
    while parts:
        part = parts.pop()
        if len(part) < 2:
            continue
        cut = next((found for axis in (0, 1) if len(found := _cut(part, low[part, axis], high[part, axis])) > 1), None)
        if cut is None:
            return sorted(part.tolist())
        parts += cut
    return []


def _cut(part: Ints, low: Ints, high: Ints) -> list[Ints]:
    """`part` in the groups that lines across one axis separate."""
    order = np.argsort(low, kind="stable")
    reach = np.maximum.accumulate(high[order])
    return np.split(part[order], np.flatnonzero(low[order][1:] >= reach[:-1]) + 1)


def guillotine_break(low: Ints, high: Ints, what: Callable[[int], str]) -> Iterator[str]:
    """A sentence if the pieces, which do not overlap, are no guillotine pattern."""
    if stuck := inseparable(low, high):
        named = ", ".join(what(i) for i in stuck[:5]) + (f" and {len(stuck) - 5} more" if len(stuck) > 5 else "")
        yield f"not a guillotine pattern: no straight edge-to-edge cut separates {named} without going through a piece"


def too_many(counts: Ints, least: Ints, most: Ints) -> Iterator[str]:
    """A sentence for each type that is cut too seldom or too often."""
    for i in np.flatnonzero((counts < least) | (counts > most)).tolist():
        limit = f"at least {least[i]}" if counts[i] < least[i] else f"at most {most[i]}"
        yield f"piece type {i} is cut {counts[i]} times, and {limit} are asked for"


# -- bounds


def value_bound(sheet: Sequence[int], sizes: Ints, values: Floats | Ints, least: Ints, most: Ints) -> float:
    """No choice of pieces that lies in the sheet, not turned, is worth more than this.

    If pieces lie in a sheet then so do they after their lengths and widths are replaced by dual feasible functions of
    them, as far as areas can tell (Fekete and Schepers, 2004). For each of some such functions the best value under
    that limit on the area alone is a bound, fractions of pieces allowed (Dantzig, 1957); the least of them is taken.

    Args:
        sizes: length and width of each type, shape (m, 2).
        least, most: how many of each type there must and may be.
    """
    fits = np.minimum(most, np.prod(np.array(sheet) // sizes, axis=1))
    pairs = [(a, b) for a in _scales(sizes[:, 0], sheet[0]) for b in _scales(sizes[:, 1], sheet[1])]
    return min(_fractional(u * v, cap_u * cap_v, values, least, fits) for (u, cap_u), (v, cap_v) in pairs)


def _scales(lengths: Ints, limit: int) -> list[tuple[Ints, int]]:
    """Lengths and their limit as they are, and under the dual feasible functions u(k) and U(eps), as integers."""
    found = [(lengths, limit)]
    for k in (1, 2, 3):
        whole = ((k + 1) * lengths) % limit == 0
        found.append((np.where(whole, k * lengths, limit * ((k + 1) * lengths // limit)), k * limit))
    for part in (5, 4, 3):
        short = max(1, limit // part)
        found.append((np.where(lengths > limit - short, limit, np.where(lengths < short, 0, lengths)), limit))
    return found


def _fractional(weights: Ints, capacity: int, values: Floats | Ints, least: Ints, most: Ints) -> float:
    """Greatest value of a knapsack of which fractions can be taken; infinite if what must be taken does not fit."""
    left = float(capacity - int(weights @ least))
    if left < 0 or (most < least).any():
        return math.inf
    total = float(values @ least)
    for i in sorted(range(len(values)), key=lambda i: -float(values[i]) / max(float(weights[i]), 1e-9)):
        number = float(most[i] - least[i])
        taken = number if weights[i] == 0 else min(number, left / float(weights[i]))
        total += taken * float(values[i])
        left -= taken * float(weights[i])
    return total


def patterns(lengths: Sequence[int], limit: int) -> Ints:
    """All sums of the lengths, each taken any number of times, within 0 .. limit, ascending."""
    reached = np.zeros(limit + 1, dtype=bool)
    reached[0] = True
    for length in sorted(set(lengths)):
        for start in range(length, limit + 1, length):
            reached[start : start + length] |= reached[start - length : start][: limit + 1 - start]
    return np.flatnonzero(reached)


def guillotine_optimum(sheet: Sequence[int], sizes: Ints, values: Ints) -> float | None:
    """Greatest value of a guillotine pattern, pieces not turned and of each type as many as fit: the dynamic program of
    Gilmore and Gomory (1966) over the sums of lengths and widths (Herz, 1972). None where that would take too long."""
    across, up = patterns(sizes[:, 0].tolist(), sheet[0]), patterns(sizes[:, 1].tolist(), sheet[1])
    if len(across) * len(up) > _STATES:
        return None
    best = np.zeros((len(across), len(up)))
    for (length, width), value in zip(sizes.tolist(), values.tolist(), strict=True):
        part = best[np.searchsorted(across, length) :, np.searchsorted(up, width) :]
        np.maximum(part, value, out=part)
    lines, beams = _splits(across), _splits(up)
    for i, (left, right) in enumerate(lines):
        row = best[i]
        if len(left):
            np.maximum(row, (best[left] + best[right]).max(axis=0), out=row)
        for j, (below, above) in enumerate(beams):
            if len(below):
                row[j] = max(row[j], (row[below] + row[above]).max())
    return float(best[-1, -1])


def _splits(sums: Ints) -> list[tuple[Ints, Ints]]:
    """Of each length the places of the shorter parts to cut off, and of what is left, rounded down to a sum."""
    found = []
    for length in sums.tolist():
        first = np.arange(1, int(np.searchsorted(sums, length // 2, side="right")))
        found.append((first, np.searchsorted(sums, length - sums[first], side="right") - 1))
    return found


# -- instances, files, pictures


def draw_sizes(rng: np.random.Generator, count: int, sheet: Sequence[int], low: float, high: float) -> Ints:
    """Lengths and widths of `count` pieces, uniform integers between these parts of the sheet's, shape (count, 2)."""
    columns = [rng.integers(max(1, round(low * s)), max(1, math.floor(high * s)) + 1, count) for s in sheet]
    return np.stack(columns, axis=1).astype(np.int64)


def read_count(numbers: Numbers, what: str) -> int:
    """A number of types of pieces, sheets or boxes; one at least."""
    return reading.some(numbers, what, most=10_000)


def read_sizes(numbers: Numbers, what: str, columns: int = 2) -> list[int]:
    """The next whole numbers, which must be above zero, and so small that areas and volumes fit an int64."""
    found = numbers.integers(columns, what)
    if min(found) < 1:
        raise DataError(f"{what} must be above zero, not {min(found)}")
    if max(found) > reading.LARGEST:
        raise DataError(f"{what} must be at most {reading.LARGEST}, not {max(found):.10g}")
    return found


def read_piece(numbers: Numbers, sheet: Sequence[int], piece: int) -> list[int]:
    """Length and width of a piece; one that does not fit the sheet is kept, and cannot be cut."""
    found = read_sizes(numbers, f"length and width of piece {piece + 1}")
    return [min(found[0], sheet[0] + 1), min(found[1], sheet[1] + 1)]


def picture(sheet: Sequence[int], low: Ints, high: Ints, kinds: Sequence[int]) -> Drawing:
    """A sheet with its pieces, coloured and numbered by type."""
    drawing = Drawing(0, sheet[0], 0, sheet[1])
    add_pieces(drawing, (0, 0), sheet, low, high, kinds)
    return drawing


def add_pieces(drawing: Drawing, at: tuple[float, float], sheet: Sequence[int], low: Ints, high: Ints,
               kinds: Sequence[Any]) -> None:  # fmt: skip
    """A sheet with its pieces, its lower left corner at `at`."""
    drawing.rectangle(at[0], at[1], sheet[0], sheet[1], fill="#eeeeee")
    for kind, (x, y), (right, top) in zip(kinds, low.tolist(), high.tolist(), strict=True):
        drawing.rectangle(at[0] + x, at[1] + y, right - x, top - y, fill=colour(int(kind)), line="#ffffff")
        drawing.text(at[0] + (x + right) / 2, at[1] + (y + top) / 2, str(kind), size=9, fill="#ffffff")


# -- one sheet: an instance has sheet (length, width), sizes (m, 2), values, least and most (m,); a solution is an array
# of rows (piece type, x, y)


def on_sheet(value: object, instance: Mapping[str, Any]) -> Ints:
    """Checked placements on one sheet."""
    sheet, sizes = instance["sheet"], instance["sizes"]
    room = int(sheet[0] * sheet[1] // max(1, int(sizes.prod(axis=1).min())))
    columns = [("the piece type", 0, len(sizes) - 1), ("x", -FAR, FAR), ("y", -FAR, FAR)]
    return rows(value, "the placements", columns, longest=room)


def corners(instance: Mapping[str, Any], placements: Ints) -> tuple[Ints, Ints]:
    """Lower left and upper right corners."""
    low = placements[:, 1:3]
    return low, low + instance["sizes"][placements[:, 0]]


def named(placements: Ints) -> Callable[[int], str]:
    """What a placement is called in sentences."""
    return lambda i: f"placement {i} (piece type {placements[i, 0]} at {', '.join(map(str, placements[i, 1:3]))})"


def sheet_violations(instance: Mapping[str, Any], placements: Ints, *, guillotine: bool) -> Iterator[str]:
    """Pieces outside the sheet or over one another, counts other than asked for, and patterns that cannot be cut."""
    low, high = corners(instance, placements)
    broken = False
    for sentence in misplaced(low, high, instance["sheet"], named(placements), "the sheet"):
        broken = True
        yield sentence
    yield from too_many(
        np.bincount(placements[:, 0], minlength=len(instance["sizes"])), instance["least"], instance["most"]
    )
    if guillotine and not broken:
        yield from guillotine_break(low, high, named(placements))


def value_of(instance: Mapping[str, Any], placements: Ints) -> float:
    """Total value of the pieces placed."""
    return float(instance["values"][placements[:, 0]].sum())


def sheet_remark(instance: Mapping[str, Any], placements: Ints) -> str:
    """How much of the sheet is used, and what is left of the pieces that are worth most for their area."""
    sizes, values = instance["sizes"], instance["values"]
    area = int(instance["sheet"][0] * instance["sheet"][1])
    used = int(sizes[placements[:, 0]].prod(axis=1).sum())
    counts = np.bincount(placements[:, 0], minlength=len(sizes))
    worth = values / sizes.prod(axis=1)
    best = np.argsort(-worth, kind="stable")[:3].tolist()
    listed = ", ".join(f"type {i} {counts[i]} of {instance['most'][i]}" for i in best)
    return (
        f"{len(placements)} pieces cover {used / area:.1%} of the sheet. "
        f"Cut of the types worth most for their area: {listed}."
    )


def sheet_picture(instance: Mapping[str, Any], placements: Ints) -> Drawing:
    return picture(instance["sheet"], *corners(instance, placements), kinds=placements[:, 0].tolist())

"""What tasks of packing items into bins share: sizes, a lower bound, what is said of a packing, and its picture.

Sizes and capacities are whole numbers throughout, so that whether an item fits is never a matter of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, colour
from trace_bench.worker.problem import CandidateError

Sizes = Sequence[int]
SHAPE, SCALE, LARGEST = 3.0, 45.0, 100
BLOCK = 8
_DRAWN = 60
_LISTED = 8


def weibull_sizes(rng: np.random.Generator, count: int, capacity: int) -> tuple[int, ...]:
    """`count` sizes in order of arrival: Weibull variates, rounded and clipped to 1 .. min(100, capacity)."""
    drawn = np.rint(SCALE * rng.weibull(SHAPE, count))
    return tuple(int(size) for size in np.clip(drawn, 1, min(LARGEST, capacity)).astype(np.int64))


def lower_bound(sizes: Sizes, capacity: int) -> int:
    """The bound L2 of Martello and Toth (Discrete Applied Mathematics 28, 1990): no packing has fewer bins.

    For a threshold k, the items above half a bin lie in bins of their own. Those of at most capacity - k leave room for
    items of k and more, and what of these does not fit there fills further bins. The best k is taken, and k = 0 gives
    the sum of all sizes over the capacity.
    """
    ordered = np.sort(np.asarray(sizes, dtype=np.int64))
    before = np.concatenate([[0], np.cumsum(ordered)])
    half = int(np.searchsorted(ordered, capacity // 2, side="right"))  # 2 * size <= capacity
    thresholds = np.unique(np.concatenate([[0], ordered[:half]]))
    first = np.searchsorted(ordered, thresholds, side="left")
    full = np.searchsorted(ordered, capacity - thresholds, side="right")
    small = before[half] - before[first]
    room = (full - half) * capacity - (before[full] - before[half])
    more = np.maximum(0, -((room - small) // capacity))
    return int(((len(ordered) - half) + more).max())


def play_online(program: Callable[..., Any], sizes: Sizes, capacity: int) -> list[int]:
    """The bin of each item, in order of arrival, as a priority function chooses them.

    A call sends the item and the remaining capacities of the bins that it fits into: open bins in the order of their
    opening, then one empty bin. (FunSearch offers every unused bin. All but the first are copies that a choice of the
    first maximum never needs, and sending thousands of them would dominate the time of a call; a rule that looks at
    neighbouring entries can tell the difference, so results are comparable with its numbers only for rules that judge
    each bin by itself.)

    Raises:
        CandidateError: an answer is not one real, non-NaN priority for each bin on offer.
    """
    remaining = np.full(len(sizes) + 1, float(capacity))
    chosen: list[int] = []
    used = 0
    for number, size in enumerate(sizes):
        item = float(size)
        # Slot `used` is the next empty bin, so that it comes last of what the item fits into.
        fitting = np.flatnonzero(remaining[: used + 1] >= item)
        answer = program(item, remaining[fitting])
        where = int(fitting[priorities(answer, len(fitting), number, size).argmax()])
        remaining[where] -= item
        used += where == used
        chosen.append(where)
    return chosen


def play_in_blocks(program: Callable[..., Any], sizes: Sizes, capacity: int) -> tuple[list[int], int, int]:
    """As `play_online`, but what is on offer is sent in blocks of `BLOCK` bins, the empty bin last of all, and a
    priority of infinity takes a bin at once: blocks that follow are then not sent.

    Returns:
        The bin of each item, the number of entries in all blocks that were sent, and the number of blocks.
    """
    remaining = np.full(len(sizes) + 1, float(capacity))
    chosen: list[int] = []
    used = entries = blocks = 0
    for number, size in enumerate(sizes):
        item = float(size)
        fitting = np.flatnonzero(remaining[: used + 1] >= item)
        where, best = int(fitting[0]), -math.inf
        for start in range(0, len(fitting), BLOCK):
            block = fitting[start : start + BLOCK]
            found = priorities(program(item, remaining[block]), len(block), number, size)
            entries += len(block)
            blocks += 1
            top = int(found.argmax())
            if found[top] > best:
                where, best = int(block[top]), float(found[top])
            if best == math.inf:
                break
        remaining[where] -= item
        used += where == used
        chosen.append(where)
    return chosen, entries, blocks


def priorities(answer: Any, offered: int, number: int, size: int) -> NDArray[np.float64]:
    """One priority for each of the bins on offer for item `number`; infinities are."""
    try:
        return checks.float_array(answer, "priorities", shape=(offered,), infinite=True)
    except CandidateError as error:
        raise checks.refuse(f"item {number} (size {size}, bins on offer: {offered}): {error.message}") from error


def room(sizes: Sizes, capacity: int, chosen: Sequence[int]) -> NDArray[np.int64]:
    """What stays free in each bin, where item i lies in bin ``chosen[i]``; bins are numbered from 0, none is empty."""
    filled = np.zeros(max(chosen, default=-1) + 1, dtype=np.int64)
    np.add.at(filled, np.asarray(chosen, dtype=np.int64), np.asarray(sizes, dtype=np.int64))
    return np.asarray(capacity - filled)


def told(sizes: Sizes, capacity: int, chosen: Sequence[int]) -> str:
    """How many bins more than the bound there are, and how full they are."""
    free = room(sizes, capacity, chosen)
    used, least = len(free), lower_bound(sizes, capacity)
    more, full = used - least, int((free == 0).sum())
    return (
        f"{used} bins for {len(sizes)} items, {more} ({more / least:.2%}) above the bound. On average "
        f"{free.mean():.1f} of {capacity} stays free in a bin, at most {int(free.max())}; {full} bins are full."
    )


def listed(numbers: Iterable[int]) -> str:
    """The first of them, for a sentence."""
    first = list(islice(numbers, _LISTED + 1))
    return ", ".join(map(str, first[:_LISTED])) + (" …" if len(first) > _LISTED else "")


def draw(sizes: Sizes, capacity: int, chosen: Sequence[int]) -> Drawing:
    """The first bins as columns, their items one on another in the order in which they came."""
    bins = min(_DRAWN, max(chosen) + 1)
    drawing = Drawing(0, bins, 0, capacity, width=560, height=200)
    level = [0] * bins
    for number, (size, where) in enumerate(zip(sizes, chosen, strict=True)):
        if where < bins:
            drawing.rectangle(where + 0.05, level[where], 0.9, size, fill=colour(number), line="#ffffff")
            level[where] += size
    drawing.path([(0, 0), (0, capacity), (bins, capacity), (bins, 0)], closed=True)
    return drawing

"""An epsilon-net over texts: which of new points lie far enough from those that are there, and from each other."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence

from trace_bench.worker.problem import Value

Vector = Sequence[float]
DIMENSIONS = 256


def text_of(state: Mapping[str, Value]) -> str:
    """What is embedded of a candidate: its parameters by name, one after the other, in the order of their names."""
    return "\n".join(f"{name}: {value}" for name, value in sorted(state.items()))


def trigrams(text: str) -> list[float]:
    """A unit vector of how often each three characters follow each other in `text`, folded into `DIMENSIONS` numbers.

    Texts that share all of them have a distance of 0, and texts that share none one of about the square root of 2. It
    tells texts apart by their letters alone, not by what they mean.
    """
    padded = f"  {text}  "
    counts = [0.0] * DIMENSIONS
    for i in range(len(padded) - 2):
        counts[zlib.crc32(padded[i : i + 3].encode("utf-8", "surrogatepass")) % DIMENSIONS] += 1.0
    norm = math.hypot(*counts)
    return [count / norm for count in counts]


def nearest(point: Vector, net: Sequence[Vector]) -> tuple[float, int]:
    """(L2 distance, index) of the nearest of `net`, of equal ones the first; (inf, -1) if there is none.

    Raises:
        ValueError: the vectors have different lengths.
    """
    return min(((math.dist(point, other), i) for i, other in enumerate(net)), default=(math.inf, -1))


def farthest_first(points: Sequence[Vector], net: Sequence[Vector], epsilon: float) -> dict[int, float]:
    """Indices of the `points` that join `net`, in the order of joining, with their distance to it at that moment.

    The point farthest from the net joins (of equal ones the first) if its L2 distance is more than `epsilon`; it is
    part of the net for those that come after it; and so on until no other is far enough.

    Raises:
        ValueError: the vectors have different lengths.
    """
    distance = {i: nearest(point, net)[0] for i, point in enumerate(points)}
    joined: dict[int, float] = {}
    while distance:
        index = max(distance, key=lambda i: (distance[i], -i))
        if not distance[index] > epsilon:
            break
        joined[index] = distance.pop(index)
        for i in distance:
            distance[i] = min(distance[i], math.dist(points[i], points[index]))
    return joined

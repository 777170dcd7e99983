"""An epsilon-net: which of new points lie far enough from those that are there, and from each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trace_bench.worker.problem import Value

Distance = Callable[[Any, Any], float]
"""Of two points; 0 for equal ones. By default the L2 distance of vectors."""


def text_of(state: Mapping[str, Value]) -> str:
    """The text of a candidate that is embedded: its parameters by name, one after the other, in the order of names."""
    return "\n".join(f"{name}: {value}" for name, value in sorted(state.items()))


def nearest(point: Any, net: Sequence[Any], distance: Distance = math.dist) -> tuple[float, int]:
    """(distance, index) of the nearest of `net`, of equal ones the first; (inf, -1) if there is none.

    Raises:
        ValueError: the vectors have different lengths.
    """
    return min(((distance(point, other), i) for i, other in enumerate(net)), default=(math.inf, -1))


def farthest_first(
    points: Sequence[Any], net: Sequence[Any], epsilon: float, distance: Distance = math.dist
) -> dict[int, float]:
    """Indices of the `points` that join `net`, in the order of joining, with their distance to it at that moment.

    The point farthest from the net joins (of equal ones the first) if its distance is more than `epsilon`; it is
    part of the net for those that come after it; and so on until no other is far enough.

    Raises:
        ValueError: the vectors have different lengths.
    """
    apart = {i: nearest(point, net, distance)[0] for i, point in enumerate(points)}
    joined: dict[int, float] = {}
    while apart:
        index = max(apart, key=lambda i: (apart[i], -i))
        if not apart[index] > epsilon:
            break
        joined[index] = apart.pop(index)
        for i in apart:
            apart[i] = min(apart[i], distance(points[i], points[index]))
    return joined

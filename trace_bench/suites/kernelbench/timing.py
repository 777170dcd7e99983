"""What paired times of a reference and a candidate say of the speed-up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Speed:
    """Times are seconds, without the hand-over. To copy the outputs to where the judge looks is part of them.

    Attributes:
        speedup: reference / candidate; higher is better.
        low, high: 95 % interval of it.
        reference, candidate: of a call, the median over pairs of processes of the shortest call.
        handover: what a call costs of a kernel that does nothing.
        resolution: what it varies by from pair to pair (the distance of the quartiles). A time of that size
            cannot be told from none.
        reference_p10, reference_p90, candidate_p10, candidate_p90: quantiles over the pairs (10 % and 90 %).
        touched_bytes: of inputs and outputs, which a call has to touch at least once; 0 where that is not known.
    """

    speedup: float
    low: float
    high: float
    reference: float
    candidate: float
    handover: float
    resolution: float
    reference_p10: float
    reference_p90: float
    candidate_p10: float
    candidate_p90: float
    touched_bytes: int = 0

    @property
    def is_resolved(self) -> bool:
        """Whether both take clearly longer than what the hand-over varies by."""
        return min(self.reference, self.candidate) > 2 * self.resolution


def speed(
    reference: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], empty: Sequence[Sequence[float]]
) -> Speed:
    """The speed-up of paired calls, of which each took the same inputs.

    What else a machine does makes calls longer, and where memory comes to lie makes one process slower than another of
    the same program, in all its calls. So each pair of processes gives one value, the ratio of their shortest calls;
    the speed-up is the median of these values, and its interval that of a median by order statistics, which asks
    nothing of how they are distributed. The hand-over, which is what such a call of the kernel that does nothing
    (`empty`) takes, is taken off all times. No time is believed to be shorter than what the hand-over varies by: a
    candidate gets no credit for what cannot be measured.

    Args:
        reference, candidate, empty: seconds of as many calls each, by pair of processes; 6 pairs or more.
    """
    shortest = list(map(min, empty))
    handover = statistics.median(shortest)
    lower, _, upper = statistics.quantiles(shortest, n=4)
    resolution = max(upper - lower, 1e-6)

    def net(times: Sequence[Sequence[float]]) -> list[float]:
        return [max(min(calls) - handover, resolution) for calls in times]

    theirs, ours = net(reference), net(candidate)
    values = sorted(a / b for a, b in zip(theirs, ours, strict=True))
    rank = _rank(len(values))
    return Speed(
        speedup=statistics.median(values),
        low=values[rank],
        high=values[-1 - rank],
        reference=statistics.median(theirs),
        candidate=statistics.median(ours),
        handover=handover,
        resolution=resolution,
        reference_p10=_decile(theirs, 1),
        reference_p90=_decile(theirs, 9),
        candidate_p10=_decile(ours, 1),
        candidate_p90=_decile(ours, 9),
    )


def _decile(times: Sequence[float], number: int) -> float:
    """Between the shortest and the longest time, however few there are."""
    return statistics.quantiles(times, n=10, method="inclusive")[number - 1]


@cache
def _rank(count: int) -> int:
    """The largest number of values to leave out at each end so that the rest holds the median with 95 % probability."""
    outside, left_out = 0, 0
    while 2 * (outside + math.comb(count, left_out)) <= 0.05 * 2**count:
        outside += math.comb(count, left_out)
        left_out += 1
    return left_out - 1

"""Circle packing: judges n circles in the unit square by the sum of their radii (higher is better).

Tolerance. A candidate computes in floating point, so circles that touch are found to overlap by some 1e-16.
Violations up to `TOLERANCE` are therefore accepted, and then taken back: with v the largest violation,
every radius is reduced by v before the sum is formed. Reducing two radii by v each separates circles that
overlap by v and clears a border crossed by v, so the score is that of a packing that is valid as it stands
(up to the rounding of this check itself), and it can never exceed the true optimum by a trick with the
tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.worker.problem import ProblemError

TOLERANCE = 1e-9

BEST_KNOWN = {26: 2.635, 32: 2.937}
"""Sums that the AlphaEvolve white paper (2025), B.12, reports."""


def instances(split: str, seed: int, count: int, *, n: int) -> list[int]:
    """The problem has no random data: its one instance is the number of circles."""
    if count > 1:
        raise ProblemError(f"circle_packing has one instance for each n, so num_{split} cannot be {count}; give 0 or 1")
    return [n] * count


def best_known(*, n: int) -> float | None:
    return BEST_KNOWN.get(n)


def score_range(*, n: int) -> tuple[float, float]:
    """From nothing to the bound of the area: sum r_i <= sqrt(n * sum r_i^2) <= sqrt(n / pi)."""
    return 0.0, math.sqrt(n / math.pi)


def evaluate(program: Callable[..., Any], instance: int, *, n: int) -> tuple[float, str]:
    """The sum of the radii of a valid packing.

    Raises:
        CandidateError: the answer is not an array of n finite rows (x, y, r), or not a packing.
    """
    circles = checks.float_array(program(instance), "the packing", shape=(instance, 3))
    x, y, r = circles.T
    _check_ranges(x, y, r)
    border = np.max([r - x, r - y, x + r - 1.0, y + r - 1.0], axis=0)
    overlap = r[:, None] + r[None, :] - np.hypot(x[:, None] - x[None, :], y[:, None] - y[None, :])
    np.fill_diagonal(overlap, -np.inf)

    outside = int(border.argmax())
    if border[outside] > TOLERANCE:
        raise checks.refuse(
            f"{int((border > TOLERANCE).sum())} of {instance} circles reach outside the unit square; "
            f"the worst is circle {outside} {_row(circles[outside])}, by {border[outside]:.3g}"
        )
    i, j = (int(k) for k in np.unravel_index(overlap.argmax(), overlap.shape))
    if overlap[i, j] > TOLERANCE:
        pairs, of = int((overlap > TOLERANCE).sum()) // 2, instance * (instance - 1) // 2
        raise checks.refuse(
            f"circles overlap ({pairs} of {of} pairs); the worst are circle {i} {_row(circles[i])} and "
            f"circle {j} {_row(circles[j])}, by {overlap[i, j]:.3g}"
        )
    violation = max(0.0, float(border[outside]), float(overlap[i, j]))
    score = math.fsum(np.maximum(r - violation, 0.0).tolist())
    free = 1.0 - math.pi * float(r @ r)
    return score, (
        f"A valid packing (n = {instance}); radii from {r.min():.4g} to {r.max():.4g}; "
        f"{free:.1%} of the square is left uncovered."
    )


def _check_ranges(x: np.ndarray, y: np.ndarray, r: np.ndarray) -> None:
    """Refuse what is plainly off before it is squared: 1e300 is finite, its square is not."""
    for i in range(len(r)):
        if r[i] < 0.0:
            raise checks.refuse(f"circle {i} has the negative radius {float(r[i])!r}")
        for name, value in (("x", x[i]), ("y", y[i])):
            if not -TOLERANCE <= value <= 1.0 + TOLERANCE:
                raise checks.refuse(f"the centre of circle {i} lies outside the unit square: {name} = {float(value)!r}")
        if r[i] > 0.5 + TOLERANCE:
            raise checks.refuse(f"circle {i} has radius {float(r[i])!r}, and no circle above 0.5 fits the unit square")


def _row(circle: np.ndarray) -> str:
    return f"(x={circle[0]:.6g}, y={circle[1]:.6g}, r={circle[2]:.6g})"

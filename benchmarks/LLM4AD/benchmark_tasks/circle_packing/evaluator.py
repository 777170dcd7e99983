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
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trace_bench.suites import checks
from trace_bench.suites.drawing import Drawing, colour

TOLERANCE = 1e-9

BEST_KNOWN = {26: 2.635983085, 32: 2.937, 40: 3.292391573}
"""Sums that are reported: for n = 32 by the AlphaEvolve white paper (2025), B.12, for others by Numaro (2026)."""


def instance(rng: np.random.Generator, *, n: int) -> dict[str, Any]:
    """The number of circles: the problem has no random data."""
    return {"n": n}


def best_known(*, n: int) -> float | None:
    return BEST_KNOWN.get(n)


def target(instance: dict[str, Any]) -> float:
    """The best known sum, or the bound."""
    return BEST_KNOWN.get(instance["n"], bound(instance))


def answer(program: Callable[..., Any], instance: dict[str, Any]) -> np.ndarray:
    """Rows (x, y, r), each number within its range: what is plainly off is refused before it is squared, for 1e300 is
    finite and its square is not."""
    n = instance["n"]
    circles = checks.float_array(program(n), "the packing", shape=(n, 3))
    for i, (x, y, r) in enumerate(circles.tolist()):
        if r < 0.0:
            raise checks.refuse(f"circle {i} has the negative radius {r!r}")
        for name, value in (("x", x), ("y", y)):
            if not -TOLERANCE <= value <= 1.0 + TOLERANCE:
                raise checks.refuse(f"the centre of circle {i} lies outside the unit square: {name} = {value!r}")
        if r > 0.5 + TOLERANCE:
            raise checks.refuse(f"circle {i} has radius {r!r}, and no circle above 0.5 fits the unit square")
    return circles


def violations(instance: dict[str, Any], circles: np.ndarray) -> Iterator[str]:
    """Beyond the tolerance: what reaches outside, and what overlaps; of each the worst, and how many there are."""
    n = instance["n"]
    border, overlap = _outside(circles), _overlap(circles)
    worst = int(border.argmax())
    if border[worst] > TOLERANCE:
        yield (
            f"{int((border > TOLERANCE).sum())} of {n} circles reach outside the unit square; "
            f"the worst is circle {worst} {_row(circles[worst])}, by {border[worst]:.3g}"
        )
    i, j = (int(k) for k in np.unravel_index(overlap.argmax(), overlap.shape))
    if overlap[i, j] > TOLERANCE:
        pairs, of = int((overlap > TOLERANCE).sum()) // 2, n * (n - 1) // 2
        yield (
            f"circles overlap ({pairs} of {of} pairs); the worst are circle {i} {_row(circles[i])} and "
            f"circle {j} {_row(circles[j])}, by {overlap[i, j]:.3g}"
        )


def score(instance: dict[str, Any], circles: np.ndarray) -> float:
    """The sum of the radii, each reduced by the largest violation."""
    violation = max(0.0, float(_outside(circles).max()), float(_overlap(circles).max()))
    return math.fsum(np.maximum(circles[:, 2] - violation, 0.0).tolist())


def worst(instance: dict[str, Any]) -> float:
    """No circle at all."""
    return 0.0


def bound(instance: dict[str, Any]) -> float:
    """Of the area: sum r_i <= sqrt(n * sum r_i^2) <= sqrt(n / pi)."""
    return math.sqrt(instance["n"] / math.pi)


def remark(instance: dict[str, Any], circles: np.ndarray) -> str:
    r = circles[:, 2]
    free = 1.0 - math.pi * float(r @ r)
    return (
        f"A valid packing (n = {instance['n']}); radii from {r.min():.4g} to {r.max():.4g}; "
        f"{free:.1%} of the square is left uncovered."
    )


def draw(instance: dict[str, Any], circles: np.ndarray) -> Drawing:
    drawing = Drawing(0, 1, 0, 1)
    drawing.rectangle(0, 0, 1, 1)
    for number, (x, y, r) in enumerate(circles.tolist()):
        drawing.circle(x, y, r, fill=colour(number))
    return drawing


def _outside(circles: np.ndarray) -> np.ndarray:
    """How far each circle reaches beyond the border; negative for one within."""
    x, y, r = circles.T
    return np.max([r - x, r - y, x + r - 1.0, y + r - 1.0], axis=0)


def _overlap(circles: np.ndarray) -> np.ndarray:
    """How deep each two circles overlap; negative for those apart."""
    x, y, r = circles.T
    overlap = r[:, None] + r[None, :] - np.hypot(x[:, None] - x[None, :], y[:, None] - y[None, :])
    np.fill_diagonal(overlap, -np.inf)
    return overlap


def _row(circle: np.ndarray) -> str:
    return f"(x={circle[0]:.6g}, y={circle[1]:.6g}, r={circle[2]:.6g})"

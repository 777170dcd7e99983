"""What knapsack tasks with many constraints share: how they are drawn and read, their linear relaxation, the checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog  # type: ignore[import-untyped,unused-ignore]

from trace_bench.suites import checks
from trace_bench.suites.data_files import DataError, Numbers

Floats = NDArray[np.float64]
TIGHTNESS = (0.25, 0.5, 0.75)
LARGEST = 1e12
"""Of a number in a file: sums of such are still exact enough."""


def rows(rng: np.random.Generator, count: int, n: int) -> Floats:
    """Coefficients as Chu and Beasley (1998) draw them: whole numbers 0 .. 1000, shape (count, n)."""
    return rng.integers(0, 1001, size=(count, n)).astype(np.float64)


def profits(rng: np.random.Generator, weights: Floats) -> Floats:
    """Correlated with the weights (m, n): an item's mean weight and up to 500 more, rounded down."""
    raised = weights.mean(axis=0) + 500 * rng.random(weights.shape[1])
    return np.asarray(np.floor(raised), dtype=np.float64)


def read_rows(numbers: Numbers, count: int, n: int, what: str) -> Floats:
    """``count`` rows of ``n`` numbers from a file.

    Raises:
        DataError: a number is missing, none, or absurdly large.
    """
    found = np.array([numbers.reals(n, what) for _ in range(count)], dtype=np.float64).reshape(count, n)
    if (abs(found) > LARGEST).any():
        raise DataError(f"{what} must be within {LARGEST:g} of 0")
    return found


def chosen(answer: Any, n: int) -> list[int]:
    """The answer as a list of n ints, each 0 or 1."""
    return checks.integers(answer, "the choice", length=n, low=0, high=1)


def over(choice: list[int], weights: Floats, capacities: Floats) -> Iterator[str]:
    """A sentence for each capacity that is exceeded. Sums of whole numbers are exact, others to 1e-9."""
    for i, (used, there) in enumerate(zip((weights @ np.array(choice)).tolist(), capacities.tolist(), strict=True)):
        if used > there + slack(there):
            yield f"constraint {i} uses {used:g} of {there:g}, {used - there:g} too much"


def under(choice: list[int], weights: Floats, demands: Floats) -> Iterator[str]:
    """A sentence for each demand that is not met."""
    for i, (got, wanted) in enumerate(zip((weights @ np.array(choice)).tolist(), demands.tolist(), strict=True)):
        if got < wanted - slack(wanted):
            yield f"demand {i} gets {got:g} of {wanted:g}, {wanted - got:g} too little"


def slack(limit: float) -> float:
    """What rounding may do to a sum of fractions; too little for a further item of any published instance."""
    return 0.0 if limit.is_integer() else 1e-9 * abs(limit)


def relaxed(values: Floats, weights: Floats, capacities: Floats) -> float:
    """The most that fractions of items are worth: an upper bound, by HiGHS; all positive values if it finds none.

    Args:
        values: shape (n,).
        weights: shape (k, n); ``weights @ x <= capacities`` holds. A demand is a row with its signs changed.
        capacities: shape (k,).
    """
    solved = linprog(-values, A_ub=weights, b_ub=capacities, bounds=(0, 1), method="highs")
    all_positive = float(values[values > 0].sum())
    if solved.status != 0:
        return all_positive
    bound = -float(solved.fun) + 1e-6 + 1e-9 * abs(float(solved.fun))  # what the solver takes for zero
    if (values == np.floor(values)).all():
        bound = float(np.floor(bound))
    return min(bound, all_positive)

"""What readers of published files share: numbers of things that cannot be none, and sizes that fit an int64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trace_bench.suites.data_files import DataError, Numbers

LARGEST = 1_000_000
"""No size or time in a file is larger: products of three such fit an int64."""


def some(numbers: Numbers, what: str, *, most: int = 1_000_000) -> int:
    """A number of things of which there must be one at least.

    Raises:
        DataError: there is none, or more than `most`.
    """
    found = numbers.count(what, most=most)
    if not found:
        raise DataError(f"{numbers.place}: {what} must be above zero")
    return found


def within(numbers: Numbers, what: str, *, low: int = -LARGEST, high: int = LARGEST) -> int:
    """The next whole number, which must be low .. high.

    Raises:
        DataError: it is not.
    """
    found = numbers.integer(what)
    if not low <= found <= high:
        raise DataError(f"{numbers.place}: {what} must be within {low} .. {high}, not {found:.10g}")
    return found


def whole_if_all_are(values: NDArray[np.float64]) -> NDArray[np.float64] | NDArray[np.int64]:
    """The same values as int64, if all are whole and exact as floats."""
    exact = (values == np.rint(values)).all() and (np.abs(values) <= 2.0**53).all()
    return values.astype(np.int64) if exact else values

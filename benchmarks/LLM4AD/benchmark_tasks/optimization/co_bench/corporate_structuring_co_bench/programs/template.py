import numpy as np


def solve(
    n: int,
    target: int,
    tax_codes: np.ndarray,
    foreign_rates: np.ndarray,
    domestic_rates: np.ndarray,
    profits: np.ndarray,
    withholding: np.ndarray,
) -> list[int]:
    """The target owns every country that has a profit; no other is in the structure."""
    return [target if profits[i] > 0 and i != target else -1 for i in range(n)]

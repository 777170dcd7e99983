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
    """A chain: each country with a profit is owned by the next one, the last by the target."""
    owners, above = [-1] * n, target
    for i in range(n - 1, -1, -1):
        if profits[i] > 0 and i != target:
            owners[i], above = above, i
    return owners

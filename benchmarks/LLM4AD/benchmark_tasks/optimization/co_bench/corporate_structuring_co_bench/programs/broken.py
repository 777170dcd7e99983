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
    """Each country with a profit is owned by another with a profit, wherever least is withheld: in the end by itself."""
    sources = [i for i in range(n) if profits[i] > 0 and i != target]
    owners = [-1] * n
    for i in sources:
        owners[i] = min((j for j in sources if j != i), key=lambda j: withholding[i, j], default=i)
    return owners

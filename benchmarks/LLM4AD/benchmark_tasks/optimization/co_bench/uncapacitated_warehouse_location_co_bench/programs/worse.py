import numpy as np


def solve(m: int, n: int, fixed_costs: np.ndarray, costs: np.ndarray) -> list[int]:
    """Customers to warehouses by turns."""
    return [customer % m for customer in range(n)]

import numpy as np


def solve(m: int, n: int, fixed_costs: np.ndarray, costs: np.ndarray) -> list[int]:
    """Opens the quarter of the warehouses with the least fixed costs; each customer is served by the cheapest one."""
    open_ones = np.argsort(fixed_costs, kind="stable")[: max(1, m // 4)]
    return open_ones[costs[:, open_ones].argmin(axis=1)].tolist()

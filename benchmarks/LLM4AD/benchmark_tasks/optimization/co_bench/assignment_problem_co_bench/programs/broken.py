import numpy as np


def solve(n: int, cost_matrix: np.ndarray) -> list[int]:
    """The cheapest agent for each item, who may have been taken by another."""
    return cost_matrix.argmin(axis=1).tolist()

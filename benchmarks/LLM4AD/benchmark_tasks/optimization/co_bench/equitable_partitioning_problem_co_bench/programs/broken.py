import numpy as np


def solve(data: np.ndarray, n_groups: int) -> list[int]:
    """Deals out in turn, and counts the groups from 1."""
    return [1 + i % n_groups for i in range(len(data))]

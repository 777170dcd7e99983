import numpy as np


def solve(data: np.ndarray, n_groups: int) -> list[int]:
    """Deals the individuals out in turn."""
    return [i % n_groups for i in range(len(data))]

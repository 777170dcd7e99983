import numpy as np


def solve(n: int, edges: np.ndarray) -> list[int]:
    """A colour for each node."""
    return list(range(n))

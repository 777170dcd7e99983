import numpy as np


def solve(n: int, cost_matrix: np.ndarray) -> list[int]:
    """Item i to agent i, whatever it costs."""
    return list(range(n))

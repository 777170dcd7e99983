import numpy as np


def solve(N: int, K: int, time_limit: int, tasks: np.ndarray, arcs: np.ndarray) -> list[list[int]]:
    """Deals the tasks out to the crews by turns, whether there are transitions or not."""
    return [list(range(crew, N, K)) for crew in range(K)]

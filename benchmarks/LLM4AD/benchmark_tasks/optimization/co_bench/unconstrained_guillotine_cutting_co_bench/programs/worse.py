import numpy as np


def solve(stock_length: int, stock_width: int, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """One piece of the first type, in the corner."""
    return [(0, 0, 0)]

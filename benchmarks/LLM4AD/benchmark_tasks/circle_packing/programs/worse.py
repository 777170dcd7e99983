import numpy as np


def pack_circles(n: int) -> np.ndarray:
    """All circles in one row."""
    radius = 0.5 / n
    centres = (2 * np.arange(n) + 1) * radius
    return np.column_stack([centres, np.full(n, 0.5), np.full(n, radius)])

import numpy as np


def solve(points: np.ndarray) -> np.ndarray:
    """One point in the middle of all."""
    return points.mean(axis=0, keepdims=True)

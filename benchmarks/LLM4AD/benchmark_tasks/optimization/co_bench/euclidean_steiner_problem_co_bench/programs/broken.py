import numpy as np


def solve(points: np.ndarray) -> np.ndarray:
    """All points of the tree, the terminals among them, where only the added ones are due."""
    return np.vstack([points, points.mean(axis=0)])

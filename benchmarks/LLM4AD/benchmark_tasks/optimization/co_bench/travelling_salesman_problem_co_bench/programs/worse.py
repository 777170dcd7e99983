import numpy as np


def solve(nodes: np.ndarray) -> list[int]:
    """From left to right, whatever lies above or below."""
    return np.argsort(nodes[:, 0]).tolist()

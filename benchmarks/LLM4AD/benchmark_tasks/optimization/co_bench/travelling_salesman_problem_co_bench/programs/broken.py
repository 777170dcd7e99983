import numpy as np


def solve(nodes: np.ndarray) -> list[int]:
    """From left to right and back to the first city, which is then in the tour twice."""
    tour = np.argsort(nodes[:, 0]).tolist()
    return [*tour, tour[0]]

import numpy as np


def solve(n: int, p: int, dist: np.ndarray) -> list[int]:
    """The median of every vertex, where the list of the p medians is asked for."""
    medians = np.argsort(dist.sum(axis=1), kind="stable")[:p]
    return medians[dist[medians].argmin(axis=0)].tolist()

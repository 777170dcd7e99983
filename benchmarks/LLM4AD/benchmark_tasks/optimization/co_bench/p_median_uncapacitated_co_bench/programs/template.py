import numpy as np


def solve(n: int, p: int, dist: np.ndarray) -> list[int]:
    """Spread out: each next median is the vertex farthest from those chosen so far."""
    medians = [int(dist.sum(axis=1).argmin())]
    while len(medians) < p:
        near = dist[medians].min(axis=0)
        near[medians] = -1
        medians.append(int(near.argmax()))
    return medians

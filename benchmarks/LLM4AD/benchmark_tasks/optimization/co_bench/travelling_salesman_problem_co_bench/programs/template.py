import numpy as np


def solve(nodes: np.ndarray) -> list[int]:
    """Nearest neighbour: from city 0 on, always to the closest city not yet visited."""
    left = np.ones(len(nodes), dtype=bool)
    tour = [0]
    left[0] = False
    while left.any():
        away = np.hypot(*(nodes - nodes[tour[-1]]).T)
        away[~left] = np.inf
        tour.append(int(away.argmin()))
        left[tour[-1]] = False
    return tour

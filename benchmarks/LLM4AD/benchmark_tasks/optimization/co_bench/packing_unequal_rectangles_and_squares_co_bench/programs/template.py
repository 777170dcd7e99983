import numpy as np


def solve(container_radius: float, sizes: np.ndarray) -> list[tuple[float, float, int]]:
    """One rectangle after the other, never turned, each at the first point of a square grid where it fits, until one
    does not."""
    step = container_radius / 12
    axis = np.arange(-12, 13) * step
    points = np.array([(x, y) for y in axis for x in axis])
    placed = []
    for a, b in sizes.tolist():
        room = container_radius - np.hypot(np.abs(points[:, 0]) + a / 2, np.abs(points[:, 1]) + b / 2)
        for (x, y), p, q in placed:
            beside = np.abs(points[:, 0] - x) - (a + p) / 2
            above = np.abs(points[:, 1] - y) - (b + q) / 2
            room = np.minimum(room, np.maximum(beside, above))
        free = np.flatnonzero(room >= 0)
        if not len(free):
            break
        placed.append((tuple(points[free[0]].tolist()), a, b))
    return [(x, y, 0) for (x, y), _, _ in placed]

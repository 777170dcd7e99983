import numpy as np


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[float, float]]:
    """One circle after the other, each at the first point of a square grid where it fits, until one does not."""
    step = container_radius / 12
    axis = np.arange(-12, 13) * step
    points = np.array([(x, y) for y in axis for x in axis])
    placed = []
    for radius in radii.tolist():
        room = container_radius - np.hypot(*points.T) - radius
        for (x, y), other in placed:
            room = np.minimum(room, np.hypot(points[:, 0] - x, points[:, 1] - y) - radius - other)
        free = np.flatnonzero(room >= 0)
        if not len(free):
            break
        placed.append((tuple(points[free[0]].tolist()), radius))
    return [centre for centre, _ in placed]

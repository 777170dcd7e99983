import numpy as np


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[int, float, float]]:
    """One circle after the other, each at the first point of a square grid where it fits; the others are left out."""
    step = container_radius / 12
    axis = np.arange(-12, 13) * step
    points = np.array([(x, y) for y in axis for x in axis])
    placed, packing = [], []
    for item, radius in enumerate(radii.tolist()):
        room = container_radius - np.hypot(*points.T) - radius
        for (x, y), other in placed:
            room = np.minimum(room, np.hypot(points[:, 0] - x, points[:, 1] - y) - radius - other)
        free = np.flatnonzero(room >= 0)
        if not len(free):
            continue
        placed.append((tuple(points[free[0]].tolist()), radius))
        packing.append((item, *placed[-1][0]))
    return packing

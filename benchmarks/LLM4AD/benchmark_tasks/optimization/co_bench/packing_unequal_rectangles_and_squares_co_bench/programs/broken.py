import numpy as np


def solve(container_radius: float, sizes: np.ndarray) -> list[tuple[float, float, int]]:
    """All rectangles in rows, as in a square as wide as the container."""
    packing, x, y, height = [], 0.0, 0.0, 0.0
    for a, b in sizes.tolist():
        if x + a > 2 * container_radius:
            x, y, height = 0.0, y + height, 0.0
        packing.append((x + a / 2 - container_radius, y + b / 2 - container_radius, 0))
        x, height = x + a, max(height, b)
    return packing

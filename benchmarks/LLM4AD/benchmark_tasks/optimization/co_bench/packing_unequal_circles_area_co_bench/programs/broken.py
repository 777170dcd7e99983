import numpy as np


def solve(container_radius: float, radii: np.ndarray) -> list[tuple[int, float, float]]:
    """All circles in a row, the largest in the middle, as if the container had no end."""
    packing, x = [], 0.0
    for item, radius in sorted(enumerate(radii.tolist()), key=lambda pair: -pair[1]):
        packing.append((item, x, 0.0))
        x += 2 * radius
    return packing
